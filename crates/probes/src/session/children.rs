//! The processes that a process has started, as `/proc` shows them when the probes start. Later ones are the
//! kernel's side to follow.

use std::collections::HashSet;
use std::fs;

/// As many as the kernel's side has room for.
const MOST: usize = 1024;

/// The children of a process, and theirs. Processes in between that have ended hide those they started.
pub(super) fn of(pid: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let parents = pids.filter_map(|child: u32| {
        let stat = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        Some((child, parent_in(&stat)?))
    });
    descendants(pid, &parents.collect::<Vec<_>>())
}

/// The second word after the command, which is in parentheses and may hold anything.
fn parent_in(stat: &str) -> Option<u32> {
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

/// Of pairs of a process and its parent.
fn descendants(pid: u32, parents: &[(u32, u32)]) -> Vec<u32> {
    let mut known = HashSet::from([pid]);
    let mut found = Vec::new();
    let mut ahead = vec![pid];
    while let Some(parent) = ahead.pop() {
        let children = parents.iter().filter(|&&(_, of)| of == parent).map(|&(child, _)| child);
        for child in children.filter(|&child| known.insert(child)).take(MOST - found.len()) {
            found.push(child);
            ahead.push(child);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::{MOST, descendants, of, parent_in};

    #[test]
    fn the_parent_stands_after_the_command() {
        assert_eq!(parent_in("12 (a) R) S 7 12 12 0"), Some(7));
        assert_eq!(parent_in("12 (a"), None);
    }

    #[test]
    fn grandchildren_are_children() {
        let parents = [(2, 1), (3, 2), (4, 3), (5, 1), (6, 9), (1, 1)];
        let mut found = descendants(2, &parents);
        found.sort_unstable();
        assert_eq!(found, [3, 4]);
        assert_eq!(descendants(1, &parents).len(), 4, "a process that is its own parent ends it");
        let many: Vec<_> = (2..5000).map(|child| (child, 1)).collect();
        assert_eq!(descendants(1, &many).len(), MOST);
    }

    #[test]
    fn a_child_is_seen_until_it_is_gone() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let seen = of(std::process::id()).contains(&child.id());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(seen);
    }
}
