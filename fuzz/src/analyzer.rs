//! The whole way from packets to requests, with bounds small enough to be met.
//!
//! Input: a mode, then either a capture file (bit 0), compressed or not, or segments: flags, connection, distance (a
//! byte each), payload length, payload. Bits of the mode: 1 ports are given, 2 message ids are requested, 3 every
//! packet is captured twice.

mod segments;

use capture::{Analyzer, Config, Counters, Limits, Packet};
use model::{Nanos, Request};

use crate::Target;
use crate::chunks::Cuts;
use crate::packets;

/// The target. An lz4 block is 4 MiB, both compressed and decompressed.
pub const TARGET: Target = Target { name: "analyzer", check, spare_bytes: 20 << 20 };

const FILE: u8 = 1;
const PORTS_TOLD: u8 = 2;
const IDS_WANTED: u8 = 4;
const TWICE: u8 = 8;

/// Minimum size of a request: size field, key, version and correlation id, with an empty client id.
const LEAST_REQUEST_BYTES: u64 = 12;

fn check(data: &[u8]) {
    let Some((&mode, bytes)) = data.split_first() else { return };
    let packets = if mode & FILE == 0 {
        segments::packets(bytes)
    } else {
        packets::read(bytes, Cuts::new(0), false).map(|capture| capture.all).unwrap_or_default()
    };
    let mut analyzer = Analyzer::new(config(mode));
    let mut rows = Vec::new();
    let mut handed_in = 0;
    for (time_ns, link, original_len, bytes) in &packets {
        for _ in 0..=u8::from(mode & TWICE != 0) {
            handed_in += 1;
            let packet = Packet { time_ns: *time_ns, link: *link, original_len: *original_len, bytes };
            analyzer.packet(&packet, &mut |row| rows.push(*row));
        }
    }
    analyzer.finish(&mut |row| rows.push(*row));
    let counters = analyzer.counters();
    assert_eq!(counters.packets, handed_in);
    let payload: u64 = packets.iter().map(|(.., len, bytes)| u64::from(*len).max(bytes.len() as u64)).sum();
    assert!(rows.len() as u64 * LEAST_REQUEST_BYTES <= payload, "{} rows of {payload} bytes", rows.len());
    check_rows(&rows, &counters);
    let before = rows.len();
    analyzer.finish(&mut |row| rows.push(*row));
    assert_eq!(rows.len(), before, "the end has come already");
}

pub(crate) fn config(mode: u8) -> Config {
    Config {
        ports: if mode & PORTS_TOLD == 0 { Vec::new() } else { vec![segments::BROKER_PORT] },
        message_id_header: (mode & IDS_WANTED != 0).then(|| b"id".to_vec()),
        limits: Limits {
            connections: 3,
            connection_bytes: 64 << 10,
            idle_bytes: 1 << 10,
            unacknowledged_bytes: 32 << 10,
            held_bytes_per_direction: 2 << 10,
            held_bytes: 4 << 10,
            pending_per_connection: 8,
            topic_bytes: 2 << 10,
            row_bytes: 64 << 10,
            produced_partitions: 2,
            answer_within: Nanos::from_millis(100_000),
            max_frame_bytes: 1 << 20,
            max_batch_buffer_bytes: 4 << 10,
            max_decompressed_bytes: 64 << 10,
        },
        ..Config::default()
    }
}

fn check_rows(rows: &[Request], counters: &Counters) {
    let by_api: u64 = counters.requests_by_api.values().sum();
    assert_eq!(by_api, rows.len() as u64, "each row counts once");
    for row in rows {
        assert_eq!(row.response.is_some(), row.response_bytes.is_some(), "{row:?}");
        assert!(row.response.is_some() || row.end.is_none(), "{row:?}");
        assert!(row.client != row.broker, "{row:?}");
        assert!(row.head_of_line.is_none_or(|wait| wait >= Nanos(0)), "{row:?}");
    }
    let unanswered = rows.iter().filter(|row| row.end.is_none()).count() as u64;
    assert!(counters.unanswered <= unanswered, "{} of {unanswered} unanswered", counters.unanswered);
}
