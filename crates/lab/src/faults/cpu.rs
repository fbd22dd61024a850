//! Faults of the processor: a quota of the broker's cgroup, and other processes on its CPU.

use std::time::Duration;

use rustix::process::Signal;

use super::plan::{Fault, Injection, Proof, Truth, prepared};
use crate::cgroup::Cgroup;
use crate::cpu_hogs::CpuHogs;

/// The broker's cgroup may use the processors for part of each period only, as a container with a CPU limit.
///
/// Truth: `cpu-throttled` for every slow request: without another fault, no matter what a thread of the broker did, it stood
/// still because the quota was used up, and who waited for that thread waited for the same.
pub(super) const CPU_QUOTA: Fault = Fault {
    name: "cpu-quota",
    story: "the broker's cgroup has used up its CPU quota for most of each period",
    shares: true,
    threshold_ms: (50, 100),
    truths: || vec![Truth::of(&["cpu-throttled"]).slows_pauses()],
    // In it from the start and unlimited: as a container is.
    prepare: |bed, tools, _| tools.cgroup.insert(Cgroup::make(bed.site.path(), "cpu")?).put(bed.broker.pid),
    inject: |window| {
        let group = prepared(window.tools.cgroup.as_ref())?;
        let (period_ms, percent) = (window.rng.i64(250..=600), window.rng.i64(5..=12));
        let length_ms = window.rng.u64(2_200..=3_200);
        let throttled = || group.figure("cpu.stat", "nr_throttled");
        let before = throttled()?;
        group.set("cpu.cfs_period_us", period_ms * 1_000)?;
        group.set("cpu.cfs_quota_us", period_ms * 10 * percent)?;
        window.bed.sleep(Duration::from_millis(length_ms))?;
        group.set("cpu.cfs_quota_us", -1)?;
        let times = throttled()?.saturating_sub(before);
        Ok(Injection {
            parameters: format!("{percent} % of one processor, by periods of {period_ms} ms"),
            proof: Proof::Counted(times as usize, "periods in which the kernel throttled the broker"),
        })
    },
    ..Fault::DEFAULT
};

/// The broker has one processor, and busy processes of a higher weight are on it; its clients have the other one.
///
/// Truth: `run-queue` for every slow request: its threads could have run and had no processor, or waited for one that
/// could have run.
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
        window.bed.sleep(Duration::from_millis(length_ms))?;
        hogs.signal(Signal::STOP);
        let (count, niceness) = (hogs.processes.len(), hogs.niceness);
        window.tools.hogs = None;
        Ok(Injection {
            parameters: format!("{count} busy processes at nice {niceness} for {length_ms} ms"),
            proof: Proof::SlowRequests,
        })
    },
    ..Fault::DEFAULT
};

/// The broker's; the others are its clients'.
const CPU: usize = 1;
