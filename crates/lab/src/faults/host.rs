//! Faults of the host: a CPU quota of the broker's cgroup, other processes on its processor, and full memory.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::Signal;

use super::plan::{Fault, OpenWindow, Proof, Truth, VolumeKind, prepared, standard_load};
use super::test_bed::{Slow, TestBed};
use crate::broker::with_launcher;
use crate::client::Traffic;
use crate::error::Result;
use crate::host::{Cgroup, CpuHogs};
use crate::process::Process;
use crate::session::interrupt;

/// The broker's cgroup may use the processors for only a part of each period. A container with a CPU limit is in such a
/// cgroup.
///
/// Truth: `cpu-throttled` for every slow request: no matter what a thread of the broker did, it was stopped because the
/// quota was used up, and threads that waited for it waited for the same reason.
pub(super) const CPU_QUOTA: Fault = Fault {
    name: "cpu-quota",
    story: "the broker's cgroup has used up its CPU quota for most of each period",
    shares: true,
    threshold_ms: (50, 100),
    truths: || vec![Truth::of(&["cpu-throttled"]).slows_pauses()],
    // In the cgroup from the start and unlimited, as a container is.
    prepare: |bed, tools, _| tools.cgroup.insert(Cgroup::make(bed.site.path(), "cpu")?).put(bed.broker.pid),
    inject: |window| {
        let group = prepared(window.tools.cgroup.as_ref())?;
        let (period_ms, percent) = (window.rng.i64(250..=600), window.rng.i64(5..=12));
        let length_ms = window.rng.u64(2_200..=3_200);
        let throttled = || group.figure("cpu.stat", "nr_throttled");
        let before = throttled()?;
        group.set("cpu.cfs_period_us", period_ms * 1_000)?;
        group.set("cpu.cfs_quota_us", period_ms * 10 * percent)?;
        interrupt().sleep(Duration::from_millis(length_ms))?;
        group.set("cpu.cfs_quota_us", -1)?;
        let times = throttled()?.saturating_sub(before);
        window.parameters = format!("{percent} % of one processor, by periods of {period_ms} ms");
        Ok(Proof::Counted(times as usize, "periods in which the kernel throttled the broker"))
    },
    ..Fault::DEFAULT
};

/// The broker shares its only processor with busy processes of a higher weight. Its clients have the other processor.
///
/// Truth: `run-queue` for every slow request: its threads were runnable and had no processor, or waited for a thread
/// that was.
pub(super) const CPU_HOG: Fault = Fault {
    name: "cpu-hog",
    story: "busy processes of higher priority share the broker's processor",
    truths: || vec![Truth::of(&["run-queue"]).slows_pauses()],
    configure: |options, _, _| {
        options.launcher.extend(["taskset", "--cpu-list", &CPU.to_string()].map(str::to_owned));
        Ok(())
    },
    connect: |bed, _| {
        bed.broker_cpu = Some(CPU);
        Ok(())
    },
    prepare_window: |bed, tools, rng| {
        let (niceness, count) = (-rng.i32(10..=15), rng.u32(4..=8));
        tools.hogs = Some(CpuHogs::start(bed.site.path(), count, &CPU.to_string(), niceness)?);
        Ok(())
    },
    inject: |window| {
        let hogs = prepared(window.tools.hogs.as_ref())?;
        let length_ms = window.rng.u64(2_200..=3_000);
        hogs.signal(Signal::CONT);
        interrupt().sleep(Duration::from_millis(length_ms))?;
        hogs.signal(Signal::STOP);
        let (count, niceness) = (hogs.processes.len(), hogs.niceness);
        window.tools.hogs = None;
        window.parameters = format!("{count} busy processes at nice {niceness} for {length_ms} ms");
        Ok(Proof::SlowRequests)
    },
    ..Fault::DEFAULT
};

/// The broker's processor; the others are its clients'.
const CPU: usize = 1;

/// How long reclaims that started before the limit was lifted may go on.
const AFTERWARDS: Duration = Duration::from_millis(500);
/// How long it may take to read evicted pages back.
const READ_BACK: Duration = Duration::from_millis(400);
const LIMIT: &str = "memory.limit_in_bytes";
/// The kernel turns this into no limit (`PAGE_COUNTER_MAX`).
const UNLIMITED: i64 = -1;

pub(super) const DIRECT_RECLAIM: Fault = Fault {
    name: "direct-reclaim",
    story: "the broker's memory cgroup is full of a neighbour's pages that a slow device has not written yet",
    // For the neighbour.
    volume: VolumeKind::WITHOUT_JOURNAL,
    // Six to ten producers, some 3 to 10 MiB per second altogether: processors have time to spare, and pages are needed
    // all the time.
    load: |rng| {
        let (producers, record_bytes) = (rng.u32(6..=10), rng.u32(24 << 10..=48 << 10));
        Traffic { producers, record_bytes, per_second: 20, in_flight: 1, ..standard_load(rng) }
    },
    threshold_ms: (50, 80),
    truths: || vec![Truth::of(&["memory-reclaim"]).slows_pauses()],
    // The heap is touched before the broker is limited: it must not need memory that the limit does not allow.
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
        // Dirtied at once; as soon as the device has written it, it is dirtied again.
        let more_bytes = rng.u64(6 << 20..=10 << 20);
        let length_ms = rng.u64(2_600..=3_400);
        // Dirty pages are written, and needed ones are read back before anything counts.
        group.set("memory.force_empty", 0)?;
        interrupt().sleep(READ_BACK)?;
        let limit = group.number("memory.usage_in_bytes")?.saturating_add(more_bytes);
        group.set(LIMIT, i64::try_from(limit).unwrap_or(UNLIMITED))?;
        let neighbour = Neighbour::start(bed, group)?;
        bed.slow_down(Slow::Writes, held_ms, length_ms, 0)?;
        drop(neighbour);
        interrupt().sleep(AFTERWARDS)?;
        window.parameters =
            format!("{more_bytes} B for a neighbour for {length_ms} ms, its writes +{held_ms} ms");
        Ok(Proof::SlowRequests)
    },
    ..Fault::DEFAULT
};

/// A process in the broker's cgroup that writes a file as fast as it can; dropping it ends the process and removes its
/// file and the group's limit.
struct Neighbour<'a> {
    process: Process,
    file: PathBuf,
    group: &'a Cgroup,
}

impl<'a> Neighbour<'a> {
    fn start(bed: &mut TestBed, group: &'a Cgroup) -> Result<Self> {
        let file = bed.volume()?.directory().join("neighbour");
        let mut command = Command::new("dd");
        command.arg("if=/dev/zero").arg(format!("of={}", file.display())).args(["bs=64k", "conv=notrunc"]);
        let mut command = with_launcher(&group.entering(), command);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { process: Process::spawn(&mut command, Some(bed.site.path()))?, file, group })
    }
}

impl Drop for Neighbour<'_> {
    fn drop(&mut self) {
        let _ = self.group.set(LIMIT, UNLIMITED);
        self.process.kill();
        let _ = fs::remove_file(&self.file);
    }
}
