//! The probes' operations on connections in the shared vocabulary.

use std::sync::Arc;

use model::{ClockOffset, SocketOp, TcpEvent};

use super::Names;

/// The kernel's own numbers for a call that a signal interrupted (include/linux/errno.h): the caller gets
/// `EINTR`, or the call is made again.
const RESTART: std::ops::RangeInclusive<i32> = 512..=516;
const EINTR: i32 = 4;

impl Names {
    pub(super) fn socket_op(&mut self, op: probes::SocketOp, offset: ClockOffset) -> SocketOp {
        let thread = self.threads.full(op.tid, Arc::clone(&op.comm));
        SocketOp { thread, ..socket_op(op, offset) }
    }
}

fn socket_op(op: probes::SocketOp, offset: ClockOffset) -> SocketOp {
    SocketOp {
        start: offset.from_monotonic(op.start_ns),
        end: offset.from_monotonic(op.end_ns),
        op: op.op,
        pid: op.pid,
        tid: op.tid,
        thread: op.comm,
        local: op.local,
        remote: op.remote,
        bytes: u64::try_from(op.result).ok(),
        errno: op.result.checked_neg().filter(|code| *code > 0).map(as_told),
        sequence: op.sequence,
        sequence_end: op.sequence_end,
        peer_window: op.peer_window,
    }
}

fn as_told(errno: i32) -> i32 {
    if RESTART.contains(&errno) { EINTR } else { errno }
}

pub(super) fn tcp_trouble(trouble: &probes::TcpEvent, offset: ClockOffset) -> TcpEvent {
    TcpEvent {
        at: offset.from_monotonic(trouble.at_ns),
        kind: trouble.kind,
        local: Some(trouble.local),
        remote: Some(trouble.remote),
        count: 1,
    }
}

#[cfg(test)]
mod tests {
    use super::socket_op;
    use model::clock::ClockPair;
    use model::{ClockOffset, Nanos, SocketOpKind};

    fn op(result: i32) -> model::SocketOp {
        let offset = ClockOffset::at(ClockPair { monotonic_ns: 1_000, realtime_ns: 5_000_000 });
        let op = probes::SocketOp {
            start_ns: 2_000,
            end_ns: 2_500,
            op: SocketOpKind::Write,
            pid: 7,
            tid: 8,
            comm: "network".into(),
            local: "[::1]:9092".parse().unwrap(),
            remote: "[::1]:4000".parse().unwrap(),
            result,
            sequence: 1,
            sequence_end: 2,
            peer_window: Some(3),
        };
        socket_op(op, offset)
    }

    #[test]
    fn a_result_is_bytes_or_an_error() {
        assert_eq!((op(100).start, op(100).latency()), (Nanos(5_001_000), Nanos(500)));
        assert_eq!((op(100).bytes, op(100).errno), (Some(100), None));
        assert_eq!((op(-32).bytes, op(-32).errno), (None, Some(32)));
        assert_eq!((op(-512).bytes, op(-512).errno), (None, Some(4)));
        assert_eq!(op(i32::MIN).errno, None);
    }
}
