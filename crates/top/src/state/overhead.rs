//! What watching costs. Does not measure it.

/// What this process takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Overhead {
    /// Processor time since it was measured last, in processors.
    pub processors: f64,
    /// Memory that is resident, in bytes.
    pub resident_bytes: u64,
}
