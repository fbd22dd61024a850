//! Batches between the thread that makes them and the one that sends: bounded in bytes. The newest say most about now, so the oldest
//! give way. Does not encode and does not send.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// What is sent in one request.
#[derive(Debug)]
pub(crate) struct Batch {
    /// As it is sent.
    pub(crate) body: Vec<u8>,
    /// Traces of slow requests in it.
    pub(crate) traces: u64,
}

/// The batches that wait.
#[derive(Debug)]
pub(crate) struct Queue {
    most_bytes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Batch>,
    bytes: usize,
    /// Whether somebody has one in hand.
    in_hand: bool,
    /// From when on nothing is sent any more, once that is known.
    end: Option<Instant>,
}

impl Queue {
    /// Room for so many bytes.
    pub(crate) fn new(most_bytes: usize) -> Self {
        Self { most_bytes, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Adds a batch. Returns how many traces had to give way, its own where it is larger than all room.
    pub(crate) fn push(&self, batch: Batch) -> u64 {
        if batch.body.len() > self.most_bytes {
            return batch.traces;
        }
        let mut state = self.state();
        state.bytes += batch.body.len();
        state.waiting.push_back(batch);
        let mut gone = 0;
        while state.bytes > self.most_bytes {
            let Some(oldest) = state.waiting.pop_front() else { break };
            state.bytes -= oldest.body.len();
            gone += oldest.traces;
        }
        self.changed.notify_all();
        gone
    }

    /// The oldest batch, as soon as there is one; none once the end has come, or nothing is left before it. What was taken before
    /// is done with then.
    pub(crate) fn take(&self) -> Option<Batch> {
        let mut state = self.state();
        state.in_hand = false;
        self.changed.notify_all();
        loop {
            if state.end.is_some_and(|end| Instant::now() >= end) {
                return None;
            }
            if let Some(batch) = state.waiting.pop_front() {
                state.bytes -= batch.body.len();
                state.in_hand = true;
                return Some(batch);
            }
            if state.end.is_some() {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sleeps until then, or until the end. Returns whether there is time for another attempt.
    pub(crate) fn sleep_until(&self, then: Instant) -> bool {
        let mut state = self.state();
        loop {
            let now = Instant::now();
            if state.end.is_some_and(|end| end <= now) {
                return false;
            }
            let until = state.end.map_or(then, |end| end.min(then));
            if until <= now {
                return true;
            }
            state = self.changed.wait_timeout(state, until - now).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// When nothing is to be sent any more, where that is known.
    pub(crate) fn end(&self) -> Option<Instant> {
        self.state().end
    }

    /// Nothing more will come; waits until all was sent, or until `end`. Returns how many traces found nobody to send them.
    pub(crate) fn close(&self, end: Instant) -> u64 {
        let mut state = self.state();
        // Who waits for the end again does not put it off.
        let end = state.end.map_or(end, |earlier| earlier.min(end));
        state.end = Some(end);
        self.changed.notify_all();
        while state.in_hand || !state.waiting.is_empty() {
            let now = Instant::now();
            if end <= now {
                break;
            }
            state = self.changed.wait_timeout(state, end - now).unwrap_or_else(PoisonError::into_inner).0;
        }
        let left = state.waiting.drain(..).map(|batch| batch.traces).sum();
        state.bytes = 0;
        left
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Batch, Queue};

    fn batch(bytes: usize, traces: u64) -> Batch {
        Batch { body: vec![b'x'; bytes], traces }
    }

    #[test]
    fn the_oldest_give_way_and_are_counted() {
        let queue = Queue::new(100);
        assert_eq!(queue.push(batch(40, 1)), 0);
        assert_eq!(queue.push(batch(40, 2)), 0);
        assert_eq!(queue.push(batch(90, 4)), 3, "both");
        assert_eq!(queue.push(batch(101, 8)), 8, "itself");
        assert_eq!(queue.take().map(|batch| batch.traces), Some(4));
    }

    #[test]
    fn what_is_left_at_the_end_is_told_once() {
        let queue = Queue::new(100);
        queue.push(batch(10, 3));
        assert_eq!(queue.close(Instant::now()), 3);
        assert_eq!(queue.close(Instant::now() + Duration::from_secs(60)), 0);
        assert!(queue.take().is_none());
        assert!(!queue.sleep_until(Instant::now() + Duration::from_secs(60)));
    }
}
