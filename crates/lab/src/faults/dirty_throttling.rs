//! Producers write more than the device's share of dirty pages allows: the kernel pauses whoever dirties another
//! (`balance_dirty_pages`, mm/page-writeback.c). ext4 without a journal, so that no commit waits for the same pages.
//!
//! Truth: `dirty-throttling` for every slow request: the pause is inside the append, under the lock, so that others
//! wait for who is paused.

use std::time::Duration;

use super::mix;
use super::plan::{Fault, Ground, Truth, Window};
use super::scene::Scene;
use crate::client::{Traffic, now_ns};
use crate::device::Direction;
use crate::error::Error;
use crate::random::Random;
use crate::volume::{DirtyLimit, FileSystem};

/// The longest pause (`MAX_PAUSE`, HZ/5), after which one that began before the limit was lifted has ended.
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

pub(super) struct DirtyThrottling;

impl Fault for DirtyThrottling {
    fn name(&self) -> &'static str {
        "dirty-throttling"
    }

    fn story(&self) -> &'static str {
        "producers dirty more pages than the device may have"
    }

    fn ground(&self) -> Option<Ground> {
        Some(Ground { file_system: FileSystem::Ext4WithoutJournal, mount_options: "" })
    }

    fn shares(&self) -> bool {
        true
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        // A loop device keeps the limits of what it stood for before: those of a killed lab.
        drop(DirtyLimit::set(scene.volume()?.device_number()?, 1 << 30)?);
        scene.warm_up(&bulk(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let traffic = bulk(random);
        let held_ms = random.between(20, 50);
        let most_bytes = random.between(1 << 20, 3 << 20);
        let length_ms = random.between(1_800, 2_600);
        let load = scene.produce(&traffic, random)?;
        scene.quiet()?;
        scene.held_back()?;
        let start_ns = now_ns();
        scene.volume()?.plant_data_delay(Direction::Write, held_ms, held_ms)?;
        let limit = DirtyLimit::set(scene.volume()?.device_number()?, most_bytes)?;
        scene.sleep(Duration::from_millis(length_ms))?;
        drop(limit);
        scene.volume()?.device().clear()?;
        scene.sleep(LONGEST_PAUSE)?;
        let end_ns = now_ns();
        scene.quiet()?;
        let written = scene.held_back()?;
        load.stop()?;
        let window = Window {
            start_ns,
            end_ns,
            threshold_ms: random.between(40, 70),
            parameters: format!(
                "{most_bytes} B may be dirty for {length_ms} ms, writes +{held_ms} ms; {}",
                mix::described(&traffic)
            ),
            truths: vec![Truth::of(&["dirty-throttling"])],
            ..Window::default()
        };
        Ok(window.shown_by(written, "writes that the limit had begin"))
    }
}

/// Six to twelve producers of 10 to 30 MiB a second altogether.
fn bulk(random: &mut Random) -> Traffic {
    let record_bytes = random.between(48 << 10, 96 << 10) as u32;
    let per_second = random.between(25, 30) as u32;
    Traffic { record_bytes, per_second, in_flight: 1, ..mix::standard(random) }
}
