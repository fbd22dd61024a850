//! The broker shares its memory cgroup with a neighbour that writes a file to a slow device, as a container's processes share
//! theirs, and the cgroup is at its limit: whoever needs another page has to free one first (`try_to_free_mem_cgroup_pages`,
//! mm/vmscan.c), and finds the neighbour's, which wait for their write-back. The broker's own files are on another
//! device that nothing slows.
//!
//! Truth: `memory-reclaim` for every slow request. The reclaim is inside the append, under the lock, or wherever else
//! a thread needs a page; others wait for who is in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::mix;
use super::plan::{Fault, Ground, Truth, Window};
use super::scene::Scene;
use crate::broker::{BrokerOptions, launched_by};
use crate::cgroup::Cgroup;
use crate::client::{Traffic, now_ns};
use crate::device::Direction;
use crate::error::Error;
use crate::process::Process;
use crate::random::Random;
use crate::volume::FileSystem;

/// How long reclaims that began before the limit was lifted may go on.
const AFTERWARDS: Duration = Duration::from_millis(500);
/// How long what was put out may take to be read back.
const READ_BACK: Duration = Duration::from_millis(400);
const LIMIT: &str = "memory.limit_in_bytes";
/// What the kernel makes of it is no limit (`PAGE_COUNTER_MAX`).
const UNLIMITED: i64 = -1;

#[derive(Default)]
pub(super) struct DirectReclaim {
    group: Option<Cgroup>,
}

impl Fault for DirectReclaim {
    fn name(&self) -> &'static str {
        "direct-reclaim"
    }

    fn story(&self) -> &'static str {
        "the broker's memory cgroup is full of a neighbour's pages that a slow device has not written yet"
    }

    /// The neighbour's.
    fn ground(&self) -> Option<Ground> {
        Some(Ground { file_system: FileSystem::Ext4WithoutJournal, mount_options: "" })
    }

    /// The heap is touched before the broker is limited: it must not need memory that the limit cannot give.
    fn configure(&mut self, options: &mut BrokerOptions, _: &mut Random) -> Result<(), Error> {
        options.jvm_arguments.push("-XX:+AlwaysPreTouch".to_owned());
        options.log_dir = None;
        Ok(())
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        let group = self.group.insert(Cgroup::make(scene.site.path(), "memory")?);
        group.put(scene.broker.pid)?;
        scene.warm_up(&bulk(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let Some(group) = &self.group else {
            return Err(Error::Unusable("there is no memory cgroup".to_owned()));
        };
        let traffic = bulk(random);
        let held_ms = random.between(200, 350);
        // Dirtied at once; as soon as the device has taken it, it is dirtied once more.
        let more_bytes = random.between(6 << 20, 10 << 20);
        let length_ms = random.between(2_600, 3_400);
        let threshold_ms = random.between(50, 80);
        let load = scene.produce(&traffic, random)?;
        scene.quiet()?;
        // What is dirty is written, and what is needed is read back before anything counts.
        group.set("memory.force_empty", 0)?;
        scene.sleep(READ_BACK)?;
        let limit = group.number("memory.usage_in_bytes")?.saturating_add(more_bytes);
        group.set(LIMIT, i64::try_from(limit).unwrap_or(UNLIMITED))?;
        scene.volume()?.plant_data_delay(Direction::Write, held_ms, held_ms)?;
        let start_ns = now_ns();
        let neighbour = Neighbour::start(scene, group)?;
        scene.sleep(Duration::from_millis(length_ms))?;
        group.set(LIMIT, UNLIMITED)?;
        drop(neighbour);
        scene.volume()?.device().clear()?;
        scene.sleep(AFTERWARDS)?;
        let end_ns = now_ns();
        scene.quiet()?;
        let answers = load.stop()?;
        let slow = mix::slower_than(&answers, threshold_ms);
        let window = Window {
            start_ns,
            end_ns,
            threshold_ms,
            parameters: format!(
                "{more_bytes} B for a neighbour for {length_ms} ms, its writes +{held_ms} ms; {}",
                mix::described(&traffic)
            ),
            truths: vec![Truth::of(&["memory-reclaim"]).slows_stops()],
            ..Window::default()
        };
        Ok(window.shown_by(slow, "requests that their producers saw slow"))
    }

    fn restore(&mut self, _: &mut Scene) {
        if let Some(group) = self.group.take() {
            // A broker outlives its limit.
            let _ = group.set(LIMIT, UNLIMITED);
        }
    }
}

/// A process of the broker's cgroup that writes a file as fast as it can; ends, with its file, when dropped.
struct Neighbour {
    process: Process,
    file: PathBuf,
}

impl Neighbour {
    fn start(scene: &mut Scene, group: &Cgroup) -> Result<Self, Error> {
        let site = scene.site.path().to_owned();
        let file = scene.volume()?.directory().join("neighbour");
        let process = Self::writer(&site, group, &file)?;
        Ok(Self { process, file })
    }

    fn writer(site: &Path, group: &Cgroup, file: &Path) -> Result<Process, Error> {
        let mut command = Command::new("dd");
        command.arg("if=/dev/zero").arg(format!("of={}", file.display())).args(["bs=64k", "conv=notrunc"]);
        let mut command = launched_by(&group.entering(), command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Process::spawn(&mut command, Some(site))
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.process.kill();
        let _ = fs::remove_file(&self.file);
    }
}

/// Six to ten producers of some 3 to 10 MiB a second altogether: processors have time to spare, and pages are needed all the
/// time.
fn bulk(random: &mut Random) -> Traffic {
    let producers = random.between(6, 10) as u32;
    let record_bytes = random.between(24 << 10, 48 << 10) as u32;
    Traffic { producers, record_bytes, per_second: 20, in_flight: 1, ..mix::standard(random) }
}
