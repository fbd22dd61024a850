//! The bounded queue between the sources and the reader of the watch.
//! Drops and counts events, but never waits.
//!
//! Sources send events in batches, as their own buffers deliver them: one synchronisation per batch, not per event. Dropped
//! events are reported by a loss event in order.
//!
//! A consumer that does little work per event, such as a recorder, takes events instead of the queue ([`EventSink`]): in the
//! source's thread, while an event's memory is still in the CPU's cache and can be reused for the next.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::vec::IntoIter;

use model::{Event, Loss, LossKind, Nanos};

/// Losses within this time are reported together.
const REPORT_AFTER: Nanos = Nanos::from_millis(250);
/// Batch size for the queue: small enough to stay in a CPU's own cache, and to be processed by the reader in a fraction of a
/// scheduler's time slice.
const QUEUE_BATCH: usize = 512;
/// Bytes per place in the queue: an event takes one place, a request with many partitions more.
const PLACE_BYTES: usize = 1_024;
/// Batch size for a sink: at most the number of chunks of one size that an allocator caches per thread (glibc: 7).
const SINK_BATCH: usize = 6;

/// Receives events instead of the queue, in the sources' threads.
pub trait EventSink: Send {
    /// Takes events, and calls `refuse` for those that it has no space for; it always takes losses.
    /// It is called by threads that watch the broker, so it must not wait for a disk.
    fn take(&mut self, events: Vec<Event>, refuse: &mut dyn FnMut(&Event));
}

/// Locks a mutex even if it is poisoned: its data is consistent even after a panic.
pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// State shared by both ends.
struct Fill {
    capacity: usize,
    waiting: AtomicUsize,
    dropped: AtomicU64,
    /// Whether `unreported` has a loss, to avoid its lock.
    any_unreported: AtomicBool,
    unreported: Mutex<Option<Loss>>,
    /// The sink, if there is one.
    /// Also locked for sending to the queue, so that queued events reach a new sink first.
    sink: Mutex<Option<Box<dyn EventSink>>>,
    /// Whether there is a sink.
    has_sink: AtomicBool,
}

/// A source's end of the queue.
#[derive(Clone)]
pub(crate) struct Sender {
    batches: mpsc::Sender<Vec<Event>>,
    fill: Arc<Fill>,
    /// Time of this source's newest event, except losses.
    newest_ns: Arc<AtomicI64>,
}

impl Sender {
    /// Clones the sender for a source.
    /// The clone stores the time of its newest event in `newest_ns`.
    pub(crate) fn with_newest(&self, newest_ns: Arc<AtomicI64>) -> Self {
        Self { newest_ns, ..self.clone() }
    }

    /// Sends one event; for rare events.
    pub(crate) fn send(&self, event: Event) {
        self.send_all(vec![event]);
    }

    /// Sends events. Those that do not fit, or have no reader any more, are counted as dropped.
    pub(crate) fn send_all(&self, events: Vec<Event>) {
        if let Some(event) = events.last().filter(|event| !matches!(event, Event::Loss(_))) {
            self.newest_ns.fetch_max(event.time().0, Ordering::Relaxed);
        }
        match &mut *lock(&self.fill.sink) {
            Some(sink) => self.fill.hand_over(&mut **sink, events),
            None => self.enqueue(events),
        }
    }

    /// Wakes up the queue's reader.
    pub(crate) fn wake_reader(&self) {
        // Without a reader, nobody waits.
        let _ = self.batches.send(Vec::new());
    }

    fn enqueue(&self, mut events: Vec<Event>) {
        let dropped = events.split_off(self.fill.claim(&events));
        if !dropped.is_empty() {
            self.fill.drop_events(&dropped);
        }
        let Some(first) = events.first().map(Event::time) else { return };
        if let Some(loss) = self.fill.loss_to_report(first) {
            self.fill.waiting.fetch_add(1, Ordering::Relaxed);
            events.insert(0, Event::Loss(loss));
        }
        if let Err(mpsc::SendError(unread)) = self.batches.send(events) {
            self.fill.drop_events(&unread);
        }
    }

    /// Events dropped so far, over all sources.
    pub(crate) fn dropped(&self) -> u64 {
        self.fill.dropped.load(Ordering::Relaxed)
    }

    /// Dropped events that no loss event has reported.
    pub(crate) fn unreported(&self) -> u64 {
        lock(&self.fill.unreported).as_ref().map_or(0, |loss| loss.count)
    }
}

