//! Cuts a direction's bytes into frames, however they are chunked.
//! Knows neither headers nor bodies: a [`Direction`] reads those, and `body.rs` passes it bodies. `resync.rs` finds the
//! next frame when out of step, and handles missing bytes and bytes between frames; `tls.rs` recognizes TLS.

use std::ops::RangeInclusive;

use super::{FrameError, Protocol, Start, StreamCounts};
use crate::{Error, ErrorKind};

mod body;
mod resync;
mod tls;

/// After this many bytes without a frame, the stream counts as another protocol.
const GIVE_UP_BYTES: u64 = 1 << 20;
/// Larger buffers are freed at a frame's end.
const KEEP_BUFFER_BYTES: usize = 256 << 10;

/// How much a header is trusted in advance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scrutiny {
    /// It is where a frame must start, after valid frames.
    Synced,
    /// It is the first of its connection.
    First,
    /// It may be a SASL token.
    Token,
    /// It is a guess, but its frame would fill the chunk to its last byte.
    WholeChunk,
    /// It is a guess, after a frame that is also one.
    AfterGuess,
    /// It is a guess.
    Searching,
}

impl Scrutiny {
    /// Whether no frame is known to start there.
    pub(super) fn is_search(self) -> bool {
        matches!(self, Self::WholeChunk | Self::AfterGuess | Self::Searching)
    }
}

/// A size field and a header that have been read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opening {
    /// Bytes of both.
    pub(super) bytes: usize,
    /// The size field.
    pub(super) size: u32,
}

/// The bytes where a frame may start.
#[derive(Clone, Copy, Debug)]
pub(super) enum Head {
    /// Plausible so far; at least this many more bytes are needed.
    Incomplete(usize),
    /// Not a frame.
    Implausible,
    /// A frame.
    Complete(Opening),
}

/// The position of a frame.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<T> {
    pub(super) first: T,
    pub(super) stream_start: u64,
    pub(super) size: u32,
}

/// The missing part of a header.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Bytes of the frame that are missing there.
    pub(super) missing: u64,
}

/// A body decoder's progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// It used `bytes`, and does not need the next `skip` bytes.
    Used { bytes: usize, skip: u64 },
    /// It needs at least this many more bytes at once.
    More(usize),
    /// It does not need the rest of the frame.
    Rest,
}

/// The format-specific side of one direction: headers and bodies.
pub(super) trait Direction<T> {
    /// Judges the bytes at a possible start of a frame.
    fn head(&mut self, bytes: &[u8], scrutiny: Scrutiny) -> Head;
    /// Begins a frame; `head` contains its size field and header.
    fn begin(&mut self, head: &[u8], span: Span<T>);
    /// Like [`Self::begin`], for a frame whose header is cut off after `head`.
    /// Returns how many bytes belong to the header; `None` if they are too few to identify the frame.
    fn begin_cut(&mut self, head: &[u8], span: Span<T>, cut: Cut) -> Option<usize>;
    /// Reads on in the body. `left` counts the frame's bytes from the start of `bytes`, `at` those before.
    fn step(&mut self, bytes: &[u8], left: u64, at: usize) -> Step;
    /// Handles `n` missing bytes after `held`, the first bytes of what it needs next; `skip` of them would have been
    /// skipped. Returns how many bytes to skip after the gap.
    fn lost(&mut self, n: u64, held: &[u8], skip: u64) -> u64;
    /// Ends the frame.
    fn end(&mut self, last: T);
    /// The slot for the error of the frame as a whole; `None` without a frame.
    fn error(&mut self) -> Option<&mut Option<FrameError>>;
    /// Whether any part of the frame could not be decoded.
    fn is_damaged(&self) -> bool;
    /// Whether raw SASL tokens follow the frame.
    fn precedes_tokens(&self) -> bool;
    /// Whether the body is specific enough to prove the frame. Other bytes would not have passed as it.
    fn proves(&self) -> bool;

    /// Whether a plausible next header does not confirm it. Other bytes resemble its header too often for that.
    fn needs_proof(&self) -> bool {
        false
    }

    /// Reports an error of the frame as a whole. The first error wins.
    fn fail(&mut self, error: FrameError) {
        if let Some(first) = self.error() {
            first.get_or_insert(error);
        }
    }

    /// Reports that the frame is `missing` bytes too short for the next element. The frame ends at `at`.
    fn truncated(&mut self, missing: usize, at: usize) {
        self.fail(FrameError::Malformed(Error::new(ErrorKind::UnexpectedEnd(missing), at)));
    }

