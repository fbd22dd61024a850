//! How long the bytes of a request could not arrive because those that had come were not read: a broker reads nothing of a
//! connection while it serves an earlier request of it (it mutes the channel: `processCompletedReceives` in Kafka's
//! SocketServer.scala), and what is larger than the socket's buffer comes no further, however quick its client is.
//!
//! That the client had to stop is seen by what came next: once the broker reads again, as many bytes as had come until then
//! come many times as quickly. A client, or a network, that was slow itself goes on as slowly, and is not told here. Without the
//! broker's reads nothing is.
//!
//! Where others lie between, the broker reads those first, and room is there with the first byte that it reads. How much of
//! the request had come then is not known: its last byte has to come at once, after a long time in which nothing was read.

use model::{Nanos, Request};

use crate::window::{CLOCK_SLACK, Window};

/// The bytes before a request that say how long it is: they are read by themselves.
const LENGTH_BYTES: u32 = 4;
/// Bytes that came so many times as quickly as those before them had been held up.
const QUICKER: i128 = 4;
/// Where it is not known how many came, the last of them has to come in so small a part of the time before.
const AT_ONCE: i64 = 16;

/// From when until when.
pub(crate) fn stretch(window: &Window, request: &Request) -> Option<(Nanos, Nanos)> {
    let earlier = window.before_on_connection(request, request.arrival_end)?;
    let answered = earlier.last_seen();
    if answered <= request.arrival {
        return None;
    }
    match went_on(window, request, answered) {
        Some(goes_on) => goes_on.is_much_quicker().then_some((request.arrival, answered)),
        None => behind_others(window, request, earlier),
    }
}

/// Where what the broker read next was another's: since when nothing had been read, until when.
fn behind_others(window: &Window, request: &Request, served: &Request) -> Option<(Nanos, Nanos)> {
    let answered = served.last_seen();
    let next = served.sequence_end()?;
    let waiting_bytes = request.sequence?.wrapping_sub(next);
    if waiting_bytes == 0 || waiting_bytes > u32::MAX / 2 {
        return None;
    }
    let connection = (request.client, request.broker);
    let last = window.sockets().read_of(connection, next.wrapping_sub(1), request.arrival)?;
    let again = window.sockets().read_of(connection, next, answered)?;
    let start = last.end.max(request.arrival);
    let came_after = (request.arrival_end - again.start).0;
    let at_once = came_after >= 0 && came_after.saturating_mul(AT_ONCE) <= (again.start - start).0;
    (again.start >= answered - CLOCK_SLACK && at_once).then_some((start, answered))
}

/// What had come when the broker began to read, and what came then.
struct GoneOn {
    waiting_bytes: u32,
    came_in: Nanos,
    more_bytes: u32,
    more_in: Nanos,
}

fn went_on(window: &Window, request: &Request, answered: Nanos) -> Option<GoneOn> {
    let connection = (request.client, request.broker);
    let (first, end) = (request.sequence?, request.sequence_end()?);
    let read_of = |bytes: u32, near| window.sockets().read_of(connection, first.wrapping_add(bytes), near);
    let begun = read_of(LENGTH_BYTES, answered).filter(|read| read.start >= answered - CLOCK_SLACK)?;
    let waiting_bytes = begun.moved_since(first);
    let left_bytes = end.wrapping_sub(first).checked_sub(waiting_bytes).filter(|left| *left > 0)?;
    let more_bytes = waiting_bytes.min(left_bytes);
    let again = read_of(waiting_bytes.saturating_add(more_bytes - 1), begun.end)?;
    let came_in = begun.start - request.arrival;
    Some(GoneOn { waiting_bytes, came_in, more_bytes, more_in: again.end - begun.start })
}

impl GoneOn {
    fn is_much_quicker(&self) -> bool {
        let before = i128::from(self.came_in.0) * i128::from(self.more_bytes);
        let after = i128::from(self.more_in.0) * i128::from(self.waiting_bytes);
        self.waiting_bytes > 0 && after * QUICKER <= before
    }
}
