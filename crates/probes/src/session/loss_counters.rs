//! Reads what the programs count as lost, from memory that they share with this process.
//!
//! Not by system calls: as long as one looks into a map, no program on a classic tracepoint runs on that CPU
//! (`bpf_disable_instrumentation`, include/linux/bpf.h), and a reader may lose the CPU meanwhile to the very threads that it watches.

use std::mem::offset_of;
use std::sync::atomic::{AtomicU64, Ordering};

use libbpf_rs::{AsRawLibbpf as _, MapCore as _, Object, libbpf_sys};

use crate::bpf::types;

/// What a slot of `lost` counts so far; 0 where the object has none.
pub(super) fn count(object: &Object, slot: u32) -> u64 {
    let Some(map) = object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss")) else {
        return 0;
    };
    let at = offset_of!(types::bss, lost) + slot as usize * size_of::<u64>();
    let mut size = 0;
    // SAFETY: the map lives as long as the object, which is borrowed; libbpf has mapped its memory and says how much.
    let memory =
        unsafe { libbpf_sys::bpf_map__initial_value(map.as_libbpf_object().as_ptr(), &raw mut size) };
    if memory.is_null() || at + size_of::<u64>() > size as usize {
        return 0;
    }
    // SAFETY: within the mapping, which begins at a page; the counters are 64-bit words that the compiler of the programs
    // aligned, and both sides change and read them as such.
    unsafe { AtomicU64::from_ptr(memory.cast::<u8>().add(at).cast()) }.load(Ordering::Relaxed)
}

const _: () = assert!(offset_of!(types::bss, lost) % size_of::<u64>() == 0);
