use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::FileExt as _;

use model::{Nanos, Request, RequestSource};

use super::{
    AgentState, BEAT_AT, FIRST_PIECE, HEAD, MAX_RECORD_BYTES, PADDING, Piece, PlaintextRing, RECORD_HEAD,
    RingLosses, WRITTEN,
};
use crate::tests::kafka;
use crate::{Analyzer, Config};

const CAPACITY: u32 = 4_096;
const NONCE: u64 = 0x0123_4567_89ab_cdef;
const BROKER: &str = "127.0.0.1:9093";
const CLIENT: &str = "10.0.0.7:40000";

/// Writes like the agent.
struct Agent {
    file: File,
    capacity: u64,
    head: u64,
}

fn ring() -> (Agent, PlaintextRing) {
    ring_of(CAPACITY)
}

fn ring_of(capacity: u32) -> (Agent, PlaintextRing) {
    let file = tempfile::tempfile().unwrap();
    PlaintextRing::create(&file, capacity, NONCE).unwrap();
    let agent = Agent { file: file.try_clone().unwrap(), capacity: capacity.into(), head: 0 };
    (agent, PlaintextRing::new(file, capacity, NONCE, now_ns))
}

thread_local! {
    /// The reader's clock.
    static NOW_NS: Cell<u64> = const { Cell::new(1_000_000_000) };
}

fn now_ns() -> u64 {
    NOW_NS.get()
}

impl Agent {
    fn put(&mut self, flags: u32, offset: u64, bytes: &[u8]) {
        let length = (RECORD_HEAD + bytes.len()).next_multiple_of(8) as u64;
        let rest = self.capacity - self.head % self.capacity;
        if rest < length {
            if rest >= RECORD_HEAD as u64 {
                self.write(12, &PADDING.to_ne_bytes());
                self.commit();
            }
            self.head += rest;
        }
        self.write(8, &(bytes.len() as u32).to_ne_bytes());
        self.write(12, &flags.to_ne_bytes());
        self.write(16, &7_u64.to_ne_bytes());
        self.write(24, &offset.to_ne_bytes());
        self.write(32, &1_000_u64.to_ne_bytes());
        self.write(40, &2_000_u64.to_ne_bytes());
        self.write(48, &11_u32.to_ne_bytes());
        for (place, end) in [(52, BROKER), (54, CLIENT)] {
            let end: std::net::SocketAddrV4 = end.parse().unwrap();
            self.write(place, &end.port().to_ne_bytes());
            self.write(56 + (place - 52) * 8, &end.ip().to_ipv6_mapped().octets());
        }
        self.write(RECORD_HEAD as u64, bytes);
        self.commit();
        self.head += length;
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.file.write_all_at(bytes, HEAD + self.head % self.capacity + at).unwrap();
    }

    fn commit(&self) {
        self.write(0, &(NONCE ^ (self.head + 1)).to_ne_bytes());
    }
}

fn read(ring: &mut PlaintextRing) -> Vec<(u64, Vec<u8>)> {
    let mut found = Vec::new();
    ring.read(&mut |piece| found.push((piece.offset, piece.bytes.to_vec()))).unwrap();
    found
}

#[test]
fn reads_records_in_order_over_many_rounds() {
    let (mut agent, mut ring) = ring();
    for round in 0..400 {
        let sizes = [round % 97, 3 * round % 389];
        for size in sizes {
            agent.put(0, round as u64, &vec![round as u8; size]);
        }
        let expected = sizes.map(|size| (round as u64, vec![round as u8; size]));
        assert_eq!(read(&mut ring), expected, "{round}");
    }
    assert!(agent.head > 20 * u64::from(CAPACITY), "{}", agent.head);
}

/// Reads start small, and grow while there is more.
#[test]
fn reads_whole_records_of_any_size() {
    let (mut agent, mut ring) = ring_of(1 << 20);
    let largest = MAX_RECORD_BYTES;
    for round in 0..60 {
        let small = vec![100; 7 * round % 400];
        let sizes = [&small[..], &[largest, 1, largest - 3, FIRST_PIECE - RECORD_HEAD, FIRST_PIECE]].concat();
        for size in &sizes {
            agent.put(0, round as u64, &vec![round as u8; *size]);
        }
        let expected: Vec<_> = sizes.iter().map(|size| (round as u64, vec![round as u8; *size])).collect();
        assert!(read(&mut ring) == expected, "{round}");
    }
    assert!(agent.head > 5 * agent.capacity, "{}", agent.head);
}

