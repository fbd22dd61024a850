//! Bytes read and written by file and by kind of file: since the start, and per second over the last few seconds.
//! `report::files` does the sums.

use std::collections::HashMap;

use model::{Event, Nanos};
use report::files::{Files, GroupBy, GroupKey, Sort, Traffic};

/// Maximum number of files counted separately.
const MAX_FILES: usize = 2_000;
/// Interval at which sums are taken.
const EVERY: Nanos = Nanos::from_millis(1_000);
/// Minimum interval of rates.
const RATES_OF: Nanos = Nanos::from_millis(5_000);

/// Traffic of a file or a kind of file.
#[derive(Clone, Debug)]
pub(crate) struct TrafficRow {
    pub(crate) who: GroupKey,
    pub(crate) total: Traffic,
    pub(crate) rates: Rates,
}

/// Traffic per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) reads: f64,
    /// Bytes from the page cache; `None` if no source shows them.
    pub(crate) cached_bytes: Option<f64>,
    /// Bytes from a device; `None` if no source shows them.
    pub(crate) disk_bytes: Option<f64>,
    pub(crate) writes: f64,
    pub(crate) written_bytes: f64,
}

/// Traffic in both groupings.
#[derive(Clone)]
pub(crate) struct FileTraffic {
    pub(crate) by_file: Sums,
    pub(crate) by_kind: Sums,
    last_sum: Nanos,
}

#[derive(Clone)]
pub(crate) struct Sums {
    files: Files,
    /// The last sums.
    pub(crate) moved: Vec<TrafficRow>,
    /// Earlier sums, from which rates are computed, and the sums for later rates.
    before: Snapshot,
    next: Snapshot,
}

#[derive(Clone, Default)]
struct Snapshot {
    at: Option<Nanos>,
    totals: HashMap<GroupKey, Traffic>,
}

impl FileTraffic {
    pub(crate) fn new() -> Self {
        Self { by_file: Sums::of(GroupBy::File), by_kind: Sums::of(GroupBy::Kind), last_sum: Nanos::MIN }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        for sums in [&mut self.by_file, &mut self.by_kind] {
            match event {
                Event::FileOp(op) => sums.files.file_op(op),
                Event::BlockIo(io) => sums.files.block_io(io),
                _ => {}
            }
        }
    }

    /// Takes new sums if the last ones are old.
    pub(crate) fn reach(&mut self, now: Nanos) {
        if now - self.last_sum < EVERY {
            return;
        }
        self.last_sum = now;
        self.by_file.take(now);
        self.by_kind.take(now);
    }
}

impl Sums {
    fn of(by: GroupBy) -> Self {
        Self {
            files: Files::with_capacity(by, MAX_FILES),
            moved: Vec::new(),
            before: Snapshot::default(),
            next: Snapshot::default(),
        }
    }

    fn take(&mut self, now: Nanos) {
        let groups = self.files.clone().finish(Sort::Bytes).groups;
        if self.next.at.is_none_or(|at| now - at >= RATES_OF) {
            let totals = groups.iter().cloned().collect();
            self.before = std::mem::replace(&mut self.next, Snapshot { at: Some(now), totals });
        }
        let before = if self.before.at.is_some() { &self.before } else { &self.next };
        let moved = groups.into_iter().map(|(who, total)| {
            let rates = before.rates(&who, &total, now);
            TrafficRow { who, total, rates }
        });
        self.moved = moved.collect();
    }
}

impl Snapshot {
    fn rates(&self, who: &GroupKey, total: &Traffic, now: Nanos) -> Rates {
        let Some(at) = self.at.filter(|at| now > *at) else { return Rates::default() };
        let seconds = (now - at).0 as f64 / 1e9;
        let none = Traffic::default();
        let before = self.totals.get(who).unwrap_or(&none);
        let rate = |of: fn(&Traffic) -> u64| of(total).saturating_sub(of(before)) as f64 / seconds;
        // Files that are new had no traffic before.
        Rates {
            reads: rate(|traffic| traffic.reads + traffic.faults),
            cached_bytes: total.cached_bytes.map(|_| rate(|traffic| traffic.cached_bytes.unwrap_or(0))),
            disk_bytes: total.disk_bytes.map(|_| rate(|traffic| traffic.disk_bytes.unwrap_or(0))),
            writes: rate(|traffic| traffic.writes),
            written_bytes: rate(|traffic| traffic.written_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::{Event, FileOpKind, Nanos};

    use super::FileTraffic;
    use crate::state::sample;

    #[test]
    fn rates_cover_the_last_seconds_and_totals_the_whole_time() {
        let mut traffic = FileTraffic::new();
        let second = |n: i64| Nanos::from_millis(n * 1_000);
        for n in 0..30 {
            // 1,000 bytes per second, and 3,000 from the twentieth second on.
            let mut op = sample::write(second(n), second(n) + Nanos(5));
            op.bytes = Some(if n < 20 { 1_000 } else { 3_000 });
            traffic.event(&Event::FileOp(Box::new(op)));
            traffic.reach(second(n));
        }
        let [moved] = &traffic.by_file.moved[..] else { panic!("{:?}", traffic.by_file.moved) };
        assert_eq!(moved.total.written_bytes, 50_000);
        assert!((moved.rates.written_bytes - 3_000.0).abs() < 1.0, "{:?}", moved.rates);
        assert!((moved.rates.writes - 1.0).abs() < 0.01);
        assert_eq!(moved.rates.disk_bytes, None);
        assert_eq!(traffic.by_kind.moved.len(), 1);
    }

    #[test]
    fn cached_bytes_are_known_only_with_disk_bytes() {
        let cached = |disk_bytes| {
            let mut traffic = FileTraffic::new();
            for n in 0..10 {
                let at = Nanos::from_millis(n * 1_000);
                let mut read = sample::write(at, at + Nanos(5));
                (read.op, read.bytes, read.disk_bytes) = (FileOpKind::Read, Some(1_000), disk_bytes);
                traffic.event(&Event::FileOp(Box::new(read)));
                traffic.reach(at);
            }
            let [moved] = &traffic.by_file.moved[..] else { panic!("{:?}", traffic.by_file.moved) };
            (moved.total.cached_bytes, moved.rates.cached_bytes.map(f64::round))
        };
        assert_eq!(cached(Some(400)), (Some(6_000), Some(600.0)));
        assert_eq!(cached(Some(1_000)), (Some(0), Some(0.0)));
        assert_eq!(cached(None), (None, None));
    }
}
