//! CPUs that were taken away from this machine. Does not know whom that held up.

use std::sync::Arc;

use crate::{Nanos, Tid};

row! {
    cpu_gap_row =>
    /// A time in which a CPU ran nothing of this machine, or only for a part of it.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CpuGap {
        /// The CPU's timer interrupt before, on time.
        start: Nanos as "start_ns",
        /// The one that showed it.
        end: Nanos as "end_ns" => length: Nanos as "latency_ns" "From start to end.",
        /// How it shows.
        kind: CpuGapKind,
        /// The CPU's number.
        cpu: u32,
        /// CPUs that are looked at: all that were online when the recording of this began.
        cpus: u32,
        /// Steal time that the kernel counted for the CPU meanwhile; 0 where its hypervisor reports none.
        stolen: Nanos as "stolen_ns",
        /// The thread that was on the CPU, for a gap; none if it was idle.
        tid: Option<Tid>,
        /// Its name; empty if the CPU was idle.
        thread: Arc<str>,
    }
}

named! {
    /// How it shows that a CPU was taken away.
    pub enum CpuGapKind {
        /// Timer interrupts did not come for 30 ms or longer, and the CPU did not run meanwhile.
        Gap = "gap",
        /// They came, and the kernel counted steal time between them.
        Steal = "steal",
    }
}

lengths! {
    /// How long it was.
    CpuGap::length;
}
