//! Slow requests as OpenTelemetry traces: a trace for each of the slowest, with a span for each stage. The evidence (the
//! write, the thread that had the lock, the commit) is in a trace of the root event, to which the requests' spans link: a
//! commit that slowed 37 requests is sent once.
//!
//! Spans are passed without waiting, in batches, to a thread that sends them by HTTP (OTLP/HTTP with JSON,
//! `POST /v1/traces`) and retries if the collector is away or asks for that. The queue is bounded; traces that are
//! sampled out, dropped or refused are counted. Reaches no verdicts, and speaks neither TLS nor gRPC: a local collector does.

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

/// Maximum bytes of encoded batches that wait for the collector.
const QUEUE_BYTES: usize = 8 << 20;
const SECOND: Nanos = Nanos::from_millis(1_000);

/// Reason why no traces can be sent.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address is not supported.
    #[error("{url:?} is not a collector's address: {why}; use --otlp http://HOST:4318")]
    Address {
        /// The given address.
        url: String,
        /// The fault in it.
        why: &'static str,
    },
    /// No thread could be started.
    #[error("no thread that sends traces could be started")]
    Thread(#[source] std::io::Error),
}

/// The source of the spans: OpenTelemetry's resource.
#[derive(Clone, Debug, Default)]
pub struct Resource {
    /// The host's name.
    pub host: String,
    /// The broker's id in its cluster, if known.
    pub broker_id: Option<String>,
    /// The version of brokerscope.
    pub version: String,
}

/// Sampling and retries.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Maximum traces per second: the slowest requests of each second.
    pub traces_per_second: usize,
    /// Timeouts and retries.
    pub retry: RetryPolicy,
}

impl Default for Options {
    fn default() -> Self {
        Self { traces_per_second: 10, retry: RetryPolicy::default() }
    }
}

/// Outcomes of the offered slow requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Traces that a collector accepted.
    pub sent: u64,
    /// Traces that were not among the slowest of their second.
    pub sampled_out: u64,
    /// Traces dropped: the queue was full, or the collector did not come back in time.
    pub dropped: u64,
    /// Traces that the collector refused for good.
    pub refused: u64,
    /// Spans that a collector rejected from a batch that it accepted.
    pub rejected_spans: u64,
    /// Failed attempts that were repeated.
    pub retries: u64,
}

/// Counts shared between the thread that offers and the one that sends.
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

/// Samples verdicts and has them sent.
#[derive(Debug)]
pub struct Otlp {
    source: Resource,
    slowest: Slowest,
    traces: Traces,
    queue: Arc<Queue>,
    counters: Arc<Counters>,
    sender: Option<JoinHandle<()>>,
    /// Start of the second that is being sampled, on the clock of the events.
    second: Nanos,
}

impl Otlp {
    /// Starts the sending thread. The thread calls `first` first, to drop rights that sending does not need.
    ///
    /// # Errors
    /// [`Error::Thread`] if it cannot be started.
    pub fn start(endpoint: Endpoint, source: Resource, options: Options, first: fn()) -> Result<Self, Error> {
        let counters = Arc::new(Counters::default());
        let queue = Arc::new(Queue::new(QUEUE_BYTES));
        let (retry, shared) = (options.retry, (Arc::clone(&queue), Arc::clone(&counters)));
        let sender = Sender { endpoint, retry, queue: shared.0, counters: shared.1 };
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

    /// Offers a verdict, which is sent if it is among the slowest of this second. Never waits.
    pub fn offer(&mut self, verdict: &Verdict) {
        if !self.slowest.offer(verdict) {
            lock(&self.counters).sampled_out += 1;
        }
    }

    /// Queues the traces of a second that is over by the clock of the events. Never waits.
    pub fn tick(&mut self, now: Nanos) {
        if now - self.second >= SECOND {
            self.second = now;
            self.flush();
        }
    }

    /// Queues the sampled traces. Never waits.
    pub fn flush(&mut self) {
        let verdicts = self.slowest.take();
        if verdicts.is_empty() {
            return;
        }
        let spans: Vec<_> = verdicts.iter().flat_map(|verdict| self.traces.spans(verdict)).collect();
        let batch = Batch { body: span::encode(&self.source, &spans), traces: verdicts.len() as u64 };
        lock(&self.counters).dropped += self.queue.push(batch);
    }

    /// Outcomes so far.
    pub fn counts(&self) -> Counts {
        *lock(&self.counters)
    }

    /// Queues the last traces and ends the thread. Waits at most `at_most` until all are sent.
    pub fn close(mut self, at_most: Duration) -> Counts {
        self.flush();
        let left = self.queue.close(Instant::now() + at_most);
        if let Some(sender) = self.sender.take() {
            // Ends soon after the queue's end. If it panicked, it has sent nothing more.
            let _ = sender.join();
        }
        lock(&self.counters).dropped += left;
        self.counts()
    }
}

impl Drop for Otlp {
    fn drop(&mut self) {
        // Without a call of `close` nothing waits: the thread ends by itself.
        self.queue.close(Instant::now());
    }
}

/// The slowest verdicts, up to a maximum number.
#[derive(Debug)]
struct Slowest {
    most: usize,
    verdicts: Vec<Verdict>,
}

impl Slowest {
    /// Creates a sample of at most `most` verdicts.
    fn of_at_most(most: usize) -> Self {
        Self { most, verdicts: Vec::new() }
    }

    /// Adds a verdict, in place of the least slow one if the sample is full.
    /// Returns whether none was dropped.
    fn offer(&mut self, verdict: &Verdict) -> bool {
        if self.verdicts.len() < self.most {
            self.verdicts.push(verdict.clone());
            return true;
        }
        // The sample is small, and most verdicts offered are not slower than any in it.
        let least = self.verdicts.iter_mut().min_by_key(|verdict| verdict.latency());
        if let Some(least) = least.filter(|least| least.latency() < verdict.latency()) {
            *least = verdict.clone();
        }
        false
    }

    /// Takes all, in the order of their arrival.
    fn take(&mut self) -> Vec<Verdict> {
        let mut taken = std::mem::take(&mut self.verdicts);
        taken.sort_by_key(|verdict| verdict.request.arrival);
        taken
    }
}
