//! Translates process ids if this process is in a nested pid namespace: its `/proc` shows the namespace's ids, the BPF
//! programs use the root namespace's. An iterator over tasks lists both; `bpf/process_ids.h` translates for records.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::mem::offset_of;

use libbpf_rs::Iter;

use crate::bpf::process_list::{OBJECT, types};
use crate::bpf::{self, Loader, Record, whole};
use crate::error::Error;

/// More processes than a host has (`PID_MAX_LIMIT`, `include/linux/threads.h`).
const MAX_BYTES: u64 = (4 << 20) * size_of::<types::process_ids>() as u64;

/// `struct pid_settings`, part of every object.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct PidSettings {
    namespace: u64,
    level: u32,
    reserved: u32,
}

// SAFETY: a C structure of integers without unnamed padding.
unsafe impl Record for PidSettings {}

const _: () = assert!(size_of::<PidSettings>() == size_of::<types::pid_settings>());

/// The processes in this one's `/proc`, by both their ids.
#[derive(Debug, Default)]
pub(crate) struct ProcessIds {
    /// Levels of the ids' namespace below the root one; 0 if both ids are the same.
    pub(crate) level: u32,
    /// The namespace's address in the kernel.
    namespace: u64,
    roots: HashMap<u32, u32>,
}

impl ProcessIds {
    /// Lists processes in the kernel, unless this process is in the root namespace.
    pub(crate) fn of_this_host() -> Result<Self, Error> {
        if in_root_namespace() {
            return Ok(Self::default());
        }
        let below = namespaces_below_proc().ok_or(Error::ForeignProc)?;
        let list = Self::parse(&read_list(below)?);
        // The list always contains this very process.
        if list.roots.is_empty() { Err(Error::ForeignProc) } else { Ok(list) }
    }

    /// The id of a process in the root namespace, which the BPF programs use.
    pub(crate) fn root_of(&self, pid: u32) -> Option<u32> {
        if self.level == 0 { Some(pid) } else { self.roots.get(&pid).copied() }
    }

    /// The namespace's settings for the programs.
    pub(crate) fn settings(&self) -> PidSettings {
        PidSettings { namespace: self.namespace, level: self.level, reserved: 0 }
    }

    fn parse(records: &[u8]) -> Self {
        let mut list = Self::default();
        for record in records.chunks_exact(size_of::<types::process_ids>()).filter_map(whole) {
            let types::process_ids { pid_namespace, level, root, visible, .. } = record;
            (list.namespace, list.level) = (pid_namespace, level);
            list.roots.insert(visible, root);
        }
        list
    }
}

/// Whether this process is in the root pid namespace. The inode number of that namespace is fixed (`PROC_PID_INIT_INO`,
/// `include/linux/proc_ns.h`).
pub(crate) fn in_root_namespace() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

/// Levels of this process's namespace below the one whose ids its `/proc` shows; `None` if it is not inside that one.
#[allow(clippy::disallowed_methods, reason = "/proc")]
fn namespaces_below_proc() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    below_in(&status)
}

/// Levels of a process's namespace below the one of that `/proc`. `NSpid:` lists its ids from the namespace of that
/// `/proc` to its own (`fs/proc/array.c`).
fn below_in(status: &str) -> Option<u32> {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    u32::try_from(ids.split_whitespace().count()).ok()?.checked_sub(1)
}

fn read_list(below: u32) -> Result<Vec<u8>, Error> {
    let mut loader = Loader::open("brokerscope_ids", OBJECT)?;
    loader.set(offset_of!(types::rodata, settings), &types::process_list_settings { below })?;
    let object = loader.load()?;
    let refused = |source| Error::Load { source, log: bpf::take_log() };
    let link = bpf::program(&object, "list_processes")?.attach().map_err(refused)?;
    let mut records = Vec::new();
    let list = Iter::new(&link).map_err(refused)?;
    list.take(MAX_BYTES).read_to_end(&mut records).map_err(Error::Read)?;
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::{ProcessIds, below_in};

    #[test]
    fn maps_namespace_ids_to_root_ids_and_drops_truncated_records() {
        let mut records = Vec::new();
        for (root, shown) in [(4711_u32, 1_u32), (4800, 77)] {
            records.extend(0xffff_8880_1234_5678_u64.to_ne_bytes());
            records.extend([2, root, shown, 0].map(u32::to_ne_bytes).concat());
        }
        let list = ProcessIds::parse(&records);
        assert_eq!((list.level, list.namespace), (2, 0xffff_8880_1234_5678));
        assert_eq!((list.root_of(77), list.root_of(1), list.root_of(4711)), (Some(4800), Some(4711), None));
        assert_eq!(ProcessIds::parse(&records[..47]).root_of(77), None);
    }

    #[test]
    fn root_namespace_does_not_translate_ids() {
        assert_eq!(ProcessIds::default().root_of(12), Some(12));
    }

    #[test]
    fn counts_namespace_levels_from_nspid() {
        assert_eq!(below_in("Name:\tx\nNSpid:\t4711\t12\t1\nNSsid:\t0\n"), Some(2));
        assert_eq!(below_in("NSpid:\t4711\n"), Some(0));
        assert_eq!((below_in("NSpid:\n"), below_in("")), (None, None));
    }
}
