//! The bounded queue between the sources and whoever reads the watch. Drops and counts, never waits.
//!
//! Sources hand events over in batches, as their own buffers deliver them: one synchronisation a batch, not
//! one an event.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;
use std::vec::IntoIter;

use model::Event;

/// What both ends know.
struct Fill {
    capacity: usize,
    waiting: AtomicUsize,
    dropped: AtomicU64,
}

/// A source's end of the queue.
#[derive(Clone)]
pub(crate) struct Sender {
    batches: mpsc::Sender<Vec<Event>>,
    fill: Arc<Fill>,
}

impl Sender {
    /// Hands one event over: for what comes seldom.
    pub(crate) fn send(&self, event: Event) {
        self.send_all(vec![event]);
    }

    /// Hands events over, and counts as dropped those that the queue has no room for or nobody reads any more.
    pub(crate) fn send_all(&self, mut events: Vec<Event>) {
        let room = self.fill.take_room(events.len());
        let dropped = events.len() - room;
        events.truncate(room);
        let unread = if room > 0 && self.batches.send(events).is_err() { room } else { 0 };
        if dropped + unread > 0 {
            self.fill.dropped.fetch_add((dropped + unread) as u64, Ordering::Relaxed);
        }
    }

    /// Events dropped so far, by every source.
    pub(crate) fn dropped(&self) -> u64 {
        self.fill.dropped.load(Ordering::Relaxed)
    }
}

impl Fill {
    /// Claims room for as many events as there is room for, at most `wanted`.
    fn take_room(&self, wanted: usize) -> usize {
        let claimed = self.waiting.fetch_add(wanted, Ordering::Relaxed);
        let room = self.capacity.saturating_sub(claimed).min(wanted);
        self.give_room(wanted - room);
        room
    }

    fn give_room(&self, count: usize) {
        self.waiting.fetch_sub(count, Ordering::Relaxed);
    }
}

/// The reader's end.
pub(crate) struct Queue {
    batches: Receiver<Vec<Event>>,
    fill: Arc<Fill>,
    /// The batch that is being handed out, and how many events it had.
    ready: RefCell<(IntoIter<Event>, usize)>,
}

impl Queue {
    /// Events that it has room for.
    pub(crate) fn capacity(&self) -> usize {
        self.fill.capacity
    }

    /// The next event, if one comes within the time. `Err` once every source has ended.
    pub(crate) fn next(&self, timeout: Duration) -> Result<Option<Event>, ()> {
        let mut ready = self.ready.borrow_mut();
        if let Some(event) = ready.0.next() {
            return Ok(Some(event));
        }
        self.fill.give_room(std::mem::take(&mut ready.1));
        match self.batches.recv_timeout(timeout) {
            Ok(batch) => {
                *ready = (Vec::new().into_iter(), batch.len());
                ready.0 = batch.into_iter();
                Ok(ready.0.next())
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(()),
        }
    }
}

/// A queue for at most this many events.
pub(crate) fn queue(capacity: usize) -> (Sender, Queue) {
    let (batches, receiver) = mpsc::channel();
    let fill = Arc::new(Fill { capacity, waiting: AtomicUsize::new(0), dropped: AtomicU64::new(0) });
    let ready = RefCell::new((Vec::new().into_iter(), 0));
    (Sender { batches, fill: Arc::clone(&fill) }, Queue { batches: receiver, fill, ready })
}

#[cfg(test)]
mod tests {
    use super::queue;
    use model::{Event, Loss, LossKind, Nanos};
    use std::time::Duration;

    fn event(count: u64) -> Event {
        let kind = LossKind::EventsDropped;
        Event::Loss(Loss { start: Nanos(0), end: Nanos(0), kind, count, detail: "".into() })
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let (sender, queue) = queue(2);
        (0..5).for_each(|i| sender.send(event(i)));
        assert_eq!(sender.dropped(), 3);
        assert_eq!(queue.next(Duration::ZERO), Ok(Some(event(0))));
        drop(sender);
        assert_eq!(queue.next(Duration::ZERO), Ok(Some(event(1))));
        assert_eq!(queue.next(Duration::ZERO), Err(()));
    }

    #[test]
    fn of_a_batch_that_does_not_fit_the_first_events_go_through() {
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
    fn what_nobody_reads_is_dropped_and_counted() {
        let (sender, queue) = queue(4);
        drop(queue);
        sender.send_all((0..3).map(event).collect());
        assert_eq!(sender.dropped(), 3);
    }
}
