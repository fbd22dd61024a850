//! Figures of one broker, from everything that was counted of it. Does not compare it with others.

use std::collections::BTreeMap;

use model::Nanos;

use crate::of_files::FileIo;
use crate::of_requests::TopicIo;
use crate::parts::{FigureValue, PartKind};
use crate::{Figure, FileStats, HostStats, RequestStats, VerdictStats};

const NS_PER_MS: f64 = 1e6;
const SECONDS_PER_MINUTE: f64 = 60.0;

/// A broker and its cluster, as their folders are named.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BrokerName {
    /// The cluster.
    pub cluster: String,
    /// The broker.
    pub broker: String,
}

/// Counts of one broker, over all of its recordings.
#[derive(Default)]
pub struct BrokerStats {
    /// Counts of its files.
    pub files: FileStats,
    /// Counts of its requests.
    pub requests: RequestStats,
    /// Samples of its host.
    pub host: HostStats,
    /// Counts of its slow requests.
    pub verdicts: VerdictStats,
    /// The watched time of all recordings, for rates. The host is sampled once a second and not right at the start and
    /// the end, so that the sampled time is shorter.
    pub watched: Nanos,
}

/// Figures of one broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Broker {
    /// Its name.
    pub name: BrokerName,
    /// Watched time.
    pub seconds: f64,
    /// The figures that could be computed.
    pub figures: BTreeMap<Figure, FigureValue>,
}

impl Broker {
    /// Computes the figures of a broker.
    pub fn of(name: BrokerName, stats: &BrokerStats) -> Self {
        let seconds = stats.watched.at_least_zero().0 as f64 / 1e9;
        let values =
            Figure::ALL.into_iter().filter_map(|figure| Some((figure, stats.compute(figure, seconds)?)));
        let figures = values.filter(|(_, value)| value.value.is_finite()).collect();
        Self { name, seconds, figures }
    }
}

impl BrokerStats {
    /// Computes a figure, if it can be; without a known watched time there is no rate.
    fn compute(&self, figure: Figure, seconds: f64) -> Option<FigureValue> {
        let a_second = (seconds > 0.0).then_some(1.0 / seconds);
        let a_minute = a_second.map(|a_second| a_second * SECONDS_PER_MINUTE);
        match figure {
            Figure::DeviceReads => self.served(0, |moved| moved.disk_bytes),
            Figure::DeviceWrites => self.served(1, |moved| moved.written_bytes),
            Figure::Reads if self.files.lacks_reads => None,
            Figure::Reads => self.of_files(a_second?, |moved| moved.reads),
            Figure::DiskReadBytes if self.files.lacks_disk_reads => None,
            Figure::DiskReadBytes => self.of_files(a_second?, |moved| moved.disk_bytes),
            Figure::SentBytes => self.of_requests(a_second?, |carried| carried.sent_bytes),
            Figure::ProducedBytes => self.of_requests(a_second?, |carried| carried.produced_bytes),
            Figure::WriteTime => {
                let writes = self.files.sum(|moved| moved.writes);
                self.of_files(1.0 / (NS_PER_MS * writes as f64), |moved| moved.write_ns)
            }
            Figure::LongestWrite => self.longest_write(),
            Figure::BatchBytes => {
                let batches = self.requests.sum().batches;
                self.of_requests(1.0 / batches as f64, |carried| carried.produced_bytes)
            }
            Figure::PartitionsLed => self.of_requests(1.0, |carried| carried.led),
            Figure::SlowProduce => {
                let slow = self.requests.slow_produce as f64 * a_minute?;
                (self.requests.requests > 0).then(|| FigureValue::plain(slow))
            }
            Figure::SlowTime => {
                let scale = a_minute? / NS_PER_MS;
                let value = self.verdicts.time_ns as f64 * scale;
                let causes = || self.verdicts.causes.clone();
                self.verdicts.saved.then(|| FigureValue::of(value, PartKind::Cause, causes(), scale))
            }
        }
    }

