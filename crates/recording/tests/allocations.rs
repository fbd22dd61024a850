//! Checks that adding an event to a recording allocates nothing.
//! This holds once its table's columns are as long as they get between two flushes. The allocations of a flush are
//! bounded by the columns, not by the events.

// clippy.toml allows these in test functions; a test crate is nothing else.
#![allow(clippy::unwrap_used)]

use model::{
    Batch, BatchHead, Device, Event, FileKind, FileOp, FileOpKind, Nanos, Partition, Request, Row, SocketOp,
    SocketOpKind, TopicId, TopicPartition,
};
use recording::{Manifest, Writer, WriterOptions};

/// Events of each kind: too few for a table to be written before a flush.
const EVENTS: u64 = 2_000;
const CONNECTIONS: u64 = 8;
/// A dictionary's text is stored twice, and its tables grow a few times; validity is tracked from the first null on.
const MAX_ALLOCATIONS: u64 = 400;

fn at(n: u64) -> Nanos {
    Nanos(n as i64 * 1_000)
}

fn request(n: u64) -> Event {
    let batch =
        Batch { magic: 2, crc: n as u32, bytes: 178, records: 1, producer_id: n as i64, base_sequence: 0 };
    let partition = Partition {
        topic: Some("orders".into()),
        topic_id: Some(TopicId([(n % CONNECTIONS) as u8; 16])),
        partition: (n % CONNECTIONS) as i32,
        bytes: 178,
        records: Some(1),
        batches: vec![batch],
        base_offset: Some(n as i64),
        error_code: Some(0),
        ..Partition::default()
    };
    Event::Request(Box::new(Request {
        arrival: at(n),
        arrival_end: at(n),
        response: Some(at(n + 2)),
        end: Some(at(n + 2)),
        head_of_line: Some(Nanos(0)),
        api_key: 0,
        api: "PRODUCE",
        api_version: 13,
        correlation_id: n as i32,
        client_id: Some("producer".into()),
        request_bytes: 300,
        response_bytes: Some(60),
        sequence: Some(n as u32),
        response_sequence: Some(n as u32),
        acks: Some(1),
        throttle_ms: Some(0),
        partitions: vec![partition],
        ..Request::new(
            ([127, 0, 0, 1], 40_000 + (n % CONNECTIONS) as u16).into(),
            ([127, 0, 0, 1], 9_092).into(),
        )
    }))
}

fn file_op(n: u64) -> Event {
    let topic_partition = TopicPartition { topic: "orders".into(), partition: 3 };
    let head = BatchHead {
        base_offset: n as i64,
        bytes: 178,
        magic: 2,
        crc: n as u32,
        producer_id: -1,
        base_sequence: -1,
        records: 1,
    };
    Event::FileOp(Box::new(FileOp {
        start: at(n),
        end: at(n + 1),
        op: FileOpKind::Write,
        pid: 1,
        tid: 40 + (n % 8) as u32,
        thread: "data-plane-kafka".into(),
        bytes: Some(178),
        offset: n * 178,
        file: format!("orders-{}/00000000000000000000.log", n % CONNECTIONS).into(),
        topic_partition: Some(topic_partition),
        kind: FileKind::Log,
        device: Device { major: 259, minor: 1, name: "nvme0n1p1".into() },
        inode: 77,
        fs: "ext4".into(),
        batch: Some(head),
        journal_transaction: (n % 9 == 0).then_some(5),
        ..Row::empty()
    }))
}

fn socket_op(n: u64) -> Event {
    Event::SocketOp(Box::new(SocketOp {
        start: at(n),
        end: at(n + 1),
        op: SocketOpKind::Read,
        pid: 1,
        tid: 30,
        thread: "data-plane-kafka".into(),
        local: ([127, 0, 0, 1], 9_092).into(),
        remote: ([127, 0, 0, 1], 40_000 + (n % CONNECTIONS) as u16).into(),
        bytes: Some(300),
        sequence: n as u32,
        sequence_end: n as u32 + 300,
        ..Row::empty()
    }))
}

#[test]
fn writing_an_event_does_not_allocate() {
    let events: Vec<Event> = (0..EVENTS).flat_map(|n| [request(n), file_op(n), socket_op(n)]).collect();
    let dir = tempfile::tempdir().unwrap();
    let mut writer =
        Writer::create(&dir.path().join("r"), &Manifest::default(), WriterOptions::default()).unwrap();
    let write_all = |writer: &mut Writer| {
        for event in &events {
            writer.write(event).unwrap();
        }
    };
    write_all(&mut writer);
    writer.flush().unwrap();
    let taken_in = allocation_counter::measure(|| write_all(&mut writer)).count_total;
    let flushed = allocation_counter::measure(|| writer.flush().unwrap()).count_total;
    eprintln!("{} events: {taken_in} allocations, and {flushed} to write them out", events.len());
    assert!(flushed > 0, "nothing is counted");
    assert!(taken_in <= MAX_ALLOCATIONS, "{taken_in} allocations");
    assert!(flushed < EVENTS, "{flushed} allocations to write {} events", events.len());
}
