//! Processes and threads that the programs follow, from `/proc`: those that the target has started, and the kernel's
//! own threads that work for file systems.

#![allow(clippy::disallowed_methods, reason = "/proc")]

use std::collections::HashSet;
use std::fs;
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags, Object};

use crate::bpf::{self, map_name};
use crate::error::Error;
use crate::slice::Slice;

/// Size of the programs' map.
const MAX_CHILDREN: usize = 1024;

/// Descendants of a process. A process in between that has ended hides the ones that it started.
pub(super) fn children_of(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents = pids.filter_map(|child: u32| {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        Some((child, parent_in(&stat)?))
    });
    descendants(pid, &parents.collect::<Vec<_>>())
}

/// The parent: the second word after the command, which is in parentheses and may contain anything.
fn parent_in(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Descendants, from pairs of a process and its parent.
fn descendants(pid: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut known = HashSet::from([pid]);
    let mut found = Vec::new();
    let mut open = vec![pid];
    while let Some(parent) = open.pop() {
        let children = parents.iter().filter(|&&(_, of)| of == parent).map(|&(child, _)| child);
        for child in children.filter(|&child| known.insert(child)).take(MAX_CHILDREN - found.len()) {
            found.push(child);
            open.push(child);
        }
    }
    found
}

/// How often kernel threads are listed.
const INTERVAL: Duration = Duration::from_secs(10);
/// All other kernel threads are its children (`kernel/kthread.c`).
const CHILDREN_OF_KTHREADD: &str = "/proc/2/task/2/children";

/// The kernel threads in the programs' map.
#[derive(Default)]
pub(super) struct KernelThreads {
    listed: HashSet<u32>,
    listed_at: Option<Instant>,
}

impl KernelThreads {
    /// Lists the threads again if it is time. Those that do not fit into the map are not followed.
    pub(super) fn refresh(&mut self, object: &Object) -> Result<(), Error> {
        if self.listed_at.is_some_and(|listed_at| listed_at.elapsed() < INTERVAL) {
            return Ok(());
        }
        self.listed_at = Some(Instant::now());
        let map = bpf::map(object, map_name!(probes.kernel_threads))?;
        let current = kernel_threads();
        // Never removes a live thread: it may be waiting, and its wait is counted.
        self.listed.retain(|tid| current.contains(tid) || map.delete(&tid.to_ne_bytes()).is_err());
        let mut slice = Slice::new(Slice::LONG);
        for &tid in current.difference(&self.listed.clone()) {
            slice.rest_if_over(|| false);
            let fresh = works_for_file_system(tid)
                && map.update(&tid.to_ne_bytes(), &0_u64.to_ne_bytes(), MapFlags::NO_EXIST).is_ok();
            if fresh {
                self.listed.insert(tid);
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

/// Whether a thread works for a file system.
///
/// A worker's name shows what it works for, or last worked for, after a `+` or a `-` (`wq_worker_comm`,
/// kernel/workqueue.c). jbd2's threads are not needed: tracepoints show both ends of their work.
fn is_file_systems(name: &str) -> bool {
    let job =
        name.strip_prefix("kworker/").and_then(|worker| worker.split_once(['+', '-'])).map(|(_, job)| job);
    ["xfs-", "xfsaild/", "btrfs-"].iter().any(|prefix| job.unwrap_or(name).starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::{MAX_CHILDREN, children_of, descendants, is_file_systems, parent_in};

    #[test]
    fn parses_the_parent_after_the_command_name() {
        assert_eq!(parent_in("12 (a) R) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in("12 (a"), None);
    }

    #[test]
    fn descendants_include_grandchildren_and_are_bounded() {
        let parents = [(2, 1), (3, 2), (4, 3), (5, 1), (6, 9), (1, 1)];
        let mut found = descendants(2, &parents);
        found.sort_unstable();
        assert_eq!(found, [3, 4]);
        assert_eq!(descendants(1, &parents).len(), 4, "a process that is its own parent ends it");
        let many: Vec<_> = (2..5000).map(|child| (child, 1)).collect();
        assert_eq!(descendants(1, &many).len(), MAX_CHILDREN);
    }

    #[test]
    fn finds_a_running_child() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let is_child = children_of(std::process::id()).contains(&child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_child);
    }

    #[test]
    fn recognizes_file_system_threads_by_name() {
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
