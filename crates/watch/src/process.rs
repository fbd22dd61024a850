//! Facts about a process from the kernel: whether it still runs, and its CPU time.
//! Does not wait for it.

#![allow(clippy::disallowed_methods, reason = "/proc")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use model::Pid;

/// Clock ticks per second (`USER_HZ`).
/// The value is the same on every architecture of Linux 5 except Alpha (`include/asm-generic/param.h`).
const TICKS_A_SECOND: f64 = 100.0;

/// A process, identified by its start time too, because its id may be reused.
#[derive(Debug)]
pub struct Process {
    dir: PathBuf,
    started: Option<u64>,
    /// Its `statm`, which still refers to this process when its id is reused.
    memory: Option<File>,
}

impl Process {
    /// Returns the process that has this id now.
    pub fn of(pid: Pid) -> Self {
        let dir = PathBuf::from(format!("/proc/{pid}"));
        let started = Stat::read(&dir).map(|stat| stat.started);
        Self { memory: File::open(dir.join("statm")).ok(), dir, started }
    }

    /// Whether the process has ended; false if that cannot be determined.
    pub fn is_gone(&self) -> bool {
        if self.has_memory() {
            return false;
        }
        match Stat::read(&self.dir) {
            Some(now) => self.started.is_some_and(|then| then != now.started) || self.is_dead(&now),
            None => !self.dir.exists(),
        }
    }

    /// Whether the process certainly runs.
    /// Costs a tenth of reading `stat`, which sums over all threads. Without memory, a process is dead or about to be.
    fn has_memory(&self) -> bool {
        let mut pages = [b'0'];
        let read = self.memory.as_ref().and_then(|file| file.read_at(&mut pages, 0).ok());
        read == Some(1) && pages != [b'0']
    }

    /// Whether the process is dead.
    /// A dead process stays in the table until its parent waits for it, and so does a first thread that ended before
    /// the others; then there are other threads.
    fn is_dead(&self, stat: &Stat) -> bool {
        let threads = || fs::read_dir(self.dir.join("task")).map_or(0, Iterator::count);
        matches!(stat.state, 'Z' | 'X') && threads() <= 1
    }
}

/// The fields of `/proc/PID/stat` that matter here (`proc_pid_stat(5)`).
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    state: char,
    /// Time in user and in kernel mode, in ticks.
    used: u64,
    /// Start time, in ticks since boot.
    started: u64,
}

impl Stat {
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        Self::read(&PathBuf::from(format!("/proc/{pid}")))
    }

    fn read(dir: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(dir.join("stat")).ok()?)
    }

    fn parse(line: &str) -> Option<Self> {
        // The second field, the name in parentheses, may contain blanks and parentheses.
        let (_, fields) = line.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let mut number = |skipped| fields.nth(skipped)?.parse::<u64>().ok();
        // The state is the third field, the times the fourteenth and fifteenth, the start the twenty-second.
        Some(Self { state, used: number(10)?.checked_add(number(0)?)?, started: number(6)? })
    }

    /// Seconds of CPU time that the process used.
    pub(crate) fn cpu_seconds(&self) -> f64 {
        self.used as f64 / TICKS_A_SECOND
    }

    /// Average CPUs used by the process and its children since its start.
    /// `None` if it has just started.
    pub(crate) fn cpus(&self, children_seconds: f64, uptime_seconds: f64) -> Option<f64> {
        let lived = uptime_seconds - self.started as f64 / TICKS_A_SECOND;
        (lived > 0.0).then(|| (self.cpu_seconds() + children_seconds) / lived)
    }
}

/// Seconds of CPU time that a process's children used.
pub(crate) fn children_seconds(pid: Pid) -> f64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let children = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let children: Vec<String> = children.collect();
    let pids = children.iter().flat_map(|pids| pids.split_whitespace()).flat_map(str::parse);
    pids.filter_map(Stat::of).map(|stat| stat.cpu_seconds()).sum()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::{Process, Stat};

    #[test]
    fn parses_stat_with_any_process_name_and_averages_cpu_time() {
        let line = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 9 0 1000 4096 1 0 0";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat, Stat { state: 'S', used: 200, started: 1_000 });
        assert_eq!((stat.cpu_seconds(), stat.cpus(1.0, 110.0)), (2.0, Some(0.03)), "2 s and 1 s in 100 s");
        assert_eq!(stat.cpus(0.0, 10.0), None, "it has just begun");
        assert!(["7 (a", "7 (a) S 1"].map(Stat::parse).iter().all(Option::is_none));
    }

    #[test]
    fn process_is_gone_if_it_died_or_its_id_was_reused() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = Process::of(child.id());
        assert!(!process.is_gone());
        let another = Process { started: Some(0), memory: None, ..Process::of(child.id()) };
        assert!(another.is_gone());
        child.kill().unwrap();
        // Dead, but not waited for yet: `wait` would remove it from the table.
        while !process.is_gone() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(process.is_gone());
        assert!(!Process::of(std::process::id()).is_gone());
    }
}
