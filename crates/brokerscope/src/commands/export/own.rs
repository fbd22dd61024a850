//! What this process and its BPF programs take, in figures for whoever scrapes. Where the kernel does not say, it is not known.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, PoisonError};

use export::ProcessUsage;

use crate::own_process::{Stat, Status};

/// The own process.
#[derive(Debug)]
pub(super) struct OwnProcess {
    start_time_seconds: Option<f64>,
    /// Programs that were ever seen, where they are measured: what one that is gone took stays in the sum.
    programs: Option<Mutex<BTreeMap<u32, Cost>>>,
}

/// What a BPF program took since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    run_time_ns: u64,
    runs: u64,
}

impl OwnProcess {
    /// `measured` says whether the kernel measures BPF programs.
    pub(super) fn new(measured: bool) -> Self {
        Self {
            start_time_seconds: Stat::read().start_time_seconds(),
            programs: measured.then(Mutex::default),
        }
    }

    /// What it took so far.
    pub(super) fn read(&self) -> ProcessUsage {
        let status = Status::read();
        let cost = self.programs.as_ref().map(sum);
        ProcessUsage {
            cpu_seconds: Stat::read().cpu_seconds(),
            resident_bytes: status.resident_bytes(),
            virtual_bytes: status.virtual_bytes(),
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count() as u64),
            start_time_seconds: self.start_time_seconds,
            bpf_seconds: cost.map(|cost| cost.run_time_ns as f64 / 1e9),
            bpf_runs: cost.map(|cost| cost.runs),
        }
    }
}

/// All programs this process ever had. Programs are descriptors, and the kernel tells of each in `fdinfo` without a call of
/// bpf(2), which would hold programs up and takes a capability.
fn sum(programs: &Mutex<BTreeMap<u32, Cost>>) -> Cost {
    let mut programs = programs.lock().unwrap_or_else(PoisonError::into_inner);
    for descriptor in fs::read_dir("/proc/self/fdinfo").into_iter().flatten().flatten() {
        if let Some((id, cost)) = fs::read_to_string(descriptor.path()).ok().as_deref().and_then(program) {
            programs.insert(id, cost);
        }
    }
    programs.values().fold(Cost::default(), |sum, cost| Cost {
        run_time_ns: sum.run_time_ns + cost.run_time_ns,
        runs: sum.runs + cost.runs,
    })
}

/// A program's id and what it took (`bpf_prog_show_fdinfo`, kernel/bpf/syscall.c); none of another descriptor.
fn program(fdinfo: &str) -> Option<(u32, Cost)> {
    let field =
        |name: &str| fdinfo.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    field("prog_type:")?;
    let (run_time_ns, runs) = (field("run_time_ns:")?, field("run_cnt:")?);
    Some((u32::try_from(field("prog_id:")?).ok()?, Cost { run_time_ns, runs }))
}

#[cfg(test)]
mod tests {
    use super::{Cost, OwnProcess, program};

    #[test]
    fn programs_are_told_from_other_descriptors() {
        let fdinfo = "pos:\t0\nflags:\t02000000\nprog_type:\t17\nprog_jited:\t1\nprog_tag:\tab\nmemlock:\t4096\n\
                      prog_id:\t42\nrun_time_ns:\t1500\nrun_cnt:\t3\nrecursion_misses:\t0\n";
        assert_eq!(program(fdinfo), Some((42, Cost { run_time_ns: 1_500, runs: 3 })));
        assert_eq!(program("pos:\t0\nflags:\t0100002\nlink_type:\traw_tracepoint\nprog_id:\t42\n"), None);
        assert_eq!(program(""), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn this_process_has_memory_and_a_start() {
        let own = OwnProcess::new(false).read();
        assert!(own.resident_bytes > Some(1 << 20), "{own:?}");
        assert!(own.virtual_bytes >= own.resident_bytes, "{own:?}");
        assert!(own.open_fds >= Some(3) && own.cpu_seconds.is_some(), "{own:?}");
        assert!(own.start_time_seconds > Some(1.7e9), "{own:?}");
        assert_eq!(own.bpf_seconds, None);
    }
}
