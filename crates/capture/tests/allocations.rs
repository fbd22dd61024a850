//! Allocations on the way from packets to requests: none for a packet, and a bounded number for a request. The
//! benchmarks measure times.

// clippy.toml allows these in test functions; a test crate is nothing else.
#![allow(clippy::indexing_slicing, clippy::expect_used)]

use std::ops::Range;

use capture::{Analyzer, Config, Counters, Limits, LinkType, Packet};

const SEGMENT_BYTES: usize = 1_448;
const BATCH_BYTES: usize = 100_000;
const HEAD_BYTES: usize = 61;
const WARM_UP: i32 = 50;
const MEASURED: i32 = 200;
/// A request's row: its client id, two partitions with their topic, and their lists as they grow.
const MOST_A_REQUEST: u64 = 12;

/// A packet, and whether it contains nothing but records, or no payload at all.
struct TestSegment {
    bytes: Vec<u8>,
    is_bulk: bool,
}

struct End {
    address: [u8; 4],
    port: u16,
    next: u32,
}

/// IPv4 and TCP without options.
fn packet(from: &mut End, to: &End, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0x45, 0];
    bytes.extend((40 + payload.len() as u16).to_be_bytes());
    bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    bytes.extend([from.address, to.address].as_flattened());
    bytes.extend([from.port, to.port].map(u16::to_be_bytes).as_flattened());
    bytes.extend([from.next, to.next].map(u32::to_be_bytes).as_flattened());
    bytes.extend([0x50, 0x10, 0xff, 0xff, 0, 0, 0, 0]);
    bytes.extend(payload);
    from.next = from.next.wrapping_add(payload.len() as u32);
    bytes
}

fn framed(body: &[u8]) -> Vec<u8> {
    [&(body.len() as u32).to_be_bytes()[..], body].concat()
}

/// A batch of magic 2; only its header is read.
fn batch(size: usize) -> Vec<u8> {
    let mut bytes = vec![0; size];
    bytes[8..12].copy_from_slice(&(size as u32 - 12).to_be_bytes());
    bytes[16] = 2;
    bytes[57..61].copy_from_slice(&100u32.to_be_bytes());
    bytes
}

/// A topic, and the size of the batch for each of its two partitions.
#[derive(Clone, Copy)]
struct Topic<'n> {
    name: &'n [u8; 6],
    batch_bytes: usize,
}

const ORDERS: Topic<'static> = Topic { name: b"orders", batch_bytes: BATCH_BYTES };

/// Produce version 7 to two partitions, and the position of the records in it. See ProduceRequest.json.
#[allow(clippy::doc_markdown)]
fn request(correlation_id: i32, topic: Topic<'_>) -> (Vec<u8>, [Range<usize>; 2]) {
    let mut body = vec![0, 0, 0, 7];
    body.extend(correlation_id.to_be_bytes());
    body.extend(b"\0\x08producer\xff\xff\xff\xff\0\0\x75\x30\0\0\0\x01\0\x06");
    body.extend(topic.name);
    body.extend(b"\0\0\0\x02");
    let records = [0i32, 1].map(|partition| {
        body.extend(partition.to_be_bytes());
        body.extend((topic.batch_bytes as u32).to_be_bytes());
        // The frame's own length comes first.
        let start = body.len() + 4;
        body.extend(batch(topic.batch_bytes));
        start + HEAD_BYTES..start + topic.batch_bytes
    });
    (framed(&body), records)
}

fn response(correlation_id: i32, topic: Topic<'_>) -> Vec<u8> {
    let mut body = correlation_id.to_be_bytes().to_vec();
    body.extend(b"\0\0\0\x01\0\x06");
    body.extend(topic.name);
    body.extend(b"\0\0\0\x02");
    for partition in [0i32, 1] {
        body.extend(partition.to_be_bytes());
        body.extend([0; 26]);
    }
    body.extend([0; 4]);
    framed(&body)
}

const SYN: u8 = 0x02;
const RST: u8 = 0x04;
const ACK: u8 = 0x10;

fn flagged(mut packet: Vec<u8>, flags: u8) -> Vec<u8> {
    packet[33] = flags;
    packet
}

/// The packets that open a connection.
fn handshake(client: &mut End, broker: &mut End) -> [Vec<u8>; 3] {
    let syn = flagged(packet(client, broker, &[]), SYN);
    client.next += 1;
    let answer = flagged(packet(broker, client, &[]), SYN | ACK);
    broker.next += 1;
    [syn, answer, packet(client, broker, &[])]
}

/// Fetch version 0 of as many partitions as fit in a packet (FetchRequest.json).
#[allow(clippy::doc_markdown)]
fn fetch() -> Vec<u8> {
    let head = b"\0\x01\0\0\0\0\0\x07\0\x01x\xff\xff\xff\xff\0\0\x01\xf4\0\0\0\x01\0\0\0\x01\0\x06orders";
    let mut body = [&head[..], &84u32.to_be_bytes()].concat();
    for partition in 0..84u32 {
        body.extend(partition.to_be_bytes());
        body.extend([0; 12]);
    }
    framed(&body)
}

