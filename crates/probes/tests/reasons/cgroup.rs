//! A temporary memory cgroup for this process.
//!
//! Version 1's controller charges a thread's memory to the group of its process's first thread, so a single thread
//! cannot be limited.

use std::fs;
use std::path::{Path, PathBuf};

const CONTROLLER: &str = "/sys/fs/cgroup/memory";

/// Calls `run` while this process's new memory is limited to `bytes`. The memory includes its page cache.
pub(crate) fn in_small_memory(bytes: u64, run: impl FnOnce()) {
    let group = Group::new(bytes);
    enter(&group.directory);
    run();
}

/// A group that the process leaves and removes on drop.
struct Group {
    directory: PathBuf,
    before: PathBuf,
}

impl Group {
    fn new(bytes: u64) -> Self {
        let memberships = fs::read_to_string("/proc/self/cgroup").unwrap();
        let before = memberships.lines().find_map(|line| line.split_once(":memory:"));
        let (_, before) = before.expect("version 1's memory controller is not mounted");
        let directory = Path::new(CONTROLLER).join(format!("brokerscope-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let before = Path::new(CONTROLLER).join(before.trim_start_matches('/'));
        let group = Self { directory, before };
        fs::write(group.directory.join("memory.limit_in_bytes"), bytes.to_string()).unwrap();
        group
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        enter(&self.before);
        if let Err(error) = fs::remove_dir(&self.directory) {
            eprintln!("could not remove {}: {error}", self.directory.display());
        }
    }
}

fn enter(group: &Path) {
    if let Err(error) = fs::write(group.join("cgroup.procs"), std::process::id().to_string()) {
        eprintln!("could not enter {}: {error}", group.display());
    }
}
