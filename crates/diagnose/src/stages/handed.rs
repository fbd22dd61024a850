//! When a network thread had handed a request on that it had read. Does not say what kept it.
//!
//! A network thread reads from and writes to all connections that are ready, and only then takes what it read apart and
//! puts it into the queue, one request after the other (`Selector.poll`, `Processor.run`). A request that was read before a
//! long `sendfile` of the same round, or whose turn came after one that took long to take apart, is not in the queue yet.

use model::{Nanos, Tid};

use crate::sockets::Call;
use crate::window::Window;

/// What follows sooner is of the same round.
const AT_ONCE: Nanos = Nanos::from_millis(1);
/// Shorter calls are what a round is made of.
const LONG: Nanos = Nanos::from_millis(1);
/// One sample may have hit it by chance.
const SAMPLES: usize = 2;

/// When it was handed on, at the earliest, if it was worked on from `begun` on: the end of the read, or of what the
/// thread went on with at once, long calls or work on the CPU without any call.
pub(super) fn handed_on(window: &Window, read: Call, begun: Nanos) -> Nanos {
    let mut handed = read.end;
    let mut cursor = read.end;
    for call in window.sockets().of_thread(read.tid, read.end, begun) {
        if call.start - cursor > AT_ONCE {
            break;
        }
        cursor = cursor.max(call.end);
        if call.end - call.start >= LONG {
            handed = handed.max(call.end);
        }
    }
    handed.max(computed_until(window, read.tid, cursor, begun)).min(begun).max(read.end)
}

/// Until when it is known to have computed without a call, from right after the last one on.
fn computed_until(window: &Window, tid: Tid, from: Nanos, begun: Nanos) -> Nanos {
    let next_call =
        window.sockets().of_thread(tid, from, begun).map(|call| call.start).find(|start| *start > from);
    let until = next_call.unwrap_or(begun).min(begun);
    let spans: Vec<(Nanos, Nanos)> = window.sockets().on_cpu(tid, from, until).collect();
    let seen: Nanos = spans.iter().map(|(start, end)| (*end).min(until) - (*start).max(from)).sum();
    let last = spans.last().map_or(from, |(_, end)| (*end).min(until));
    let at_work = spans.len() >= SAMPLES && seen.0.saturating_mul(4) > (last - from).0;
    if at_work { last } else { from }
}
