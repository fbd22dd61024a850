//! Finds the next frame where none starts that is known. Does not decode.
//!
//! In step, a frame starts where the one before ended. Out of step (started in the middle of a connection,
//! after lost bytes that reached past the current frame, or at bytes that cannot be a frame) the start of
//! each chunk is tried first, then every offset, until a header is plausible. The frame found is on trial:
//!
//! - it is returned at its end if its body was decoded whole and checks out to the last byte
//!   ([`Direction::proves`]), or if it starts where a chunk starts and ends where one ends or where missing
//!   bytes do, as a client that waits for its answer sends it;
//! - else it is held until the header after it is complete, and returned if that one is plausible too;
//! - while it lasts, it yields to a chunk that is just one plausible frame or, if it did not start a chunk itself,
//!   to one that starts a frame which goes on in the next: bytes that look like a header by accident would else
//!   swallow the frames after them;
//! - anything else is a false start: nothing is returned, and the search goes on one byte after it as long as
//!   its bytes are at hand (at most [`REWIND_BYTES`], which bounds the work per byte), else where it failed.
//!
//! A frame that is held when the connection ends is not returned.

use super::{Chunk, Direction, Flow, Framing, Head, Scrutiny, State, Trust, size_field};

/// How far back the search resumes after a false start.
const REWIND_BYTES: usize = 1024;
/// Unreadable frames up to this size are passed over by their size field; larger ones end the step.
const MAX_PASS_BYTES: u32 = 1 << 20;

impl<T: Copy> Framing<T> {
    /// The frame on trial is none.
    pub(super) fn false_start(&mut self, chunk: &mut Chunk<'_, T>) {
        self.counts.resyncs += 1;
        self.trust = Trust::Trial;
        self.state = State::Hunt;
        match self.origin.take() {
            Some(origin) if chunk.used - origin <= REWIND_BYTES => {
                chunk.used = origin + 1;
                self.drop_carry();
            }
            // What is carried may hold the start of a frame.
            _ => self.want = self.carry.len(),
        }
    }

    /// There is no frame where one should start.
    pub(super) fn implausible(&mut self, chunk: &mut Chunk<'_, T>) -> Flow {
        if !self.in_step() {
            self.false_start(chunk);
            return Flow::Continue;
        }
        if self.is_token(chunk) {
            return Flow::Continue;
        }
        self.counts.undecodable += 1;
        let start = self.position + chunk.used as u64 - self.carry.len() as u64;
        let seen = if self.carry.is_empty() { chunk.rest() } else { self.carry.as_slice() };
        if start == self.first && is_tls(seen) {
            self.state = State::Tls;
            self.drop_carry();
            return Flow::Continue;
        }
        let left = size_field(seen).map_or(0, |size| u64::from(size) + 4);
        if self.counts.frames > 0 && (5..=u64::from(MAX_PASS_BYTES)).contains(&left) {
            self.left = left.saturating_sub(self.carry.len() as u64);
            self.drop_carry();
            self.state = State::Pass;
            self.trust = Trust::Trial;
            return Flow::Continue;
        }
        self.start_hunt(start);
        self.want = self.carry.len();
        Flow::Continue
    }

    /// Gives up a frame that is a guess where a chunk starts what is a better one; the search takes that up.
    pub(super) fn yields(&mut self, direction: &mut impl Direction<T>, chunk: &Chunk<'_, T>) -> bool {
        if self.in_step() || chunk.used > 0 || self.mid_chunk || chunk.bytes.is_empty() {
            return false;
        }
        let Head::Complete(opening) = direction.head(chunk.bytes, Scrutiny::Searching) else { return false };
        let (whole, here) = (u64::from(opening.size) + 4, chunk.bytes.len() as u64);
        if whole != here && (whole < here || self.starts_chunk) {
            return false;
        }
        self.counts.resyncs += 1;
        if self.state == State::Pass {
            self.hunt_from = self.position;
            self.hunt_lost = 0;
        }
        (self.state, self.trust) = (State::Hunt, Trust::Trial);
        self.drop_carry();
        true
    }

    pub(super) fn start_hunt(&mut self, from: u64) {
        self.counts.skipped_bytes = self.counts().skipped_bytes;
        self.counts.resyncs += u64::from(self.in_step());
        self.state = State::Hunt;
        self.trust = Trust::Trial;
        self.expects_tokens = false;
        self.hunt_from = from;
        self.hunt_lost = 0;
    }

    pub(super) fn hunt(&mut self, direction: &mut impl Direction<T>, chunk: &mut Chunk<'_, T>) -> Flow {
        if !self.carry.is_empty() {
            let at_chunk_start = chunk.used == 0 && !self.mid_chunk;
            let preferred = at_chunk_start
                && matches!(direction.head(chunk.rest(), Scrutiny::Searching), Head::Complete(_));
            if preferred {
                self.drop_carry();
            } else if let Some(flow) = self.hunt_in_carry(direction, chunk) {
                return flow;
            }
        }
        loop {
            let rest = chunk.rest();
            if rest.is_empty() {
                return Flow::Wait;
            }
            match direction.head(rest, Scrutiny::Searching) {
                Head::Complete(opening) => {
                    self.begin_in_chunk(direction, chunk, opening);
                    return Flow::Continue;
                }
                Head::Incomplete(missing) => {
                    self.starts_chunk = chunk.used == 0 && !self.mid_chunk;
                    self.want = rest.len() + missing;
                    self.fill_head(chunk);
                    return Flow::Wait;
                }
                Head::Implausible => chunk.used += 1,
            }
        }
    }

    /// Tries the starts among the carried bytes, with what the chunk adds to them. None if there is none.
    fn hunt_in_carry(&mut self, direction: &mut impl Direction<T>, chunk: &mut Chunk<'_, T>) -> Option<Flow> {
        let old = self.carry.len();
        let mut from = 0;
        while from < old {
            let candidate = self.carry.get(from..).unwrap_or_default();
            match direction.head(candidate, Scrutiny::Searching) {
                Head::Complete(opening) if opening.size as usize + 4 >= candidate.len() => {
                    self.begin_in_carry(direction, chunk, from, opening);
                    return Some(Flow::Continue);
                }
                Head::Incomplete(missing) => {
                    if chunk.is_used_up() {
                        self.starts_chunk &= from == 0;
                        self.carry.drain(..from);
                        self.stamps.drain(..from);
                        return Some(Flow::Wait);
                    }
                    self.want = self.carry.len() + missing;
                    self.fill_head(chunk);
                }
                _ => {
                    // The chunk gets back what this candidate borrowed.
                    chunk.used -= self.carry.len() - old;
                    self.carry.truncate(old);
                    self.stamps.truncate(old);
                    from += 1;
                }
            }
        }
        self.drop_carry();
        None
    }
}

/// A TLS handshake record: type 22, version 3.0 to 3.4 (RFC 8446, 5.1).
fn is_tls(bytes: &[u8]) -> bool {
    matches!(bytes, [0x16, 0x03, 0..=4, ..])
}
