//! Plaintext of a broker's TLS connections, from the agent in its JVM (`agent/`). The agent writes it into a ring of
//! records in shared memory; this turns it into segments, as if the connections were not encrypted.
//!
//! ```text
//! file:    4 KiB head, then the ring
//! head:    0 magic u64, 8 capacity u32, 16 nonce u64 | 64 head u64 | 128 tail u64, 136 !tail u64
//!          192 records dropped u64, 200 bytes dropped u64, 208 errors u64 | 256 beat u64, 264 order u32
//!          320 state u32, 324 length of its text u32, 328 text
//! record:  0 nonce ^ (position + 1) u64, 8 length u32, 12 flags u32, 16 connection u64, 24 offset in the stream u64
//!          32 begun ns u64, 40 ended ns u64, 48 thread u32, 52 local port u16, 54 remote port u16
//!          56 local address [u8; 16], 72 remote address [u8; 16], 88 bytes, padded to 8
//! ```
//!
//! Positions count bytes since the beginning; the first word of a record is written last. The ring is read with
//! `pread`, so that a truncated file is an error and not a signal, and a concurrent writer cannot change bytes that
//! were already checked.
//!
//! Fuzzed by: plaintext.

mod reads;

pub use reads::{SocketRead, SocketReads};

use std::fs::File;
use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{Ordering, fence};

use rustix::fs::{FallocateFlags, fallocate};

use crate::link::{Flags, Segment};
use crate::table::Table;

const MAGIC: u64 = 0x6273_636f_7065_0001;
const HEAD: u64 = 4_096;
const TAIL_AT: u64 = 128;
const DROPPED_AT: u64 = 192;
const BEAT_AT: u64 = 256;
const ORDER_AT: u64 = 264;
const STATE_AT: u64 = 320;
const MAX_TEXT: usize = 256;

const RECORD_HEAD: usize = 88;
const MAX_RECORD_BYTES: usize = 32 << 10;
/// Interval at which the agent is shown that the ring has a reader. Also holds during a long read. After 3 s without
/// it, the agent stops.
const BEAT_INTERVAL_NS: u64 = 100_000_000;
/// Bytes per read, large enough for any record; a multiple of 8.
const PIECE: usize = 256 << 10;
/// Bytes of the first read, when the amount is unknown; a multiple of 8.
const FIRST_PIECE: usize = 16 << 10;

/// Orders to the agent.
const COPY: u32 = 0;
const STOP: u32 = 1;
const PAUSE: u32 = 2;

/// Flags of a record.
const WRITTEN: u32 = 1;
const FRAME_START: u32 = 2;
const PADDING: u32 = 4;

/// Bytes that the broker read from a connection or wrote to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// The connection's number; a later one between the same ends has a different number.
    pub connection: u64,
    /// Whether the broker wrote them.
    pub is_written: bool,
    /// Whether a frame starts with them.
    pub is_frame_start: bool,
    /// Earlier bytes of this connection and direction, since the agent first saw it.
    pub offset: u64,
    /// When the broker's call that read or wrote them began and ended: `CLOCK_MONOTONIC`, nanoseconds.
    pub called_ns: (u64, u64),
    /// The calling thread, in the JVM's pid namespace; 0 if unknown.
    pub thread: u32,
    /// The broker's end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// The maximum age of a call when it is read.
const OLDEST_NS: u64 = 3_600_000_000_000;

impl Piece<'_> {
    /// When the call began and ended.
    /// A compromised broker can write any time, so it is clamped: not in the future, and not long ago.
    pub fn called_before(&self, now_ns: u64) -> (u64, u64) {
        let (start, end) = self.called_ns;
        let oldest = now_ns.saturating_sub(OLDEST_NS);
        let end = end.clamp(oldest, now_ns);
        (start.clamp(oldest, end), end)
    }
}

/// What the agent is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// It has not started.
    Silent,
    /// It is copying.
    Copies,
    /// It refused to copy, for this reason.
    Refused(String),
    /// It has stopped; the broker runs as before.
    Ended,
}

/// What an agent could not copy, and dropped because the ring was full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingLosses {
    /// Records.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Calls of which something could not be copied.
    pub errors: u64,
}

/// The reader's end of the ring.
#[derive(Debug)]
pub struct PlaintextRing {
    file: File,
    capacity: u64,
    nonce: u64,
    tail: u64,
    buffer: Vec<u8>,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    now_ns: fn() -> u64,
    /// When the agent was last shown that the ring has a reader.
    beat_ns: u64,
}

