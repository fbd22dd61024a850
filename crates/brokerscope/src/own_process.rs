//! What this process takes: processors, memory, BPF programs (proc(5)). Where the kernel does not say, it is not known.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use export::ProcessUsage;
use top::Overhead;

/// `USER_HZ` of every architecture that Linux 5 runs on but Alpha (`include/asm-generic/param.h`).
const TICKS_A_SECOND: f64 = 100.0;

const STAT: &str = "/proc/self/stat";
const STATUS: &str = "/proc/self/status";
/// What of this process is in memory, and all that it has mapped.
const RESIDENT: &str = "VmRSS:";
const VIRTUAL: &str = "VmSize:";

/// Processor time in user and kernel mode, of all threads, those that ended included.
fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((field(stat, 14)? + field(stat, 15)?) as f64 / TICKS_A_SECOND)
}

/// When the process was started, in seconds of UTC.
fn start_time_seconds(stat: &str) -> Option<f64> {
    let after_boot = field(stat, 22)? as f64 / TICKS_A_SECOND;
    let boot: f64 = read("/proc/stat").lines().find_map(|line| line.strip_prefix("btime "))?.parse().ok()?;
    Some(boot + after_boot)
}

/// A field behind the name, which may hold blanks and parentheses itself; the first behind it is 3.
fn field(stat: &str, number: usize) -> Option<u64> {
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(number.checked_sub(3)?)?.parse().ok()
}

/// A size in `/proc/self/status`.
fn bytes(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse::<u64>().ok()?.checked_mul(1024)
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The kernel counts in steps of 10 ms: over less than this they are much of what is counted.
const MIN_INTERVAL: Duration = Duration::from_secs(2);

/// Measures what this process takes, for the screen.
#[derive(Debug, Default)]
pub(crate) struct OverheadMeter {
    before: Option<(Instant, f64)>,
}

impl OverheadMeter {
    /// The usage since the last time; none before some time has passed, and where the kernel does not say.
    pub(crate) fn read(&mut self) -> Option<Overhead> {
        if self.before.is_some_and(|(at, _)| at.elapsed() < MIN_INTERVAL) {
            return None;
        }
        let now = (Instant::now(), cpu_seconds(&read(STAT))?);
        let (at, before) = self.before.replace(now)?;
        let resident_bytes = bytes(&read(STATUS), RESIDENT)?;
        Some(Overhead { processors: (now.1 - before) / at.elapsed().as_secs_f64(), resident_bytes })
    }
}

/// Measures this process and its BPF programs, for metrics.
#[derive(Debug)]
pub(crate) struct OwnProcess {
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
    pub(crate) fn new(measured: bool) -> Self {
        Self { start_time_seconds: start_time_seconds(&read(STAT)), programs: measured.then(Mutex::default) }
    }

    /// What it took so far.
    pub(crate) fn usage(&self) -> ProcessUsage {
        let status = read(STATUS);
        let cost = self.programs.as_ref().map(sum);
        ProcessUsage {
            cpu_seconds: cpu_seconds(&read(STAT)),
            resident_bytes: bytes(&status, RESIDENT),
            virtual_bytes: bytes(&status, VIRTUAL),
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count() as u64),
            start_time_seconds: self.start_time_seconds,
            bpf_seconds: cost.map(|cost| cost.run_time_ns as f64 / 1e9),
            bpf_runs: cost.map(|cost| cost.runs),
        }
    }
}

/// All programs this process ever had. Programs are descriptors, and the kernel reports each in `fdinfo` without a call of
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
    use super::{Cost, OwnProcess, RESIDENT, VIRTUAL, bytes, cpu_seconds, field, program};

    #[test]
    fn names_with_anything_in_them_are_passed_over() {
        let whole = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13";
        assert_eq!((field(whole, 4), field(whole, 14), field(whole, 99)), (Some(1), Some(11), None));
        assert_eq!(cpu_seconds("7 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 50 13 14"), Some(3.0));
        assert_eq!(cpu_seconds("7 (a"), None);
    }

    #[test]
    fn memory_is_told_in_bytes() {
        assert_eq!(bytes("Name:\tx\nVmRSS:\t    12 kB\n", RESIDENT), Some(12_288));
        let both = "Name:\tx\nVmRSS:\t    34816 kB\nVmSize:\t 1 kB\nVmSwap:\t0 kB\n";
        assert_eq!((bytes(both, RESIDENT), bytes(both, VIRTUAL)), (Some(34 << 20), Some(1024)));
        assert_eq!(bytes("", RESIDENT), None);
    }

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
        let own = OwnProcess::new(false).usage();
        assert!(own.resident_bytes > Some(1 << 20), "{own:?}");
        assert!(own.virtual_bytes >= own.resident_bytes, "{own:?}");
        assert!(own.open_fds >= Some(3) && own.cpu_seconds.is_some(), "{own:?}");
        assert!(own.start_time_seconds > Some(1.7e9), "{own:?}");
        assert_eq!(own.bpf_seconds, None);
    }
}
