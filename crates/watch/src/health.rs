//! Health of a watch's sources, and when each last delivered an event. Does not start or stop them.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use model::Nanos;

use crate::outages::Outage;
use crate::queue::lock;

/// Health of the source that serves a purpose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The purpose's name in the plan.
    pub purpose: String,
    /// Why the purpose is not served; `None` while it is.
    pub down: Option<String>,
    /// Since when it is not served.
    pub down_since: Option<Nanos>,
    /// Time of the newest event of the source; `None` before the first.
    pub last_event: Option<Nanos>,
}

/// The sources of a watch. Clones share one list.
#[derive(Clone, Debug, Default)]
pub struct Sources(Arc<Mutex<Vec<Source>>>);

/// A source, even while its thread does not run because the broker is down.
#[derive(Debug)]
struct Source {
    name: &'static str,
    /// Purposes that it serves; empty if the plan does not have it.
    purposes: Vec<String>,
    status: Status,
}

/// A source's status. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) newest_ns: Arc<AtomicI64>,
    /// Why and since when the source is down.
    down: Arc<Mutex<Option<(String, Nanos)>>>,
}

impl Default for Status {
    fn default() -> Self {
        Self { newest_ns: Arc::new(AtomicI64::new(i64::MIN)), down: Arc::default() }
    }
}

impl Status {
    /// Sets why the source is down, and since `now` unless it was down already; `None` if it is up.
    pub(crate) fn set_down(&self, why: Option<String>, now: Nanos) {
        let mut down = lock(&self.down);
        let since = down.as_ref().map_or(now, |(_, since)| *since);
        *down = why.map(|why| (why, since));
    }

    pub(crate) fn is_down(&self) -> bool {
        lock(&self.down).is_some()
    }
}

impl Sources {
    /// Health of all sources, by purpose.
    pub fn health(&self) -> Vec<Health> {
        let sources = lock(&self.0);
        let of_source = |source: &Source| {
            let newest = source.status.newest_ns.load(Ordering::Relaxed);
            let (down, down_since) = lock(&source.status.down).clone().unzip();
            let last_event = (newest != i64::MIN).then_some(Nanos(newest));
            let health = Health { purpose: String::new(), down, down_since, last_event };
            let of = |purpose: &String| Health { purpose: purpose.clone(), ..health.clone() };
            source.purposes.iter().map(of).collect::<Vec<_>>()
        };
        sources.iter().flat_map(of_source).collect()
    }

    /// Sources that are down.
    pub(crate) fn outages(&self) -> Vec<Outage> {
        let sources = lock(&self.0);
        let of_source = |source: &Source| {
            let (why, since) = lock(&source.status.down).clone()?;
            Some(Outage { since, purposes: source.purposes.clone(), why })
        };
        sources.iter().filter(|source| !source.purposes.is_empty()).filter_map(of_source).collect()
    }

    /// Returns the status of the source with this name; adds it if it is new.
    pub(crate) fn status(&self, name: &'static str) -> Status {
        let mut sources = lock(&self.0);
        if let Some(known) = sources.iter().find(|source| source.name == name) {
            return known.status.clone();
        }
        let status = Status::default();
        sources.push(Source { name, purposes: Vec::new(), status: status.clone() });
        status
    }

    /// Sets the purposes of a source.
    /// Each purpose belongs to one source, the last that it was set for.
    pub(crate) fn serve(&self, name: &'static str, purposes: &[impl AsRef<str>]) {
        self.status(name);
        let is_meant = |purpose: &String| purposes.iter().any(|meant| meant.as_ref() == purpose);
        for source in lock(&self.0).iter_mut() {
            source.purposes.retain(|purpose| !is_meant(purpose));
            if source.name == name {
                source.purposes.extend(purposes.iter().map(|purpose| purpose.as_ref().to_owned()));
            }
        }
    }
}
