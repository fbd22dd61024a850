//! A memory cgroup of version 1 that a broker can be put into; removed when dropped, where its processes have gone.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Error;

const ROOT: &str = "/sys/fs/cgroup/memory";
const PATIENCE: Duration = Duration::from_secs(30);
/// No limit (`PAGE_COUNTER_MAX` is what the kernel makes of it).
const UNLIMITED: &str = "-1";

pub(super) struct MemoryGroup(PathBuf);

impl MemoryGroup {
    /// Makes one named after this process.
    pub(super) fn make() -> Result<Self, Error> {
        let path = Path::new(ROOT).join(format!("brokerscope-lab-{}", std::process::id()));
        fs::create_dir_all(&path).map_err(Error::io("make a memory cgroup of version 1,", &path))?;
        Ok(Self(path))
    }

    /// Puts a process in it; what it has already counts elsewhere.
    pub(super) fn put(&self, pid: u32) -> Result<(), Error> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// Has it give back what it can.
    pub(super) fn empty(&self) -> Result<(), Error> {
        self.write("memory.force_empty", "0")
    }

    /// Lets it grow by so many bytes from what it has now.
    pub(super) fn limit(&self, more_bytes: u64) -> Result<(), Error> {
        let used = self.number("memory.usage_in_bytes")?;
        self.write("memory.limit_in_bytes", &used.saturating_add(more_bytes).to_string())
    }

    /// Lets it grow as it likes again.
    pub(super) fn lift(&self) -> Result<(), Error> {
        self.write("memory.limit_in_bytes", UNLIMITED)
    }

    /// How often it was at its limit.
    pub(super) fn times_full(&self) -> Result<u64, Error> {
        self.number("memory.failcnt")
    }

    fn write(&self, file: &str, value: &str) -> Result<(), Error> {
        let path = self.0.join(file);
        fs::write(&path, value).map_err(Error::io("write", &path))
    }

    fn number(&self, file: &str) -> Result<u64, Error> {
        let path = self.0.join(file);
        let text = fs::read_to_string(&path).map_err(Error::io("read", &path))?;
        text.trim().parse().map_err(|_| Error::Unusable(format!("{}: {text:?}", path.display())))
    }
}

impl Drop for MemoryGroup {
    /// Whoever is in it still goes back to the root: a broker outlives its limit.
    fn drop(&mut self) {
        let _ = self.lift();
        let root = Path::new(ROOT).join("cgroup.procs");
        for pid in fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default().lines() {
            let _ = fs::write(&root, pid);
        }
        let end = Instant::now() + PATIENCE;
        while fs::remove_dir(&self.0).is_err() && self.0.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}
