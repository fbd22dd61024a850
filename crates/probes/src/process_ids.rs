//! Process ids where this process is in a pid namespace of its own: its `/proc` shows the namespace's, the kernel's
//! programs go by the root namespace's. An iterator over tasks tells both; which ones are then shown for threads is
//! `bpf/process_ids.h`'s business.

use std::collections::HashMap;
use std::fs;
use std::io::Read as _;

use libbpf_rs::{Iter, ObjectBuilder};

use crate::error::Error;
use crate::session;

#[allow(clippy::all, clippy::pedantic, clippy::indexing_slicing, clippy::undocumented_unsafe_blocks)]
#[allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub, unsafe_op_in_unsafe_fn, dead_code)]
#[allow(unused_imports)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/process_list.skel.rs"));
}

use skeleton::types;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/process_list.bpf.o"));
const RECORD_BYTES: usize = size_of::<types::process_ids>();
/// More processes than a host has (`PID_MAX_LIMIT`, `include/linux/threads.h`).
const MOST_BYTES: u64 = (4 << 20) * RECORD_BYTES as u64;

const _: () = {
    assert!(RECORD_BYTES == 24);
    assert!(size_of::<types::process_list_settings>() == 4);
    assert!(std::mem::offset_of!(types::rodata, settings) == 0);
};

/// The processes that this one's `/proc` shows, by both their ids.
#[derive(Debug, Default)]
pub(crate) struct ProcessIds {
    /// How many levels the namespace of these ids is below the root one; 0 where both ids are the same.
    pub(crate) level: u32,
    /// Where the kernel keeps that namespace.
    pub(crate) namespace: u64,
    roots: HashMap<u32, u32>,
}

impl ProcessIds {
    /// Asks the kernel, if this process is not in the root namespace.
    pub(crate) fn of_this_host() -> Result<Self, Error> {
        if in_root_namespace() {
            return Ok(Self::default());
        }
        let below = namespaces_below_proc().ok_or(Error::ForeignProc)?;
        let list = Self::parse(&read_list(below)?);
        // This very process is always in it.
        if list.roots.is_empty() { Err(Error::ForeignProc) } else { Ok(list) }
    }

    /// The id that the kernel's programs see of a process.
    pub(crate) fn root_of(&self, pid: u32) -> Option<u32> {
        if self.level == 0 { Some(pid) } else { self.roots.get(&pid).copied() }
    }

    fn parse(records: &[u8]) -> Self {
        let mut list = Self::default();
        for record in records.chunks_exact(RECORD_BYTES) {
            let word = |at: usize| Some(u32::from_ne_bytes(record.get(at..at + 4)?.try_into().ok()?));
            let long = |at: usize| Some(u64::from_ne_bytes(record.get(at..at + 8)?.try_into().ok()?));
            let (Some(namespace), Some(level)) = (long(0), word(8)) else { continue };
            let (Some(root), Some(shown)) = (word(12), word(16)) else { continue };
            (list.namespace, list.level) = (namespace, level);
            list.roots.insert(shown, root);
        }
        list
    }
}

/// The root pid namespace's inode number is fixed (`PROC_PID_INIT_INO`, `include/linux/proc_ns.h`).
fn in_root_namespace() -> bool {
    fs::read_link("/proc/self/ns/pid").is_ok_and(|link| link.as_os_str() == "pid:[4026531836]")
}

/// How many namespaces this process is below the one whose ids its `/proc` shows; none where it is not in it.
fn namespaces_below_proc() -> Option<u32> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    below_in(&status)
}

/// `NSpid:` lists a process's ids from the namespace of that `/proc` to its own (`fs/proc/array.c`).
fn below_in(status: &str) -> Option<u32> {
    let ids = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    u32::try_from(ids.split_whitespace().count()).ok()?.checked_sub(1)
}

fn read_list(below: u32) -> Result<Vec<u8>, Error> {
    session::catch_log();
    let refused = |source| Error::Load { source, log: session::take_log() };
    let mut builder = ObjectBuilder::default();
    let opened = builder.name("brokerscope_ids").and_then(|builder| builder.open_memory(OBJECT));
    let mut opened = opened.map_err(refused)?;
    let constants = opened.maps_mut().find(|map| map.name().to_string_lossy().ends_with(".rodata"));
    let no_map = || Error::NoSuchPart { what: "map", name: "of settings".to_owned() };
    let mut constants = constants.ok_or_else(no_map)?;
    let room = constants.initial_value_mut().and_then(|bytes| bytes.get_mut(..4)).ok_or_else(no_map)?;
    room.copy_from_slice(&below.to_ne_bytes());
    let object = opened.load().map_err(refused)?;
    let link = session::program(&object, "list_processes")?.attach().map_err(refused)?;
    let mut records = Vec::new();
    let list = Iter::new(&link).map_err(refused)?;
    list.take(MOST_BYTES).read_to_end(&mut records).map_err(Error::Read)?;
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::{ProcessIds, below_in};

    #[test]
    fn both_ids_are_read_and_a_cut_record_is_none() {
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
    fn in_the_root_namespace_an_id_is_itself() {
        assert_eq!(ProcessIds::default().root_of(12), Some(12));
    }

    #[test]
    fn a_proc_of_a_namespace_above_shows_several_ids() {
        assert_eq!(below_in("Name:\tx\nNSpid:\t4711\t12\t1\nNSsid:\t0\n"), Some(2));
        assert_eq!(below_in("NSpid:\t4711\n"), Some(0));
        assert_eq!((below_in("NSpid:\n"), below_in("")), (None, None));
    }
}
