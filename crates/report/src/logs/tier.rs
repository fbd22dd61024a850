//! What tiered storage did to its state files: how much smaller cleanups made them, and in which order they were migrated.
//! Does not print.
//!
//! The log has a line at the end of each migration, none at its start. If migrations ran one after the other, the time
//! between two ends grows with the size of the file; if several ran in parallel, it does not.

use model::{LogEntry, Nanos, TopicPartition};

/// Limit on the migrations kept.
const MAX_MIGRATIONS: usize = 100_000;
/// A longer time between two ends is not work on one file: half a gigabyte took 26 s.
const QUEUE_GAP: Nanos = Nanos::from_millis(900_000);
/// Fewer files allow no conclusion.
const MIN_FILES: usize = 5;
/// A rank correlation from this on is not chance.
const MIN_CORRELATION: f64 = 0.6;

/// The cleanups of one partition, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleanup {
    /// Number of cleanups.
    pub cleanups: u64,
    /// Segments removed.
    pub segments: u64,
    /// Bytes before, of all cleanups together.
    pub before_bytes: u64,
    /// Bytes after.
    pub after_bytes: u64,
}

impl Cleanup {
    pub(super) fn add(&mut self, entry: &LogEntry) {
        self.cleanups += 1;
        self.segments = self.segments.saturating_add(entry.count.unwrap_or(0));
        self.before_bytes = self.before_bytes.saturating_add(entry.before_bytes.unwrap_or(0));
        self.after_bytes = self.after_bytes.saturating_add(entry.after_bytes.unwrap_or(0));
    }

    /// Growth of the file; negative if it shrank.
    pub fn change_bytes(&self) -> i64 {
        change(self.before_bytes, self.after_bytes)
    }

    /// Growth in per cent; `None` if the file was empty.
    pub fn change_percent(&self) -> Option<f64> {
        percent(self.before_bytes, self.after_bytes)
    }
}

pub(super) fn change(before: u64, after: u64) -> i64 {
    let bytes = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    bytes(after) - bytes(before)
}

pub(super) fn percent(before: u64, after: u64) -> Option<f64> {
    (before > 0).then(|| (after as f64 - before as f64) / before as f64 * 100.0)
}

/// The migration of one file.
#[derive(Clone, Debug, PartialEq)]
pub struct Migration {
    /// When it ended.
    pub end: Nanos,
    /// The partition.
    pub topic_partition: Option<TopicPartition>,
    /// Bytes of the file before.
    pub before_bytes: u64,
    /// Bytes of the file after.
    pub after_bytes: u64,
}

/// All migrations, in the order of their arrival.
#[derive(Clone, Debug, Default)]
pub struct Migrations {
    migrations: Vec<Migration>,
    /// Migrations without a time or sizes, or beyond the limit.
    pub more: u64,
}

/// Migrations that follow each other closely.
#[derive(Clone, Debug)]
pub(super) struct Queue {
    pub(super) migrations: Vec<Migration>,
}

impl Migrations {
    pub(super) fn add(&mut self, entry: &LogEntry) {
        let known = (entry.at, entry.before_bytes, entry.after_bytes);
        let (Some(end), Some(before_bytes), Some(after_bytes)) = known else {
            self.more += 1;
            return;
        };
        if self.migrations.len() >= MAX_MIGRATIONS {
            self.more += 1;
            return;
        }
        self.migrations.push(Migration {
            end,
            topic_partition: entry.topic_partition.clone(),
            before_bytes,
            after_bytes,
        });
    }

    /// The migrations by time, split where none ended for long.
    pub(super) fn queues(&self) -> Vec<Queue> {
        let mut sorted = self.migrations.clone();
        sorted.sort_by_key(|migration| migration.end);
        let mut queues: Vec<Queue> = Vec::new();
        for migration in sorted {
            let last = queues.last().and_then(|queue| queue.migrations.last()).map(|last| last.end);
            match (queues.last_mut(), last) {
                (Some(queue), Some(last)) if migration.end - last <= QUEUE_GAP => {
                    queue.migrations.push(migration);
                }
                _ => queues.push(Queue { migrations: vec![migration] }),
            }
        }
        queues
    }
}

impl Queue {
    /// Each migration with the time since the previous one.
    pub(super) fn with_gaps(&self) -> impl Iterator<Item = (&Migration, Option<Nanos>)> {
        let before = [None].into_iter().chain(self.migrations.iter().map(|migration| Some(migration.end)));
        self.migrations
            .iter()
            .zip(before)
            .map(|(this, before)| (this, before.map(|before| this.end - before)))
    }

