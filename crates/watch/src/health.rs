//! Whether the sources of a watch are well, and when each last delivered something. Starts and ends none.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use model::Nanos;

use crate::queue::lock;

/// How what serves a purpose is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// As the plan calls it.
    pub purpose: String,
    /// Why nothing is seen for it; none while something may be.
    pub down: Option<String>,
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
    down: Arc<Mutex<Option<String>>>,
}

impl Default for Status {
    fn default() -> Self {
        Self { newest_ns: Arc::new(AtomicI64::new(i64::MIN)), down: Arc::default() }
    }
}

impl Status {
    /// Sets why nothing is seen by it; none where something may be.
    pub(crate) fn set_down(&self, why: Option<String>) {
        *lock(&self.down) = why;
    }

    pub(crate) fn down(&self) -> Option<String> {
        lock(&self.down).clone()
    }
}

impl Sources {
    /// How all is that is seen, by purpose.
    pub fn health(&self) -> Vec<Health> {
        let sources = lock(&self.0);
        let of_source = |source: &Source| {
            let newest = source.status.newest_ns.load(Ordering::Relaxed);
            let (down, last_event) = (source.status.down(), (newest != i64::MIN).then_some(Nanos(newest)));
            let of =
                move |purpose: &String| Health { purpose: purpose.clone(), down: down.clone(), last_event };
            source.purposes.iter().map(of).collect::<Vec<_>>()
        };
        sources.iter().flat_map(of_source).collect()
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
