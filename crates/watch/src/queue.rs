//! The bounded queue between the sources and whoever reads the watch. Drops and counts, never waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use model::Event;

/// A source's end of the queue.
#[derive(Clone)]
pub(crate) struct Sender {
    events: SyncSender<Event>,
    dropped: Arc<AtomicU64>,
}

impl Sender {
    /// Hands an event over, or counts it as dropped where the queue is full or nobody reads any more.
    pub(crate) fn send(&self, event: Event) {
        if self.events.try_send(event).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Events dropped so far, by every source.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// The reader's end.
pub(crate) struct Queue(Receiver<Event>);

impl Queue {
    /// The next event, if one comes within the time. `Err` once every source has ended.
    pub(crate) fn next(&self, timeout: Duration) -> Result<Option<Event>, ()> {
        match self.0.recv_timeout(timeout) {
            Ok(event) => Ok(Some(event)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(()),
        }
    }
}

/// A queue for at most this many events.
pub(crate) fn queue(capacity: usize) -> (Sender, Queue) {
    let (events, receiver) = sync_channel(capacity);
    (Sender { events, dropped: Arc::default() }, Queue(receiver))
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
}