    /// The first end and the last.
    pub(super) fn span(&self) -> Option<(Nanos, Nanos)> {
        Some((self.migrations.first()?.end, self.migrations.last()?.end))
    }

    /// Spearman's rank correlation of the time since the previous end with file size. 1 if longer is always larger, 0
    /// without any order; `None` for too few files.
    pub(super) fn correlation(&self) -> Option<f64> {
        let (sizes, gaps): (Vec<_>, Vec<_>) = self
            .with_gaps()
            .filter_map(|(migration, gap)| Some((migration.before_bytes as f64, gap?.0 as f64)))
            .unzip();
        if sizes.len() < MIN_FILES {
            return None;
        }
        pearson(&ranks(&sizes), &ranks(&gaps))
    }

    /// Whether they ran one after the other; `None` if undecided.
    pub(super) fn is_serial(&self) -> Option<bool> {
        self.correlation().filter(|correlation| *correlation >= MIN_CORRELATION).map(|_| true)
    }
}

/// Each value's rank; equal values share the middle of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = |value: f64| {
        let first = sorted.partition_point(|other| *other < value);
        let end = sorted.partition_point(|other| *other <= value);
        (first + end) as f64 / 2.0
    };
    values.iter().map(|&value| place(value)).collect()
}

fn pearson(a: &[f64], b: &[f64]) -> Option<f64> {
    let count = a.len() as f64;
    let mean = |values: &[f64]| values.iter().sum::<f64>() / count;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let covariance: f64 = a.iter().zip(b).map(|(a, b)| (a - mean_a) * (b - mean_b)).sum();
    let variance = |values: &[f64], mean: f64| values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let spread = (variance(a, mean_a) * variance(b, mean_b)).sqrt();
    (spread > 0.0).then(|| covariance / spread)
}

#[cfg(test)]
mod tests {
    use model::{LogEntry, LogKind, Nanos};

    use super::{Migration, Migrations, QUEUE_GAP, Queue};

    fn queue(ends_and_sizes: &[(i64, u64)]) -> Queue {
        let migrations = ends_and_sizes.iter().map(|&(end, before_bytes)| Migration {
            end: Nanos::from_millis(end * 1_000),
            topic_partition: None,
            before_bytes,
            after_bytes: 0,
        });
        Queue { migrations: migrations.collect() }
    }

    #[test]
    fn gaps_that_grow_with_file_size_mean_serial_migration() {
        let serial = queue(&[(0, 50), (26, 508), (31, 90), (33, 40), (63, 600), (70, 120), (71, 20)]);
        assert!(serial.correlation().unwrap() > 0.9 && serial.is_serial() == Some(true));
        let beside = queue(&[(0, 50), (1, 508), (31, 90), (33, 40), (34, 600), (70, 120), (90, 20)]);
        assert!(beside.correlation().unwrap() < 0.3 && beside.is_serial().is_none());
        assert_eq!(queue(&[(0, 1), (1, 2), (3, 3)]).is_serial(), None, "too few");
        assert_eq!(queue(&[(0, 1); 20]).correlation(), None, "all the same");
        let many: Vec<_> = (0..100)
            .scan(0, |end, n| {
                *end += n;
                Some((*end, n as u64))
            })
            .collect();
        assert!(queue(&many).correlation().unwrap() > 0.999);
    }

    #[test]
    fn migration_without_both_sizes_has_no_row() {
        let of = |before_bytes, after_bytes| {
            let entry = LogEntry {
                at: Some(Nanos(5)),
                before_bytes,
                after_bytes,
                ..LogEntry::new(LogKind::TierMigration)
            };
            let mut all = Migrations::default();
            all.add(&entry);
            (all.migrations.len(), all.more)
        };
        assert_eq!(of(Some(70), Some(20)), (1, 0));
        assert_eq!([of(Some(70), None), of(None, Some(20))], [(0, 1); 2]);
    }

    #[test]
    fn distant_migrations_are_separate_queues() {
        let ends = [(5, 1), (0, 2), (5 + QUEUE_GAP.0 / 1_000_000_000 + 1, 3)];
        let all = Migrations { migrations: queue(&ends).migrations, more: 0 };
        let sizes: Vec<Vec<u64>> = all
            .queues()
            .iter()
            .map(|queue| queue.migrations.iter().map(|migration| migration.before_bytes).collect())
            .collect();
        assert_eq!(sizes, [vec![2, 1], vec![3]]);
    }
}
