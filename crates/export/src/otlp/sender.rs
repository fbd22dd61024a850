//! The thread that sends batches, one after the other, and tries again where that may help. What it has in hand stays there until
//! it is sent, refused, or too old; what comes meanwhile waits in the queue.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::post::{Answer, post};
use super::{Counters, Endpoint};
use crate::site::lock;

/// How long to wait for a collector.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// For an answer.
    pub answer: Duration,
    /// Before the second attempt; twice as long before each further one.
    pub first_pause: Duration,
    /// The longest such pause.
    pub longest_pause: Duration,
    /// A batch is dropped when it has been tried for so long.
    pub in_all: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(5),
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
            in_all: Duration::from_secs(300),
        }
    }
}

/// What the thread needs.
pub(super) struct Sender {
    pub(super) endpoint: Endpoint,
    pub(super) patience: RetryPolicy,
    pub(super) queue: Arc<Queue>,
    pub(super) counters: Arc<Counters>,
}

impl Sender {
    /// Starts the thread, which does `first` and then sends; it ends with the queue.
    pub(super) fn start(self, first: fn()) -> io::Result<JoinHandle<()>> {
        let run = move || {
            first();
            self.run();
        };
        // The kernel keeps 15 characters.
        std::thread::Builder::new().name("brokerscope-otl".to_owned()).spawn(run)
    }

    fn run(&self) {
        while let Some(batch) = self.queue.take() {
            self.deliver(&batch);
        }
    }

    /// Until it is sent or given up.
    fn deliver(&self, batch: &Batch) {
        let given_up = Instant::now() + self.patience.in_all;
        let mut pause = self.patience.first_pause;
        loop {
            let after = match post(&self.endpoint, &batch.body, self.for_answer()) {
                Ok(Answer::Taken { rejected_spans }) => {
                    let mut counts = lock(&self.counters);
                    counts.sent += batch.traces;
                    counts.rejected_spans += rejected_spans;
                    return;
                }
                Ok(Answer::Never) => {
                    lock(&self.counters).refused += batch.traces;
                    return;
                }
                Ok(Answer::Later { after }) => after,
                Err(_) => None,
            };
            // A collector that is overwhelmed may ask for more than we would wait, but not for ever.
            let next = Instant::now() + after.unwrap_or(pause).min(self.patience.longest_pause);
            if next >= given_up || !self.queue.sleep_until(next) {
                lock(&self.counters).dropped += batch.traces;
                return;
            }
            lock(&self.counters).retries += 1;
            pause = (pause * 2).min(self.patience.longest_pause);
        }
    }

    /// Not past the end, where that is known.
    fn for_answer(&self) -> Duration {
        let end = self.queue.end().map(|end| end.saturating_duration_since(Instant::now()));
        end.map_or(self.patience.answer, |left| left.min(self.patience.answer))
    }
}

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
        let mut state = lock(&self.state);
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
        let mut state = lock(&self.state);
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
        let mut state = lock(&self.state);
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
        lock(&self.state).end
    }

    /// Nothing more will come; waits until all was sent, or until `end`. Returns how many traces found nobody to send them.
    pub(crate) fn close(&self, end: Instant) -> u64 {
        let mut state = lock(&self.state);
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
