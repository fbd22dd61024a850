//! Records of connections, byte by byte.

use model::{SocketOpKind, TcpEventKind};

use crate::bpf::kind;
use crate::decode::{Decoded, Decoder};
use crate::event::Event;
use crate::stacks::Stacks;

fn decode(bytes: &[u8]) -> Decoded {
    Decoder::new(4711, Some(250), Stacks::default()).decode(bytes)
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn trouble(number: u32, ends: &[u8]) -> Vec<u8> {
    [&words(&[kind::TCP_TROUBLE, number]), &77u64.to_ne_bytes()[..], ends, &[0; 4]].concat()
}

/// Local and remote address, local and remote port, as in packets.
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
    [&words(&[kind::SOCKET, 17]), &times, &figures, ends, &rest].concat()
}

#[test]
fn a_read_from_an_ipv4_connection() {
    let bytes = socket(2, 100, &ends(mapped(1), mapped(7)));
    let Decoded::Event(Event::SocketOp(op)) = decode(&bytes) else { panic!() };
    assert_eq!((op.start_ns, op.end_ns), (5, 9));
    assert_eq!((op.pid, op.tid, &*op.comm), (4712, 17, "data-plane-kafk"));
    assert_eq!((op.op, op.result, op.peer_window), (SocketOpKind::Read, 100, None));
    assert_eq!((op.sequence, op.sequence_end), (u32::MAX, 99));
    assert_eq!(
        (op.local.to_string(), op.remote.to_string()),
        ("10.0.0.1:9092".into(), "10.0.0.7:41234".into())
    );
}

#[test]
fn writes_say_what_the_peer_could_take() {
    let both = ends([0xfd; 16], [0xfe; 16]);
    for (number, kind) in [(1, SocketOpKind::Write), (3, SocketOpKind::Sendfile), (4, SocketOpKind::Sendfile)]
    {
        let Decoded::Event(Event::SocketOp(op)) = decode(&socket(number, -32, &both)) else { panic!() };
        assert_eq!((op.op, op.result, op.peer_window), (kind, -32, Some(64_000)));
        assert!(op.local.is_ipv6() && op.remote.is_ipv6(), "{op:?}");
        assert_eq!((op.local.port(), op.remote.port()), (9092, 41234));
    }
}

#[test]
fn what_went_wrong_is_named() {
    for (number, kind) in
        [(1, TcpEventKind::Retransmit), (2, TcpEventKind::ZeroWindow), (3, TcpEventKind::NoWindowScaling)]
    {
        let bytes = trouble(number, &ends(mapped(1), mapped(7)));
        let Decoded::Event(Event::TcpEvent(trouble)) = decode(&bytes) else { panic!() };
        assert_eq!((trouble.at_ns, trouble.kind), (77, kind));
        assert_eq!((trouble.local.port(), trouble.remote.port()), (9092, 41234));
    }
}

#[test]
fn what_is_unknown_or_too_short_is_neither() {
    let both = ends(mapped(1), mapped(7));
    assert_eq!(decode(&socket(5, 1, &both)), Decoded::Unknown, "no socket is copied");
    assert_eq!(decode(&trouble(4, &both)), Decoded::Unknown);
    let whole = [socket(2, 1, &both), trouble(1, &both)];
    for bytes in whole {
        assert_ne!(decode(&bytes), Decoded::Unknown);
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), Decoded::Unknown, "{length} bytes");
        }
    }
}
