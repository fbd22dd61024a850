//! The 68 bytes that a chunk begins with. Does not read anything else of it.
//!
//! ```text
//!  0  FLR\0                      40  nanoseconds it covers so far
//!  4  major, minor: 2 bytes each 48  ticks when it began
//!  8  size in bytes              56  ticks a second
//! 16  place of last checkpoint   64  generation: 0 finished, 255 this header is being written, else being recorded
//! 24  place of metadata          65  nothing
//! 32  UTC nanoseconds when it    66  flags: 1 integers are compressed, 2 the recording's last chunk
//!     began
//! ```
//! (`jfrChunk.cpp`, `jfrChunkWriter.cpp`; in JDK 11 bytes 64 to 67 are flags alone, so its chunks are finished.)
//! A JVM updates sizes and offsets after each flush, about once a second. It sets the generation to 255 before and to
//! another number after: a read is consistent if the generation is the same before and after it, and not 255.

use model::Nanos;
use model::clock::{ClockOffset, ClockPair};

use super::bytes::Bytes;
use super::error::{Error, ErrorKind};

/// The letters that a chunk begins with.
const MAGIC: &[u8] = b"FLR\0";

/// The size of the header.
pub(super) const SIZE_BYTES: u64 = 68;

/// The generation of a chunk that is complete.
const FINISHED: u8 = 0;

/// The generation of a header that is being written.
const UPDATING: u8 = 255;

/// A chunk's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How much of the chunk is complete, this header included; 0 if nothing is.
    pub size_bytes: u64,
    /// Offset of its metadata event in the chunk; 0 if none has been written.
    pub metadata_at: u64,
    /// UTC nanoseconds since 1970 at `start_ticks`.
    pub start_ns: i64,
    /// The time it covers, by the same clock.
    pub duration_ns: u64,
    /// The JVM's own clock when it began.
    pub start_ticks: u64,
    /// That clock's frequency.
    pub ticks_per_second: u64,
    /// Changes with each update.
    pub(super) generation: u8,
}

impl Header {
    /// Reads a header that begins at offset `at` of a file.
    ///
    /// # Errors
    /// There is no header, or one that this crate does not read.
    pub fn parse(bytes: &[u8], at: u64) -> Result<Self, Error> {
        let mut bytes = Bytes::new(bytes, at);
        if bytes.take(MAGIC.len()).map_err(|_| Error::new(ErrorKind::UnexpectedEnd, at))? != MAGIC {
            return Err(Error::new(ErrorKind::NotAChunk, at));
        }
        let major = bytes.u16()?;
        if !(1..=2).contains(&major) {
            return Err(Error::new(ErrorKind::UnknownVersion(major), at + 4));
        }
        bytes.u16()?;
        let size_bytes = bytes.u64()?;
        let _checkpoint_at = bytes.u64()?;
        let metadata_at = bytes.u64()?;
        let start_ns = bytes.u64()? as i64;
        let duration_ns = bytes.u64()?;
        let start_ticks = bytes.u64()?;
        let ticks_per_second = bytes.u64()?;
        let last = bytes.u32()?;
        if last & 1 == 0 {
            return Err(Error::new(ErrorKind::Uncompressed, at + 64));
        }
        let generation = (last >> 24) as u8;
        Ok(Self { size_bytes, metadata_at, start_ns, duration_ns, start_ticks, ticks_per_second, generation })
    }

    /// Whether nothing more will be written to the chunk.
    pub fn is_finished(&self) -> bool {
        self.generation == FINISHED
    }

    /// Whether the JVM is writing the header at this moment.
    pub(super) fn is_updating(&self) -> bool {
        self.generation == UPDATING
    }

    /// A tick of the JVM's clock as UTC nanoseconds, by this header alone. The JDK's own reader does the same.
    pub fn utc_ns(&self, ticks: u64) -> i64 {
        self.start_ns.saturating_add(self.length_ns(ticks.wrapping_sub(self.start_ticks) as i64))
    }

