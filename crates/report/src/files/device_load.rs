//! How many requests devices served: on average, and in their busiest second. Uses the devices' own counters if they were
//! sampled, else the block requests that were seen. Does not know what a device is rated for.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{BlockIo, Direction, HostSample, HostScope, Nanos};

/// A stack of volumes, arrays and disks has a few dozen devices at most.
const MAX_DEVICES: usize = 256;
const SECOND: i64 = 1_000_000_000;

/// A device's requests, reads and writes together.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceLoad {
    /// Its name, or its number.
    pub device: Arc<str>,
    /// Average requests per second; `None` without a time to divide by.
    pub mean_iops: Option<f64>,
    /// Average reads per second, among them.
    pub mean_reads: Option<f64>,
    /// Requests in the busiest second.
    pub busiest_iops: f64,
}

/// Counts requests of devices.
#[derive(Clone, Default)]
pub(super) struct DeviceLoads {
    requests: BTreeMap<(u32, u32), RequestCounts>,
    samples: BTreeMap<Arc<str>, SampleSums>,
}

/// Block requests of a device.
#[derive(Clone)]
struct RequestCounts {
    name: Arc<str>,
    reads: u64,
    all: u64,
    first: Nanos,
    last: Nanos,
    /// The second that is being counted. A request that is reported late counts in the next one.
    second: i64,
    in_second: u64,
    busiest: u64,
}

/// A device's own counters, sampled about once a second.
#[derive(Clone, Default)]
struct SampleSums {
    reads: f64,
    all: f64,
    seconds: f64,
    /// The sample that is being added up: one figure per metric.
    at: Nanos,
    now: f64,
    busiest: f64,
}

impl DeviceLoads {
    pub(super) fn block_io(&mut self, io: &BlockIo) {
        if io.direction == Direction::Other {
            return;
        }
        let number = io.device.number();
        if self.requests.len() >= MAX_DEVICES && !self.requests.contains_key(&number) {
            return;
        }
        let counts = self.requests.entry(number).or_insert_with(|| RequestCounts::new(io));
        counts.all += 1;
        counts.reads += u64::from(io.direction == Direction::Read);
        counts.first = counts.first.min(io.start);
        counts.last = counts.last.max(io.end);
        let second = io.end.0.div_euclid(SECOND);
        if second > counts.second {
            (counts.second, counts.in_second) = (second, 0);
        }
        counts.in_second += 1;
        counts.busiest = counts.busiest.max(counts.in_second);
    }

    pub(super) fn sample(&mut self, sample: &HostSample) {
        let reads = match &*sample.metric {
            "reads_per_second" => true,
            "writes_per_second" => false,
            _ => return,
        };
        let is_known = self.samples.len() < MAX_DEVICES || self.samples.contains_key(&sample.name);
        // A recording from elsewhere may have figures that no device has.
        let is_sound = sample.value.is_finite() && sample.value >= 0.0 && sample.end > sample.start;
        if sample.scope != HostScope::Device || !is_known || !is_sound {
            return;
        }
        self.samples.entry(Arc::clone(&sample.name)).or_default().add(sample, reads);
    }

    /// The devices, the busiest first.
    pub(super) fn finish(self) -> Vec<DeviceLoad> {
        let samples = self.samples.into_iter().map(|(device, samples)| samples.load(device));
        let mut loads = samples.collect::<Vec<_>>();
        if loads.is_empty() {
            loads.extend(self.requests.into_values().map(RequestCounts::load));
        }
        loads.retain(|load| load.busiest_iops > 0.0);
        loads.sort_by(|a, b| b.busiest_iops.total_cmp(&a.busiest_iops).then_with(|| a.device.cmp(&b.device)));
        loads
    }
}

impl RequestCounts {
    fn new(io: &BlockIo) -> Self {
        let name = io.device.to_string().into();
        let second = io.end.0.div_euclid(SECOND);
        Self { name, reads: 0, all: 0, first: io.start, last: io.end, second, in_second: 0, busiest: 0 }
    }

