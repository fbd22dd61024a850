//! Which kernel threads belong to file systems, looked up now and then: workers change what they work for, and
//! mounts come and go. What is done with them is `bpf/kernel_threads.h`'s.

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, Object};

use super::object;
use crate::error::Error;

/// How often they are looked up.
const AGAIN: Duration = Duration::from_secs(10);
/// All kernel threads but itself are its children (`kernel/kthread.c`).
const CHILDREN_OF_KTHREADD: &str = "/proc/2/task/2/children";

/// The threads that the programs were told of.
#[derive(Default)]
pub(super) struct KernelThreads {
    told: HashSet<u32>,
    looked: Option<Instant>,
}

impl KernelThreads {
    /// Looks them up again if it is time. Those that do not fit into the map are not followed.
    pub(super) fn refresh(&mut self, object: &Object) -> Result<(), Error> {
        if self.looked.is_some_and(|looked| looked.elapsed() < AGAIN) {
            return Ok(());
        }
        self.looked = Some(Instant::now());
        let map = object::map(object, "kernel_threads")?;
        let there = kernel_threads();
        // Never one that is still there: it may be waiting, and its wait is counted.
        self.told.retain(|tid| there.contains(tid) || map.delete(&tid.to_ne_bytes()).is_err());
        for &tid in there.difference(&self.told.clone()) {
            let fresh = works_for_file_system(tid)
                && map.update(&tid.to_ne_bytes(), &0_u64.to_ne_bytes(), MapFlags::NO_EXIST).is_ok();
            if fresh {
                self.told.insert(tid);
            }
        }
        Ok(())
    }
}

fn kernel_threads() -> HashSet<u32> {
    let children = fs::read_to_string(CHILDREN_OF_KTHREADD).unwrap_or_default();
    children.split_whitespace().filter_map(|tid| tid.parse().ok()).collect()
}

fn works_for_file_system(tid: u32) -> bool {
    fs::read_to_string(format!("/proc/{tid}/comm")).is_ok_and(|name| is_file_systems(name.trim_end()))
}

/// A worker's name tells what it works for, or last worked for, after a `+` or a `-` (`wq_worker_comm`,
/// kernel/workqueue.c). jbd2's threads are not needed: tracepoints show both ends of what they do.
fn is_file_systems(name: &str) -> bool {
    let job =
        name.strip_prefix("kworker/").and_then(|worker| worker.split_once(['+', '-'])).map(|(_, job)| job);
    ["xfs-", "xfsaild/", "btrfs-"].iter().any(|prefix| job.unwrap_or(name).starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::is_file_systems;

    #[test]
    fn file_systems_threads_are_told_by_their_names() {
        for (name, expected) in [
            ("xfsaild/loop0", true),
            ("btrfs-transaction", true),
            ("kworker/u8:3-xfs-cil/loop0", true),
            ("kworker/1:1H+xfs-log/loop0", true),
            ("kworker/u8:1-btrfs-endio-write", true),
            ("kworker/u8:1-flush-7:0", false),
            ("kworker/0:1", false),
            ("jbd2/loop0-8", false),
            ("", false),
        ] {
            assert_eq!(is_file_systems(name), expected, "{name}");
        }
    }
}
