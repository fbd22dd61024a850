//! Producers that keep a pace: a connection each, at most so many requests unanswered, bytes that are never the same
//! twice (a batch is recognised by its checksum).

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

/// How often a producer that waits for its turn looks whether it is over.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// What producers do.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Their client ids: this, `-` and a number.
    pub client: String,
    /// Where they write to.
    pub topic: String,
    /// To which partitions: from 0 on, each producer to all of them in turn.
    pub partitions: u32,
    /// How many, a connection each.
    pub producers: u32,
    /// Requests a second of each.
    pub per_second: u32,
    /// Size of the one record of a request.
    pub record_bytes: u32,
    /// Most unanswered requests of a connection; at least 1.
    pub in_flight: u32,
    /// -1, 0 or 1; with 0 there are no answers.
    pub acks: i16,
}

/// An answered request, as its producer saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    /// When it was sent, UTC nanoseconds.
    pub sent_ns: i64,
    /// How long the answer took, in nanoseconds.
    pub latency_ns: i64,
}

/// Producers at work; ended when dropped.
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
    /// Starts them.
    ///
    /// # Errors
    /// Where one cannot connect.
    pub fn start(&self, endpoint: impl Into<Endpoint>, rng: &mut Rng) -> Result<Running> {
        let endpoint = endpoint.into();
        let mut running = Running { control: Arc::default(), threads: Vec::new() };
        for number in 1..=self.producers {
            let connection = Connection::open(endpoint, format!("{}-{number}", self.client))?;
            let (taken, given_back) = sync_channel(self.in_flight.max(1) as usize);
            let (told, heard) = channel();
            if self.acks != 0 {
                let reader = connection.reader()?;
                running.threads.push(thread::spawn(move || listen(&reader, &heard, &given_back)));
            }
            let (traffic, rng, control) = (self.clone(), rng.fork(), Arc::clone(&running.control));
            let producer = Producer { traffic, connection, rng, control, places: taken, told };
            running.threads.push(thread::spawn(move || producer.run().map(|()| Vec::new())));
        }
        Ok(running)
    }
}

impl Running {
    /// Has them send nothing, or go on. What is on its way is answered meanwhile.
    pub fn pause(&self, paused: bool) {
        self.control.paused.store(paused, Ordering::Relaxed);
    }

    /// Ends them and returns what they saw, when all that was sent is answered.
    ///
    /// # Errors
    /// Where the broker refused something or went away.
    pub fn stop(mut self) -> Result<Vec<Answer>> {
        self.control.over.store(true, Ordering::Relaxed);
        let mut answers = Vec::new();
        for thread in std::mem::take(&mut self.threads) {
            let saw = thread.join();
            answers.append(&mut saw.map_err(|_| Error::Unusable("a producer thread panicked".to_owned()))??);
        }
        Ok(answers)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.control.over.store(true, Ordering::Relaxed);
    }
}

/// A request that is on its way.
struct PendingRequest {
    at: Instant,
    at_ns: i64,
}

struct Producer {
    traffic: Traffic,
    connection: Connection,
    rng: Rng,
    control: Arc<Control>,
    /// A place for every request that may be unanswered.
    places: SyncSender<()>,
    told: Sender<PendingRequest>,
}

impl Producer {
    /// Sends at its pace. What it could not send in time it leaves out: an answer that came late makes no burst.
    fn run(mut self) -> Result<()> {
        let pace = Duration::from_secs(1) / self.traffic.per_second.max(1);
        // Not all at the same moment.
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
                // Nobody listens any more: its own error says why.
                if self.places.send(()).is_err() || self.told.send(sent()).is_err() {
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

/// Reads an answer for each request that was reported, until no more are.
fn listen(
    reader: &Transport,
    heard: &Receiver<PendingRequest>,
    given_back: &Receiver<()>,
) -> Result<Vec<Answer>> {
    let mut answers = Vec::new();
    while let Ok(sent) = heard.recv() {
        let body = read_response(reader)?;
        let latency_ns = i64::try_from(sent.at.elapsed().as_nanos()).unwrap_or(i64::MAX);
        // There is one for each that was reported.
        let _ = given_back.try_recv();
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