    /// Whether the frame's bytes violate the protocol. A version that is unknown here may be newer.
    fn is_refuted(&mut self) -> bool {
        let Some(Some(FrameError::Malformed(error))) = self.error() else { return false };
        !matches!(error.kind, ErrorKind::UnsupportedVersion(_))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// At the start of a frame.
    Head,
    /// After a header.
    Body,
    /// In a frame that is skipped by its size.
    Pass,
    /// Searching for a frame.
    Hunt,
    /// Nothing can be read.
    Tls,
}

/// How certain the positions of frames are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trust {
    /// The current position follows from valid frames.
    InStep,
    /// The current frame, if there is one, is a guess.
    Trial,
    /// A guess was read to its end and waits for the bytes after it.
    Held,
}

/// How a step of [`Framing::advance`] continues.
enum Flow {
    Continue,
    /// All bytes are used.
    Wait,
    /// A frame is ready to be returned.
    Frame,
}

/// The bytes of one call, and how many have been used.
struct Chunk<'a, T> {
    bytes: &'a [u8],
    used: usize,
    at: T,
}

impl<'a, T> Chunk<'a, T> {
    fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.used..).unwrap_or_default()
    }

    fn is_used_up(&self) -> bool {
        self.used >= self.bytes.len()
    }
}

/// The state of one direction's frames.
pub(super) struct Framing<T> {
    /// Offset of the stream's first byte, and of the current call's.
    first: u64,
    position: u64,
    state: State,
    trust: Trust,
    /// The first bytes of the next element, and how many are needed to continue.
    carry: Vec<u8>,
    want: usize,
    /// The stamp of each byte in `carry` while at a head.
    stamps: Vec<T>,
    /// The current frame: bytes to come, how many of them to skip, bytes before.
    left: u64,
    skip: u64,
    at: usize,
    frame_start: u64,
    /// The stamp of its last byte. Set if that byte was already carried when the header was found.
    carried_last: Option<T>,
    /// For a frame on trial, or the carried header: whether it starts a chunk, and where it starts in the current call.
    starts_chunk: bool,
    origin: Option<usize>,
    /// Whether the next call continues a chunk.
    mid_chunk: bool,
    /// Where the current search started, and how many bytes were lost since.
    hunt_from: u64,
    hunt_lost: u64,
    /// How many of them precede the current frame: they do not count as skipped.
    lost_before_frame: u64,
    /// Whether a SASL token may be where a frame should start.
    expects_tokens: bool,
    tls: tls::TlsTrail,
    counts: StreamCounts,
}

impl<T: Copy> Framing<T> {
    pub(super) fn new(start: Start) -> Self {
        let in_step = start == Start::Boundary;
        Self {
            first: 0,
            position: 0,
            state: if in_step { State::Head } else { State::Hunt },
            trust: if in_step { Trust::InStep } else { Trust::Trial },
            carry: Vec::new(),
            want: 0,
            stamps: Vec::new(),
            left: 0,
            skip: 0,
            at: 0,
            frame_start: 0,
            carried_last: None,
            starts_chunk: false,
            origin: None,
            mid_chunk: false,
            hunt_from: 0,
            hunt_lost: 0,
            lost_before_frame: 0,
            expects_tokens: false,
            tls: tls::TlsTrail::default(),
            counts: StreamCounts::default(),
        }
    }

    /// Starts over at a frame's first byte with this offset, reusing the buffers.
    pub(super) fn restart(&mut self, offset: u64) {
        self.drop_carry();
        let (carry, stamps) = (std::mem::take(&mut self.carry), std::mem::take(&mut self.stamps));
        *self = Self { carry, stamps, ..Self::new(Start::Boundary) };
        self.begin_at(offset);
    }

    /// Sets the offset of the first byte.
    pub(super) fn begin_at(&mut self, offset: u64) {
        self.first = offset;
        self.position = offset;
        self.hunt_from = offset;
    }

    pub(super) fn counts(&self) -> StreamCounts {
        let mut counts = self.counts;
        if !self.in_step() && self.state != State::Pass {
            counts.skipped_bytes += self.position.saturating_sub(self.hunt_from + self.hunt_lost);
        }
        counts
    }

    /// Memory of the buffered bytes.
    pub(super) fn kept_bytes(&self) -> usize {
        self.carry.capacity() + self.stamps.capacity() * size_of::<T>()
    }

    /// Whether it is in step, and nothing of the next frame has come.
    pub(super) fn is_between_frames(&self) -> bool {
        self.state == State::Head && self.in_step() && self.carry.is_empty() && !self.expects_tokens
    }

    /// Whether nothing since the last frame looks like the next one.
    pub(super) fn is_searching(&self) -> bool {
        self.state == State::Hunt
    }

    /// Frees buffers, unless a frame that will be returned has begun; returns whether it freed them.
    pub(super) fn release_buffers(&mut self) -> bool {
        let is_between_frames = self.state != State::Body && !self.held();
        if is_between_frames && self.carry.is_empty() {
            (self.carry, self.stamps) = (Vec::new(), Vec::new());
        }
        is_between_frames
    }

