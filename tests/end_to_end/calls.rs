//! A recording's requests beside its calls on connections: which read took in a request's last byte, and which
//! writes sent its response, by TCP sequence numbers alone.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;

use model::{Event, Nanos, Request, SocketOp, SocketOpKind};
use recording::{Recording, Table};

/// How far two clocks of one machine are apart at most: packets carry one, calls the other.
const CLOCK_SLACK: Nanos = Nanos(1_000_000);

/// The calls of one end of a connection, by both ends: the broker's first.
type Calls = HashMap<(SocketAddr, SocketAddr), Vec<SocketOp>>;

/// What of a recording joins.
#[derive(Debug, Default)]
pub(super) struct Joins {
    pub(super) requests: usize,
    /// Requests whose last byte exactly one read took in, not before its packet was there.
    pub(super) read: usize,
    pub(super) responses: usize,
    /// Responses whose first and last byte each exactly one call wrote, not after its packet was there.
    pub(super) written: usize,
    pub(super) calls: usize,
    /// Calls whose sequence numbers are as far apart as they moved bytes, or for a read that came to the end of
    /// what the client sent, by one more: that of the FIN.
    pub(super) exact: usize,
    /// The first that did not join.
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

/// The only call of a kind that moved the byte of this number; none also where there are several.
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