/// Collects events of a source and sends them in batches.
pub(crate) struct Batch<'s> {
    sender: &'s Sender,
    events: Vec<Event>,
    size: usize,
}

impl<'s> Batch<'s> {
    /// Creates a batch for the queue, or for the sink if there is one.
    pub(crate) fn of(sender: &'s Sender) -> Self {
        let has_sink = sender.fill.has_sink.load(Ordering::Relaxed);
        let size = if has_sink { SINK_BATCH } else { QUEUE_BATCH };
        Self { sender, events: Vec::with_capacity(size), size }
    }

    /// Adds an event.
    pub(crate) fn push(&mut self, event: Event) {
        self.events.push(event);
        if self.events.len() >= self.size {
            let events = std::mem::replace(&mut self.events, Vec::with_capacity(self.size));
            self.sender.send_all(events);
        }
    }

    /// Sends the last events.
    pub(crate) fn send(self) {
        self.sender.send_all(self.events);
    }
}

impl Fill {
    fn hand_over(&self, sink: &mut dyn EventSink, mut events: Vec<Event>) {
        let Some(first) = events.first().map(Event::time) else { return };
        if let Some(loss) = self.loss_to_report(first) {
            events.insert(0, Event::Loss(loss));
        }
        sink.take(events, &mut |refused| self.drop_events(std::slice::from_ref(refused)));
    }

    /// Claims places for the first events that fit, and returns how many do.
    fn claim(&self, events: &[Event]) -> usize {
        let requested = places(events);
        let free = self.capacity.saturating_sub(self.waiting.fetch_add(requested, Ordering::Relaxed));
        if requested <= free {
            return events.len();
        }
        let mut taken = 0;
        let fits = events.iter().take_while(|event| {
            let fits = taken + places_of(event) <= free;
            taken += if fits { places_of(event) } else { 0 };
            fits
        });
        let count = fits.count();
        self.release(requested - taken);
        count
    }

    fn release(&self, count: usize) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
    }

    fn drop_events(&self, events: &[Event]) {
        self.dropped.fetch_add(events.len() as u64, Ordering::Relaxed);
        let (mut unreported, times) = (lock(&self.unreported), || events.iter().map(Event::time));
        let (Some(first), Some(last)) = (times().min(), times().max()) else { return };
        let loss = unreported.get_or_insert_with(|| Loss {
            start: first,
            end: last,
            kind: LossKind::EventsDropped,
            count: 0,
            detail: "events came faster than they could be read".into(),
        });
        loss.count += events.len() as u64;
        (loss.start, loss.end) = (loss.start.min(first), loss.end.max(last));
        self.any_unreported.store(true, Ordering::Relaxed);
    }

    /// Takes an unreported loss before an event of this time, if it is due.
    /// There is always space for the report.
    fn loss_to_report(&self, time: Nanos) -> Option<Loss> {
        if !self.any_unreported.load(Ordering::Relaxed) {
            return None;
        }
        let mut unreported = lock(&self.unreported);
        let loss = unreported.take_if(|loss| time - loss.start >= REPORT_AFTER)?;
        self.any_unreported.store(false, Ordering::Relaxed);
        Some(loss)
    }
}

/// Number of places that events take.
fn places(events: &[Event]) -> usize {
    events.iter().map(places_of).sum()
}

fn places_of(event: &Event) -> usize {
    if let Event::Request(request) = event { 1 + request.memory_bytes() / PLACE_BYTES } else { 1 }
}

/// The reader's end.
pub(crate) struct Queue {
    batches: Receiver<Vec<Event>>,
    fill: Arc<Fill>,
    /// The batch that is being read, and how many places it took.
    ready: RefCell<(IntoIter<Event>, usize)>,
}

impl Queue {
    /// Limit of events in the queue.
    pub(crate) fn capacity(&self) -> usize {
        self.fill.capacity
    }

    /// Sets a sink for all further events; passes queued events to it first.
    pub(crate) fn set_sink(&self, mut sink: Box<dyn EventSink>) {
        let mut place = lock(&self.fill.sink);
        let waiting: Vec<Event> = std::iter::from_fn(|| self.next(Duration::ZERO).ok().flatten()).collect();
        self.fill.hand_over(&mut *sink, waiting);
        self.fill.has_sink.store(true, Ordering::Relaxed);
        *place = Some(sink);
    }