impl PlaintextRing {
    /// Creates an empty ring in a new file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(file: &File, capacity: u32, nonce: u64) -> io::Result<()> {
        file.set_len(HEAD + u64::from(capacity))?;
        file.write_all_at(&capacity.to_ne_bytes(), 8)?;
        file.write_all_at(&nonce.to_ne_bytes(), 16)?;
        publish(file, 0)?;
        file.write_all_at(&MAGIC.to_ne_bytes(), 0)
    }

    /// Reads a ring that was created with this capacity and nonce.
    /// The file's current contents are not trusted for them. `now_ns` is `CLOCK_MONOTONIC`.
    pub fn new(file: File, capacity: u32, nonce: u64, now_ns: fn() -> u64) -> Self {
        let capacity = u64::from(capacity);
        Self { file, capacity, nonce, tail: 0, buffer: Vec::new(), now_ns, beat_ns: 0 }
    }

    /// Tells the agent to stop.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn stop(&self) -> io::Result<()> {
        self.order(STOP)
    }

    /// Pauses or resumes copying.
    /// While paused, the broker still runs the agent's code, so a comparison of both shows what copying costs. Bytes
    /// that pass meanwhile are not counted as missing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn pause(&self, is_paused: bool) -> io::Result<()> {
        self.order(if is_paused { PAUSE } else { COPY })
    }

    fn order(&self, order: u32) -> io::Result<()> {
        self.file.write_all_at(&order.to_ne_bytes(), ORDER_AT)
    }

    /// Frees the memory of records that have been read; the file keeps its length.
    ///
    /// # Errors
    /// The file system does not support it.
    pub fn give_back(&self) -> io::Result<()> {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, how, HEAD, self.capacity)?)
    }

    /// The agent's state.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn state(&self) -> io::Result<AgentState> {
        let mut words = [[0; 4]; 2 + MAX_TEXT / 4];
        self.file.read_exact_at(words.as_flattened_mut(), STATE_AT)?;
        let [state, length, text @ ..] = &words;
        let text = || {
            let (text, _) = text.as_flattened().split_at(MAX_TEXT.min(u32::from_ne_bytes(*length) as usize));
            String::from_utf8_lossy(text).chars().filter(|c| !c.is_control()).collect()
        };
        Ok(match u32::from_ne_bytes(*state) {
            1 => AgentState::Copies,
            2 => AgentState::Refused(text()),
            3 => AgentState::Ended,
            _ => AgentState::Silent,
        })
    }

    /// What the agent has dropped so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn dropped(&self) -> io::Result<RingLosses> {
        let mut counts = [[0; 8]; 3];
        self.file.read_exact_at(counts.as_flattened_mut(), DROPPED_AT)?;
        let [records, bytes, errors] = counts.map(u64::from_ne_bytes);
        Ok(RingLosses { records, bytes, errors })
    }

    /// Passes the available records to `out`, at most one ring's worth. Keeps showing the agent that the ring has a
    /// reader. Returns the bytes that the records took.
    ///
    /// # Errors
    /// The file cannot be read, or contains something the agent never writes.
    pub fn read(&mut self, out: &mut dyn FnMut(&Piece<'_>)) -> io::Result<u64> {
        let begin = self.tail;
        beat(&self.file, &mut self.beat_ns, (self.now_ns)())?;
        let mut ahead = FIRST_PIECE;
        while self.tail - begin < self.capacity {
            let rest = self.capacity - self.tail % self.capacity;
            if rest < RECORD_HEAD as u64 {
                self.tail += rest;
                continue;
            }
            let length = (ahead as u64).min(rest) as usize;
            let (position, nonce) = (self.tail, self.nonce);
            let seen = self.fill(length)?;
            let whole = committed(seen, position, nonce, length as u64 == rest)?;
            if whole == 0 {
                // The record is longer than the bytes read, or there is none.
                if length < ahead || ahead >= PIECE || !is_committed(seen, position, nonce) {
                    break;
                }
                ahead = PIECE;
                continue;
            }
            // Everything written before the words just read must be visible from here on.
            fence(Ordering::Acquire);
            self.fill(whole)?;
            for piece in pieces(self.buffer.get(..whole).unwrap_or_default()) {
                out(&piece);
                beat(&self.file, &mut self.beat_ns, (self.now_ns)())?;
            }
            self.tail += whole as u64;
            publish(&self.file, self.tail)?;
            ahead = if whole > length / 2 { PIECE.min(2 * ahead) } else { FIRST_PIECE };
        }
        Ok(self.tail - begin)
    }

    /// Reads the next bytes in the ring.
    fn fill(&mut self, length: usize) -> io::Result<&[u8]> {
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        let buffer = self.buffer.get_mut(..length).unwrap_or_default();
        self.file.read_exact_at(buffer, HEAD + self.tail % self.capacity)?;
        Ok(buffer)
    }
}

