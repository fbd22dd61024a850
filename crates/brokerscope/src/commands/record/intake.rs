//! Adds the events of a watch to a recording, in the threads that observe them: all of them, or those that a flight
//! recorder selects. Counts what `record` reports at the end. Writes nothing.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{BrokerChange, Event, Nanos, TlsTraffic};
use recording::IntakeGuard;
use watch::{EventSink, FlightRecorder};

/// An event sink shared by all threads, which take turns.
#[derive(Clone)]
pub(super) struct Intake(Arc<Mutex<Inner>>);

pub(super) struct Inner {
    rows: recording::Intake,
    /// Selects the events to record, if not all are.
    flight: Option<FlightRecorder>,
    slower_than: Nanos,
    pub(super) counts: Counts,
    pub(super) notes: ManifestNotes,
}

/// Counts of observed events.
#[derive(Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) requests: u64,
    pub(super) slow: u64,
    pub(super) file_ops: u64,
    pub(super) journal_commits: u64,
}

/// Facts from recorded events that the manifest also needs.
#[derive(Default)]
pub(super) struct ManifestNotes {
    /// By kind.
    pub(super) losses: BTreeMap<String, u64>,
    /// Changes of the broker's process that are not yet in the manifest.
    changes: Vec<BrokerChange>,
    /// TLS traffic that is not yet reported.
    tls: Vec<TlsTraffic>,
}

impl EventSink for Intake {
    fn take(&mut self, events: Vec<Event>, refuse: &mut dyn FnMut(&Event)) {
        let Inner { rows, flight, slower_than, counts, notes } = &mut *self.inner();
        let mut rows = rows.open();
        for event in events {
            counts.count(&event, *slower_than);
            match flight {
                Some(flight) => flight.push(event, &mut |decided| notes.record(&decided, &mut rows, refuse)),
                None => notes.record(&event, &mut rows, refuse),
            }
        }
    }
}

impl Intake {
    /// Creates an intake of these rows.
    /// A request that takes `slower_than` or longer counts as slow.
    pub(super) fn new(rows: recording::Intake, flight: Option<FlightRecorder>, slower_than: Nanos) -> Self {
        let (counts, notes) = (Counts::default(), ManifestNotes::default());
        Self(Arc::new(Mutex::new(Inner { rows, flight, slower_than, counts, notes })))
    }

    /// Takes the changes of the broker's process since the last call.
    pub(super) fn take_changes(&self) -> Vec<BrokerChange> {
        std::mem::take(&mut self.inner().notes.changes)
    }

    /// Takes the TLS traffic since the last call.
    pub(super) fn take_tls(&self) -> Vec<TlsTraffic> {
        std::mem::take(&mut self.inner().notes.tls)
    }

    /// Takes the flight recorder with the events it still holds, if there is one; from then on every event is recorded.
    pub(super) fn take_flight(&self) -> Option<FlightRecorder> {
        self.inner().flight.take()
    }

    /// Locks the counts and notes so far; threads with more events wait meanwhile.
    pub(super) fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ManifestNotes {
    fn record(&mut self, event: &Event, rows: &mut IntakeGuard<'_>, refuse: &mut dyn FnMut(&Event)) {
        match event {
            Event::Loss(loss) => {
                *self.losses.entry(loss.kind.as_str().to_owned()).or_default() += loss.count;
            }
            Event::BrokerChange(change) => self.changes.push(change.clone()),
            Event::TlsTraffic(traffic) => self.tls.push(traffic.clone()),
            _ => {}
        }
        if !rows.take(event) {
            refuse(event);
        }
    }
}

impl Counts {
    fn count(&mut self, event: &Event, slower_than: Nanos) {
        match event {
            Event::Request(request) => {
                self.requests += 1;
                self.slow += u64::from(request.latency().is_some_and(|latency| latency >= slower_than));
            }
            Event::FileOp(_) => self.file_ops += 1,
            Event::JournalCommit(_) => self.journal_commits += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{BrokerChange, BrokerState, Event, Loss, LossKind, Nanos};
    use recording::{Manifest, Recording, Writer, WriterOptions};
    use watch::{EventSink as _, Flight, FlightRecorder};

    use super::Intake;

    fn loss(count: u64) -> Event {
        let (at, kind) = (Nanos::from_millis(1), LossKind::ProbeMapFull);
        Event::Loss(Loss { start: at, end: at, kind, count, detail: "".into() })
    }

    fn change() -> BrokerChange {
        BrokerChange { at: Nanos::from_millis(2), pid: 7, state: BrokerState::Gone }
    }

    #[test]
    fn intake_records_events_and_notes_changes_and_losses() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("recording");
        let mut writer = Writer::create(&dir, &Manifest::default(), WriterOptions::default()).unwrap();
        let slower_than = Nanos::from_millis(100);
        let flight = Flight { slower_than, apis: Vec::new(), hold: slower_than, max_bytes: 1 << 20 };
        let flight = Some(FlightRecorder::new(flight));
        let mut intake = Intake::new(writer.intake(1), flight, slower_than);
        let events = vec![Event::BrokerChange(change()), loss(2)];
        intake.take(events, &mut |event| panic!("there is room for {event:?}"));
        assert_eq!(intake.take_changes(), [change()]);
        assert!(intake.take_changes().is_empty(), "it is reported once");
        let mut refused = Vec::new();
        intake.take(vec![loss(3), Event::BrokerChange(change())], &mut |event| refused.push(event.clone()));
        assert_eq!(refused, [Event::BrokerChange(change())]);
        assert_eq!(
            intake.inner().notes.losses.clone().into_iter().collect::<Vec<_>>(),
            [("probe-map-full".to_owned(), 5)]
        );
        assert!(intake.take_flight().is_some_and(|flight| flight.finish(&mut |_| ()) == 0));
        assert!(intake.take_flight().is_none());
        writer.flush().unwrap();
        let recorded = Recording::open(&dir).unwrap().events().map(Result::unwrap).collect::<Vec<_>>();
        assert_eq!(recorded, [loss(2), loss(3), Event::BrokerChange(change())]);
    }
}
