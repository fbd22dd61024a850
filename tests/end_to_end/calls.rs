//! Joins a recording's requests with its socket calls. Uses TCP sequence numbers alone: which read received a request's
//! last byte, and which writes sent its response.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;

use model::{Event, Nanos, Request, SocketOp, SocketOpKind};
use recording::{Recording, Table};

/// Maximum difference between two clocks of one machine: packets use one, calls the other.
const CLOCK_SLACK: Nanos = Nanos(1_000_000);

/// The calls of one end of a connection, by both ends: the broker's first.
type Calls = HashMap<(SocketAddr, SocketAddr), Vec<SocketOp>>;

/// The joins in a recording.
#[derive(Debug, Default)]
pub(super) struct Joins {
    pub(super) requests: usize,
    /// Requests whose last byte exactly one read received. The read is not before the byte's packet arrived.
    pub(super) read: usize,
    pub(super) responses: usize,
    /// Responses whose first and last byte exactly one call each wrote. Neither call is after its packet was sent.
    pub(super) written: usize,
    pub(super) calls: usize,
    /// Calls whose sequence numbers differ by the bytes they moved. For a read that reached the end of what the client
    /// sent, they differ by one more, for the FIN.
    pub(super) exact: usize,
    /// The first few that did not join.
    pub(super) unjoined: Vec<String>,
}

impl Joins {
    pub(super) fn of(directory: &Path) -> Self {
        let recording = Recording::open(directory).unwrap();
        let (mut requests, mut calls) = (Vec::new(), Calls::new());
        for event in recording.events_of(&[Table::Requests, Table::SocketOps]) {
            match event.unwrap() {
                Event::Request(request) => requests.push(*request),
                Event::SocketOp(op) => calls.entry((op.local, op.remote)).or_default().push(*op),
                other => panic!("{other:?}"),
            }
        }
        let mut joins = Self::default();
        for op in calls.values().flatten().filter(|op| op.errno.is_none()) {
            joins.calls += 1;
            let beyond = u64::from(op.sequence_end.wrapping_sub(op.sequence)).wrapping_sub(op.bytes.unwrap());
            joins.exact += usize::from(beyond == 0 || (beyond == 1 && op.op == SocketOpKind::Read));
        }
        for request in requests.iter().filter(|request| request.error.is_none()) {
            let calls = calls.get(&(request.broker, request.client)).map_or(&[][..], Vec::as_slice);
            joins.requests += 1;
            let read = is_read(request, calls);
            joins.read += usize::from(read);
            if request.end.is_some() {
                joins.responses += 1;
                joins.written += usize::from(is_written(request, calls));
            }
            if !read && joins.unjoined.len() < 5 {
                joins.unjoined.push(format!("{request:?}"));
            }
        }
        joins
    }
}

/// The only call of a kind that moved the byte with this number; `None` also if there are several.
fn mover(calls: &[SocketOp], sequence: u32, is_meant: impl Fn(SocketOpKind) -> bool) -> Option<&SocketOp> {
    let moved = |op: &SocketOp| {
        sequence.wrapping_sub(op.sequence) < op.sequence_end.wrapping_sub(op.sequence) && is_meant(op.op)
    };
    let mut found = calls.iter().filter(|op| moved(op));
    found.next().filter(|_| found.next().is_none())
}

fn is_read(request: &Request, calls: &[SocketOp]) -> bool {
    let last = request.sequence_end().unwrap().wrapping_sub(1);
    let read = mover(calls, last, |op| op == SocketOpKind::Read);
    read.is_some_and(|op| op.end >= request.arrival_end - CLOCK_SLACK)
}

fn is_written(request: &Request, calls: &[SocketOp]) -> bool {
    let first = request.response_sequence.unwrap();
    let last = request.response_sequence_end().unwrap().wrapping_sub(1);
    let by = |byte| mover(calls, byte, |op| op != SocketOpKind::Read);
    let (first, last) = (by(first), by(last));
    first.is_some_and(|op| op.start <= request.response.unwrap() + CLOCK_SLACK)
        && last.is_some_and(|op| op.start <= request.end.unwrap() + CLOCK_SLACK)
}
