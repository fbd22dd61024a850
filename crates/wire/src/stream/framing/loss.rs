//! What missing bytes do to a direction's frames. Does not know why they are missing.

use super::{Chunk, Cut, Direction, Flow, Framing, Head, Opening, Span, State, size_field};
use crate::stream::FrameError;

impl<T: Copy> Framing<T> {
    /// `n` bytes are missing. Whether a frame is to be returned.
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

    /// Begins the frame of whose header the first bytes are carried, if they say which frame it is. In a
    /// search that is believed of a chunk's start if the missing bytes end where the frame does.
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
        // Whole, where it was carried only to confirm the frame before it.
        self.carried_last = self.stamps.last().copied().filter(|_| left == 0);
        self.carry.drain(..used.min(self.carry.len()));
        self.stamps.clear();
        self.left = left;
        self.want = self.carry.len();
    }

    /// A header is damaged, but the size before it says where the next frame starts.
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
        // Missing bytes refute nothing, but a frame whose place is a mere guess needs its body as a witness.
        if !self.in_step() && (direction.refuted() || (direction.error().is_some() && !self.starts_chunk)) {
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
            direction.fail(FrameError::Lost { bytes: self.left });
        }
        direction.end(self.carried_last.take().unwrap_or(at));
        self.drop_carry();
        let frame = self.in_step();
        self.start_hunt(self.position + n);
        frame
    }
}