    pub(super) fn protocol(&self) -> Protocol {
        // A frame on trial may be a large one: the searched bytes end where it starts.
        let on_trial = matches!(self.state, State::Head | State::Body);
        let searched = if on_trial { self.frame_start } else { self.position };
        let known = self.counts.frames > 0 || (self.state == State::Body && self.in_step());
        match self.state {
            State::Tls => Protocol::Tls,
            _ if known => Protocol::Kafka,
            _ if !self.in_step() && searched.saturating_sub(self.hunt_from) > GIVE_UP_BYTES => {
                Protocol::Other
            }
            _ => Protocol::Unknown,
        }
    }

    /// Uses bytes up to the end of a frame. Returns how many, and whether a frame is ready.
    pub(super) fn advance(
        &mut self,
        direction: &mut impl Direction<T>,
        bytes: &[u8],
        at: T,
    ) -> (usize, bool) {
        let mut chunk = Chunk { bytes, used: 0, at };
        self.origin = None;
        if self.counts.frames == 0 && self.state == State::Hunt && self.tls.follow(self.position, bytes) {
            self.state = State::Tls;
            self.drop_carry();
        }
        let frame = loop {
            let flow = match self.state {
                State::Head => self.head(direction, &mut chunk),
                State::Body => self.body(direction, &mut chunk),
                State::Pass => self.pass(direction, &mut chunk),
                State::Hunt => self.hunt(direction, &mut chunk),
                State::Tls => {
                    chunk.used = bytes.len();
                    Flow::Wait
                }
            };
            match flow {
                Flow::Continue => {}
                Flow::Wait => break false,
                Flow::Frame => break true,
            }
        };
        self.position += chunk.used as u64;
        self.mid_chunk = frame && !chunk.is_used_up();
        if frame {
            self.count_frame(direction);
        }
        (chunk.used, frame)
    }

    fn count_frame(&mut self, direction: &impl Direction<T>) {
        self.counts.frames += 1;
        self.counts.undecodable += u64::from(direction.is_damaged());
    }

    fn in_step(&self) -> bool {
        self.trust == Trust::InStep
    }

    fn held(&self) -> bool {
        self.trust == Trust::Held
    }

    fn scrutiny(&self) -> Scrutiny {
        if self.held() {
            Scrutiny::AfterGuess
        } else if !self.in_step() {
            Scrutiny::Searching
        } else if self.expects_tokens {
            Scrutiny::Token
        } else if self.counts.frames == 0 {
            Scrutiny::First
        } else {
            Scrutiny::Synced
        }
    }

    fn head(&mut self, direction: &mut impl Direction<T>, chunk: &mut Chunk<'_, T>) -> Flow {
        if self.carry.is_empty() {
            let rest = chunk.rest();
            if rest.is_empty() {
                return Flow::Wait;
            }
            // Most headers are in one chunk and need no copy.
            match direction.head(rest, self.scrutiny()) {
                Head::Complete(opening) if !self.held() => {
                    self.begin_in_chunk(direction, chunk, opening);
                    return Flow::Continue;
                }
                Head::Complete(opening) => self.want = opening.bytes,
                Head::Incomplete(missing) => self.want = rest.len() + missing,
                Head::Implausible => return self.implausible(chunk),
            }
        }
        loop {
            self.fill_head(chunk);
            if self.carry.len() < self.want {
                return Flow::Wait;
            }
            match direction.head(&self.carry, self.scrutiny()) {
                Head::Complete(_) if self.held() => {
                    self.confirm();
                    return Flow::Frame;
                }
                Head::Complete(opening) => {
                    self.begin_in_carry(direction, chunk, 0, opening);
                    return Flow::Continue;
                }
                Head::Incomplete(missing) => self.want = self.carry.len() + missing,
                Head::Implausible => return self.implausible(chunk),
            }
        }
    }

    /// Moves bytes of the chunk to the carried header until `want` bytes are there.
    fn fill_head(&mut self, chunk: &mut Chunk<'_, T>) {
        let needed = self.want.saturating_sub(self.carry.len());
        let rest = chunk.rest();
        let taken = rest.get(..needed).unwrap_or(rest);
        self.carry.extend_from_slice(taken);
        self.stamps.resize(self.carry.len(), chunk.at);
        chunk.used += taken.len();
    }

    fn drop_carry(&mut self) {
        self.carry.clear();
        self.stamps.clear();
        self.want = 0;
    }

