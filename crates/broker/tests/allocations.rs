//! Allocations of a log search: none for lines without a message, however many there are. The benchmarks measure times.

// clippy.toml allows these in test functions; a test crate is nothing else.
#![allow(clippy::unwrap_used)]

use std::convert::Infallible;

use broker::server_log::{LogItem, LogScanner, Patterns, Zone};

/// Lines of a busy broker without any duration.
fn log_without_durations() -> Vec<u8> {
    let line = "[2024-05-19 15:04:47,458] INFO [UnifiedLog partition=t-0, dir=/d] Incremented log start offset to 5 due to leader offset increment (kafka.log.UnifiedLog)\n";
    line.repeat(10_000).into_bytes()
}

#[test]
fn irrelevant_lines_allocate_nothing() {
    let log = log_without_durations();
    let mut scan = LogScanner::new(Zone::utc(), None, Patterns::default());
    let mut none = |told: LogItem<'_>| -> Result<(), Infallible> { panic!("{told:?}") };
    // The rest of a piece is carried over to the next.
    let Ok(()) = scan.feed(&log[..5_000], &mut none);
    let Ok(()) = scan.feed(&log[5_000..10_000], &mut none);
    let counted = allocation_counter::measure(|| {
        for piece in log[10_000..].chunks(65_537) {
            let Ok(()) = scan.feed(piece, &mut none);
        }
    });
    assert_eq!(counted.count_total, 0, "{counted:?}");
    assert_eq!(scan.counts().lines, 10_000);
}
