//! The answers to scrapes: metrics, health, readiness. Shared by the thread that feeds the exporter and the one that serves it;
//! speaks no HTTP itself.
//!
//! A scrape never waits for more than a burst of events. Many scrapes cost no more than a few: an output is served again for a
//! while.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::exporter::{Exporter, ProcessUsage};
use crate::format::Format;
use crate::server::{Answer, HttpRequest, METHOD_NOT_ALLOWED, NOT_FOUND, OK, UNAVAILABLE};

/// How long one output is served again.
const FRESH: Duration = Duration::from_millis(200);
/// Events are fed many times a second: without any for so long, the feeding thread hangs.
const SILENT: Duration = Duration::from_secs(30);
/// Who feeds lets those who ask go first, and looks this often whether they have been served. They look as often.
const GIVE_WAY: Duration = Duration::from_micros(100);
/// Who asks waits no longer for who feeds: one that hangs holds up no other answer, least of all that it hangs.
const MAX_WAIT: Duration = Duration::from_secs(1);

const INDEX: &str = "brokerscope: /metrics (Prometheus text, OpenMetrics, protobuf), /healthz, /readyz";

/// Whether something is as it should be; if not, why.
pub type Health = Result<(), String>;

/// What is answered.
pub struct MetricsService {
    exporter: Mutex<Exporter>,
    own: Box<dyn Fn() -> ProcessUsage + Send + Sync>,
    written: Mutex<Cache>,
    /// How many wait to be told.
    asking: AtomicUsize,
    fed: Mutex<Instant>,
    ready: Mutex<Health>,
}

/// What was written last in each format, and when.
type Cache = [Option<(Instant, Arc<[u8]>)>; Format::ALL.len()];

impl MetricsService {
    /// Of this exporter; `own` reads what the process takes.
    pub fn new(exporter: Exporter, own: Box<dyn Fn() -> ProcessUsage + Send + Sync>) -> Self {
        Self {
            exporter: Mutex::new(exporter),
            own,
            written: Mutex::default(),
            asking: AtomicUsize::new(0),
            fed: Mutex::new(Instant::now()),
            ready: Mutex::new(Err("starting".to_owned())),
        }
    }

    /// Has the exporter take what there is: not much at a time, because a scrape waits for it.
    pub fn feed<T>(&self, work: impl FnOnce(&mut Exporter) -> T) -> T {
        // A mutex is not fair: this thread would take it again before a scrape does.
        for _ in 0..100 {
            if self.asking.load(Ordering::Acquire) == 0 {
                break;
            }
            std::thread::sleep(GIVE_WAY);
        }
        let done = work(&mut lock(&self.exporter));
        *lock(&self.fed) = Instant::now();
        done
    }

    /// Sets whether the metrics are of use yet.
    pub fn set_ready(&self, ready: Health) {
        *lock(&self.ready) = ready;
    }

    pub(crate) fn answer(&self, request: &HttpRequest) -> Answer {
        if !["GET", "HEAD"].contains(&request.method.as_str()) {
            return Answer::say(METHOD_NOT_ALLOWED, "only GET and HEAD");
        }
        match request.path.as_str() {
            "/metrics" => self.metrics(Format::accepted(&request.accept)),
            "/healthz" => Self::say(&self.health()),
            "/readyz" => Self::say(&self.readiness()),
            "/" => Answer::say(OK, INDEX),
            _ => Answer::say(NOT_FOUND, INDEX),
        }
    }

    fn readiness(&self) -> Health {
        lock(&self.ready).clone()?;
        let down = (self.own)().sources.into_iter().find_map(|source| Some((source.purpose, source.down?)));
        down.map_or(Ok(()), |(purpose, why)| Err(format!("{purpose} is not seen: {why}")))
    }

    fn say(health: &Health) -> Answer {
        match health {
            Ok(()) => Answer::say(OK, "ok"),
            Err(why) => Answer::say(UNAVAILABLE, why),
        }
    }

    fn health(&self) -> Health {
        let silent = lock(&self.fed).elapsed();
        if silent < SILENT { Ok(()) } else { Err(format!("no event was taken for {} s", silent.as_secs())) }
    }

    fn metrics(&self, format: Format) -> Answer {
        // What is asked for again at once is the same.
        let mut written = lock(&self.written);
        let known = written.get(format as usize).and_then(Option::as_ref);
        let fresh = known.filter(|(at, _)| at.elapsed() < FRESH).cloned();
        let Some((at, body)) = fresh.or_else(|| self.write(format).map(|body| (Instant::now(), body))) else {
            return Answer::say(UNAVAILABLE, "events are taken for too long; try again");
        };
        if let Some(slot) = written.get_mut(format as usize) {
            *slot = Some((at, Arc::clone(&body)));
        }
        Answer { status: OK, content_type: format.content_type(), body }
    }

    /// None where the feeding thread holds the exporter for too long.
    fn write(&self, format: Format) -> Option<Arc<[u8]>> {
        let own = (self.own)();
        self.asking.fetch_add(1, Ordering::AcqRel);
        let exporter = self.exporter_within(MAX_WAIT);
        let written = exporter.map(|mut exporter| exporter.write(format, &own).into());
        self.asking.fetch_sub(1, Ordering::AcqRel);
        written
    }

    fn exporter_within(&self, wait: Duration) -> Option<MutexGuard<'_, Exporter>> {
        let end = Instant::now() + wait;
        loop {
            match self.exporter.try_lock() {
                Ok(exporter) => return Some(exporter),
                Err(TryLockError::Poisoned(exporter)) => return Some(exporter.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= end => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(GIVE_WAY),
            }
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
