//! Passes a frame's body to its decoder, directly from the chunk if possible.
//! Does not know what is in it.

use super::{Chunk, Direction, Flow, Framing, Step};

impl<T: Copy> Framing<T> {
    pub(super) fn body(&mut self, direction: &mut impl Direction<T>, chunk: &mut Chunk<'_, T>) -> Flow {
        if self.try_yield(direction, chunk) {
            return Flow::Continue;
        }
        loop {
            if self.skip > 0 {
                let n = self.skip.min(chunk.rest().len() as u64);
                self.skip -= n;
                self.left -= n;
                self.at += n as usize;
                chunk.used += n as usize;
            }
            if self.left == 0 && self.carry.is_empty() {
                return self.ended(direction, chunk);
            }
            let ready = !self.carry.is_empty() && self.carry.len() >= self.want;
            if self.skip > 0 || (chunk.is_used_up() && !ready) {
                return Flow::Wait;
            }
            let going = if self.carry.is_empty() {
                self.step_in_chunk(direction, chunk)
            } else {
                self.step_in_carry(direction, chunk)
            };
            if !going {
                return Flow::Wait;
            }
            if !self.in_step() && direction.is_refuted() {
                self.false_start(chunk);
                return Flow::Continue;
            }
        }
    }

    /// Passes the frame's bytes in the chunk to the decoder. Returns false if more bytes must come first.
    fn step_in_chunk(&mut self, direction: &mut impl Direction<T>, chunk: &mut Chunk<'_, T>) -> bool {
        let rest = chunk.rest();
        let window = rest.get(..usize::try_from(self.left).unwrap_or(usize::MAX)).unwrap_or(rest);
        match direction.step(window, self.left, self.at) {
            Step::Used { bytes, skip } => {
                let bytes = bytes.min(window.len());
                chunk.used += bytes;
                self.at += bytes;
                self.left -= bytes as u64;
                self.skip = skip.min(self.left);
            }
            Step::Rest => self.skip = self.left,
            Step::More(missing) if missing as u64 > self.left - window.len() as u64 => {
                let to_come = self.left as usize - window.len();
                direction.truncated(missing - to_come, self.at + window.len() + to_come);
                self.skip = self.left;
            }
            Step::More(missing) => {
                self.carry.extend_from_slice(window);
                chunk.used += window.len();
                self.left -= window.len() as u64;
                self.want = self.carry.len() + missing;
                return false;
            }
        }
        true
    }

    /// Like [`Self::step_in_chunk`], if earlier chunks contain the beginning.
    fn step_in_carry(&mut self, direction: &mut impl Direction<T>, chunk: &mut Chunk<'_, T>) -> bool {
        let rest = chunk.rest();
        let taken = rest.get(..self.want.saturating_sub(self.carry.len())).unwrap_or(rest);
        self.carry.extend_from_slice(taken);
        chunk.used += taken.len();
        self.left = self.left.saturating_sub(taken.len() as u64);
        if self.carry.len() < self.want {
            return false;
        }
        let held = self.carry.len();
        self.skip = match direction.step(&self.carry, self.left + held as u64, self.at) {
            Step::Used { bytes, skip } if bytes as u64 + skip < held as u64 => {
                let done = bytes + skip as usize;
                self.carry.drain(..done);
                self.want = self.carry.len();
                self.at += done;
                return true;
            }
            Step::Used { bytes, skip } => (bytes as u64 + skip - held as u64).min(self.left),
            Step::Rest => self.left,
            Step::More(missing) if missing as u64 <= self.left => {
                self.want = held + missing;
                return true;
            }
            Step::More(missing) => {
                let to_come = self.left as usize;
                direction.truncated(missing - to_come, self.at + held + to_come);
                self.left
            }
        };
        self.at += held;
        self.drop_carry();
        true
    }
}
