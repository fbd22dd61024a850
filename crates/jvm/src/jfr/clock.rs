//! A chunk's clock on another: ticks of the JVM to the recording's time. Does not read clocks.
//!
//! A chunk's header has one reading of both of the JVM's clocks, taken one after the other when the chunk began: UTC
//! (`clock_gettime(CLOCK_REALTIME)`; JDK 11: whole milliseconds) and ticks. Ticks are `CLOCK_MONOTONIC` less a number
//! that only the JVM knows where a second has 1,000,000,000 of them (`os::elapsed_counter`), and then they run as the
//! recording's clock does; else they are the processor's time stamp counter, at a frequency that the JVM takes for exact
//! (`rdtsc_x86.cpp`) and that the kernel, disciplined by NTP, may see some millionths off.

use model::Nanos;
use model::clock::{ClockOffset, ClockPair};

use super::Header;

/// From a chunk's ticks to the recording's time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    header: Header,
    shift_ns: i64,
}

impl Clock {
    /// The clock of a file: UTC as the JVM saw it when the chunk began.
    pub fn of_file(header: Header) -> Self {
        Self { header, shift_ns: 0 }
    }

    /// The clock of a chunk that is being recorded on this machine: the wall clock's steps since the recording's start
    /// are taken out, given both clocks at a moment near the chunk's beginning. Exact to how far the wall clock was moved
    /// between the two.
    pub fn live(header: Header, offset: ClockOffset, near: ClockPair) -> Self {
        let shift_ns = offset.from_realtime(header.start_ns, near).0.saturating_sub(header.start_ns);
        Self { header, shift_ns }
    }

    /// A tick on the recording's clock.
    pub fn at(&self, ticks: u64) -> Nanos {
        Nanos(self.header.utc_ns(ticks).saturating_add(self.shift_ns))
    }

    /// When the chunk began, by the JVM's wall clock.
    pub(super) fn start_ns(&self) -> i64 {
        self.header.start_ns
    }

    /// How far the header says that the chunk goes.
    pub(super) fn end(&self) -> Nanos {
        let length_ns = i64::try_from(self.header.duration_ns).unwrap_or(i64::MAX);
        Nanos(self.header.start_ns.saturating_add(self.shift_ns).saturating_add(length_ns))
    }

    /// A number of ticks as a length.
    pub fn length(&self, ticks: i64) -> Nanos {
        Nanos(self.header.length_ns(ticks))
    }
}
