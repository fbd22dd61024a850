//! The running watches on this host: their mode, cost and outages.
//! Recognizes them by the names of their threads, which any process may give to its own.

use std::fs;

use model::Pid;
use rustix::time::{ClockId, clock_gettime};

use crate::always_on::AlwaysOnSource;
use crate::cost;
use crate::outages::{Outage, outages_of};
use crate::process::{Stat, children_seconds};
use crate::source::{Source, thread_name};
use crate::supervisor;

/// A running watch.
#[derive(Clone, Debug, PartialEq)]
pub struct RunningWatch {
    /// The watch's process.
    pub pid: Pid,
    /// Whether the watch is always on.
    pub is_always_on: bool,
    /// CPUs that its BPF programs use at the moment; `None` if the kernel does not measure them.
    pub programs: Option<f64>,
    /// Average CPUs that its process and its parser processes used since the start.
    pub process: f64,
    /// Sources that are down at the moment.
    pub down: Vec<Outage>,
}

/// Finds the watches that this process may see. Takes a quarter of a second for each.
pub fn running_watches() -> Vec<RunningWatch> {
    let own = std::process::id();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|process| process.file_name().to_str()?.parse::<Pid>().ok());
    pids.filter(|pid| *pid != own).filter_map(running_watch).collect()
}

#[allow(clippy::disallowed_methods, reason = "/proc")]
fn running_watch(pid: Pid) -> Option<RunningWatch> {
    // The name of the first thread rules out most processes.
    let is_ours = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end() == "brokerscope";
    let threads = is_ours.then(|| thread_names(pid))?;
    let has = |name: &str| threads.contains(&thread_name(name));
    has(supervisor::THREAD).then_some(())?;
    let uptime = clock_gettime(ClockId::Boottime);
    Some(RunningWatch {
        pid,
        is_always_on: has(AlwaysOnSource::NAME),
        programs: cost::measure_programs(&pid.to_string()),
        process: Stat::of(pid)?
            .cpus(children_seconds(pid), uptime.tv_sec as f64 + uptime.tv_nsec as f64 / 1e9)?,
        down: outages_of(pid),
    })
}

#[allow(clippy::disallowed_methods, reason = "/proc")]
fn thread_names(pid: Pid) -> Vec<String> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let name = |path: std::path::PathBuf| fs::read_to_string(path.join("comm")).ok();
    threads.filter_map(|thread| Some(name(thread.path())?.trim_end().to_owned())).collect()
}
