//! The compiled BPF object and the C types of `bpf/events.h`, as the generated skeleton gives them.
//! Nothing is loaded here.

#[allow(clippy::all, clippy::pedantic, clippy::indexing_slicing, clippy::undocumented_unsafe_blocks)]
#[allow(clippy::unwrap_used, clippy::expect_used, unreachable_pub, unsafe_op_in_unsafe_fn, dead_code)]
#[allow(unused_imports)]
mod skeleton {
    include!(concat!(env!("OUT_DIR"), "/probes.skel.rs"));
}

pub(crate) use skeleton::types;

/// The object file that the skeleton was generated from.
pub(crate) static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/probes.bpf.o"));

/// `enum event_kind`.
pub(crate) mod kind {
    pub(crate) const FILE_OP: u32 = 1;
    pub(crate) const OFF_CPU: u32 = 2;
    pub(crate) const JOURNAL_COMMIT: u32 = 3;
    pub(crate) const BLOCK_IO: u32 = 4;
    pub(crate) const DIRTY_THROTTLE: u32 = 5;
    pub(crate) const FILE_PATH: u32 = 6;
    pub(crate) const RECLAIM: u32 = 20;
    pub(crate) const KERNEL_SPAN: u32 = 21;
    pub(crate) const SOCKET: u32 = 22;
    pub(crate) const TCP_TROUBLE: u32 = 23;
    pub(crate) const KERNEL_WAIT: u32 = 24;
    pub(crate) const WAKER_STACK: u32 = 25;
}

/// `enum block_flag`, and what stands for an operation.
pub(crate) mod block {
    pub(crate) const PREFLUSH: u16 = 1;
    pub(crate) const FUA: u16 = 2;
    pub(crate) const AHEAD: u16 = 4;
    pub(crate) const SYNC: u16 = 8;
    pub(crate) const META: u16 = 16;
    pub(crate) const OP_IN_RWBS: u16 = 0xffff;
}

/// `enum span_source`.
pub(crate) mod source {
    pub(crate) const FUNCTION: u8 = 0;
    pub(crate) const TRACEPOINTS: u8 = 1;
}

/// `enum lost_slot`.
pub(crate) mod lost {
    pub(crate) const RING_FULL: u32 = 0;
    pub(crate) const MAP_FULL: u32 = 1;
    pub(crate) const HEAD: u32 = 2;
    pub(crate) const STACK: u32 = 3;
    pub(crate) const MAPPING: u32 = 4;
}
