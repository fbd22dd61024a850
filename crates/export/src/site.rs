//! The answers to scrapes: metrics, health, readiness. Shared by the thread that feeds the exporter and the thread that
//! serves it; contains no HTTP.
//!
//! A scrape never waits for more than a burst of events. Many scrapes cost no more than a few, because an output is
//! cached for a while.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use crate::exporter::{Exporter, ProcessUsage};
use crate::format::Format;
use crate::server::{Answer, HttpRequest, METHOD_NOT_ALLOWED, NOT_FOUND, OK, UNAVAILABLE};

/// Time for which an output is cached.
const FRESH: Duration = Duration::from_millis(200);
/// Events are fed many times per second: after this time without any, the feeding thread hangs.
const SILENT: Duration = Duration::from_secs(30);
/// Polling interval of the feeding thread and of scrapes that wait for it.
/// The feeding thread lets waiting scrapes go first.
const YIELD_INTERVAL: Duration = Duration::from_micros(100);
/// Longest wait of a scrape for the feeding thread: one that hangs must not block other answers, least of all the
/// report that it hangs.
const MAX_WAIT: Duration = Duration::from_secs(1);

const INDEX: &str = "brokerscope: /metrics (Prometheus text, OpenMetrics, protobuf), /healthz, /readyz";

/// Whether something is healthy; if not, the reason.
pub type Health = Result<(), String>;

/// Answers requests about an exporter.
pub struct MetricsService {
    exporter: Mutex<Exporter>,
    own: Box<dyn Fn() -> ProcessUsage + Send + Sync>,
    written: Mutex<Cache>,
    /// Number of waiting scrapes.
    waiting_scrapes: AtomicUsize,
    fed: Mutex<Instant>,
    ready: Mutex<Health>,
}

/// The last output in each format, with its time.
type Cache = [Option<(Instant, Arc<[u8]>)>; Format::ALL.len()];

impl MetricsService {
    /// Creates a service for this exporter; `own` reads the usage of the process.
    pub fn new(exporter: Exporter, own: Box<dyn Fn() -> ProcessUsage + Send + Sync>) -> Self {
        Self {
            exporter: Mutex::new(exporter),
            own,
            written: Mutex::default(),
            waiting_scrapes: AtomicUsize::new(0),
            fed: Mutex::new(Instant::now()),
            ready: Mutex::new(Err("starting".to_owned())),
        }
    }

    /// Gives `work` the exporter. It must be short, because a scrape waits for it.
    pub fn feed<T>(&self, work: impl FnOnce(&mut Exporter) -> T) -> T {
        // A mutex is not fair: this thread would take it again before a scrape does.
        for _ in 0..100 {
            if self.waiting_scrapes.load(Ordering::Acquire) == 0 {
                break;
            }
            std::thread::sleep(YIELD_INTERVAL);
        }
        let done = work(&mut lock(&self.exporter));
        *lock(&self.fed) = Instant::now();
        done
    }

    /// Sets the readiness.
    pub fn set_ready(&self, ready: Health) {
        *lock(&self.ready) = ready;
    }

    pub(crate) fn answer(&self, request: &HttpRequest) -> Answer {
        if !["GET", "HEAD"].contains(&request.method.as_str()) {
            return Answer::text(METHOD_NOT_ALLOWED, "only GET and HEAD");
        }
        match request.path.as_str() {
            "/metrics" => self.metrics(Format::from_accept(&request.accept)),
            "/healthz" => Self::health_answer(&self.health()),
            "/readyz" => Self::health_answer(&self.readiness()),
            "/" => Answer::text(OK, INDEX),
            _ => Answer::text(NOT_FOUND, INDEX),
        }
    }

    fn readiness(&self) -> Health {
        lock(&self.ready).clone()?;
        let down = (self.own)().sources.into_iter().find_map(|source| Some((source.purpose, source.down?)));
        down.map_or(Ok(()), |(purpose, why)| Err(format!("{purpose} is not seen: {why}")))
    }

    fn health_answer(health: &Health) -> Answer {
        match health {
            Ok(()) => Answer::text(OK, "ok"),
            Err(why) => Answer::text(UNAVAILABLE, why),
        }
    }

    fn health(&self) -> Health {
        let silent = lock(&self.fed).elapsed();
        if silent < SILENT { Ok(()) } else { Err(format!("no event was taken for {} s", silent.as_secs())) }
    }

    fn metrics(&self, format: Format) -> Answer {
        // A repeated request within that time gets the same output.
        let mut written = lock(&self.written);
        let known = written.get(format as usize).and_then(Option::as_ref);
        let fresh = known.filter(|(at, _)| at.elapsed() < FRESH).cloned();
        let Some((at, body)) = fresh.or_else(|| self.write(format).map(|body| (Instant::now(), body))) else {
            return Answer::text(UNAVAILABLE, "events are taken for too long; try again");
        };
        if let Some(slot) = written.get_mut(format as usize) {
            *slot = Some((at, Arc::clone(&body)));
        }
        Answer { status: OK, content_type: format.content_type(), body }
    }

    /// Renders the metrics; `None` if the feeding thread holds the exporter for too long.
    fn write(&self, format: Format) -> Option<Arc<[u8]>> {
        let own = (self.own)();
        self.waiting_scrapes.fetch_add(1, Ordering::AcqRel);
        let exporter = self.exporter_within(MAX_WAIT);
        let written = exporter.map(|mut exporter| exporter.write(format, &own).into());
        self.waiting_scrapes.fetch_sub(1, Ordering::AcqRel);
        written
    }

    fn exporter_within(&self, wait: Duration) -> Option<MutexGuard<'_, Exporter>> {
        let end = Instant::now() + wait;
        loop {
            match self.exporter.try_lock() {
                Ok(exporter) => return Some(exporter),
                Err(TryLockError::Poisoned(exporter)) => return Some(exporter.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() >= end => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(YIELD_INTERVAL),
            }
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