    fn load(self) -> DeviceLoad {
        let seconds = self.last.0.saturating_sub(self.first.0) as f64 / SECOND as f64;
        // Less than a second gives no rate.
        let per_second = |count: u64| (seconds >= 1.0).then(|| count as f64 / seconds);
        DeviceLoad {
            device: self.name,
            mean_iops: per_second(self.all),
            mean_reads: per_second(self.reads),
            busiest_iops: self.busiest as f64,
        }
    }
}

impl SampleSums {
    fn add(&mut self, sample: &HostSample, reads: bool) {
        let seconds = (sample.end - sample.start).0 as f64 / SECOND as f64;
        if sample.end != self.at {
            (self.at, self.now) = (sample.end, 0.0);
            self.seconds += seconds;
        }
        self.now += sample.value;
        self.busiest = self.busiest.max(self.now);
        self.all += sample.value * seconds;
        self.reads += if reads { sample.value * seconds } else { 0.0 };
    }

    fn load(self, device: Arc<str>) -> DeviceLoad {
        let per_second = |sum: f64| (self.seconds > 0.0).then(|| sum / self.seconds);
        DeviceLoad {
            device,
            mean_iops: per_second(self.all),
            mean_reads: per_second(self.reads),
            busiest_iops: self.busiest,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use model::{BlockIo, Device, Direction, HostSample, HostScope, Nanos, Row};

    use super::{DeviceLoad, DeviceLoads, SECOND};

    fn io(end: i64, direction: Direction) -> BlockIo {
        BlockIo {
            start: Nanos(end - 1_000),
            end: Nanos(end),
            device: Device { major: 8, minor: 0, name: "sda".into() },
            direction,
            sector: 0,
            bytes: 4_096,
            tid: 1,
            thread: "t".into(),
            flags: "R".into(),
            ..Row::empty()
        }
    }

    fn sample(second: i64, name: &str, metric: &str, value: f64) -> HostSample {
        HostSample {
            start: Nanos((second - 1) * SECOND),
            end: Nanos(second * SECOND),
            scope: HostScope::Device,
            name: name.into(),
            metric: metric.into(),
            value,
        }
    }

    #[test]
    fn finds_the_busiest_second_of_block_requests() {
        let mut loads = DeviceLoads::default();
        for (count, second) in [(3, 0), (7, 1), (2, 2)] {
            for i in 0..count {
                loads.block_io(&io(second * SECOND + i * 1_000 + 1_000, Direction::Read));
            }
        }
        loads.block_io(&io(2 * SECOND + 1_000, Direction::Write));
        loads.block_io(&io(2 * SECOND + 2_000, Direction::Other));
        let load = loads.finish().remove(0);
        assert_eq!((&*load.device, load.busiest_iops), ("sda", 7.0));
        let (all, reads) = (load.mean_iops.unwrap(), load.mean_reads.unwrap());
        assert!((all - 13.0 / 2.0).abs() < 0.01 && (reads - 12.0 / 2.0).abs() < 0.01, "{all} {reads}");
    }

    #[test]
    fn device_counters_take_precedence_over_block_requests() {
        let mut loads = DeviceLoads::default();
        loads.block_io(&io(SECOND, Direction::Read));
        for (second, reads, writes) in [(1, 100.0, 10.0), (2, 300.0, 30.0)] {
            loads.sample(&sample(second, "dm-0", "reads_per_second", reads));
            loads.sample(&sample(second, "dm-0", "writes_per_second", writes));
            loads.sample(&sample(second, "dm-0", "util_ratio", 9.0));
            loads.sample(&sample(second, "sda", "reads_per_second", f64::NAN));
        }
        let (mean_iops, mean_reads) = (Some(220.0), Some(200.0));
        let device = Arc::from("dm-0");
        assert_eq!(loads.finish(), [DeviceLoad { device, mean_iops, mean_reads, busiest_iops: 330.0 }]);
    }
}
