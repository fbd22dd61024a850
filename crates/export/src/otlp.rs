//! Slow requests as OpenTelemetry traces: a trace for each of the slowest, with a span for each of its stages. What held it up
//! (the write, the thread that had the lock, the commit) is in a trace of the root event, which the requests' spans link to:
//! one commit that hurt 37 requests is sent once.
//!
//! Spans are handed on without waiting, in batches, to a thread that sends them by HTTP (OTLP/HTTP with JSON, `POST /v1/traces`)
//! and tries again where the collector is away or asks for that. What is kept meanwhile is bounded; what is sampled out, dropped
//! or refused is counted. It does not reach verdicts, and speaks neither TLS nor gRPC: a collector beside it does.

mod endpoint;
pub(crate) mod post;
mod sender;
mod span;
mod traces;

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use model::{Nanos, Verdict};
use sender::{Batch, Queue, Sender};
use traces::Traces;

use crate::catalog::Metric;
use crate::registry::Registry;
use crate::site::lock;

pub use endpoint::Endpoint;
pub use sender::RetryPolicy;

/// So much of encoded batches waits for the collector, at most.
const QUEUE_BYTES: usize = 8 << 20;
const SECOND: Nanos = Nanos::from_millis(1_000);

/// Why traces cannot be sent, at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not one that this sends to.
    #[error("{url:?} is not a collector's address: {why}; use --otlp http://HOST:4318")]
    Address {
        /// As it was given.
        url: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No thread could be started.
    #[error("no thread that sends traces could be started")]
    Thread(#[source] std::io::Error),
}

/// Whose spans these are: OpenTelemetry's resource.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    /// The host's name.
    pub host: String,
    /// The broker's id in its cluster, where it is known.
    pub broker_id: Option<String>,
    /// The version of brokerscope.
    pub version: String,
}

/// How much is sent, and how.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Slow requests a second that become traces, at most: the slowest of each second.
    pub traces_per_second: usize,
    /// How long to wait for a collector, and for how long to try again.
    pub patience: RetryPolicy,
}

impl Default for Options {
    fn default() -> Self {
        Self { traces_per_second: 10, patience: RetryPolicy::default() }
    }
}

/// What became of the slow requests that were offered, so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Traces that a collector took.
    pub sent: u64,
    /// Not among the slowest of their second.
    pub sampled_out: u64,
    /// Found no room in the queue, or the collector did not come back in time.
    pub dropped: u64,
    /// The collector said that it does not want them, and that trying again would not help.
    pub refused: u64,
    /// Spans that a collector rejected from a batch that it accepted.
    pub rejected_spans: u64,
    /// Attempts to send that failed and were made again.
    pub retries: u64,
}

/// The same, shared between the thread that offers and the one that sends.
pub(crate) type Counters = Mutex<Counts>;

impl Counts {
    pub(crate) fn set(&self, registry: &mut Registry) {
        let outcomes = [
            ("sent", self.sent),
            ("sampled-out", self.sampled_out),
            ("dropped", self.dropped),
            ("refused", self.refused),
        ];
        for (outcome, count) in outcomes {
            registry.set(Metric::OtlpTraces, &[outcome], count as f64);
        }
        registry.set(Metric::OtlpRejected, &[], self.rejected_spans as f64);
        registry.set(Metric::OtlpRetries, &[], self.retries as f64);
    }
}

/// Takes verdicts and has them sent.
#[derive(Debug)]
pub struct Otlp {
    source: Resource,
    slowest: Slowest,
    traces: Traces,
    queue: Arc<Queue>,
    counters: Arc<Counters>,
    sender: Option<JoinHandle<()>>,
    /// When the second began that the slowest are of, on the clock of the events.
    second: Nanos,
}

impl Otlp {
    /// Starts the thread that sends. It does this first: giving away rights that sending does not take.
    ///
    /// # Errors
    /// [`Error::Thread`] where it cannot be started.
    pub fn start(endpoint: Endpoint, source: Resource, options: Options, first: fn()) -> Result<Self, Error> {
        let counters = Arc::new(Counters::default());
        let queue = Arc::new(Queue::new(QUEUE_BYTES));
        let (patience, shared) = (options.patience, (Arc::clone(&queue), Arc::clone(&counters)));
        let sender = Sender { endpoint, patience, queue: shared.0, counters: shared.1 };
        let sender = sender.start(first).map_err(Error::Thread)?;
        Ok(Self {
            source,
            slowest: Slowest::of_at_most(options.traces_per_second),
            traces: Traces::default(),
            queue,
            counters,
            sender: Some(sender),
            second: Nanos::MIN,
        })
    }

    /// Takes a verdict: it is sent if it is among the slowest of this second. Never waits.
    pub fn offer(&mut self, verdict: &Verdict) {
        if !self.slowest.offer(verdict) {
            lock(&self.counters).sampled_out += 1;
        }
    }

    /// Hands on what a second brought, where one is over by the clock of the events. Never waits.
    pub fn tick(&mut self, now: Nanos) {
        if now - self.second >= SECOND {
            self.second = now;
            self.flush();
        }
    }

    /// Hands on what there is. Never waits.
    pub fn flush(&mut self) {
        let verdicts = self.slowest.take();
        if verdicts.is_empty() {
            return;
        }
        let spans: Vec<_> = verdicts.iter().flat_map(|verdict| self.traces.spans(verdict)).collect();
        let batch = Batch { body: span::encode(&self.source, &spans), traces: verdicts.len() as u64 };
        lock(&self.counters).dropped += self.queue.push(batch);
    }

    /// What became of what was offered.
    pub fn counts(&self) -> Counts {
        *lock(&self.counters)
    }

    /// Hands on the last, waits until all is sent, at most so long, and ends the thread.
    pub fn close(mut self, at_most: Duration) -> Counts {
        self.flush();
        let left = self.queue.close(Instant::now() + at_most);
        if let Some(sender) = self.sender.take() {
            // Ends soon after the queue's end; one that panicked has sent nothing more.
            let _ = sender.join();
        }
        lock(&self.counters).dropped += left;
        self.counts()
    }
}

impl Drop for Otlp {
    fn drop(&mut self) {
        // Who does not call `close` does not wait either: the thread ends by itself.
        self.queue.close(Instant::now());
    }
}

/// Verdicts, of which the least slow gives way.
#[derive(Debug)]
struct Slowest {
    most: usize,
    kept: Vec<Verdict>,
}

impl Slowest {
    /// Room for so many.
    fn of_at_most(most: usize) -> Self {
        Self { most, kept: Vec::new() }
    }

    /// Keeps it or the one that it is slower than. Returns whether all that came are still kept.
    fn offer(&mut self, verdict: &Verdict) -> bool {
        if self.kept.len() < self.most {
            self.kept.push(verdict.clone());
            return true;
        }
        // Few are kept, and most that are offered are not slower than any.
        let least = self.kept.iter_mut().min_by_key(|kept| kept.latency());
        if let Some(least) = least.filter(|least| least.latency() < verdict.latency()) {
            *least = verdict.clone();
        }
        false
    }

    /// Takes all, in the order of their arrival.
    fn take(&mut self) -> Vec<Verdict> {
        let mut taken = std::mem::take(&mut self.kept);
        taken.sort_by_key(|verdict| verdict.request.arrival);
        taken
    }
}