    /// Requests per second that devices served, over the sampled seconds. Its parts are what reads or writes of files
    /// moved, in proportion.
    fn served(&self, which: usize, moved: impl Fn(&FileIo) -> u64) -> Option<FigureValue> {
        let sampled = Some(self.host.seconds()).filter(|seconds| *seconds > 0.0)?;
        let served = self.host.served(|device| self.files.holds(device))?;
        let value = served.get(which)? / sampled;
        let all = self.files.sum(&moved);
        if all == 0 || self.files.partial {
            return Some(FigureValue::plain(value));
        }
        Some(FigureValue::of(value, PartKind::FileKind, self.files.amounts(moved), value / all as f64))
    }

    fn of_files(&self, scale: f64, of: impl Fn(&FileIo) -> u64) -> Option<FigureValue> {
        if self.files.kinds.is_empty() || self.files.partial {
            return None;
        }
        let value = self.files.sum(&of) as f64 * scale;
        Some(FigureValue::of(value, PartKind::FileKind, self.files.amounts(of), scale))
    }

    fn of_requests(&self, scale: f64, of: impl Fn(&TopicIo) -> u64) -> Option<FigureValue> {
        if self.requests.requests == 0 {
            return None;
        }
        let value = of(&self.requests.sum()) as f64 * scale;
        Some(FigureValue::of(value, PartKind::Topic, self.requests.amounts(of), scale))
    }

    fn longest_write(&self) -> Option<FigureValue> {
        let (longest, scale) = (self.files.longest_write_ns?, 1.0 / NS_PER_MS);
        let parts = self.files.longest_writes.clone();
        Some(FigureValue::of(longest as f64 * scale, PartKind::FileKind, parts, scale))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::row_summary::FileOpColumns;
    use model::{FileKind, FileOpKind, HostSample, HostScope, Nanos};

    use super::{Broker, BrokerName, BrokerStats};
    use crate::Figure;

    const MS: i64 = 1_000_000;

    fn read(at_ms: i64) -> FileOpColumns {
        FileOpColumns {
            start: Nanos(at_ms * MS),
            end: Nanos(at_ms * MS + 1),
            op: FileOpKind::Read,
            bytes: Some(100),
            disk_bytes: Some(4_096),
            readahead_bytes: Some(0),
            file: "t-0/0.log".into(),
            kind: FileKind::Log,
            device: "sda".into(),
        }
    }

    fn sample(scope: HostScope, metric: &str, second: i64, value: f64) -> HostSample {
        let name: Arc<str> = if scope == HostScope::Device { "sda".into() } else { "".into() };
        let (start, end) = (Nanos(second * 1_000 * MS), Nanos((second + 1) * 1_000 * MS));
        HostSample { start, end, scope, name, metric: metric.into(), value }
    }

    /// Three seconds, of which two were sampled: nine reads are three per second; the disk's requests are known for
    /// two.
    #[test]
    fn rates_are_per_second_of_the_observed_time() {
        let mut stats = BrokerStats { watched: Nanos(3_000 * MS), ..BrokerStats::default() };
        (0..9).for_each(|at| stats.files.file_op(&read(at * 300)));
        for second in 0..2 {
            stats.host.host_sample(&sample(HostScope::Host, "cpu_count", second, 8.0));
            stats.host.host_sample(&sample(HostScope::Device, "reads_per_second", second, 5.0));
        }
        let name = || BrokerName { cluster: "c".to_owned(), broker: "1".to_owned() };
        let value = |broker: &Broker, figure| {
            broker.figures.get(&figure).map(|found: &crate::FigureValue| found.value)
        };
        let broker = Broker::of(name(), &stats);
        assert_eq!((broker.seconds, value(&broker, Figure::Reads)), (3.0, Some(3.0)));
        assert_eq!(value(&broker, Figure::DiskReadBytes), Some(3.0 * 4_096.0));
        assert_eq!(value(&broker, Figure::DeviceReads), Some(5.0));
        // Without a known watched time there is no rate; devices report theirs.
        stats.watched = Nanos::ZERO;
        let broker = Broker::of(name(), &stats);
        assert_eq!((value(&broker, Figure::Reads), value(&broker, Figure::DeviceReads)), (None, Some(5.0)));
    }
}
