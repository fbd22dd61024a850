//! The thread that sends batches, one after the other, and tries again where that may help. What it has in hand stays there until
//! it is sent, refused, or too old; what comes meanwhile waits in the queue.

use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::post::{Answer, post};
use super::queue::{Batch, Queue};
use super::{Counters, Endpoint, lock};

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
