//! Targets by name, and the harness that measures their memory. Does not know what they check.

use peak_alloc::PeakAlloc;

use crate::{
    analyzer, attach, batch, dump, fetch, frame, http, jfr, log, pcap, pcapng, plaintext, produce,
    reassembly, rows, segment, settings, symbols, tail,
};

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// Every target, by name.
pub const TARGETS: &[Target] = &[
    analyzer::TARGET,
    attach::TARGET,
    batch::TARGET,
    dump::TARGET,
    fetch::TARGET,
    frame::TARGET,
    http::TARGET,
    jfr::TARGET,
    log::TARGET,
    pcap::TARGET,
    pcapng::TARGET,
    plaintext::TARGET,
    produce::TARGET,
    reassembly::TARGET,
    #[cfg(feature = "recordings")]
    crate::recording::TARGET,
    rows::TARGET,
    segment::TARGET,
    settings::TARGET,
    #[cfg(feature = "stores")]
    crate::store::TARGET,
    symbols::TARGET,
    tail::TARGET,
];

/// One set of checks.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also of its binary and of its corpus folder.
    pub name: &'static str,
    /// The checks; a panic is a finding.
    pub check: fn(&[u8]),
    /// Memory that it may hold besides 256 bytes per byte of its input.
    pub spare_bytes: usize,
}

/// The worst ratio of memory to input: a frame of one-byte partitions, each with its row. More than this is memory that
/// the input requested and did not pay for.
const BYTES_PER_BYTE: usize = 256;

impl Target {
    /// Checks one input, and that its peak memory is in proportion to it. Not for two threads at once, because memory
    /// is counted over all of them.
    pub fn run(&self, data: &[u8]) {
        let before = ALLOCATOR.current_usage();
        ALLOCATOR.reset_peak_usage();
        (self.check)(data);
        let used = ALLOCATOR.peak_usage().saturating_sub(before);
        let bound = self.spare_bytes + BYTES_PER_BYTE * data.len();
        assert!(used <= bound, "{used} bytes of memory for {} bytes of input", data.len());
    }
}
