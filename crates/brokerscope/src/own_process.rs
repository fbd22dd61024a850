//! Resource usage of this process: CPU time, memory, BPF programs (proc(5)). Unknown if the kernel does not report it.

use std::fs;
#[cfg(feature = "live")]
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use export::ProcessUsage;
use top::Overhead;

/// `USER_HZ` of every architecture that Linux 5 runs on but Alpha. See `include/asm-generic/param.h`.
const TICKS_PER_SECOND: f64 = 100.0;

const STAT: &str = "/proc/self/stat";
const STATUS: &str = "/proc/self/status";
/// Keys of the resident and the virtual size.
const RESIDENT: &str = "VmRSS:";
const VIRTUAL: &str = "VmSize:";

/// User and kernel CPU time of all threads, including those that have ended.
fn cpu_seconds(stat: &str) -> Option<f64> {
    Some((field(stat, 14)? + field(stat, 15)?) as f64 / TICKS_PER_SECOND)
}

/// When the process was started, in seconds of UTC.
fn start_time_seconds(stat: &str) -> Option<f64> {
    let after_boot = field(stat, 22)? as f64 / TICKS_PER_SECOND;
    let boot: f64 = read("/proc/stat").lines().find_map(|line| line.strip_prefix("btime "))?.parse().ok()?;
    Some(boot + after_boot)
}

/// A field after the name, which may itself contain blanks and parentheses; the first field after it is number 3.
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

/// Minimum time between two measurements: the kernel counts in steps of 10 ms, a large error over a shorter time.
const MIN_INTERVAL: Duration = Duration::from_secs(2);

/// Measures this process's usage, for the screen.
#[derive(Debug, Default)]
pub(crate) struct OverheadMeter {
    before: Option<(Instant, f64)>,
}

impl OverheadMeter {
    /// The usage since the last measurement.
    /// `None` the first time, too soon after the last one, or if the kernel does not report it.
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
    /// All programs so far, if they are measured: the totals of removed programs stay in the sum.
    #[cfg(feature = "live")]
    programs: Option<Mutex<Programs>>,
}

/// BPF programs by their ids.
#[cfg(feature = "live")]
type Programs = std::collections::BTreeMap<u32, probes::overhead::RunTime>;

impl OwnProcess {
    pub(crate) fn new() -> Self {
        Self {
            start_time_seconds: start_time_seconds(&read(STAT)),
            #[cfg(feature = "live")]
            programs: None,
        }
    }

    /// Includes its BPF programs, which the kernel measures.
    #[cfg(feature = "live")]
    pub(crate) fn with_programs(self) -> Self {
        Self { programs: Some(Mutex::default()), ..self }
    }

    /// The usage so far.
    pub(crate) fn usage(&self) -> ProcessUsage {
        let status = read(STATUS);
        #[cfg(feature = "live")]
        let programs = self.programs.as_ref().map(sum);
        #[cfg(not(feature = "live"))]
        let programs: Option<(f64, u64)> = None;
        ProcessUsage {
            cpu_seconds: cpu_seconds(&read(STAT)),
            resident_bytes: bytes(&status, RESIDENT),
            virtual_bytes: bytes(&status, VIRTUAL),
            open_fds: fs::read_dir("/proc/self/fd").ok().map(|fds| fds.count() as u64),
            start_time_seconds: self.start_time_seconds,
            bpf_seconds: programs.map(|(seconds, _)| seconds),
            bpf_runs: programs.map(|(_, runs)| runs),
            ..ProcessUsage::default()
        }
    }
}

/// Sums all programs that this process ever had: their run time and number of runs.
#[cfg(feature = "live")]
fn sum(programs: &Mutex<Programs>) -> (f64, u64) {
    let mut programs = programs.lock().unwrap_or_else(PoisonError::into_inner);
    programs.extend(probes::overhead::Programs::of("self").run_times());
    let (time, runs) = (programs.values().map(|one| one.run_time_ns), programs.values().map(|one| one.runs));
    (time.sum::<u64>() as f64 / 1e9, runs.sum())
}

#[cfg(test)]
mod tests {
    use super::{OwnProcess, RESIDENT, VIRTUAL, bytes, cpu_seconds, field};

    #[test]
    fn parses_stat_with_parentheses_in_the_process_name() {
        let whole = "7 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 11 12 13";
        assert_eq!((field(whole, 4), field(whole, 14), field(whole, 99)), (Some(1), Some(11), None));
        assert_eq!(cpu_seconds("7 (a) b) R 1 2 3 4 5 6 7 8 9 10 250 50 13 14"), Some(3.0));
        assert_eq!(cpu_seconds("7 (a"), None);
    }

    #[test]
    fn memory_sizes_are_in_bytes() {
        assert_eq!(bytes("Name:\tx\nVmRSS:\t    12 kB\n", RESIDENT), Some(12_288));
        let both = "Name:\tx\nVmRSS:\t    34816 kB\nVmSize:\t 1 kB\nVmSwap:\t0 kB\n";
        assert_eq!((bytes(both, RESIDENT), bytes(both, VIRTUAL)), (Some(34 << 20), Some(1024)));
        assert_eq!(bytes("", RESIDENT), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn own_usage_has_memory_files_cpu_time_and_start_time() {
        let own = OwnProcess::new().usage();
        assert!(own.resident_bytes > Some(1 << 20), "{own:?}");
        assert!(own.virtual_bytes >= own.resident_bytes, "{own:?}");
        assert!(own.open_fds >= Some(3) && own.cpu_seconds.is_some(), "{own:?}");
        assert!(own.start_time_seconds > Some(1.7e9), "{own:?}");
        assert_eq!(own.bpf_seconds, None);
    }
}