    /// Returns the next event, if there is one within the timeout.
    /// `Err` once all sources have ended.
    pub(crate) fn next(&self, timeout: Duration) -> Result<Option<Event>, ()> {
        let mut ready = self.ready.borrow_mut();
        if let Some(event) = ready.0.next() {
            return Ok(Some(event));
        }
        self.fill.release(std::mem::take(&mut ready.1));
        match self.receive(timeout) {
            Ok(batch) => {
                *ready = (Vec::new().into_iter(), places(&batch));
                ready.0 = batch.into_iter();
                Ok(ready.0.next())
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(()),
        }
    }

    /// Receives the next batch; an empty one if a waiting reader is woken up.
    fn receive(&self, timeout: Duration) -> Result<Vec<Event>, RecvTimeoutError> {
        loop {
            let batch = self.batches.recv_timeout(timeout)?;
            if !batch.is_empty() || !timeout.is_zero() {
                return Ok(batch);
            }
        }
    }
}

/// Creates a queue for at most `capacity` events.
pub(crate) fn queue(capacity: usize) -> (Sender, Queue) {
    let (batches, receiver) = mpsc::channel();
    let fill = Arc::new(Fill {
        capacity,
        waiting: AtomicUsize::new(0),
        dropped: AtomicU64::new(0),
        any_unreported: AtomicBool::new(false),
        unreported: Mutex::new(None),
        sink: Mutex::new(None),
        has_sink: AtomicBool::new(false),
    });
    let ready = RefCell::new((Vec::new().into_iter(), 0));
    let sender = Sender { batches, fill: Arc::clone(&fill), newest_ns: Arc::default() };
    (sender, Queue { batches: receiver, fill, ready })
}

#[cfg(test)]
mod tests {
    use super::{Batch, EventSink, SINK_BATCH, queue};
    use model::{Event, Loss, LossKind, Nanos, TcpEvent, TcpEventKind};
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    fn event(count: u64) -> Event {
        at(0, count)
    }

    fn at(ms: i64, count: u64) -> Event {
        let (at, kind) = (Nanos::from_millis(ms), LossKind::ProbeMapFull);
        Event::Loss(Loss { start: at, end: at, kind, count, detail: "".into() })
    }

    #[test]
    fn full_queue_drops_and_counts_events() {
        let (sender, queue) = queue(2);
        (0..5).for_each(|i| sender.send(event(i)));
        assert_eq!(sender.dropped(), 3);
        assert_eq!(queue.next(Duration::ZERO), Ok(Some(event(0))));
        drop(sender);
        assert_eq!(queue.next(Duration::ZERO), Ok(Some(event(1))));
        assert_eq!(queue.next(Duration::ZERO), Err(()));
    }

    #[test]
    fn first_events_of_a_too_large_batch_are_queued() {
        let (sender, queue) = queue(4);
        sender.send_all((0..3).map(event).collect());
        sender.send_all((3..6).map(event).collect());
        assert_eq!(sender.dropped(), 2);
        let next = || queue.next(Duration::ZERO);
        assert!((0..4).all(|i| next() == Ok(Some(event(i)))));
        assert_eq!(next(), Ok(None));
        sender.send_all((6..10).map(event).collect());
        assert!((6..10).all(|i| next() == Ok(Some(event(i)))), "what was read left room");
        assert_eq!(sender.dropped(), 2);
    }

    #[test]
    fn request_with_many_partitions_takes_more_capacity() {
        let (sender, queue) = queue(8);
        let address = std::net::SocketAddr::from(([127, 0, 0, 1], 9_092));
        let partitions = vec![model::Partition::default(); 4_096 / size_of::<model::Partition>()];
        let request =
            Event::Request(Box::new(model::Request { partitions, ..model::Request::new(address, address) }));
        sender.send_all(vec![request.clone(), request.clone()]);
        assert_eq!(sender.dropped(), 1);
        assert_eq!(queue.next(Duration::ZERO), Ok(Some(request.clone())));
        assert_eq!(queue.next(Duration::ZERO), Ok(None));
        sender.send_all(vec![request.clone(), event(1), event(2)]);
        assert_eq!(queue.next(Duration::ZERO), Ok(Some(request)), "what was read left room");
        assert_eq!(sender.dropped(), 1);
    }

