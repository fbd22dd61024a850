//! Clients whose requests come in small pieces with pauses between them, as from a machine that swaps or behind a thin link.
//!
//! Truth: `slow-client` for those requests: their first byte came long before their last. The others are not slowed.

use std::time::Duration;

use super::door::{Door, side_by_side};
use super::mix;
use super::plan::{Fault, Truth, Window};
use super::scene::Scene;
use crate::client::{Request, batch, now_ns, trickle};
use crate::error::Error;
use crate::random::Random;

const TRICKLER: &str = "trickler";

pub(super) struct TrickledRequest;

impl Fault for TrickledRequest {
    fn name(&self) -> &'static str {
        "trickled-request"
    }

    fn story(&self) -> &'static str {
        "requests of some clients arrive in pieces"
    }

    fn shares(&self) -> bool {
        true
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let others = mix::standard(random);
        let (clients, requests) = (random.between(2, 4), random.between(2, 4));
        let load = scene.produce(&others, random)?;
        scene.quiet()?;
        let start_ns = now_ns();
        let ours: Vec<(u32, Random)> =
            (1..=clients as u32).map(|number| (number, Random::new(random.number()))).collect();
        let door = scene.door();
        let trickled =
            side_by_side(ours, |(number, mut random)| trickler(&door, number, requests, &mut random))?;
        let end_ns = now_ns();
        scene.quiet()?;
        load.stop()?;
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms: random.between(40, 100),
            parameters: format!("{}; beside {}", trickled.join("; "), mix::described(&others)),
            truths: vec![Truth::of(&["slow-client"]).client(TRICKLER)],
            ..Window::default()
        }
        .shown_by((clients * requests) as usize, "requests sent in pieces"))
    }
}

/// Sends so many requests, each in pieces, and says how.
fn trickler(door: &Door, number: u32, requests: u64, random: &mut Random) -> Result<String, Error> {
    let mut connection = door.connect(&format!("{TRICKLER}-{number}"))?;
    let mut value = vec![0; random.between(500, 20_000) as usize];
    let (pieces, time_ms) = (random.between(2, 12) as u32, random.between(150, 600));
    for _ in 0..requests {
        door.interrupt.check()?;
        random.fill(&mut value);
        let request = Request::produce(mix::TOPIC, 0, 1, &batch(&[&value], now_ns() / 1_000_000));
        let frame = connection.frame(&request);
        trickle(connection.stream(), &frame, pieces, Duration::from_millis(time_ms))?;
        connection.receive()?;
    }
    Ok(format!("{} B in {pieces} pieces over {time_ms} ms", value.len()))
}