/// An agent stops without a beat for 3 s. A reader that gets little CPU takes longer than that for a full ring.
#[test]
fn reader_beats_during_a_long_read() {
    let (mut agent, mut ring) = ring();
    for number in 0..30 {
        agent.put(0, number, b"slowly");
    }
    let mut beats = BTreeSet::new();
    ring.read(&mut |_| {
        let mut beat = [0; 8];
        agent.file.read_exact_at(&mut beat, BEAT_AT).unwrap();
        beats.insert(u64::from_ne_bytes(beat));
        NOW_NS.set(now_ns() + 200_000_000);
    })
    .unwrap();
    assert_eq!(beats.len(), 30);
}

#[test]
fn reads_a_record_only_after_its_first_word_is_written() {
    let (mut agent, mut ring) = ring();
    let begin = agent.head;
    agent.put(0, 0, b"first");
    agent.file.write_all_at(&0_u64.to_ne_bytes(), HEAD).unwrap();
    let end = std::mem::replace(&mut agent.head, begin);
    assert_eq!(read(&mut ring), []);
    agent.commit();
    agent.head = end;
    assert_eq!(read(&mut ring), [(0, b"first".to_vec())]);
}

#[test]
fn reads_all_fields_of_a_record() {
    let (mut agent, mut ring) = ring();
    agent.put(WRITTEN, 5, b"bytes");
    let mut seen = 0;
    ring.read(&mut |piece| {
        seen += 1;
        let expected = Piece {
            connection: 7,
            is_written: true,
            is_frame_start: false,
            offset: 5,
            called_ns: (1_000, 2_000),
            thread: 11,
            local: BROKER.parse().unwrap(),
            remote: CLIENT.parse().unwrap(),
            bytes: b"bytes",
        };
        assert_eq!(*piece, expected);
    })
    .unwrap();
    assert_eq!(seen, 1);
}

#[test]
fn clamps_call_times_to_the_last_hour() {
    const NOW: u64 = 10_000_000_000_000;
    const HOUR: u64 = 3_600_000_000_000;
    let piece = |called_ns| Piece {
        connection: 1,
        is_written: false,
        is_frame_start: true,
        offset: 0,
        called_ns,
        thread: 0,
        local: BROKER.parse().unwrap(),
        remote: CLIENT.parse().unwrap(),
        bytes: &[],
    };
    for (called, expected) in [
        ((NOW - 7, NOW - 5), (NOW - 7, NOW - 5)),
        ((u64::MAX, u64::MAX), (NOW, NOW)),
        ((0, 0), (NOW - HOUR, NOW - HOUR)),
        ((NOW, NOW - 5), (NOW - 5, NOW - 5)),
    ] {
        assert_eq!(piece(called).called_before(NOW), expected);
    }
}

#[test]
fn corrupt_or_truncated_ring_is_an_error() {
    for (at, lie) in [(8, u32::MAX), (8, 1 << 16), (12, 0xffff)] {
        let (mut agent, mut ring) = ring();
        agent.put(0, 0, b"first");
        agent.file.write_all_at(&lie.to_ne_bytes(), HEAD + at).unwrap();
        let mut bytes = 0;
        let read = ring.read(&mut |piece| bytes += piece.bytes.len());
        assert!(read.is_err() || bytes <= 5, "{at}");
    }
    let (mut agent, mut ring) = ring();
    agent.put(0, 0, b"first");
    agent.file.set_len(HEAD + 40).unwrap();
    assert!(ring.read(&mut |_| ()).is_err());
    agent.file.set_len(0).unwrap();
    assert!(ring.state().is_err() && ring.dropped().is_err());
}

/// A writer that never stops cannot keep the reader in the call.
#[test]
fn one_read_takes_at_most_one_ring() {
    let (agent, mut ring) = ring();
    let mut agent = agent;
    let mut pieces = 0_u64;
    let read = ring.read(&mut |_| ()).unwrap();
    assert_eq!(read, 0);
    agent.put(0, 0, &[1; 100]);
    let read = ring
        .read(&mut |_| {
            pieces += 1;
            agent.put(0, pieces, &[1; 100]);
        })
        .unwrap();
    assert!(read <= u64::from(CAPACITY) + 192, "{read}");
    assert!(pieces < 60, "{pieces}");
}

#[test]
fn reads_the_agent_state_and_losses() {
    let (agent, ring) = ring();
    assert_eq!(ring.state().unwrap(), AgentState::Silent);
    let says = |state: u32, length: u32| {
        agent.file.write_all_at(&state.to_ne_bytes(), 320).unwrap();
        agent.file.write_all_at(&length.to_ne_bytes(), 324).unwrap();
        ring.state().unwrap()
    };
    agent.file.write_all_at(b"no\x1b", 328).unwrap();
    assert_eq!(says(1, 0), AgentState::Copies);
    assert_eq!(says(2, 3), AgentState::Refused("no".to_owned()));
    assert!(matches!(says(2, u32::MAX), AgentState::Refused(text) if text.len() <= 256));
    assert_eq!(says(3, 0), AgentState::Ended);
    agent.file.write_all_at(&9_u64.to_ne_bytes(), 200).unwrap();
    assert_eq!(ring.dropped().unwrap(), RingLosses { bytes: 9, ..RingLosses::default() });
}