/// Packets of a host that forges its address, and the broker's answers: the handshake never completes.
fn forged(number: u32, fetch: &[u8]) -> [Vec<u8>; 2] {
    let [_, _, high, low] = number.to_be_bytes();
    let mut client = End { address: [10, 9, high, low], port: 5_000, next: number.wrapping_mul(7_919) };
    let broker = End { address: [10, 0, 0, 1], port: 9_092, next: number.wrapping_mul(104_729) };
    let mut first = End { next: client.next.wrapping_add(1), ..client };
    let sent = packet(&mut client, &broker, fetch);
    let mut unknown = End { next: 0, ..broker };
    if number % 2 == 0 {
        return [flagged(sent, SYN), flagged(packet(&mut unknown, &first, &[]), SYN | ACK)];
    }
    first.next = 0;
    [sent, flagged(packet(&mut unknown, &first, &[]), RST)]
}

/// How many requests of an honest client were answered while others forged packets. Also returns the number of rows of
/// the forged packets, and the counters.
fn flood(config: Config) -> (u32, u32, Counters) {
    let mut analyzer = Analyzer::new(config);
    let (mut now, mut answered, mut forgeries) = (0, 0, 0);
    let mut send = |bytes: Vec<u8>| {
        now += 10_000;
        let original_len = bytes.len() as u32;
        let packet = Packet { time_ns: now, link: LinkType::RawIp, original_len, bytes: &bytes };
        analyzer.packet(&packet, &mut |row| {
            let is_honest = row.client.port() != 5_000;
            assert!(!is_honest || row.end.is_some() && row.error.is_none(), "{row:?}");
            answered += u32::from(is_honest);
            forgeries += u32::from(!is_honest);
        });
    };
    let end = |port| End { address: [10, 0, 0, 7], port, next: u32::from(port) };
    let (mut consumer, mut producer) = (end(41_000), end(42_000));
    let [mut from_broker, mut to_broker] =
        [1, 2].map(|next| End { address: [10, 0, 0, 1], port: 9_092, next });
    handshake(&mut consumer, &mut from_broker).into_iter().for_each(&mut send);
    // A long poll lasts all the time. The capture joins the producer's connection in its middle.
    send(packet(&mut consumer, &from_broker, &fetch()));
    let fetch = fetch();
    for number in 0..10_000 {
        forged(number, &fetch).into_iter().for_each(&mut send);
        if number % 1_000 == 0 {
            let segments = exchange(number as i32, ORDERS, &mut producer, &mut to_broker);
            for segment in segments {
                send(segment.bytes);
            }
        }
    }
    send(packet(&mut from_broker, &consumer, &framed(&[0, 0, 0, 7, 0, 0, 0, 0])));
    let counters = analyzer.counters();
    (answered, forgeries, counters)
}

#[test]
fn forged_packets_use_bounded_memory_and_lose_no_honest_row() {
    let small = Limits::within(16 << 20);
    for (limits, most, live) in
        [(Limits::default(), 96 << 20, false), (small, 16 << 20, false), (small, 16 << 20, true)]
    {
        let config = Config { ports: vec![9_092], limits, both_directions: live, ..Config::default() };
        let mut outcome = None;
        let allocated = allocation_counter::measure(|| outcome = Some(flood(config)));
        let (answered, forgeries, counters) = outcome.expect("it was run");
        eprintln!("{} bytes, {} evicted", allocated.bytes_max, counters.evicted_connections);
        assert!(allocated.bytes_max < most, "{} bytes of memory", allocated.bytes_max);
        assert_eq!((answered, forgeries == 0, counters.dropped_requests > 0), (11, live, live));
    }
}

/// Bytes for connections under a recorder's default memory limit (`watch::Memory`).
const RECORDER_BYTES: usize = 40 << 20;

/// Opens all connections, then sends requests on them in turns. Each sends one, and a tenth of them another one, about
/// a topic of two partitions.
fn serve(connections: &mut [[End; 2]], topics: usize) -> Counters {
    let limits = Limits::within(RECORDER_BYTES);
    let config = Config { ports: vec![9_092], limits, both_directions: true, ..Config::default() };
    let (mut analyzer, mut now, mut rows) = (Analyzer::new(config), 0, 0);
    let mut take = |row: Box<model::Request>| {
        assert!(row.end.is_some() && row.error.is_none(), "{row:?}");
        rows += 1;
    };
    let mut send = |bytes: &[u8]| {
        now += 10_000;
        let packet = Packet { time_ns: now, link: LinkType::RawIp, original_len: bytes.len() as u32, bytes };
        analyzer.packet(&packet, &mut take);
    };
    for [client, broker] in &mut *connections {
        for bytes in handshake(client, broker) {
            send(&bytes);
        }
    }
    let more = connections.len() / 10;
    for number in (0..connections.len()).chain(0..more) {
        let name: [u8; 6] = format!("{:06}", number % topics).into_bytes().try_into().expect("six digits");
        let topic = Topic { name: &name, batch_bytes: 70 };
        let [client, broker] = &mut connections[number];
        for TestSegment { bytes, .. } in exchange(number as i32, topic, client, broker) {
            send(&bytes);
        }
    }
    analyzer.finish(&mut take);
    assert_eq!(rows, connections.len() + more);
    analyzer.counters()
}

