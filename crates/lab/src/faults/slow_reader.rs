//! A consumer that reads its responses a little at a time, with a small receive window: the broker has written the
//! response's first bytes at once and the last long after.
//!
//! Truth: `slow-client` for its fetches. The producers beside it are not slowed.

use std::time::Duration;

use super::mix;
use super::plan::{Fault, Truth, Window};
use super::scene::Scene;
use crate::client::{Connection, Request, batch, connect_with_small_window, now_ns, sip};
use crate::error::Error;
use crate::random::Random;

const READER: &str = "slow-reader";
const BULK: &str = "bulk";
const BATCH_BYTES: usize = 256 << 10;
const BATCHES: u64 = 24;

pub(super) struct SlowReader;

impl Fault for SlowReader {
    fn name(&self) -> &'static str {
        "slow-reader"
    }

    fn story(&self) -> &'static str {
        "a consumer reads its responses slowly"
    }

    fn shares(&self) -> bool {
        true
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        scene.create_plain_topic(BULK, 1)?;
        let mut connection = scene.connect("filler")?;
        let mut value = vec![0; BATCH_BYTES];
        for _ in 0..BATCHES {
            random.fill(&mut value);
            connection.call(&Request::produce(BULK, 0, 1, &batch(&[&value], now_ns() / 1_000_000)))?;
        }
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let others = mix::standard(random);
        let requests = random.between(2, 4);
        let window_bytes = random.between(8, 32) << 10;
        let (bytes, time_ms) = (random.between(1_500, 4_000) << 10, random.between(300, 900));
        let piece = random.between(16, 64) << 10;
        let pause = Duration::from_millis(time_ms) / (bytes / piece).max(1) as u32;
        let load = scene.produce(&others, random)?;
        scene.quiet()?;
        let start_ns = now_ns();
        let stream = connect_with_small_window(scene.address(), window_bytes as usize)?;
        let mut connection = Connection::over(stream, READER)?;
        let mut read = 0;
        for _ in 0..requests {
            scene.interrupt.check()?;
            connection.send(&Request::fetch(BULK, 0, 0, bytes as u32, 100))?;
            read += usize::from(sip(connection.stream(), piece as usize, pause)? > bytes as usize / 2);
        }
        let end_ns = now_ns();
        scene.quiet()?;
        load.stop()?;
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms: random.between(50, 120),
            parameters: format!(
                "{requests} responses of {bytes} B read {piece} B at a time over about {time_ms} ms, receive buffer \
                 {window_bytes} B; beside {}",
                mix::described(&others)
            ),
            truths: vec![Truth::of(&["slow-client"]).client(READER).api("FETCH")],
            ..Window::default()
        }
        .shown_by(read, "responses read slowly"))
    }
}
