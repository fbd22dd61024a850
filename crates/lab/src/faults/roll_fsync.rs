//! Small segments on a slow disk, with a Kafka that still writes the producers' snapshot with an fsync when a segment
//! rolls, in the request's own thread and under the log's lock (until 3.7, KAFKA-15046).
//!
//! Truth: `roll-fsync` for every slow request: the one whose append rolled the segment, and those behind it. ext4
//! without a journal, so that an fsync holds up nobody but by the lock: appends that do not roll write to memory.
//! What the fsync waited for, the device, is the next link of the same chain and as right.

use std::time::Duration;

use super::mix;
use super::plan::{Fault, Ground, Truth, Window};
use super::scene::Scene;
use crate::client::{Traffic, now_ns};
use crate::device::Direction;
use crate::error::Error;
use crate::random::Random;
use crate::volume::FileSystem;

/// The last line that fsyncs there.
const KAFKA: &str = "3.6.2";
/// A roll for every so many bytes of a partition.
const SEGMENT_BYTES: &str = "1048576";

pub(super) struct RollFsync;

impl Fault for RollFsync {
    fn name(&self) -> &'static str {
        "roll-fsync"
    }

    fn story(&self) -> &'static str {
        "segments of 1 MiB on a slow disk, with a Kafka that fsyncs when one rolls"
    }

    fn ground(&self) -> Option<Ground> {
        Some(Ground { file_system: FileSystem::Ext4WithoutJournal, mount_options: "" })
    }

    fn kafka_version(&self) -> &'static str {
        KAFKA
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_topic_with(mix::TOPIC, mix::MOST_PARTITIONS, ("segment.bytes", SEGMENT_BYTES))?;
        scene.warm_up(&rolling(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let traffic = rolling(random);
        let held_ms = random.between(100, 250);
        let length_ms = random.between(2_000, 3_000);
        let load = scene.produce(&traffic, random)?;
        scene.quiet()?;
        scene.held_back()?;
        let start_ns = now_ns();
        scene.volume()?.plant_data_delay(Direction::Write, held_ms, held_ms)?;
        scene.sleep(Duration::from_millis(length_ms))?;
        scene.volume()?.device().clear()?;
        scene.sleep(Duration::from_millis(2 * held_ms))?;
        let end_ns = now_ns();
        scene.quiet()?;
        let held = scene.held_back()?;
        load.stop()?;
        let window = Window {
            start_ns,
            end_ns,
            threshold_ms: random.between(40, 80),
            parameters: format!("writes +{held_ms} ms for {length_ms} ms; {}", mix::described(&traffic)),
            truths: vec![Truth::of(&["roll-fsync"]).through(&["roll-fsync"])],
            ..Window::default()
        };
        Ok(window.shown_by(held, "writes held back"))
    }
}

/// About a segment a second of each of few partitions.
fn rolling(random: &mut Random) -> Traffic {
    let partitions = random.between(1, 3) as u32;
    let record_bytes = random.between(4 << 10, 8 << 10) as u32;
    Traffic { partitions, record_bytes, per_second: 45, ..mix::standard(random) }
}
