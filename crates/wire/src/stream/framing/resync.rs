//! Finds the next frame when its start is not known. Does not decode.
//!
//! In step, a frame starts where the previous one ended. Out of step (started in the middle of a connection, after lost
//! bytes that extend beyond the current frame, or at bytes that cannot be a frame), the start of each chunk is tried
//! first, then every offset, until a header is plausible. This frame is then on trial:
//!
//! - it is returned at its end if its whole body was decoded and is valid to the last byte ([`Direction::proves`]), or
//!   if it starts where a chunk starts and ends where a chunk or a gap ends, as a request of a client that waits for
//!   its answer does;
//! - otherwise it is held until the header after it is complete, and returned if that header is plausible too and does
//!   not answer the same request;
//! - an answer to request number 0 is never held, and its body is valid only if it lists something, because zeros look
//!   like its header and like an empty body;
//! - a version newer than all known ones is accepted only if the frame fills its chunk;
//! - until its end, it yields to a chunk that is exactly one plausible frame or, if it did not start a chunk itself, to
//!   a chunk that starts a frame which continues in the next one: otherwise, bytes that look like a header by accident
//!   would swallow the frames after them;
//! - anything else is a false start: nothing is returned, and the search resumes one byte after its start if those
//!   bytes are still buffered (at most [`REWIND_BYTES`], which bounds the work per byte), otherwise where it failed.
//!
//! A frame that is still held when the connection ends is not returned.

use super::tls::is_tls;
use super::{Chunk, Cut, Direction, Flow, Framing, Head, Opening, Scrutiny, Span, State, Trust, size_field};
use crate::stream::FrameError;

/// How far back the search resumes after a false start.
const REWIND_BYTES: usize = 1024;
/// Unreadable frames up to this size are skipped by their size field; after larger ones, the stream is out of step.
const MAX_PASS_BYTES: u32 = 1 << 20;

impl<T: Copy> Framing<T> {
    /// Rejects the frame on trial.
    pub(super) fn false_start(&mut self, chunk: &mut Chunk<'_, T>) {
        self.counts.resyncs += 1;
        self.trust = Trust::Trial;
        self.state = State::Hunt;
        match self.origin.take() {
            Some(origin) if chunk.used - origin <= REWIND_BYTES => {
                chunk.used = origin + 1;
                self.drop_carry();
            }
            // The carried bytes may contain the start of a frame.
            _ => self.want = self.carry.len(),
        }
    }