    /// A number of ticks in nanoseconds.
    pub fn length_ns(&self, ticks: i64) -> i64 {
        const SECOND_NS: u64 = 1_000_000_000;
        match self.ticks_per_second {
            0 | SECOND_NS => ticks,
            frequency => {
                let ns = i128::from(ticks) * i128::from(SECOND_NS) / i128::from(frequency);
                i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
            }
        }
    }
}

// Converts a chunk's clock: ticks of the JVM to the recording's time. Does not read clocks.
//
// A chunk's header has one reading of both of the JVM's clocks, taken one after the other when the chunk began: UTC
// (`clock_gettime(CLOCK_REALTIME)`; JDK 11: whole milliseconds) and ticks. If a second has 1,000,000,000 ticks, they
// are `CLOCK_MONOTONIC` less a number that only the JVM knows (`os::elapsed_counter`), and run at the rate of the
// recording's clock; else they are the processor's time stamp counter, at a frequency that the JVM assumes to be exact
// (`rdtsc_x86.cpp`) and that differs by some millionths from the kernel's, which NTP disciplines: a millisecond in a
// minute.
//
// A file is read by that alone, as the JDK does. While recording, each flush gives another reading of both: the JVM
// writes a checkpoint, whose start is in ticks, and within microseconds the length of the chunk by UTC
// (`JfrChunkWriter::flush_chunk`; measured: 1.1 to 1.6 µs apart, JDK 17). So a tick of the last second is off by the
// frequency's error over one second, plus the change if the wall clock was set between the flush and its reading.

/// More than the two clocks drift apart between flushes: the wall clock was set meanwhile.
const STEP_NS: u64 = 500_000;

/// Converts a chunk's ticks to the recording's time.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    header: Header,
    /// Correction to the time by the header alone.
    shift_ns: i64,
    live: Option<Live>,
}

/// The reference for a chunk's clock while it is recorded.
#[derive(Clone, Copy, Debug)]
struct Live {
    offset: ClockOffset,
    near: ClockPair,
    /// The length that the header had at the last reading.
    duration_ns: u64,
    /// A shift far from the current one, which the next reading confirms or not.
    candidate_ns: Option<i64>,
}

impl Clock {
    /// The clock of a file: UTC as the JVM saw it when the chunk began.
    pub fn of_file(header: Header) -> Self {
        Self { header, shift_ns: 0, live: None }
    }

    /// The clock of a chunk that is being recorded on this machine. Takes both clocks at this moment. Steps of the wall
    /// clock since the recording's start are removed.
    pub fn live(header: Header, offset: ClockOffset, near: ClockPair) -> Self {
        let live = Live { offset, near, duration_ns: 0, candidate_ns: None };
        let shift_ns = live.shift_ns(header.start_ns);
        Self { header, shift_ns, live: Some(live) }
    }

    /// A tick on the recording's clock.
    pub fn at(&self, ticks: u64) -> Nanos {
        Nanos(self.header.utc_ns(ticks).saturating_add(self.shift_ns))
    }

    /// A number of ticks as a length.
    pub fn length(&self, ticks: i64) -> Nanos {
        Nanos(self.header.length_ns(ticks))
    }

    /// When the chunk began, by the JVM's wall clock.
    pub(super) fn start_ns(&self) -> i64 {
        self.header.start_ns
    }

    /// The end of the chunk, by its header.
    pub(super) fn end(&self) -> Nanos {
        let length_ns = i64::try_from(self.header.duration_ns).unwrap_or(i64::MAX);
        Nanos(self.header.start_ns.saturating_add(self.shift_ns).saturating_add(length_ns))
    }

    /// Sets both clocks' readings of this moment.
    pub(super) fn set_near(&mut self, near: ClockPair) {
        if let Some(live) = &mut self.live {
            live.near = near;
        }
    }

