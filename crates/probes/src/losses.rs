//! Counts what the probes could not report. Does not know when: callers compare two readings.

/// Totals since the probes were attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Events for which the ring buffer had no room.
    pub ring_full: u64,
    /// Operations, commits or block requests not followed because a map was full.
    pub map_full: u64,
    /// Runs of a BPF program skipped because another one was running on that CPU. Kernels before 5.12 do not count
    /// them.
    pub skipped: u64,
    /// Writes reported without their head: the buffer could not be read.
    pub heads_unread: u64,
    /// Off-CPU intervals reported without their stack.
    pub stacks_missing: u64,
    /// Syncs of mapped files not reported, because the mapped file was not found.
    pub mappings_unseen: u64,
    /// Switches within calls on files whose off-CPU interval was not reported. Uses the kernel's count of switches.
    pub switches_unseen: u64,
    /// Records that user space could not decode.
    pub undecodable: u64,
}

impl Losses {
    /// Whether any event is missing entirely, not merely incomplete.
    pub fn has_lost_events(&self) -> bool {
        self.ring_full
            + self.map_full
            + self.skipped
            + self.mappings_unseen
            + self.switches_unseen
            + self.undecodable
            > 0
    }
}
