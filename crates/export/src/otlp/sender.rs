//! A thread that sends batches one after the other.
//! Retries if that may help. Keeps its current batch until it is sent, refused, or too old; further batches wait in
//! the queue.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::post::{Answer, post};
use super::{Counters, Endpoint};
use crate::site::lock;

/// Timeouts and pauses for a collector.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Timeout for an answer.
    pub answer: Duration,
    /// Pause before the second attempt; doubled before each further one.
    pub first_pause: Duration,
    /// Maximum pause.
    pub longest_pause: Duration,
    /// Total time after which a batch is dropped.
    pub total: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            answer: Duration::from_secs(5),
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_secs(30),
            total: Duration::from_secs(300),
        }
    }
}

/// The state of the thread.
pub(super) struct Sender {
    pub(super) endpoint: Endpoint,
    pub(super) retry: RetryPolicy,
    pub(super) queue: Arc<Queue>,
    pub(super) counters: Arc<Counters>,
}

impl Sender {
    /// Starts the thread, which calls `first` and then sends until the queue ends.
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

    /// Sends a batch, with retries, until it is sent, refused or dropped.
    fn deliver(&self, batch: &Batch) {
        let deadline = Instant::now() + self.retry.total;
        let mut pause = self.retry.first_pause;
        loop {
            let after = match post(&self.endpoint, &batch.body, self.answer_timeout()) {
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
            // An overloaded collector may ask for a longer pause than ours, but not for an unbounded one.
            let next = Instant::now() + after.unwrap_or(pause).min(self.retry.longest_pause);
            if next >= deadline || !self.queue.sleep_until(next) {
                lock(&self.counters).dropped += batch.traces;
                return;
            }
            lock(&self.counters).retries += 1;
            pause = (pause * 2).min(self.retry.longest_pause);
        }
    }

    /// Timeout for an answer, at most until the end of the queue, if known.
    fn answer_timeout(&self) -> Duration {
        let end = self.queue.end().map(|end| end.saturating_duration_since(Instant::now()));
        end.map_or(self.retry.answer, |left| left.min(self.retry.answer))
    }
}

/// The contents of one request.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The encoded body.
    pub(crate) body: Vec<u8>,
    /// Number of traces in it.
    pub(crate) traces: u64,
}

/// Batches that wait to be sent.
#[derive(Debug)]
pub(crate) struct Queue {
    max_bytes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<Batch>,
    bytes: usize,
    /// Whether the sender is working on a batch.
    is_sending: bool,
    /// Time after which nothing is sent, once known.
    end: Option<Instant>,
}

impl Queue {
    /// Creates a queue for at most `max_bytes`.
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { max_bytes, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Adds a batch, and drops the oldest if there is no room.
    /// Returns the number of dropped traces, including its own if it is too large.
    pub(crate) fn push(&self, batch: Batch) -> u64 {
        if batch.body.len() > self.max_bytes {
            return batch.traces;
        }
        let mut state = lock(&self.state);
        state.bytes += batch.body.len();
        state.waiting.push_back(batch);
        let mut dropped = 0;
        while state.bytes > self.max_bytes {
            let Some(oldest) = state.waiting.pop_front() else { break };
            state.bytes -= oldest.body.len();
            dropped += oldest.traces;
        }
        self.changed.notify_all();
        dropped
    }

    /// Waits for the oldest batch and takes it; `None` after the end, or once the queue is closed and empty.
    /// The batch taken before counts as done.
    pub(crate) fn take(&self) -> Option<Batch> {
        let mut state = lock(&self.state);
        state.is_sending = false;
        self.changed.notify_all();
        loop {
            if state.end.is_some_and(|end| Instant::now() >= end) {
                return None;
            }
            if let Some(batch) = state.waiting.pop_front() {
                state.bytes -= batch.body.len();
                state.is_sending = true;
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

    /// Time after which nothing is sent, if known.
    pub(crate) fn end(&self) -> Option<Instant> {
        lock(&self.state).end
    }

    /// Closes the queue, and waits until everything is sent, or until `end`.
    /// Returns the number of unsent traces.
    pub(crate) fn close(&self, end: Instant) -> u64 {
        let mut state = lock(&self.state);
        // A second call cannot postpone the end.
        let end = state.end.map_or(end, |earlier| earlier.min(end));
        state.end = Some(end);
        self.changed.notify_all();
        while state.is_sending || !state.waiting.is_empty() {
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
    fn full_queue_drops_and_counts_the_oldest_batches() {
        let queue = Queue::new(100);
        assert_eq!(queue.push(batch(40, 1)), 0);
        assert_eq!(queue.push(batch(40, 2)), 0);
        assert_eq!(queue.push(batch(90, 4)), 3, "both");
        assert_eq!(queue.push(batch(101, 8)), 8, "itself");
        assert_eq!(queue.take().map(|batch| batch.traces), Some(4));
    }

    #[test]
    fn close_counts_remaining_traces_once() {
        let queue = Queue::new(100);
        queue.push(batch(10, 3));
        assert_eq!(queue.close(Instant::now()), 3);
        assert_eq!(queue.close(Instant::now() + Duration::from_secs(60)), 0);
        assert!(queue.take().is_none());
        assert!(!queue.sleep_until(Instant::now() + Duration::from_secs(60)));
    }
}
