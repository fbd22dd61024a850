//! Producers that keep a pace: one connection each, a bounded number of unanswered requests, and bytes that never
//! repeat (a batch is recognised by its checksum).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use fastrand::Rng;
use kafka_protocol::messages::ApiKey;

use super::request::{Request, first_error};
use super::transport::Transport;
use super::{Connection, Endpoint, read_response};
use crate::error::{Error, Result};

/// How often a waiting producer checks whether to stop.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Load of some producers.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Prefix of their client ids, before `-` and a number.
    pub client: String,
    /// The topic that they write to.
    pub topic: String,
    /// Number of partitions, from 0 on; each producer writes to all of them in turn.
    pub partitions: u32,
    /// Number of producers, one connection each.
    pub producers: u32,
    /// Requests per second of each.
    pub per_second: u32,
    /// Size of a request's only record.
    pub record_bytes: u32,
    /// Maximum number of unanswered requests per connection; at least 1.
    pub in_flight: u32,
    /// -1, 0 or 1; with 0 there are no responses.
    pub acks: i16,
}

/// An answered request, as its producer saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Send time, UTC nanoseconds.
    pub sent_ns: i64,
    /// Latency of the response, in nanoseconds.
    pub latency_ns: i64,
}

/// Running producers; dropping it ends them.
#[derive(Debug)]
pub struct Running {
    control: Arc<Control>,
    threads: Vec<JoinHandle<Result<Vec<Answer>>>>,
}

#[derive(Debug, Default)]
struct Control {
    over: AtomicBool,
    paused: AtomicBool,
}

impl Traffic {
    /// Starts the producers.
    ///
    /// # Errors
    /// One cannot connect.
    pub fn start(&self, endpoint: impl Into<Endpoint>, rng: &mut Rng) -> Result<Running> {
        let endpoint = endpoint.into();
        let mut running = Running { control: Arc::default(), threads: Vec::new() };
        for number in 1..=self.producers {
            let connection = Connection::open(endpoint, format!("{}-{number}", self.client))?;
            let (acquire, release) = sync_channel(self.in_flight.max(1) as usize);
            let (sender, pending) = channel();
            if self.acks != 0 {
                let reader = connection.reader()?;
                running.threads.push(thread::spawn(move || listen(&reader, &pending, &release)));
            }
            let (traffic, rng, control) = (self.clone(), rng.fork(), Arc::clone(&running.control));
            let producer = Producer { traffic, connection, rng, control, slots: acquire, sender };
            running.threads.push(thread::spawn(move || producer.run().map(|()| Vec::new())));
        }
        Ok(running)
    }
}

impl Running {
    /// Pauses or resumes sending. Requests in flight are still answered.
    pub fn pause(&self, paused: bool) {
        self.control.paused.store(paused, Ordering::Relaxed);
    }

    /// Ends the producers and returns their measurements. Waits until all requests are answered.
    ///
    /// # Errors
    /// The broker refused something or closed a connection.
    pub fn stop(mut self) -> Result<Vec<Answer>> {
        self.control.over.store(true, Ordering::Relaxed);
        let mut answers = Vec::new();
        for thread in std::mem::take(&mut self.threads) {
            let result = thread.join();
            answers
                .append(&mut result.map_err(|_| Error::Unusable("a producer thread panicked".to_owned()))??);
        }
        Ok(answers)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control.over.store(true, Ordering::Relaxed);
    }
}

/// A request in flight.
struct PendingRequest {
    at: Instant,
    at_ns: i64,
}

struct Producer {
    traffic: Traffic,
    connection: Connection,
    rng: Rng,
    control: Arc<Control>,
    /// A slot for every request that may be unanswered.
    slots: SyncSender<()>,
    sender: Sender<PendingRequest>,
}

impl Producer {
    /// Sends at its pace. Skips what it could not send in time: a late response causes no burst.
    fn run(mut self) -> Result<()> {
        let pace = Duration::from_secs(1) / self.traffic.per_second.max(1);
        // Producers start at different moments.
        let mut due = Instant::now() + pace.mul_f64(self.rng.f64());
        let mut value = vec![0; self.traffic.record_bytes as usize];
        let mut partition = self.rng.u32(..self.traffic.partitions.max(1));
        while self.wait_until(due) {
            due = (due + pace).max(Instant::now());
            partition = (partition + 1) % self.traffic.partitions.max(1);
            self.rng.fill(&mut value);
            let request = Request::produce(&self.traffic.topic, partition, self.traffic.acks, &[&value]);
            if self.traffic.acks != 0 {
                let sent = || PendingRequest { at: Instant::now(), at_ns: now_ns() };
                // The listener has ended: its error says why.
                if self.slots.send(()).is_err() || self.sender.send(sent()).is_err() {
                    return Ok(());
                }
            }
            self.connection.send(&request)?;
        }
        Ok(())
    }

    fn wait_until(&self, due: Instant) -> bool {
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if self.control.over.load(Ordering::Relaxed) {
                return false;
            }
            let paused = self.control.paused.load(Ordering::Relaxed);
            if left.is_zero() && !paused {
                return true;
            }
            thread::sleep(if paused { POLL_INTERVAL } else { left.min(POLL_INTERVAL) });
        }
    }
}

/// Reads a response for each request that was reported, until no more are.
fn listen(
    reader: &Transport,
    pending: &Receiver<PendingRequest>,
    release: &Receiver<()>,
) -> Result<Vec<Answer>> {
    let mut answers = Vec::new();
    while let Ok(sent) = pending.recv() {
        let body = read_response(reader)?;
        let latency_ns = i64::try_from(sent.at.elapsed().as_nanos()).unwrap_or(i64::MAX);
        // There is one for each reported request.
        let _ = release.try_recv();
        match first_error(ApiKey::Produce, body) {
            Some(0) => answers.push(Answer { sent_ns: sent.at_ns, latency_ns }),
            code => return Err(Error::Unusable(format!("the broker refused a batch: error {code:?}"))),
        }
    }
    Ok(answers)
}

/// The wall clock, UTC nanoseconds.
pub(crate) fn now_ns() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |time| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX))
}
