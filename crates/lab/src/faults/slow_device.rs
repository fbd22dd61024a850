//! A slow device beneath ext4 without a journal: the segments' last pages are put out of the page cache, and reads
//! are held back, so that the next append to each partition, which begins in the middle of such a page, has to read it.
//!
//! Truth: `slow-device` for every slow request: one append of each partition waits for the device, and whoever is
//! slow beside it waits for that append: at the lock, for a handler, behind it on the connection.

use std::time::Duration;

use super::plan::{Fault, Ground, Truth, Window};
use super::scene::Scene;
use super::{mix, page_cache};
use crate::client::{Traffic, now_ns};
use crate::device::Direction;
use crate::error::Error;
use crate::random::Random;
use crate::volume::FileSystem;

/// How often in a window, and how far apart.
const TIMES: u32 = 3;
const APART: Duration = Duration::from_millis(450);
/// Nobody may append meanwhile: a page that was dirtied again stays.
const PAUSE: Duration = Duration::from_millis(80);

pub(super) struct SlowDevice;

impl Fault for SlowDevice {
    fn name(&self) -> &'static str {
        "slow-device"
    }

    fn story(&self) -> &'static str {
        "no journal; appends must read their segment's last page from a slow device"
    }

    fn ground(&self) -> Option<Ground> {
        Some(Ground { file_system: FileSystem::Ext4WithoutJournal, mount_options: "" })
    }

    fn shares(&self) -> bool {
        true
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let traffic = mix::standard(random);
        let window = plant_slow_reads(scene, &traffic, random)?;
        Ok(Window { truths: vec![Truth::of(&["slow-device"])], ..window })
    }
}

/// Has the next append to each partition read its page from a slow device, several times.
pub(super) fn plant_slow_reads(
    scene: &mut Scene,
    traffic: &Traffic,
    random: &mut Random,
) -> Result<Window, Error> {
    let held_ms = random.between(120, 350);
    let load = scene.produce(traffic, random)?;
    scene.quiet()?;
    scene.held_back()?;
    let start_ns = now_ns();
    scene.volume()?.plant_data_delay(Direction::Read, held_ms, held_ms)?;
    for _ in 0..TIMES {
        load.pause(true);
        scene.sleep(PAUSE)?;
        for partition in 0..traffic.partitions {
            page_cache::forget_segments(&scene.partition_directory(&traffic.topic, partition))?;
        }
        load.pause(false);
        scene.sleep(APART + Duration::from_millis(held_ms))?;
    }
    scene.volume()?.device().clear()?;
    scene.sleep(Duration::from_millis(held_ms))?;
    let end_ns = now_ns();
    scene.quiet()?;
    let held = scene.held_back()?;
    load.stop()?;
    let window = Window {
        start_ns,
        end_ns,
        threshold_ms: random.between(40, 80),
        parameters: format!("reads +{held_ms} ms, {TIMES} times; {}", mix::described(traffic)),
        ..Window::default()
    };
    Ok(window.shown_by(held, "reads held back"))
}