    fn begin_in_chunk(
        &mut self,
        direction: &mut impl Direction<T>,
        chunk: &mut Chunk<'_, T>,
        opening: Opening,
    ) {
        self.starts_chunk = chunk.used == 0 && !self.mid_chunk;
        self.origin = Some(chunk.used);
        let start = self.position + chunk.used as u64;
        let head = chunk.rest().get(..opening.bytes).unwrap_or_default();
        direction.begin(head, Span { first: chunk.at, stream_start: start, size: opening.size });
        chunk.used += opening.bytes;
        self.enter_body(start, opening);
    }

    /// Begins the frame that starts `from` bytes into the carried ones.
    fn begin_in_carry(
        &mut self,
        direction: &mut impl Direction<T>,
        chunk: &Chunk<'_, T>,
        from: usize,
        opening: Opening,
    ) {
        self.starts_chunk = false;
        self.origin = None;
        let start = self.position + chunk.used as u64 - (self.carry.len() - from) as u64;
        let first = self.stamps.get(from).copied().unwrap_or(chunk.at);
        let end = from + opening.bytes;
        let head = self.carry.get(from..end).unwrap_or_default();
        direction.begin(head, Span { first, stream_start: start, size: opening.size });
        self.enter_body(start, opening);
        // A search may have carried more than the header.
        self.carry.drain(..end.min(self.carry.len()));
        self.left = self.left.saturating_sub(self.carry.len() as u64);
        self.carried_last = self.stamps.last().copied().filter(|_| self.left == 0);
        self.stamps.clear();
        self.want = self.carry.len();
    }

    fn enter_body(&mut self, start: u64, opening: Opening) {
        self.state = State::Body;
        self.expects_tokens = false;
        self.frame_start = start;
        self.carried_last = None;
        self.lost_before_frame = self.hunt_lost;
        self.left = (u64::from(opening.size) + 4).saturating_sub(opening.bytes as u64);
        self.skip = 0;
        self.at = opening.bytes;
    }

    /// Handles the end of a frame.
    fn ended(&mut self, direction: &mut impl Direction<T>, chunk: &mut Chunk<'_, T>) -> Flow {
        self.state = State::Head;
        if self.carry.capacity() > KEEP_BUFFER_BYTES {
            self.carry = Vec::new();
        }
        direction.end(self.carried_last.take().unwrap_or(chunk.at));
        self.expects_tokens = direction.precedes_tokens();
        if self.in_step() {
            return Flow::Frame;
        }
        if direction.is_refuted() {
            self.false_start(chunk);
            return Flow::Continue;
        }
        if direction.proves() || (self.starts_chunk && chunk.is_used_up()) {
            self.confirm();
            return Flow::Frame;
        }
        if direction.needs_proof() {
            self.false_start(chunk);
        } else {
            self.trust = Trust::Held;
        }
        Flow::Continue
    }

    /// Accepts the frame on trial.
    fn confirm(&mut self) {
        self.trust = Trust::InStep;
        self.counts.skipped_bytes += self.frame_start.saturating_sub(self.hunt_from + self.lost_before_frame);
    }

    fn pass(&mut self, direction: &mut impl Direction<T>, chunk: &mut Chunk<'_, T>) -> Flow {
        if self.try_yield(direction, chunk) {
            return Flow::Continue;
        }
        let n = self.left.min(chunk.rest().len() as u64);
        chunk.used += n as usize;
        self.left -= n;
        if self.left > 0 {
            return Flow::Wait;
        }
        self.state = State::Head;
        self.hunt_from = self.position + chunk.used as u64;
        self.hunt_lost = 0;
        Flow::Continue
    }
}

/// A frame's size field, if enough bytes are there.
pub(super) fn size_field(bytes: &[u8]) -> Option<u32> {
    bytes.first_chunk().map(|size| u32::from_be_bytes(*size))
}

/// Judges the bytes at a possible start of a frame: `header` returns the header's end if it is plausible, and
/// `UnexpectedEnd` if it may become so, within `max_bytes`.
pub(super) fn judge_head(
    bytes: &[u8],
    sizes: RangeInclusive<u32>,
    max_bytes: usize,
    header: impl FnOnce(&[u8], u32) -> Result<Option<usize>, Error>,
) -> Head {
    let Some(size) = size_field(bytes) else { return Head::Incomplete(4 - bytes.len().min(3)) };
    if !sizes.contains(&size) {
        return Head::Implausible;
    }
    let whole = size as usize + 4;
    let bytes = bytes.get(..whole).unwrap_or(bytes);
    match header(bytes, size) {
        Ok(Some(bytes)) => Head::Complete(Opening { bytes, size }),
        Err(Error { kind: ErrorKind::UnexpectedEnd(missing), .. })
            if bytes.len().saturating_add(missing) <= whole.min(max_bytes) =>
        {
            Head::Incomplete(missing)
        }
        _ => Head::Implausible,
    }
}
