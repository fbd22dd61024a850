//! Batches that the broker compresses again, because their topic's `compression.type` is not the producer's.
//!
//! Truth: `recompression` for these requests: the handler is on the CPU until the batch is as it will be written. The
//! others are few, and there are handlers enough for them.

use super::mix;
use super::packed::{CLIENT, Packer, Packing};
use super::plan::{Fault, Truth, Window};
use super::scene::Scene;
use crate::client::{Traffic, now_ns};
use crate::error::Error;
use crate::random::Random;

#[derive(Default)]
pub(super) struct Recompression {
    packing: Option<Packing>,
}

impl Fault for Recompression {
    fn name(&self) -> &'static str {
        "recompression"
    }

    fn story(&self) -> &'static str {
        "the broker compresses large batches again"
    }

    fn shares(&self) -> bool {
        true
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        let packing = Packing::draw(random);
        packing.create_topic(scene, 1)?;
        self.packing = Some(packing);
        // zstd's library is loaded for the first batch.
        Packer::new(&scene.door(), 0, random)?.send(64 << 10)?;
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let Some(packing) = self.packing else { return Err(Error::Unusable("no topic".to_owned())) };
        let others = Traffic { producers: 2, per_second: 30, ..mix::standard(random) };
        let requests = random.between(3, 6);
        let load = scene.produce(&others, random)?;
        scene.quiet()?;
        let mut packer = Packer::new(&scene.door(), 0, random)?;
        let threshold_ms = random.between(40, 80);
        let start_ns = now_ns();
        let mut told = Vec::new();
        let mut slow = 0;
        for _ in 0..requests {
            let bytes = packing.bytes(random);
            let took = packer.send(bytes)?;
            slow += usize::from(took >= u128::from(threshold_ms));
            told.push(format!("{bytes} B in {took} ms"));
        }
        let end_ns = now_ns();
        scene.quiet()?;
        load.stop()?;
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms,
            parameters: format!("{packing}: {}; beside {}", told.join(", "), mix::described(&others)),
            truths: vec![Truth::of(&["recompression"]).client(CLIENT)],
            ..Window::default()
        }
        .shown_by(slow, "batches that took long to compress"))
    }
}
