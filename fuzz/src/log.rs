//! A broker's log as text, compressed or not, with a user's patterns; the same log as a request log, and as rows of a
//! watch.
//!
//! Input: a byte for the cuts, one for the length of the patterns, the patterns, then the log.

use std::convert::Infallible;

use broker::RequestLog;
use broker::server_log::{Counts, LogItem, LogScanner, Patterns, ReadError, Zone, read};
use model::{LogEntry, Nanos};

use crate::chunks::Cuts;
use crate::{Target, files};

/// The target. The spare part is for one compiled expression.
pub const TARGET: Target = Target { name: "log", check, spare_bytes: 16 << 20 };

fn check(data: &[u8]) {
    let [cuts, length, rest @ ..] = data else { return };
    let (patterns, log) = rest.split_at(usize::from(*length).min(rest.len()));
    let patterns = std::str::from_utf8(patterns).ok().and_then(|text| Patterns::parse(text).ok());
    let patterns = patterns.unwrap_or_default();
    let (whole, counts) = scan_pieces(&[log], &patterns);
    let pieces: Vec<&[u8]> = Cuts::new(*cuts).of(log).collect();
    assert_eq!(scan_pieces(&pieces, &patterns), (whole.clone(), counts));
    assert_eq!(counts.bytes, log.len() as u64);
    // One entry from a user's pattern, and one from a known one.
    assert!(whole.len() as u64 <= 2 * counts.lines);
    unpacked(log);
    requests(log);
    rows(log, &pieces);
    for entry in whole {
        assert!(entry.length.is_none_or(|length| length >= Nanos::ZERO), "{entry:?}");
        assert!(entry.text.len() <= 1_000, "{} bytes of text", entry.text.len());
    }
}

/// Checks that an uncompressed log is passed through unchanged.
fn unpacked(log: &[u8]) {
    let is_packed = matches!(log, [0x1f, 0x8b, ..] | [0x28, 0xb5, 0x2f, 0xfd, ..]);
    let mut end = 0;
    let read = read(log, |block| {
        assert!(is_packed || log[end..].starts_with(block), "other bytes from {end} on");
        end += block.len();
        Ok::<_, ReadError>(())
    });
    assert!(is_packed || read.is_err() || end == log.len(), "{end} of {} bytes", log.len());
}

/// Checks that each line is a request, an omitted one, or none.
fn requests(log: &[u8]) {
    let directory = files::directory();
    let mut requests = RequestLog::default();
    let read = requests.read(&files::write(&directory, "kafka-request.log", log));
    let lines = log.split(|byte| *byte == b'\n').count();
    assert!(log.starts_with(&[0x1f, 0x8b]) || read.is_ok(), "a text is read to its end");
    assert!(log.starts_with(&[0x1f, 0x8b]) || requests.len() + requests.left_out() as usize <= lines);
}

/// Checks that each line gives at most one row, with the values in the line. The rows must not depend on the pieces.
fn rows(log: &[u8], pieces: &[&[u8]]) {
    let whole = watch::fuzzing::log_rows(&[log]);
    let lines = log.split(|byte| *byte == b'\n').count();
    assert!(whole.len() <= lines);
    assert_eq!(whole, watch::fuzzing::log_rows(pieces));
    for request in whole {
        assert!(request.end.is_none_or(|end| end >= request.arrival), "{request:?}");
        assert!(request.memory_bytes() < 64 * log.len() + 4_096, "{} bytes", request.memory_bytes());
    }
}

fn scan_pieces(pieces: &[&[u8]], patterns: &Patterns) -> (Vec<LogEntry>, Counts) {
    let mut scan = LogScanner::new(Zone::utc(), Some((2024, 5, 19)), patterns.clone());
    let mut entries = Vec::new();
    let mut take = |item: LogItem<'_>| {
        match item {
            LogItem::Entry(entry) => entries.push(entry),
            LogItem::Request(request) => {
                assert!(request.times.total >= Nanos::ZERO);
                let _ = request.names("t");
            }
        }
        Ok::<_, Infallible>(())
    };
    for piece in pieces {
        let Ok(()) = scan.feed(piece, &mut take);
    }
    let Ok(()) = scan.finish(&mut take);
    (entries, scan.counts())
}
