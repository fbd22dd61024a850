//! XFS instead of ext4, with a slow log, and a topic that is flushed after every message: each append's fsync forces
//! XFS's log (`xfs_file_fsync`, `fs/xfs/xfs_file.c`) under the partition's lock. Without the flushes appends on XFS wait
//! for no log: four thousand files made beside them in three seconds, with the log's writes held back, slowed none.
//!
//! Truth: the chain leads through `roll-fsync`, the name for a fsync with the log locked whether or not a segment rolls,
//! for who calls it and for those behind it. The device beneath XFS's log is what it waits for: `slow-device` is the
//! next link of the same chain.

use std::time::Duration;

use super::mix;
use super::plan::{Fault, Ground, Truth, Window};
use super::scene::Scene;
use crate::client::{Traffic, now_ns};
use crate::error::Error;
use crate::random::Random;
use crate::volume::FileSystem;

pub(super) struct XfsLog;

impl Fault for XfsLog {
    fn name(&self) -> &'static str {
        "xfs-log"
    }

    fn story(&self) -> &'static str {
        "XFS, whose log is slow, and a topic that is flushed after every message"
    }

    fn ground(&self) -> Option<Ground> {
        Some(Ground { file_system: FileSystem::Xfs, mount_options: "" })
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_topic_with(mix::TOPIC, mix::MOST_PARTITIONS, ("flush.messages", "1"))?;
        scene.warm_up(&flushed(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let traffic = flushed(random);
        let held_ms = random.between(100, 250);
        let length_ms = random.between(1_800, 2_600);
        let load = scene.produce(&traffic, random)?;
        scene.quiet()?;
        scene.held_back()?;
        let start_ns = now_ns();
        scene.volume()?.plant_journal_delay(held_ms, held_ms)?;
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
            parameters: format!("log writes +{held_ms} ms for {length_ms} ms; {}", mix::described(&traffic)),
            truths: vec![Truth::of(&["roll-fsync", "slow-device"]).through(&["roll-fsync"])],
            ..Window::default()
        };
        Ok(window.shown_by(held, "writes into the log held back"))
    }
}

/// What a device that is quick flushes in time: some tens of requests a second.
fn flushed(random: &mut Random) -> Traffic {
    let producers = random.between(4, 8) as u32;
    let per_second = random.between(10, 20) as u32;
    Traffic { producers, per_second, in_flight: 1, ..mix::standard(random) }
}