fn question(number: i32) -> Vec<u8> {
    let first = kafka::batch(1, 1, b"one");
    kafka::produce(number, 1, "orders", [&first, &first])
}

fn answer(number: i32) -> Vec<u8> {
    kafka::produced(number, "orders", [(0, 0, 7), (1, 0, 8)])
}

struct Conversation {
    analyzer: Analyzer,
    id: u64,
    offsets: (u64, u64),
    at: u64,
    rows: Vec<Request>,
}

impl Conversation {
    fn new() -> Self {
        let config =
            Config { ports: vec![9_093], both_directions: true, is_plaintext: true, ..Config::default() };
        Self { analyzer: Analyzer::new(config), id: 1, offsets: (0, 0), at: 0, rows: Vec::new() }
    }

    /// Another connection between the same ends.
    fn reconnect(&mut self) {
        self.id += 1;
        self.offsets = (0, 0);
    }

    fn move_bytes(&mut self, is_written: bool, is_frame_start: bool, bytes: &[u8]) {
        let offset = if is_written { &mut self.offsets.1 } else { &mut self.offsets.0 };
        let piece = Piece {
            connection: self.id,
            is_written,
            is_frame_start,
            offset: *offset,
            called_ns: (0, 0),
            thread: 0,
            local: BROKER.parse().unwrap(),
            remote: CLIENT.parse().unwrap(),
            bytes,
        };
        *offset += bytes.len() as u64;
        let times = (Nanos(self.at as i64), Nanos(self.at as i64 + 5));
        self.at += 10;
        self.analyzer.piece(&piece, times, &mut |row| self.rows.push(*row));
    }

    /// As Kafka reads: first the four bytes of the length.
    fn ask(&mut self, number: i32) {
        let frame = question(number);
        self.move_bytes(false, true, &frame[..4]);
        self.move_bytes(false, false, &frame[4..]);
    }

    fn reply(&mut self, number: i32) {
        self.move_bytes(true, false, &answer(number));
    }

    fn numbers(&self) -> Vec<i32> {
        self.rows.iter().map(|row| row.correlation_id).collect()
    }
}

#[test]
fn request_times_span_its_first_to_its_last_call() {
    let mut talk = Conversation::new();
    talk.ask(1);
    talk.reply(1);
    let [row] = &talk.rows[..] else { panic!("{:?}", talk.rows) };
    assert_eq!((row.arrival, row.arrival_end), (Nanos(0), Nanos(15)));
    assert_eq!((row.response, row.end), (Some(Nanos(20)), Some(Nanos(25))));
    assert_eq!((row.seen_by, row.sequence), (Some(RequestSource::TlsAgent), None));
    assert_eq!(row.response_sequence, None);
    assert_eq!((row.client, row.broker), (CLIENT.parse().unwrap(), BROKER.parse().unwrap()));
    assert_eq!(row.error, None);
}

#[test]
fn starts_at_the_next_request_on_an_older_connection() {
    let mut talk = Conversation::new();
    talk.move_bytes(false, false, &question(1)[6..]);
    talk.reply(1);
    talk.ask(2);
    talk.reply(2);
    assert_eq!(talk.numbers(), [2]);
}

#[test]
fn reconnecting_ends_start_a_new_connection() {
    let mut talk = Conversation::new();
    for connection in 0..5 {
        for request in 0..3 {
            talk.ask(10 * connection + request);
            talk.reply(10 * connection + request);
        }
        talk.reconnect();
    }
    assert_eq!(talk.numbers(), [0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32, 40, 41, 42]);
    assert!(talk.rows.iter().all(|row| row.error.is_none()));
}

#[test]
fn dropped_bytes_lose_only_nearby_requests() {
    let mut talk = Conversation::new();
    talk.ask(1);
    talk.reply(1);
    talk.offsets.0 += question(2).len() as u64;
    talk.offsets.1 += answer(2).len() as u64;
    for number in 3..10 {
        talk.ask(number);
        talk.reply(number);
        // The missing bytes are awaited, as if packets were out of order.
        talk.at += 1_000_000_000;
    }
    let numbers = talk.numbers();
    assert!(numbers.starts_with(&[1]) && numbers.ends_with(&[7, 8, 9]), "{numbers:?}");
    assert!(!numbers.contains(&2), "{numbers:?}");
    assert!(talk.analyzer.counters().gap_bytes > 0);
}
