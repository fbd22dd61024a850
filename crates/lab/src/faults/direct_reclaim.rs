//! The broker shares its memory cgroup with a neighbour that writes a file to a slow device, as a container's processes share
//! theirs, and the cgroup is at its limit: who needs another page has to free one first (`try_to_free_mem_cgroup_pages`,
//! mm/vmscan.c), and finds the neighbour's, which wait for their write-back. The broker's own files are on another
//! device that nothing slows.
//!
//! Truth: `memory-reclaim` for every slow request. The reclaim is inside the append, under the lock, or wherever else
//! a thread needs a page; others wait for who is in it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::plan::{Fault, Injection, OpenWindow, Proof, Truth, VolumeKind, prepared, standard_load};
use super::test_bed::{Slow, TestBed};
use crate::broker::launched_by;
use crate::cgroup::Cgroup;
use crate::client::Traffic;
use crate::error::Error;
use crate::process::Process;

/// How long reclaims that began before the limit was lifted may go on.
const AFTERWARDS: Duration = Duration::from_millis(500);
/// How long what was put out may take to be read back.
const READ_BACK: Duration = Duration::from_millis(400);
const LIMIT: &str = "memory.limit_in_bytes";
/// What the kernel makes of it is no limit (`PAGE_COUNTER_MAX`).
const UNLIMITED: i64 = -1;

pub(super) const DIRECT_RECLAIM: Fault = Fault {
    name: "direct-reclaim",
    story: "the broker's memory cgroup is full of a neighbour's pages that a slow device has not written yet",
    // The neighbour's.
    volume: VolumeKind::WITHOUT_JOURNAL,
    // Six to ten producers of some 3 to 10 MiB a second altogether: processors have time to spare, and pages are needed all the
    // time.
    load: |rng| {
        let (producers, record_bytes) = (rng.u32(6..=10), rng.u32(24 << 10..=48 << 10));
        Traffic { producers, record_bytes, per_second: 20, in_flight: 1, ..standard_load(rng) }
    },
    threshold_ms: (50, 80),
    truths: || vec![Truth::of(&["memory-reclaim"]).slows_pauses()],
    // The heap is touched before the broker is limited: it must not need memory that the limit cannot give.
    configure: |options, _, _| {
        options.jvm_arguments.push("-XX:+AlwaysPreTouch".to_owned());
        options.log_dir = None;
        Ok(())
    },
    prepare: |bed, tools, _| {
        tools.cgroup.insert(Cgroup::make(bed.site.path(), "memory")?).put(bed.broker.pid)
    },
    inject: |window| {
        let OpenWindow { bed, tools, rng, .. } = window;
        let group = prepared(tools.cgroup.as_ref())?;
        let held_ms = rng.u64(200..=350);
        // Dirtied at once; as soon as the device has taken it, it is dirtied once more.
        let more_bytes = rng.u64(6 << 20..=10 << 20);
        let length_ms = rng.u64(2_600..=3_400);
        // What is dirty is written, and what is needed is read back before anything counts.
        group.set("memory.force_empty", 0)?;
        bed.sleep(READ_BACK)?;
        let limit = group.number("memory.usage_in_bytes")?.saturating_add(more_bytes);
        let neighbour = Neighbour::start(bed, group, limit)?;
        bed.slow_down(Slow::Writes, held_ms, length_ms, 0)?;
        drop(neighbour);
        bed.sleep(AFTERWARDS)?;
        Ok(Injection {
            parameters: format!(
                "{more_bytes} B for a neighbour for {length_ms} ms, its writes +{held_ms} ms"
            ),
            proof: Proof::SlowRequests,
        })
    },
    ..Fault::DEFAULT
};

/// A process of the broker's cgroup that writes a file as fast as it can, and the group's limit; ends, with its file, when
/// dropped.
struct Neighbour<'a> {
    process: Process,
    file: PathBuf,
    group: &'a Cgroup,
}

impl<'a> Neighbour<'a> {
    fn start(bed: &mut TestBed, group: &'a Cgroup, limit_bytes: u64) -> Result<Self, Error> {
        let file = bed.volume()?.directory().join("neighbour");
        let mut command = Command::new("dd");
        command.arg("if=/dev/zero").arg(format!("of={}", file.display())).args(["bs=64k", "conv=notrunc"]);
        let mut command = launched_by(&group.entering(), command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let neighbour = Self { process: Process::spawn(&mut command, Some(bed.site.path()))?, file, group };
        group.set(LIMIT, i64::try_from(limit_bytes).unwrap_or(UNLIMITED))?;
        Ok(neighbour)
    }
}

impl Drop for Neighbour<'_> {
    fn drop(&mut self) {
        let _ = self.group.set(LIMIT, UNLIMITED);
        self.process.kill();
        let _ = fs::remove_file(&self.file);
    }
}