    #[test]
    fn dropped_events_are_reported_once_in_order_of_time() {
        let (sender, queue) = queue(2);
        let next = || queue.next(Duration::ZERO).unwrap();
        sender.send_all((0..5).map(|i| at(10 * i, 0)).collect());
        assert_eq!((next(), next(), next()), (Some(at(0, 0)), Some(at(10, 0)), None));
        sender.send(at(100, 1));
        assert_eq!((next(), next()), (Some(at(100, 1)), None), "more may be lost");
        assert_eq!((sender.dropped(), sender.unreported()), (3, 3));
        sender.send_all(vec![at(300, 1), at(301, 1)]);
        let report = next();
        assert!(
            matches!(&report, Some(Event::Loss(loss)) if loss.count == 3
                && (loss.start, loss.end) == (Nanos::from_millis(20), Nanos::from_millis(40))
                && loss.kind == LossKind::EventsDropped),
            "{report:?}"
        );
        assert_eq!((next(), next(), next()), (Some(at(300, 1)), Some(at(301, 1)), None));
        assert_eq!((sender.dropped(), sender.unreported()), (3, 0));
        sender.send_all((0..3).map(|i| at(400 + i, 0)).collect());
        assert_eq!(
            (next(), next(), next()),
            (Some(at(400, 0)), Some(at(401, 0)), None),
            "the room is as before"
        );
        assert_eq!((sender.dropped(), sender.unreported()), (4, 1));
    }

    #[test]
    fn woken_reader_gets_no_event_and_reads_on() {
        let (sender, queue) = queue(4);
        sender.wake_reader();
        sender.send(event(1));
        assert_eq!(queue.next(Duration::from_secs(600)), Ok(None));
        assert_eq!(queue.next(Duration::ZERO), Ok(Some(event(1))));
        sender.wake_reader();
        sender.send(event(2));
        assert_eq!(queue.next(Duration::ZERO), Ok(Some(event(2))), "who does not wait is not woken");
    }

    #[test]
    fn events_without_a_reader_are_dropped_and_counted() {
        let (sender, queue) = queue(4);
        drop(queue);
        sender.send_all((0..3).map(event).collect());
        assert_eq!(sender.dropped(), 3);
    }
    /// Takes a limited number of events, besides losses.
    struct Few(Arc<Mutex<(Vec<Event>, usize)>>);

    impl EventSink for Few {
        fn take(&mut self, events: Vec<Event>, refuse: &mut dyn FnMut(&Event)) {
            let (taken, room) = &mut *self.0.lock().unwrap();
            for event in events {
                if matches!(event, Event::Loss(_)) {
                    taken.push(event);
                } else if *room == 0 {
                    refuse(&event);
                } else {
                    *room -= 1;
                    taken.push(event);
                }
            }
        }
    }

    /// An event that is not a loss.
    fn trouble(ms: i64) -> Event {
        let (at, kind) = (Nanos::from_millis(ms), TcpEventKind::Retransmit);
        Event::TcpEvent(Box::new(TcpEvent { at, kind, local: None, remote: None, count: 1 }))
    }

    #[test]
    fn sink_receives_waiting_events_first_then_all_others() {
        let (sender, queue) = queue(100);
        let taken = Arc::new(Mutex::new((Vec::new(), 1_000)));
        let mut batch = Batch::of(&sender);
        (0..3).for_each(|ms| batch.push(trouble(ms)));
        batch.send();
        queue.set_sink(Box::new(Few(Arc::clone(&taken))));
        assert_eq!(taken.lock().unwrap().0, (0..3).map(trouble).collect::<Vec<_>>());
        let mut batch = Batch::of(&sender);
        let more = 3..4 + 2 * SINK_BATCH as i64;
        more.clone().for_each(|ms| batch.push(trouble(ms)));
        batch.send();
        assert_eq!(taken.lock().unwrap().0, (0..more.end).map(trouble).collect::<Vec<_>>());
        assert_eq!(queue.next(Duration::ZERO), Ok(None));
        assert_eq!(sender.dropped(), 0);
    }

    #[test]
    fn events_refused_by_a_sink_are_counted_and_reported_later() {
        let (sender, queue) = queue(100);
        let taken = Arc::new(Mutex::new((Vec::new(), 2)));
        queue.set_sink(Box::new(Few(Arc::clone(&taken))));
        sender.send_all((0..5).map(|n| trouble(10 * n)).collect());
        assert_eq!((sender.dropped(), sender.unreported(), taken.lock().unwrap().0.len()), (3, 3, 2));
        taken.lock().unwrap().1 = 1;
        sender.send(trouble(300));
        let report = taken.lock().unwrap().0.split_off(2);
        let [Event::Loss(loss), last] = &report[..] else { panic!("{report:?}") };
        assert_eq!((loss.count, loss.start, loss.end), (3, Nanos::from_millis(20), Nanos::from_millis(40)));
        assert_eq!((last, sender.unreported()), (&trouble(300), 0));
    }
}