#[test]
fn follows_100_000_connections_in_bounded_memory() {
    for (count, topics) in [(10, 10), (100_000, 10_000)] {
        let connection = |number: u32| {
            let [_, high, middle, low] = number.to_be_bytes();
            let client = End { address: [10, high, middle, low], port: 41_000, next: number };
            [client, End { address: [10, 200, 0, 1], port: 9_092, next: 7 * number }]
        };
        let (mut connections, mut counters) =
            ((0..count).map(connection).collect::<Vec<_>>(), Counters::default());
        let allocated = allocation_counter::measure(|| counters = serve(&mut connections, topics));
        let Counters { connections, evicted_connections: evicted, .. } = counters;
        eprintln!("{count} connections: {} bytes at most, {evicted} forgotten", allocated.bytes_max);
        assert!(allocated.bytes_max < RECORDER_BYTES as u64, "{} bytes", allocated.bytes_max);
        assert!(evicted <= u64::from(count) / 200, "{evicted} of {count} connections were forgotten");
        assert!(connections <= u64::from(count) + evicted, "{connections} of {count}");
    }
}

/// All packets of one request and its answer, every fourth one acknowledged.
fn exchange(correlation_id: i32, topic: Topic<'_>, client: &mut End, broker: &mut End) -> Vec<TestSegment> {
    let (bytes, records) = request(correlation_id, topic);
    let mut sent = Vec::new();
    for (number, payload) in bytes.chunks(SEGMENT_BYTES).enumerate() {
        let (from, to) = (number * SEGMENT_BYTES, number * SEGMENT_BYTES + payload.len());
        // The next byte is still in the same batch: a batch that ends in this packet may produce a row.
        let is_bulk = records.iter().any(|records| records.start <= from && to < records.end);
        sent.push(TestSegment { bytes: packet(client, broker, payload), is_bulk });
        if number % 4 == 3 {
            sent.push(TestSegment { bytes: packet(broker, client, &[]), is_bulk: true });
        }
    }
    sent.push(TestSegment {
        bytes: packet(broker, client, &response(correlation_id, topic)),
        is_bulk: false,
    });
    sent.push(TestSegment { bytes: packet(client, broker, &[]), is_bulk: true });
    sent
}

#[test]
fn record_packets_do_not_allocate_and_requests_allocate_little() {
    let mut client = End { address: [10, 0, 0, 7], port: 41_234, next: 0xffff_0000 };
    let mut broker = End { address: [10, 0, 0, 1], port: 9_092, next: 77 };
    let mut analyzer = Analyzer::new(Config { ports: vec![9_092], ..Config::default() });
    let (mut now, mut rows) = (0, 0);
    let (mut packets, mut bulk_packets, mut bulk, mut all) = (0, 0, 0, 0);
    for correlation_id in 0..WARM_UP + MEASURED {
        for sent in exchange(correlation_id, ORDERS, &mut client, &mut broker) {
            now += 10_000;
            let original_len = sent.bytes.len() as u32;
            let packet = Packet { time_ns: now, link: LinkType::RawIp, original_len, bytes: &sent.bytes };
            let allocated = allocation_counter::measure(|| {
                analyzer.packet(&packet, &mut |request| {
                    assert_eq!((request.error, request.partitions.len()), (None, 2));
                    rows += 1;
                });
            });
            if correlation_id >= WARM_UP {
                packets += 1;
                all += allocated.count_total;
                bulk_packets += u64::from(sent.is_bulk);
                bulk += if sent.is_bulk { allocated.count_total } else { 0 };
            }
        }
    }
    let a_request = all as f64 / f64::from(MEASURED);
    eprintln!(
        "{packets} packets, {bulk_packets} of records only: {bulk} allocations; {a_request:.1} a request"
    );
    assert_eq!(rows, WARM_UP + MEASURED);
    assert!(bulk_packets > 150 * MEASURED as u64, "{bulk_packets}");
    assert_eq!(bulk, 0, "allocations in {bulk_packets} packets of records");
    assert!(all > 0, "nothing is counted");
    assert!(all <= MOST_A_REQUEST * MEASURED as u64, "{a_request:.1} allocations a request");
}
