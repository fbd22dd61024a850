//! CPUs that were taken from this machine. Does not know which threads that delayed.

use std::sync::Arc;

use crate::{Nanos, Tid};

row! {
    cpu_gap_row =>
    /// A time in which a CPU ran nothing of this machine, for all or part of the time.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct CpuGap {
        /// The CPU's last timer interrupt that was on time.
        start: Nanos as "start_ns",
        /// The timer interrupt that revealed it.
        end: Nanos as "end_ns" => length: Nanos as "latency_ns" "From start to end.",
        /// How it was detected.
        kind: CpuGapKind,
        /// The CPU's number.
        cpu: u32,
        /// CPUs that are watched: all that were online when the watch for gaps began.
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
    /// How it was detected that a CPU was taken.
    pub enum CpuGapKind {
        /// No timer interrupt came for 30 ms or longer, and the CPU did not run meanwhile.
        Gap = "gap",
        /// They came, and the kernel counted steal time between them.
        Steal = "steal",
    }
}

lengths! {
    /// How long it lasted.
    CpuGap::length;
}
