//! One connection for everything, as some proxies have it: produce requests behind a fetch that waits for data. The
//! broker serves one request of a connection at a time.
//!
//! Truth: `head-of-line` for the produce requests, wherever in the chain: the fetch ahead has its own reason. It waited
//! as it had asked to: `long-poll`, if it is told at all.

use std::time::Duration;

use super::door::{Door, side_by_side};
use super::mix;
use super::plan::{Fault, Truth, Window};
use super::scene::Scene;
use crate::client::{Request, batch, now_ns};
use crate::error::Error;
use crate::random::Random;

const SHARER: &str = "sharer";
/// Nobody writes to it.
const SILENT: &str = "silent";

pub(super) struct HeadOfLine;

impl Fault for HeadOfLine {
    fn name(&self) -> &'static str {
        "head-of-line"
    }

    fn story(&self) -> &'static str {
        "produce requests share a connection with a fetch that waits"
    }

    fn shares(&self) -> bool {
        true
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        scene.create_plain_topic(SILENT, 1)?;
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let others = mix::standard(random);
        let (clients, rounds) = (random.between(1, 3), random.between(2, 4));
        let load = scene.produce(&others, random)?;
        scene.quiet()?;
        let start_ns = now_ns();
        let ours: Vec<(u32, Random)> =
            (1..=clients as u32).map(|number| (number, Random::new(random.number()))).collect();
        let door = scene.door();
        let shared = side_by_side(ours, |(number, mut random)| sharer(&door, number, rounds, &mut random))?;
        let end_ns = now_ns();
        scene.quiet()?;
        load.stop()?;
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms: random.between(40, 100),
            parameters: format!("{}; beside {}", shared.join("; "), mix::described(&others)),
            truths: vec![
                Truth::of(&["head-of-line"]).through(&["head-of-line"]).client(SHARER).api("PRODUCE"),
                Truth::of(&["long-poll"]).client(SHARER).api("FETCH"),
            ],
            ..Window::default()
        }
        .shown_by((clients * rounds) as usize, "fetches that were waited behind"))
    }
}

/// Sends a fetch that waits and some batches right behind it, so many times, and says how.
fn sharer(door: &Door, number: u32, rounds: u64, random: &mut Random) -> Result<String, Error> {
    let mut connection = door.connect(&format!("{SHARER}-{number}"))?;
    let (wait_ms, behind) = (random.between(200, 600), random.between(1, 4));
    let mut value = vec![0; random.between(100, 2_000) as usize];
    for _ in 0..rounds {
        door.interrupt.check()?;
        connection.send(&Request::fetch(SILENT, 0, 0, 1 << 10, wait_ms as u32))?;
        for _ in 0..behind {
            random.fill(&mut value);
            let batch = batch(&[&value], now_ns() / 1_000_000);
            connection.send(&Request::produce(mix::TOPIC, 0, 1, &batch))?;
        }
        for _ in 0..=behind {
            connection.receive()?;
        }
        door.sleep(Duration::from_millis(50))?;
    }
    Ok(format!("{behind} produce request(s) behind a fetch that waits {wait_ms} ms"))
}
