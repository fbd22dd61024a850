//! Entry points of the fuzz targets of rows and logs, not for users. Fuzzed by: rows, log.

use jvm::jfr::JfrEvent;
use model::clock::ClockPair;
use model::{ClockOffset, JvmPause, Partition, Request, Row as _};

use super::request_log::LogParser;

use super::transfer::{Transfer, take_request};

/// Reads requests, and returns whether each survives a round trip.
pub fn requests(bytes: &[u8]) -> bool {
    round_trip(bytes, take_request)
}

/// Like [`requests`], for what a JVM's Flight Recorder recorded.
pub fn jfr_events(bytes: &[u8]) -> bool {
    round_trip(bytes, JfrEvent::take)
}

fn round_trip<T: Transfer + PartialEq>(mut bytes: &[u8], take: fn(&mut &[u8]) -> Option<T>) -> bool {
    let rows = std::iter::from_fn(|| take(&mut bytes));
    rows.into_iter().all(|row| {
        let mut written = Vec::new();
        row.put(&mut written);
        take(&mut written.as_slice()) == Some(row)
    })
}

/// The rows that a watch makes of a request log in pieces.
/// The log is read at the time of the seeds.
pub fn log_rows(pieces: &[&[u8]]) -> Vec<Request> {
    let now = ClockPair { monotonic_ns: 1_000_000_000_000, realtime_ns: 1_716_131_087_458_000_000 };
    let mut log = LogParser::new(ClockOffset::at(now), false);
    for piece in pieces {
        log.feed(piece, now);
    }
    log.end(now);
    log.take_rows()
}

/// The bytes of a pause.
pub fn jfr_event() -> Vec<u8> {
    let pause = JvmPause { operation: "G1New".into(), gc_id: Some(7), ..JvmPause::empty() };
    let mut bytes = Vec::new();
    JfrEvent::Pause(pause).put(&mut bytes);
    bytes
}

/// The bytes of a request with two partitions.
pub fn request() -> Vec<u8> {
    let mut request = Request::new(([10, 0, 0, 7], 41_234).into(), ([10, 0, 0, 1], 9_092).into());
    request.client_id = Some("client".into());
    request.partitions = vec![Partition { topic: Some("orders".into()), ..Partition::default() }; 2];
    let mut bytes = Vec::new();
    request.put(&mut bytes);
    bytes
}
