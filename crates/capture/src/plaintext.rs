//! What a broker's TLS connections carry, as the agent in its JVM (`agent/`) hands it over: a ring of records in memory that both
//! have open, the agent as the writer. Makes segments of it, as if the connections were not encrypted.
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
//! Positions count bytes since the beginning; the first word of a record is written last. The ring is read by `pread`, so that a
//! file that is cut short is an error and not a signal, and who writes while it is read changes nothing that was checked.
//!
//! Fuzzed by: plaintext.

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
/// How often the agent is shown that somebody reads, also while a full ring is read: after 3 s without it, it stops.
const BEAT_INTERVAL_NS: u64 = 100_000_000;
/// Read at once, and at first, when it is not known how much there is; multiples of 8, the former with room for any record.
const PIECE: usize = 256 << 10;
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
    /// The connection's number; another one between the same ends has another.
    pub connection: u64,
    /// Whether the broker wrote them.
    pub is_written: bool,
    /// Whether a frame begins with them.
    pub is_frame_start: bool,
    /// Bytes of this connection and direction before them, since the agent first saw it.
    pub offset: u64,
    /// When the broker's call for them began, and ended: `CLOCK_MONOTONIC`, nanoseconds.
    pub called_ns: (u64, u64),
    /// The thread that called, in the JVM's pid namespace; 0 if it is not known.
    pub thread: u32,
    /// The broker's end.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// No call is older when it is read.
const OLDEST_NS: u64 = 3_600_000_000_000;

impl Piece<'_> {
    /// When the call began and ended. A broker that was taken over may say anything: not after now, and not long ago.
    pub fn called_before(&self, now_ns: u64) -> (u64, u64) {
        let (begun, ended) = self.called_ns;
        let oldest = now_ns.saturating_sub(OLDEST_NS);
        let ended = ended.clamp(oldest, now_ns);
        (begun.clamp(oldest, ended), ended)
    }
}

/// What an agent does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentState {
    /// It has not begun.
    Silent,
    /// It copies.
    Copies,
    /// It does not, and why.
    Refused(String),
    /// It has stopped; the broker runs as before.
    Ended,
}

/// What an agent had no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingLosses {
    /// Records.
    pub records: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Calls of which something could not be copied.
    pub errors: u64,
}

/// The reader's end.
#[derive(Debug)]
pub struct PlaintextRing {
    file: File,
    capacity: u64,
    nonce: u64,
    tail: u64,
    buffer: Vec<u8>,
    /// `CLOCK_MONOTONIC`, nanoseconds.
    now_ns: fn() -> u64,
    /// When the agent was last shown that somebody reads.
    beat_ns: u64,
}

impl PlaintextRing {
    /// Makes an empty ring of a new file.
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

    /// Reads a ring that was made with this capacity and nonce: what the file says by now is another's word. `now_ns` is
    /// `CLOCK_MONOTONIC`.
    pub fn new(file: File, capacity: u32, nonce: u64, now_ns: fn() -> u64) -> Self {
        let capacity = u64::from(capacity);
        Self { file, capacity, nonce, tail: 0, buffer: Vec::new(), now_ns, beat_ns: 0 }
    }

    /// Has the agent stop.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn stop(&self) -> io::Result<()> {
        self.order(STOP)
    }

    /// Has the agent copy nothing for a while, or go on: the broker then runs the agent's code all the same, so that the two tell
    /// what copying costs. What passes meanwhile is not counted as missing.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn pause(&self, is_to_pause: bool) -> io::Result<()> {
        self.order(if is_to_pause { PAUSE } else { COPY })
    }

    fn order(&self, order: u32) -> io::Result<()> {
        self.file.write_all_at(&order.to_ne_bytes(), ORDER_AT)
    }

    /// Gives back the memory of what has been read; the file stays as long as it was.
    ///
    /// # Errors
    /// The file system cannot do it.
    pub fn give_back(&self) -> io::Result<()> {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        Ok(fallocate(&self.file, how, HEAD, self.capacity)?)
    }

    /// What the agent does.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn state(&self) -> io::Result<AgentState> {
        let mut said = [[0; 4]; 2 + MAX_TEXT / 4];
        self.file.read_exact_at(said.as_flattened_mut(), STATE_AT)?;
        let [state, length, text @ ..] = &said;
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

    /// What it had no room for so far.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn dropped(&self) -> io::Result<RingLosses> {
        let mut counts = [[0; 8]; 3];
        self.file.read_exact_at(counts.as_flattened_mut(), DROPPED_AT)?;
        let [records, bytes, errors] = counts.map(u64::from_ne_bytes);
        Ok(RingLosses { records, bytes, errors })
    }

    /// Hands over the records there are, at most as many as the ring holds, and shows the agent all the time that somebody reads.
    /// How many bytes they took.
    ///
    /// # Errors
    /// The file cannot be read, or has what the agent never writes.
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
                // A record that is longer than what was looked at, or none.
                if length < ahead || ahead >= PIECE || !is_committed(seen, position, nonce) {
                    break;
                }
                ahead = PIECE;
                continue;
            }
            // What was written before the words that were just seen is to be seen now.
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

    /// Reads what is next in the ring.
    fn fill(&mut self, length: usize) -> io::Result<&[u8]> {
        if self.buffer.len() < length {
            self.buffer.resize(length, 0);
        }
        let buffer = self.buffer.get_mut(..length).unwrap_or_default();
        self.file.read_exact_at(buffer, HEAD + self.tail % self.capacity)?;
        Ok(buffer)
    }
}

