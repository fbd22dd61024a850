//! Probes on this very process and everything they have reported. Does not say what that must be: each test does.

use std::time::{Duration, Instant};

use probes::{Event, Probes};

/// Attached probes and their events so far.
pub(crate) struct Watch {
    pub(crate) probes: Probes,
    pub(crate) events: Vec<Event>,
    patience: Duration,
}

impl Watch {
    /// Nothing is reported yet; what is waited for must come within this time.
    pub(crate) fn by(probes: Probes, patience: Duration) -> Self {
        Self { probes, events: Vec::new(), patience }
    }

    /// Reads until what has been reported satisfies the caller.
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
