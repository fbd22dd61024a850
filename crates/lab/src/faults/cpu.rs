//! Faults of the processor: a quota of the broker's cgroup, and other processes on its CPU.

use std::time::Duration;

use fastrand::Rng;

use super::plan::{Declaration, Fault, Injection, OpenWindow, Proof, Truth};
use super::prepared;
use super::test_bed::TestBed;
use crate::broker::BrokerOptions;
use crate::cgroup::Cgroup;
use crate::cpu_hogs::CpuHogs;
use crate::error::Error;

/// The broker's cgroup may use the processors for part of each period only, as a container with a CPU limit.
///
/// Truth: `cpu-throttled` for every slow request: without another fault, no matter what a thread of the broker did, it stood
/// still because the quota was used up, and who waited for that thread waited for the same.
#[derive(Default)]
pub(super) struct CpuQuota {
    group: Option<Cgroup>,
}

impl Fault for CpuQuota {
    fn declaration(&self) -> &'static Declaration {
        &Declaration {
            name: "cpu-quota",
            story: "the broker's cgroup has used up its CPU quota for most of each period",
            shares: true,
            threshold_ms: (50, 100),
            truths: || vec![Truth::of(&["cpu-throttled"]).slows_pauses()],
            ..Declaration::DEFAULT
        }
    }

    /// In it from the start and unlimited: as a container is.
    fn prepare(&mut self, bed: &mut TestBed, _: &mut Rng) -> Result<(), Error> {
        self.group.insert(Cgroup::make(bed.site.path(), "cpu")?).put(bed.broker.pid)
    }

    fn inject(&mut self, window: &mut OpenWindow<'_>) -> Result<Injection, Error> {
        let group = prepared(self.group.as_ref())?;
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
    }
}

/// The broker has one processor, and busy processes of a higher weight are on it; its clients have the other one.
///
/// Truth: `run-queue` for every slow request: its threads could have run and had no processor, or waited for one that
/// could have run.
#[derive(Default)]
pub(super) struct CpuHog {
    hogs: Option<CpuHogs>,
    niceness: i32,
}

/// The broker's; the others are its clients'.
const CPU: usize = 1;

impl Fault for CpuHog {
    fn declaration(&self) -> &'static Declaration {
        &Declaration {
            name: "cpu-hog",
            story: "busy processes of higher priority share the broker's processor",
            truths: || vec![Truth::of(&["run-queue"]).slows_pauses()],
            ..Declaration::DEFAULT
        }
    }

    fn configure(&mut self, options: &mut BrokerOptions, _: &mut Rng) -> Result<(), Error> {
        options.launcher.extend(["taskset", "--cpu-list", &CPU.to_string()].map(str::to_owned));
        Ok(())
    }

    fn connect(&mut self, bed: &mut TestBed) -> Result<(), Error> {
        bed.broker_cpu = Some(CPU);
        Ok(())
    }

    fn prepare_window(&mut self, bed: &mut TestBed, rng: &mut Rng) -> Result<(), Error> {
        self.niceness = -rng.i32(10..=15);
        let count = rng.u32(4..=8);
        self.hogs = Some(CpuHogs::start(bed.site.path(), count, &CPU.to_string(), self.niceness)?);
        Ok(())
    }

    fn inject(&mut self, window: &mut OpenWindow<'_>) -> Result<Injection, Error> {
        let hogs = prepared(self.hogs.as_ref())?;
        let length_ms = window.rng.u64(2_200..=3_000);
        hogs.go();
        window.bed.sleep(Duration::from_millis(length_ms))?;
        hogs.halt();
        let (count, niceness) = (hogs.count(), self.niceness);
        self.hogs = None;
        Ok(Injection {
            parameters: format!("{count} busy processes at nice {niceness} for {length_ms} ms"),
            proof: Proof::SlowRequests,
        })
    }
}