/// Shows the agent that somebody reads, if it is time to.
fn beat(file: &File, last_ns: &mut u64, now_ns: u64) -> io::Result<()> {
    if now_ns.saturating_sub(*last_ns) < BEAT_INTERVAL_NS {
        return Ok(());
    }
    *last_ns = now_ns;
    file.write_all_at(&now_ns.to_ne_bytes(), BEAT_AT)
}

/// Makes room up to a position. No agent takes a number for one that it sees half written, because its complement does not fit.
fn publish(file: &File, tail: u64) -> io::Result<()> {
    let mut words = [0; 16];
    words[..8].copy_from_slice(&tail.to_ne_bytes());
    words[8..].copy_from_slice(&(!tail).to_ne_bytes());
    file.write_all_at(&words, TAIL_AT)
}

/// How many bytes are whole records, from `position` on; `is_to_end` says that the ring ends with the bytes.
fn committed(bytes: &[u8], position: u64, nonce: u64, is_to_end: bool) -> io::Result<usize> {
    let mut at = 0;
    while let Some(record) = bytes.get(at..).filter(|rest| rest.len() >= RECORD_HEAD) {
        if !is_committed(record, position + at as u64, nonce) {
            break;
        }
        if u32_at(record, 12) == Some(PADDING) && !is_to_end {
            break;
        }
        let Some(length) = record_length(record) else { return Err(not_the_agents()) };
        match length {
            length if length <= record.len() => at += length,
            _ if is_to_end => return Err(not_the_agents()),
            _ => break,
        }
    }
    Ok(at)
}

fn is_committed(record: &[u8], position: u64, nonce: u64) -> bool {
    u64_at(record, 0) == Some(nonce ^ (position + 1))
}

/// How long a record is; none of one that no agent writes.
fn record_length(record: &[u8]) -> Option<usize> {
    let (length, flags) = (u32_at(record, 8)? as usize, u32_at(record, 12)?);
    if flags == PADDING {
        // To the end of the ring, which is where the bytes end: no other record fits.
        return Some(record.len());
    }
    (length <= MAX_RECORD_BYTES).then_some((RECORD_HEAD + length).next_multiple_of(8))
}

/// The pieces in whole records. They may have been written over since they were seen to be whole.
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

fn not_the_agents() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the ring has what the agent never writes")
}

/// Numbers that follow each other, multiplied by it, are far apart (Knuth's multiplicative hash).
const SPREAD: u32 = 0x9e37_79b1;

/// The connections that pieces came from.
pub(crate) struct PlaintextConnections(Table<(SocketAddr, SocketAddr), StreamPosition>);

/// One of them, of which each direction's stream goes on here.
struct StreamPosition {
    id: u64,
    /// The sequence number of the first byte of each direction: another one than the connection before had.
    base: u32,
    has_begun: bool,
    read: u32,
    written: u32,
}

impl PlaintextConnections {
    pub(crate) fn new(limit: usize) -> Self {
        Self(Table::new(limit))
    }

    /// The segments that would have carried a piece, and which of them come when its call began and which when it ended. None of
    /// a client's connection before the beginning of a request: nothing says where in a frame it is.
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
            segments.begun = Some(of(first, offset));
            segments.ended = (!rest.is_empty()).then(|| of(rest, offset.wrapping_add(1)));
        }
        segments
    }
}

/// The segments that would have carried a piece.
#[derive(Default)]
pub(crate) struct PieceSegments<'p> {
    /// Those that would have opened the connection.
    pub(crate) opening: [Option<Segment<'p>>; 2],
    /// Its first byte, when the call for it began.
    pub(crate) begun: Option<Segment<'p>>,
    /// The others, when that had ended.
    pub(crate) ended: Option<Segment<'p>>,
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

/// For fuzzing: hands over the pieces in a ring of any bytes, of those that look committed and of all.
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
    for is_to_end in [false, true] {
        if let Ok(length) = committed(bytes, 0, nonce, is_to_end) {
            read_once(bytes.get(..length).unwrap_or_default());
        }
    }
    read_once(bytes);
}

#[cfg(test)]
mod tests;
