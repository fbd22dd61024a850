//! Whether the process that is watched still runs. Does not wait for it.

#![allow(clippy::disallowed_methods, reason = "/proc")]

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

/// A process, known again by the time it started at: its id may be given to another.
#[derive(Debug)]
pub struct Process {
    dir: PathBuf,
    started: Option<String>,
    /// Its `statm`, which stays this process's when its id is given to another.
    memory: Option<File>,
}

impl Process {
    /// The process that has this id now.
    pub fn of(pid: u32) -> Self {
        let dir = PathBuf::from(format!("/proc/{pid}"));
        let started = stat(&dir).map(|stat| stat.started);
        Self { memory: File::open(dir.join("statm")).ok(), dir, started }
    }

    /// Whether it has ended since. Where that cannot be told, it has not.
    pub fn is_gone(&self) -> bool {
        if self.has_memory() {
            return false;
        }
        match stat(&self.dir) {
            Some(now) => self.started.as_ref().is_some_and(|then| *then != now.started) || self.is_dead(&now),
            None => !self.dir.exists(),
        }
    }

    /// Whether it surely runs, for a tenth of what `stat` takes: that adds up all threads. Without memory it is dead, or is
    /// about to be.
    fn has_memory(&self) -> bool {
        let mut pages = [b'0'];
        let read = self.memory.as_ref().and_then(|file| file.read_at(&mut pages, 0).ok());
        read == Some(1) && pages != [b'0']
    }

    /// A dead process stays in the table until its parent has asked after it. So does a first thread that
    /// ended before the others: then there are others.
    fn is_dead(&self, stat: &Stat) -> bool {
        let threads = || fs::read_dir(self.dir.join("task")).map_or(0, Iterator::count);
        matches!(stat.state, 'Z' | 'X') && threads() <= 1
    }
}

/// The fields of `/proc/PID/stat` that matter here (`proc_pid_stat(5)`).
struct Stat {
    state: char,
    started: String,
}

fn stat(dir: &std::path::Path) -> Option<Stat> {
    let line = fs::read_to_string(dir.join("stat")).ok()?;
    // The second field, the name in parentheses, may hold blanks and parentheses itself.
    let (_, fields) = line.rsplit_once(')')?;
    let mut fields = fields.split_whitespace();
    let state = fields.next()?.chars().next()?;
    // The state is the third field, the start the twenty-second.
    Some(Stat { state, started: fields.nth(18)?.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::Process;

    #[test]
    fn a_process_is_gone_when_it_has_died_or_another_has_its_id() {
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        let process = Process::of(child.id());
        assert!(!process.is_gone());
        let another = Process { started: Some("0".to_owned()), memory: None, ..Process::of(child.id()) };
        assert!(another.is_gone());
        child.kill().unwrap();
        // Dead, and nobody has asked after it: `wait` would take it out of the table.
        while !process.is_gone() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(process.is_gone());
        assert!(!Process::of(std::process::id()).is_gone());
    }
}
