//! A broker's log as text, and a user's patterns.
//!
//! Input: a byte for the cuts, one that says how many bytes are patterns, those, then the log.

use std::convert::Infallible;

use broker::server_log::{Counts, LogItem, LogScanner, Patterns, Zone};
use model::{LogEntry, Nanos};

use crate::Target;
use crate::chunks::Cuts;

/// The target. What one compiled expression may take is the spare part.
pub const TARGET: Target = Target { name: "log", check, spare_bytes: 16 << 20 };

fn check(data: &[u8]) {
    let [cuts, length, rest @ ..] = data else { return };
    let (patterns, log) = rest.split_at(usize::from(*length).min(rest.len()));
    let patterns = std::str::from_utf8(patterns).ok().and_then(|text| Patterns::parse(text).ok());
    let patterns = patterns.unwrap_or_default();
    let (whole, counts) = told(&[log], &patterns);
    let pieces: Vec<&[u8]> = Cuts::new(*cuts).of(log).collect();
    assert_eq!(told(&pieces, &patterns), (whole.clone(), counts));
    assert_eq!(counts.bytes, log.len() as u64);
    // A pattern's and the known one's.
    assert!(whole.len() as u64 <= 2 * counts.lines);
    for entry in whole {
        assert!(entry.length.is_none_or(|length| length >= Nanos::ZERO), "{entry:?}");
        assert!(entry.text.len() <= 1_000, "{} bytes of text", entry.text.len());
    }
}

fn told(pieces: &[&[u8]], patterns: &Patterns) -> (Vec<LogEntry>, Counts) {
    let mut scan = LogScanner::new(Zone::utc(), Some((2024, 5, 19)), patterns.clone());
    let mut entries = Vec::new();
    let mut take = |told: LogItem<'_>| {
        match told {
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