/// Shows the agent that the ring has a reader, if that is due.
fn beat(file: &File, last_ns: &mut u64, now_ns: u64) -> io::Result<()> {
    if now_ns.saturating_sub(*last_ns) < BEAT_INTERVAL_NS {
        return Ok(());
    }
    *last_ns = now_ns;
    file.write_all_at(&now_ns.to_ne_bytes(), BEAT_AT)
}

/// Frees space up to a position.
/// The agent detects a number that is only half written, because its complement does not match.
fn publish(file: &File, tail: u64) -> io::Result<()> {
    let mut words = [0; 16];
    words[..8].copy_from_slice(&tail.to_ne_bytes());
    words[8..].copy_from_slice(&(!tail).to_ne_bytes());
    file.write_all_at(&words, TAIL_AT)
}

/// Bytes of whole records from `position` on; `reaches_end` says that the ring ends with the bytes.
fn committed(bytes: &[u8], position: u64, nonce: u64, reaches_end: bool) -> io::Result<usize> {
    let mut at = 0;
    while let Some(record) = bytes.get(at..).filter(|rest| rest.len() >= RECORD_HEAD) {
        if !is_committed(record, position + at as u64, nonce) {
            break;
        }
        if u32_at(record, 12) == Some(PADDING) && !reaches_end {
            break;
        }
        let Some(length) = record_length(record) else { return Err(invalid_record()) };
        match length {
            length if length <= record.len() => at += length,
            _ if reaches_end => return Err(invalid_record()),
            _ => break,
        }
    }
    Ok(at)
}

fn is_committed(record: &[u8], position: u64, nonce: u64) -> bool {
    u64_at(record, 0) == Some(nonce ^ (position + 1))
}

/// A record's length; `None` for one that no agent writes.
fn record_length(record: &[u8]) -> Option<usize> {
    let (length, flags) = (u32_at(record, 8)? as usize, u32_at(record, 12)?);
    if flags == PADDING {
        // Padding extends to the end of the ring, where the bytes end as well: no other record fits.
        return Some(record.len());
    }
    (length <= MAX_RECORD_BYTES).then_some((RECORD_HEAD + length).next_multiple_of(8))
}

/// The pieces in whole records. They may have been overwritten since they were found to be whole.
fn pieces(mut bytes: &[u8]) -> impl Iterator<Item = Piece<'_>> {
    std::iter::from_fn(move || {
        loop {
            let record = bytes;
            bytes = record.get(record_length(record)?..)?;
            if u32_at(record, 12)? != PADDING {
                return piece(record);
            }
        }
    })
}

fn piece(record: &[u8]) -> Option<Piece<'_>> {
    let flags = u32_at(record, 12)?;
    let length = u32_at(record, 8)? as usize;
    Some(Piece {
        connection: u64_at(record, 16)?,
        is_written: flags & WRITTEN != 0,
        is_frame_start: flags & FRAME_START != 0,
        offset: u64_at(record, 24)?,
        called_ns: (u64_at(record, 32)?, u64_at(record, 40)?),
        thread: u32_at(record, 48)?,
        local: SocketAddr::new(address_at(record, 56)?, u16_at(record, 52)?),
        remote: SocketAddr::new(address_at(record, 72)?, u16_at(record, 54)?),
        bytes: record.get(RECORD_HEAD..RECORD_HEAD + length)?,
    })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn address_at(bytes: &[u8], at: usize) -> Option<IpAddr> {
    let address: [u8; 16] = *bytes.get(at..)?.first_chunk()?;
    Some(Ipv6Addr::from(address).to_canonical())
}

fn invalid_record() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the ring has what the agent never writes")
}

/// Multiplier that spreads consecutive numbers far apart. From Knuth's multiplicative hash.
const SPREAD: u32 = 0x9e37_79b1;

