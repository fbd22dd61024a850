//! Processes as `/proc` shows them: command lines, users, working directories, roots.
//! Does not know Kafka.
//! Fuzzed by: settings.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use memchr::memmem;

/// Long class paths make long command lines, and the kernel imposes no lower limit.
const MAX_CMDLINE_BYTES: u64 = 4 << 20;
/// A broker maps two files per segment, with one line each.
const MAX_MAP_BYTES: u64 = 64 << 20;
/// Bytes read of `/proc/PID/status`.
const MAX_STATUS_BYTES: u64 = 64 << 10;

/// A `/proc` file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processes {
    proc: PathBuf,
}

impl Default for Processes {
    /// This machine's `/proc`.
    fn default() -> Self {
        Self::at("/proc")
    }
}

impl Processes {
    /// A `/proc` that is mounted elsewhere.
    pub fn at(proc: impl Into<PathBuf>) -> Self {
        Self { proc: proc.into() }
    }

    /// All process ids, in order.
    pub(crate) fn pids(&self) -> Vec<u32> {
        let entries = fs::read_dir(&self.proc).into_iter().flatten().flatten();
        let mut pids: Vec<u32> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        pids.sort_unstable();
        pids
    }

    /// The path of a process's file or link.
    pub(crate) fn path(&self, pid: u32, name: &str) -> PathBuf {
        self.proc.join(pid.to_string()).join(name)
    }

    /// Whether the process exists.
    pub(crate) fn exists(&self, pid: u32) -> bool {
        self.proc.join(pid.to_string()).exists()
    }

    /// Its arguments, each terminated by a zero byte.
    pub(crate) fn cmdline(&self, pid: u32) -> io::Result<Vec<u8>> {
        self.read(pid, "cmdline", MAX_CMDLINE_BYTES)
    }

    /// Its effective user; `None` if the process has exited.
    pub(crate) fn user(&self, pid: u32) -> Option<u32> {
        let status = self.read(pid, "status", MAX_STATUS_BYTES).ok()?;
        let status = String::from_utf8_lossy(&status);
        status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().nth(1)?.parse().ok()
    }

    /// Whether it has a JVM mapped. Only root can tell for another user's process.
    pub(crate) fn has_jvm(&self, pid: u32) -> io::Result<bool> {
        let library = memmem::Finder::new(b"/libjvm.so");
        let mut lines = BufReader::new(self.open(pid, "maps")?.take(MAX_MAP_BYTES)).split(b'\n');
        let found = lines.find_map(|line| line.map(|line| library.find(&line).map(|_| true)).transpose());
        found.unwrap_or(Ok(false))
    }

    #[allow(clippy::disallowed_methods, reason = "/proc")]
    fn open(&self, pid: u32, name: &str) -> io::Result<File> {
        File::open(self.path(pid, name))
    }

    fn read(&self, pid: u32, name: &str, max_bytes: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(pid, name)?.take(max_bytes).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Translates a path as that process sees it into this process's view: relative to its working directory, and below
    /// its root if that differs, as in a container.
    pub(crate) fn resolve(&self, pid: u32, path: &Path) -> io::Result<PathBuf> {
        let absolute = fs::read_link(self.path(pid, "cwd"))?.join(path);
        if self.shares_root(pid) {
            // The kernel's paths contain no symbolic links, so neither should ours.
            return Ok(fs::canonicalize(&absolute).unwrap_or(absolute));
        }
        let below = absolute.strip_prefix("/").unwrap_or(&absolute);
        Ok(self.path(pid, "root").join(below))
    }

    /// Whether a process sees the same files under the same names as this one.
    fn shares_root(&self, pid: u32) -> bool {
        let link = |process: &str, name: &str| fs::read_link(self.proc.join(process).join(name)).ok();
        let other = pid.to_string();
        let same = |name: &str| link("self", name) == link(&other, name);
        same("root") && same("ns/mnt")
    }
}
