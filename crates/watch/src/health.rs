//! Whether the sources of a watch are well, and when each last delivered something. Starts and ends none.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use model::Nanos;

use crate::outages::Outage;
use crate::queue::lock;

/// How what serves a purpose is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// As the plan calls it.
    pub purpose: String,
    /// Why nothing is seen for it; none while something may be.
    pub down: Option<String>,
    /// Since when.
    pub down_since: Option<Nanos>,
    /// The time of the newest event of its source; none before the first.
    pub last_event: Option<Nanos>,
}

/// The sources of a watch. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Sources(Arc<Mutex<Vec<Source>>>);

/// A source, also while its thread does not run because the broker does not.
#[derive(Debug)]
struct Source {
    name: &'static str,
    /// What it is for; nothing where the plan does not have it.
    purposes: Vec<String>,
    status: Status,
}

/// What a source knows of itself. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Status {
    pub(crate) newest_ns: Arc<AtomicI64>,
    /// Why and since when nothing is seen by it.
    down: Arc<Mutex<Option<(String, Nanos)>>>,
}

impl Default for Status {
    fn default() -> Self {
        Self { newest_ns: Arc::new(AtomicI64::new(i64::MIN)), down: Arc::default() }
    }
}

impl Status {
    /// Sets why nothing is seen by it, from now on or already; none where something may be.
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
    /// How all is that is seen, by purpose.
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

    /// Those that are down.
    pub(crate) fn outages(&self) -> Vec<Outage> {
        let sources = lock(&self.0);
        let of_source = |source: &Source| {
            let (why, since) = lock(&source.status.down).clone()?;
            Some(Outage { since, purposes: source.purposes.clone(), why })
        };
        sources.iter().filter(|source| !source.purposes.is_empty()).filter_map(of_source).collect()
    }

    /// The status of a source of that name, which is known from now on.
    pub(crate) fn status(&self, name: &'static str) -> Status {
        let mut sources = lock(&self.0);
        if let Some(known) = sources.iter().find(|source| source.name == name) {
            return known.status.clone();
        }
        let status = Status::default();
        sources.push(Source { name, purposes: Vec::new(), status: status.clone() });
        status
    }

    /// Says what a source is for. Each purpose is of one source, the last that it was said of.
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
