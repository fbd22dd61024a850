//! Tests with records of connections, byte by byte.

use model::Event::{SocketOp, TcpEvent};
use model::{ClockOffset, SocketOpKind, TcpEventKind};

use crate::bpf::probes::types::event_kind;
use crate::decode::{Decoder, Decoding};
use crate::event::Event;
use crate::stacks::Stacks;

fn decode(bytes: &[u8]) -> Decoding {
    Decoder::new(4711, Some(250), ClockOffset::from_ns(0), Stacks::default()).decode(bytes)
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn trouble(number: u32, ends: &[u8]) -> Vec<u8> {
    [&words(&[event_kind::EVENT_TCP_TROUBLE.0, number]), &77u64.to_ne_bytes()[..], ends, &[0; 4]].concat()
}

/// Local and remote address, local and remote port, in network byte order.
fn ends(local: [u8; 16], remote: [u8; 16]) -> Vec<u8> {
    [&local[..], &remote[..], &9092u16.to_be_bytes(), &41234u16.to_be_bytes()].concat()
}

fn mapped(last: u8) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last]
}

fn socket(op: u8, result: i32, ends: &[u8]) -> Vec<u8> {
    let times = [5u64, 9].map(u64::to_ne_bytes).concat();
    let figures = words(&[result as u32, u32::MAX, 99, 64_000]);
    let rest = [&words(&[4712]), &b"data-plane-kafk\0"[..], &[op; 1], &[0; 7]].concat();
    [&words(&[event_kind::EVENT_SOCKET.0, 17]), &times, &figures, ends, &rest].concat()
}

#[test]
fn decodes_a_read_from_an_ipv4_connection() {
    let bytes = socket(2, 100, &ends(mapped(1), mapped(7)));
    let Decoding::Event(Event::Row(SocketOp(op))) = decode(&bytes) else { panic!() };
    assert_eq!((op.start.0, op.end.0), (5, 9));
    assert_eq!((op.pid, op.tid, &*op.thread), (4712, 17, "data-plane-kafk"));
    assert_eq!((op.op, op.bytes, op.peer_window), (SocketOpKind::Read, Some(100), None));
    assert_eq!((op.sequence, op.sequence_end), (u32::MAX, 99));
    assert_eq!(
        (op.local.to_string(), op.remote.to_string()),
        ("10.0.0.1:9092".into(), "10.0.0.7:41234".into())
    );
}

#[test]
fn decodes_the_peer_window_of_writes() {
    let both = ends([0xfd; 16], [0xfe; 16]);
    for (number, kind) in [(1, SocketOpKind::Write), (3, SocketOpKind::Sendfile), (4, SocketOpKind::Sendfile)]
    {
        let Decoding::Event(Event::Row(SocketOp(op))) = decode(&socket(number, -32, &both)) else { panic!() };
        assert_eq!((op.op, op.bytes, op.errno, op.peer_window), (kind, None, Some(32), Some(64_000)));
        assert!(op.local.is_ipv6() && op.remote.is_ipv6(), "{op:?}");
        assert_eq!((op.local.port(), op.remote.port()), (9092, 41234));
    }
}

#[test]
fn decodes_the_kind_of_a_tcp_event() {
    for (number, kind) in
        [(1, TcpEventKind::Retransmit), (2, TcpEventKind::ZeroWindow), (3, TcpEventKind::NoWindowScaling)]
    {
        let bytes = trouble(number, &ends(mapped(1), mapped(7)));
        let Decoding::Event(Event::Row(TcpEvent(trouble))) = decode(&bytes) else { panic!() };
        assert_eq!((trouble.at.0, trouble.kind), (77, kind));
        assert_eq!((trouble.local.unwrap().port(), trouble.remote.unwrap().port()), (9092, 41234));
    }
}

#[test]
fn refuses_unknown_and_truncated_records() {
    let both = ends(mapped(1), mapped(7));
    assert_eq!(decode(&socket(5, 1, &both)), Decoding::Unknown, "no socket is copied");
    assert_eq!(decode(&trouble(4, &both)), Decoding::Unknown);
    let whole = [socket(2, 1, &both), trouble(1, &both)];
    for bytes in whole {
        assert_ne!(decode(&bytes), Decoding::Unknown);
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), Decoding::Unknown, "{length} bytes");
        }
    }
}

#[test]
fn result_is_bytes_or_the_errno_of_the_caller() {
    let ends = ends(mapped(1), mapped(7));
    for (result, bytes, errno) in [
        (100, Some(100), None),
        (-32, None, Some(32)),
        // ERESTARTSYS of include/linux/errno.h.
        (-512, None, Some(4)),
        (i32::MIN, None, None),
    ] {
        let Decoding::Event(Event::Row(SocketOp(op))) = decode(&socket(1, result, &ends)) else { panic!() };
        assert_eq!((op.bytes, op.errno), (bytes, errno), "{result}");
    }
}

#[test]
fn times_are_on_the_clock_of_the_events() {
    let mut decoder = Decoder::new(4711, None, ClockOffset::from_ns(1_000), Stacks::default());
    let bytes = socket(1, 1, &ends(mapped(1), mapped(7)));
    let Decoding::Event(Event::Row(SocketOp(op))) = decoder.decode(&bytes) else { panic!() };
    assert_eq!((op.start.0, op.latency().0), (1_005, 4));
}
