//! The broker's memory cgroup is full of dirty page cache on a slow device: whoever needs another page has to free one
//! first (`try_to_free_mem_cgroup_pages`, mm/vmscan.c), and waits for write-back in it.
//!
//! Truth: `memory-reclaim` for every slow request. The reclaim is inside the append, under the lock, or wherever else
//! a thread needs a page; others wait for who is in it. ext4 without a journal, so that no commit waits for the pages.

use std::time::Duration;

use super::memory_limit::MemoryGroup;
use super::mix;
use super::plan::{Fault, Ground, Truth, Window};
use super::scene::Scene;
use crate::broker::BrokerOptions;
use crate::client::{Traffic, now_ns};
use crate::device::Direction;
use crate::error::Error;
use crate::random::Random;
use crate::volume::FileSystem;

/// How long reclaims that began before the limit was lifted may go on.
const AFTERWARDS: Duration = Duration::from_millis(500);

const PAUSE: Duration = Duration::from_millis(100);
/// How long what was put out may take to be read back.
const READ_BACK: Duration = Duration::from_millis(400);

#[derive(Default)]
pub(super) struct DirectReclaim {
    group: Option<MemoryGroup>,
}

impl Fault for DirectReclaim {
    fn name(&self) -> &'static str {
        "direct-reclaim"
    }

    fn story(&self) -> &'static str {
        "the broker's memory cgroup is full of pages that a slow device has not written yet"
    }

    fn ground(&self) -> Option<Ground> {
        Some(Ground { file_system: FileSystem::Ext4WithoutJournal, mount_options: "" })
    }

    /// The heap is touched before the broker is limited: it must not need memory that the limit cannot give.
    fn configure(&mut self, options: &mut BrokerOptions, _: &mut Random) -> Result<(), Error> {
        options.jvm_arguments.push("-XX:+AlwaysPreTouch".to_owned());
        Ok(())
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        let group = self.group.insert(MemoryGroup::make()?);
        group.put(scene.broker.pid)?;
        scene.warm_up(&flood(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let Some(group) = &self.group else {
            return Err(Error::Unusable("there is no memory cgroup".to_owned()));
        };
        let traffic = flood(random);
        let held_ms = random.between(250, 400);
        // Dirtied in about a second; as soon as the device has taken it, it can be dirtied once more.
        let more_bytes = random.between(7 << 20, 11 << 20);
        let length_ms = random.between(3_200, 4_000);
        let load = scene.produce(&traffic, random)?;
        scene.quiet()?;
        // What is dirty is written while the device is quick, and what is needed is read back before anything counts.
        group.empty()?;
        scene.sleep(READ_BACK)?;
        load.pause(true);
        scene.sleep(PAUSE)?;
        group.limit(more_bytes)?;
        let full_before = group.times_full()?;
        let start_ns = now_ns();
        scene.volume()?.plant_data_delay(Direction::Write, held_ms, held_ms)?;
        load.pause(false);
        scene.sleep(Duration::from_millis(length_ms))?;
        group.lift()?;
        scene.volume()?.device().clear()?;
        scene.sleep(AFTERWARDS)?;
        let end_ns = now_ns();
        scene.quiet()?;
        let full = group.times_full()?.saturating_sub(full_before);
        load.stop()?;
        let window = Window {
            start_ns,
            end_ns,
            // Who reclaims and cannot write waits in turns of 100 ms (`reclaim_throttle`, mm/vmscan.c), and for pages that are
            // being written.
            threshold_ms: random.between(50, 80),
            parameters: format!(
                "{more_bytes} B more for {length_ms} ms, writes +{held_ms} ms; {}",
                mix::described(&traffic)
            ),
            truths: vec![Truth::of(&["memory-reclaim"]).slows_stops()],
            ..Window::default()
        };
        Ok(window.shown_by(usize::try_from(full).unwrap_or(usize::MAX), "times the cgroup was full"))
    }

    fn restore(&mut self, _: &mut Scene) {
        self.group = None;
    }
}

/// Six to ten producers of some 10 MiB a second altogether: processors have time to spare.
fn flood(random: &mut Random) -> Traffic {
    let producers = random.between(6, 10) as u32;
    let record_bytes = random.between(64 << 10, 96 << 10) as u32;
    Traffic { producers, record_bytes, per_second: 18, in_flight: 1, ..mix::standard(random) }
}
