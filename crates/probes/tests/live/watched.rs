//! Probes on this very process and everything they have reported. Each test decides what that must be.

use std::time::{Duration, Instant};

use probes::{Event, Probes};

/// Attached probes and their events so far.
pub(crate) struct Watch {
    pub(crate) probes: Probes,
    pub(crate) events: Vec<Event>,
    patience: Duration,
}

impl Watch {
    /// Starts without events; each wait must succeed within `patience`.
    pub(crate) fn by(probes: Probes, patience: Duration) -> Self {
        Self { probes, events: Vec::new(), patience }
    }

    /// Reads until the reported events satisfy `done`.
    pub(crate) fn until(&mut self, what: &str, done: impl Fn(&Self) -> bool) {
        let end = Instant::now() + self.patience;
        while !done(self) {
            assert!(Instant::now() < end, "no {what}; {:?}; {:#?}", self.probes.losses(), self.events);
            self.poll();
        }
    }

    /// Reads what is reported within a tenth of a second.
    pub(crate) fn poll(&mut self) {
        let events = &mut self.events;
        self.probes.poll(Duration::from_millis(100), &mut |event| events.push(event)).unwrap();
    }
}