    /// Adjusts to a flush of the chunk, whose newest checkpoint began at this tick.
    /// Ignores the last flush of a chunk: its length was read before.
    pub(super) fn on_flush(&mut self, header: &Header, ticks: u64) {
        let Some(live) = &mut self.live else { return };
        if header.is_finished() || header.duration_ns <= live.duration_ns || ticks <= header.start_ticks {
            return;
        }
        live.duration_ns = header.duration_ns;
        let utc_ns = self.header.start_ns.saturating_add_unsigned(header.duration_ns);
        let drift_ns = utc_ns.saturating_sub(self.header.utc_ns(ticks));
        let shift_ns = live.shift_ns(utc_ns).saturating_add(drift_ns);
        let is_near = |other: i64| other.abs_diff(shift_ns) <= STEP_NS;
        if is_near(self.shift_ns) || live.candidate_ns.is_some_and(is_near) {
            self.shift_ns = shift_ns;
            live.candidate_ns = None;
        } else {
            live.candidate_ns = Some(shift_ns);
        }
    }
}

impl Live {
    /// The shift from the JVM's wall clock at that moment to the recording's clock.
    fn shift_ns(&self, utc_ns: i64) -> i64 {
        self.offset.from_realtime(utc_ns, self.near).0.saturating_sub(utc_ns)
    }
}

#[cfg(test)]
mod clock_tests {
    use model::Nanos;
    use model::clock::{ClockOffset, ClockPair};

    use super::{Clock, Header};

    const SECOND_NS: u64 = 1_000_000_000;
    const UTC_NS: i64 = 1_700_000_000_000_000_000;

    fn header(seconds: u64, ticks_per_second: u64) -> Header {
        Header {
            size_bytes: 0,
            metadata_at: 0,
            start_ns: UTC_NS,
            duration_ns: seconds * SECOND_NS,
            start_ticks: 77,
            ticks_per_second,
            generation: 1,
        }
    }

    /// Both clocks after some seconds, with the wall clock set by `set_ns`.
    fn pair(seconds: u64, set_ns: i64) -> ClockPair {
        ClockPair {
            monotonic_ns: seconds * SECOND_NS,
            realtime_ns: UTC_NS + set_ns + (seconds * SECOND_NS) as i64,
        }
    }

    #[test]
    fn converts_ticks_of_another_frequency_to_nanoseconds() {
        let clock = Clock::of_file(header(0, 2_400_000_000));
        assert_eq!(clock.at(77 + 2_400_000_000 * 86_400), Nanos(UTC_NS + 86_400 * SECOND_NS as i64));
        assert_eq!(clock.length(24), Nanos(10));
        assert_eq!(clock.at(0), Nanos(UTC_NS - 32));
    }

    #[test]
    fn live_clock_corrects_a_wrong_counter_frequency() {
        let (nominal, real) = (2_400_000_000, 2_400_120_000);
        let mut clock = Clock::live(header(0, nominal), ClockOffset::at(pair(0, 0)), pair(0, 0));
        for second in 1..3600 {
            clock.set_near(pair(second, 0));
            clock.on_flush(&header(second, nominal), 77 + second * real);
            let event = clock.at(77 + second * real - real / 2);
            let off = event.0 - (UTC_NS + (second * SECOND_NS - SECOND_NS / 2) as i64);
            assert!(off.unsigned_abs() < 50_000, "{off} ns in second {second}");
        }
    }

    #[test]
    fn wall_clock_step_does_not_move_events() {
        let mut clock = Clock::live(header(0, SECOND_NS), ClockOffset::at(pair(0, 0)), pair(0, 0));
        let set_ns = 7_000_000_000;
        // Set after the flush and before it was read, then before the flush.
        for (second, flushed_ns, read_ns) in
            [(1, 0, 0), (2, 0, set_ns), (3, set_ns, set_ns), (4, set_ns, set_ns)]
        {
            let mut header = header(second, SECOND_NS);
            header.duration_ns = (header.duration_ns as i64 + flushed_ns) as u64;
            clock.set_near(pair(second, read_ns));
            clock.on_flush(&header, 77 + second * SECOND_NS);
            assert_eq!(clock.at(77 + second * SECOND_NS), Nanos(UTC_NS + (second * SECOND_NS) as i64));
        }
    }
}