    /// Handles bytes that cannot be a frame where one should start.
    pub(super) fn implausible(&mut self, chunk: &mut Chunk<'_, T>) -> Flow {
        if !self.in_step() {
            self.false_start(chunk);
            return Flow::Continue;
        }
        if self.is_token(chunk) {
            return Flow::Continue;
        }
        let start = self.position + chunk.used as u64 - self.carry.len() as u64;
        let seen = if self.carry.is_empty() { chunk.rest() } else { self.carry.as_slice() };
        // TLS does not count as a lost frame: none of it can be read.
        if start == self.first && is_tls(seen) {
            self.state = State::Tls;
            self.drop_carry();
            return Flow::Continue;
        }
        self.counts.undecodable += 1;
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

    /// Abandons a frame on trial if a chunk starts with a better one. The search then finds that one.
    pub(super) fn try_yield(&mut self, direction: &mut impl Direction<T>, chunk: &Chunk<'_, T>) -> bool {
        if self.in_step() || chunk.used > 0 || self.mid_chunk || chunk.bytes.is_empty() {
            return false;
        }
        let Head::Complete(opening) = direction.head(chunk.bytes, self.search_scrutiny(chunk)) else {
            return false;
        };
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

    /// How strictly a search judges a header at the chunk's current position.
    fn search_scrutiny(&self, chunk: &Chunk<'_, T>) -> Scrutiny {
        if chunk.used > 0 || self.mid_chunk {
            return Scrutiny::Searching;
        }
        let whole = size_field(chunk.bytes).map(|size| u64::from(size) + 4);
        if whole == Some(chunk.bytes.len() as u64) { Scrutiny::WholeChunk } else { Scrutiny::Searching }
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
                && matches!(direction.head(chunk.rest(), self.search_scrutiny(chunk)), Head::Complete(_));
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
            match direction.head(rest, self.search_scrutiny(chunk)) {
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

    /// Tries the starts among the carried bytes, extended by the chunk. `None` if no frame starts there.
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
                    // Give back to the chunk the bytes that this candidate borrowed.
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

impl<T: Copy> Framing<T> {
    // Handles missing bytes. Does not know why they are missing.

    /// Handles `n` missing bytes; returns whether a frame is ready.
    pub(in crate::stream) fn lost(&mut self, direction: &mut impl Direction<T>, n: u64, at: T) -> bool {
        if n == 0 {
            return false;
        }
        self.counts.lost_bytes += n;
        self.origin = None;
        self.mid_chunk = false;
        if matches!(self.state, State::Head | State::Hunt) {
            self.begin_cut(direction, n);
        }
        let frame = match self.state {
            State::Tls => {
                self.hunt_lost += n;
                false
            }
            State::Body if n <= self.left => self.lost_in_frame(direction, n, at),
            State::Body => self.lost_beyond_frame(direction, n, at),
            State::Pass if n <= self.left => {
                self.left -= n;
                false
            }
            State::Head | State::Pass | State::Hunt => {
                self.lost_between_frames(n);
                false
            }
        };
        self.position += n;
        if frame {
            self.count_frame(direction);
        }
        frame
    }

    fn lost_between_frames(&mut self, n: u64) {
        if self.state == State::Head && self.lost_in_head(n) {
            return;
        }
        self.counts.undecodable += u64::from(self.in_step() && !self.carry.is_empty());
        self.start_hunt(self.position + n);
        self.drop_carry();
    }

    /// Begins the frame whose header starts in the carried bytes, if they identify it.
    /// A search accepts this only at a chunk's start, and if the missing bytes end where the frame does.
    fn begin_cut(&mut self, direction: &mut impl Direction<T>, n: u64) {
        let (Some(size), Some(first)) = (size_field(&self.carry), self.stamps.first().copied()) else {
            return;
        };
        let held = self.carry.len() as u64;
        let left = (u64::from(size) + 4).saturating_sub(held);
        let believed = self.in_step() || (!self.held() && self.starts_chunk && n == left);
        if !believed || matches!(direction.head(&self.carry, self.scrutiny()), Head::Implausible) {
            return;
        }
        let start = self.position - held;
        let cut = Cut { missing: n.min(left) };
        let span = Span { first, stream_start: start, size };
        let Some(used) = direction.begin_cut(&self.carry, span, cut) else { return };
        self.enter_body(start, Opening { bytes: used, size });
        // The whole frame is here if it was carried only to confirm the previous one.
        self.carried_last = self.stamps.last().copied().filter(|_| left == 0);
        self.carry.drain(..used.min(self.carry.len()));
        self.stamps.clear();
        self.left = left;
        self.want = self.carry.len();
    }

    /// A header is damaged, but its size field shows where the next frame starts.
    fn lost_in_head(&mut self, n: u64) -> bool {
        let Some(size) = size_field(&self.carry) else { return false };
        let left = (u64::from(size) + 4).saturating_sub(self.carry.len() as u64);
        if !self.in_step() || n > left {
            return false;
        }
        self.counts.undecodable += 1;
        self.drop_carry();
        self.left = left - n;
        self.state = State::Pass;
        true
    }

    fn lost_in_frame(&mut self, direction: &mut impl Direction<T>, n: u64, at: T) -> bool {
        self.left -= n;
        self.hunt_lost += n;
        if self.carry.is_empty() && n <= self.skip {
            self.skip -= n;
        } else {
            self.skip = direction.lost(n, &self.carry, self.skip).min(self.left);
        }
        self.at = self.at.saturating_add(self.carry.len()).saturating_add(n as usize);
        self.drop_carry();
        // Missing bytes disprove nothing, but a frame whose position is a mere guess needs its body as evidence.
        if !self.in_step()
            && (direction.is_refuted() || (matches!(direction.error(), Some(Some(_))) && !self.starts_chunk))
        {
            self.counts.resyncs += 1;
            self.start_hunt(self.position + n);
            return false;
        }
        if self.left > 0 {
            return false;
        }
        let mut none = Chunk { bytes: &[], used: 0, at };
        matches!(self.ended(direction, &mut none), Flow::Frame)
    }

    fn lost_beyond_frame(&mut self, direction: &mut impl Direction<T>, n: u64, at: T) -> bool {
        if self.left > 0 {
            direction.fail(FrameError::Lost(self.left));
        }
        direction.end(self.carried_last.take().unwrap_or(at));
        self.drop_carry();
        let frame = self.in_step();
        self.start_hunt(self.position + n);
        frame
    }
}

// Skips raw SASL tokens. Does not look into them.
//
// After `SaslHandshake` version 0, both sides send authentication tokens that have a size field and no header (KIP-43;
// `SaslServerAuthenticator.handleSaslToken`), until the broker is satisfied. Their number depends on the mechanism, and
// only the client's next request shows that authentication is over. So after such a handshake, the bytes where a frame
// must start are a token, with one exception per side. From the client: a header of a known API and version with a
// client id that is text. From the broker: an answer to a pending request. No mechanism's tokens begin like that:
// PLAIN's with a zero and the user's name, SCRAM's and OAUTHBEARER's with text (`n,,`), GSSAPI's with 0x60 or, wrapped,
// 0x05. Tokens may be empty. From version 1 on, tokens are in `SaslAuthenticate` (KIP-152) and need none of this.

/// The largest token that a broker accepts by default. The setting is `sasl.server.max.receive.size` (512 KiB).
const MAX_TOKEN_BYTES: u32 = 524_288;

impl<T: Copy> Framing<T> {
    /// Whether bytes at a frame's start that are not a frame are a token. If so, skips it.
    pub(super) fn is_token(&mut self, chunk: &Chunk<'_, T>) -> bool {
        let seen = if self.carry.is_empty() { chunk.rest() } else { self.carry.as_slice() };
        let size = size_field(seen).filter(|&size| self.expects_tokens && size <= MAX_TOKEN_BYTES);
        let Some(size) = size else { return false };
        self.counts.sasl_tokens += 1;
        self.left = (u64::from(size) + 4).saturating_sub(self.carry.len() as u64);
        self.drop_carry();
        self.state = State::Pass;
        true
    }
}
