//! Divides a recorder's memory limit among the buffers that grow with the load. Allocates nothing.

/// Limits of the buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// The ring for packets, filled by the kernel.
    pub capture_ring_bytes: usize,
    /// State of connections, and of requests until they are answered.
    pub connection_bytes: usize,
    /// The probes' ring, filled by the kernel: a power of two.
    pub probe_ring_bytes: u32,
    /// Events between the sources and the reader.
    pub queue_events: usize,
    /// Events buffered by a flight recorder.
    pub flight_bytes: usize,
}

/// The lowest limit: the fixed part of a recorder (code, kernel symbols, a table's columns while they are written) needs about as
/// much.
pub const MIN_MEMORY_BYTES: u64 = 96 << 20;
/// The default limit.
pub const DEFAULT_MEMORY_BYTES: u64 = 256 << 20;

/// A generous estimate for an event with its heap data.
const EVENT_BYTES: u64 = 512;
/// The fixed part, including columns that are being written.
const FIXED_BYTES: u64 = 48 << 20;
/// The minimum for connections.
const MIN_CONNECTION_BYTES: u64 = 16 << 20;

impl Memory {
    /// Divides a limit of at least [`MIN_MEMORY_BYTES`].
    /// The shares and the fixed part add up to less than the limit, because an allocator keeps more than is in use.
    pub fn within(ceiling: u64) -> Self {
        let shared = ceiling.max(MIN_MEMORY_BYTES) - FIXED_BYTES - MIN_CONNECTION_BYTES;
        let probe_ring = (shared / 32).clamp(1 << 20, 16 << 20);
        Self {
            capture_ring_bytes: (shared / 6).min(64 << 20) as usize,
            connection_bytes: (MIN_CONNECTION_BYTES + shared / 8) as usize,
            probe_ring_bytes: 1 << probe_ring.ilog2(),
            queue_events: (shared / 6 / EVENT_BYTES) as usize,
            flight_bytes: (shared / 2) as usize,
        }
    }

    /// Limit for rows that an event sink holds until they are written: half of the queue's share, because a table's rows are
    /// copied when they are encoded.
    pub fn waiting_bytes(&self) -> usize {
        self.queue_events.saturating_mul(EVENT_BYTES as usize) / 2
    }
}

impl Default for Memory {
    fn default() -> Self {
        Self::within(DEFAULT_MEMORY_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use super::{EVENT_BYTES, FIXED_BYTES, MIN_MEMORY_BYTES, Memory};

    #[test]
    fn memory_shares_stay_below_the_limit() {
        for ceiling in [MIN_MEMORY_BYTES, 100 << 20, 256 << 20, 1 << 30, 64 << 30] {
            let memory = Memory::within(ceiling);
            assert!(memory.probe_ring_bytes.is_power_of_two());
            let shares = memory.capture_ring_bytes as u64
                + memory.connection_bytes as u64
                + u64::from(memory.probe_ring_bytes)
                + memory.queue_events as u64 * EVENT_BYTES
                + memory.flight_bytes as u64;
            assert!(FIXED_BYTES + shares < ceiling, "{memory:?} of {ceiling}");
            assert!(memory.queue_events >= 8_192, "{memory:?}");
        }
    }
}