/// The connections of the pieces.
pub(crate) struct PlaintextConnections(Table<(SocketAddr, SocketAddr), StreamPosition>);

/// Where the streams of a connection's two directions continue.
struct StreamPosition {
    id: u64,
    /// The sequence number of each direction's first byte; differs from that of the previous connection.
    base: u32,
    has_begun: bool,
    read: u32,
    written: u32,
}

impl PlaintextConnections {
    pub(crate) fn new(limit: usize) -> Self {
        Self(Table::new(limit))
    }

    /// The segments that would have carried a piece. They are at the start and at the end of its call. None for a
    /// client's connection before the start of a request: nothing says where in a frame the bytes are.
    pub(crate) fn segments<'p>(&mut self, piece: &Piece<'p>, is_broker: bool) -> PieceSegments<'p> {
        let ends = (piece.local, piece.remote);
        if self.0.touch(&ends).is_none_or(|followed| followed.id != piece.connection) {
            let base = (piece.connection as u32).wrapping_mul(SPREAD);
            let new = StreamPosition {
                id: piece.connection,
                base,
                has_begun: !is_broker,
                read: base,
                written: base,
            };
            self.0.remove(&ends);
            self.0.insert(ends, new);
        }
        let Some(followed) = self.0.touch(&ends) else { return PieceSegments::default() };
        let begins = !followed.has_begun && piece.is_frame_start && !piece.is_written;
        followed.has_begun |= begins;
        let mut segments = PieceSegments::default();
        let offset = followed.base.wrapping_add(piece.offset as u32);
        if begins {
            segments.opening = opening(piece, offset, followed.written);
        }
        let end = offset.wrapping_add(piece.bytes.len() as u32);
        let other = if piece.is_written {
            followed.written = end;
            followed.read
        } else {
            followed.read = end;
            followed.written
        };
        if followed.has_begun {
            let (first, rest) = piece.bytes.split_at(1.min(piece.bytes.len()));
            let of = |bytes, seq| segment(piece, Flags::ACK, (seq, other), bytes);
            segments.at_start = Some(of(first, offset));
            segments.at_end = (!rest.is_empty()).then(|| of(rest, offset.wrapping_add(1)));
        }
        segments
    }
}

/// The segments that would have carried a piece.
#[derive(Default)]
pub(crate) struct PieceSegments<'p> {
    /// Segments that would have opened the connection.
    pub(crate) opening: [Option<Segment<'p>>; 2],
    /// Its first byte, at the start of the call.
    pub(crate) at_start: Option<Segment<'p>>,
    /// The other bytes, at the end of the call.
    pub(crate) at_end: Option<Segment<'p>>,
}

/// A client's SYN and the broker's, so that the next bytes of both are the first.
fn opening<'p>(piece: &Piece<'p>, read: u32, written: u32) -> [Option<Segment<'p>>; 2] {
    let (read, written) = (read.wrapping_sub(1), written.wrapping_sub(1));
    let syn = segment(piece, Flags::SYN, (read, 0), &[]);
    let answer = Segment {
        src: piece.local,
        dst: piece.remote,
        ..segment(piece, Flags::SYN | Flags::ACK, (written, read.wrapping_add(1)), &[])
    };
    [Some(syn), Some(answer)]
}

fn segment<'p>(piece: &Piece<'p>, flags: Flags, (seq, ack): (u32, u32), payload: &'p [u8]) -> Segment<'p> {
    let (src, dst) = if piece.is_written { (piece.local, piece.remote) } else { (piece.remote, piece.local) };
    Segment { src, dst, seq, ack, flags, payload, missing: 0 }
}

/// For fuzzing: passes on the pieces in a ring of any bytes, both those that look committed and all of them.
#[doc(hidden)]
pub fn fuzz_ring(bytes: &[u8], nonce: u64, out: &mut dyn FnMut(&Piece<'_>)) {
    let bytes = bytes.get(..PIECE).unwrap_or(bytes);
    let mut read_once = |bytes: &[u8]| {
        let mut read = 0;
        pieces(bytes).for_each(|piece| {
            read += piece.bytes.len();
            out(&piece);
        });
        assert!(read <= bytes.len(), "no byte is read twice");
    };
    for reaches_end in [false, true] {
        if let Ok(length) = committed(bytes, 0, nonce, reaches_end) {
            read_once(bytes.get(..length).unwrap_or_default());
        }
    }
    read_once(bytes);
}

#[cfg(test)]
mod tests;
