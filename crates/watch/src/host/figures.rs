//! Turns readings into samples: remembers the values of counters with their times, and computes increases. Does not read files.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use model::{Event, HostSample, HostScope, Nanos};

use super::metrics::{METRICS, Metric, Read};

/// The current and the previous reading.
/// A reading takes some time, so each counter has its own timestamp.
#[derive(Default)]
pub(super) struct Figures {
    /// When the previous reading began.
    before: Option<Nanos>,
    /// When this reading began.
    start: Nanos,
    /// Counters of the previous reading. Those that are not read again are forgotten.
    previous: HashMap<Key, Counter, RandomState>,
    /// Counters of this reading.
    current: HashMap<Key, Counter, RandomState>,
    names: HashMap<Box<str>, Arc<str>, RandomState>,
    /// Samples of this reading.
    pub(super) samples: Vec<Event>,
}

/// A counter's value, and when it was read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counter {
    pub(super) value: u64,
    pub(super) at: Nanos,
}

/// A counter's increase over an interval.
struct Increase {
    by: u64,
    since: Nanos,
    until: Nanos,
}

/// A counter: its scope, name and metric, and whether it is the metric's divisor.
type Key = (HostScope, Arc<str>, &'static str, bool);

/// Limit of cached names: no host has more devices, interfaces and cgroups to sample.
const MAX_NAMES: usize = 4_096;

impl Figures {
    /// Starts a reading.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.before = (self.start > Nanos::ZERO).then_some(self.start);
        self.start = now;
        std::mem::swap(&mut self.previous, &mut self.current);
        self.current.clear();
    }

    /// Returns the figures of one object.
    pub(super) fn of(&mut self, scope: HostScope, name: &str) -> Figure<'_> {
        let name = self.name(name);
        Figure { figures: self, scope, name }
    }

    fn name(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        if self.names.len() >= MAX_NAMES {
            self.names.clear();
        }
        let shared: Arc<str> = name.into();
        self.names.insert(name.into(), Arc::clone(&shared));
        shared
    }

    fn put(
        &mut self,
        scope: HostScope,
        name: Arc<str>,
        metric: &'static str,
        (start, end): (Nanos, Nanos),
        value: f64,
    ) {
        let metric = self.name(metric);
        self.samples.push(Event::HostSample(Box::new(HostSample { start, end, scope, name, metric, value })));
    }
}

/// Width of a counter in the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bits {
    /// Wraps: `/proc/diskstats` prints times as `unsigned int` (block/genhd.c, `diskstats_show`).
    Narrow,
    /// Never wraps; if it decreases, it belongs to another object or was reset.
    Wide,
}

impl Bits {
    /// The increase between two readings.
    /// A 32-bit counter has wrapped if it went from its upper half to its lower half.
    fn increase(self, before: u64, now: u64) -> Option<u64> {
        const HALF: u64 = 1 << 31;
        match (now.checked_sub(before), self) {
            (Some(increase), _) => Some(increase),
            (None, Self::Narrow) if (HALF..2 * HALF).contains(&before) && now < HALF => {
                Some(now + 2 * HALF - before)
            }
            (None, _) => None,
        }
    }
}

/// The figures of one object: each call adds a sample, or none if there is no value yet.
pub(super) struct Figure<'f> {
    figures: &'f mut Figures,
    scope: HostScope,
    name: Arc<str>,
}

impl Figure<'_> {
    /// Adds a value at a time.
    pub(super) fn add_at(&mut self, metric: &'static str, at: Nanos, value: impl Into<Option<f64>>) {
        let since = self.figures.before.unwrap_or(at);
        self.add_over(metric, (since, at), value);
    }

    /// Adds a value over an interval.
    pub(super) fn add_over(
        &mut self,
        metric: &'static str,
        time: (Nanos, Nanos),
        value: impl Into<Option<f64>>,
    ) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.figures.put(self.scope, Arc::clone(&self.name), metric, time, value);
        }
    }

    /// Adds all metrics of the object's scope, computed from its fields.
    pub(super) fn sample(&mut self, field: &mut dyn FnMut(&'static str) -> Option<Counter>) {
        let scope = self.scope;
        for &Metric { name, read, sources, .. } in METRICS.iter().filter(|metric| metric.scope == scope) {
            let mut first = || sources.iter().find_map(|(source, unit)| Some((field(source)?, *unit)));
            match (read, sources) {
                (Read::Value, _) => {
                    if let Some((Counter { value, at }, unit)) = first() {
                        self.add_at(name, at, value as f64 * unit);
                    }
                }
                (Read::Rate(bits), _) => {
                    let (counter, unit) = first().unzip();
                    self.rate(name, counter, unit.unwrap_or(1.0), bits);
                }
                (Read::Product, [(one, _), (other, _)]) => {
                    if let Some((Counter { value, at }, other)) = field(one).zip(field(other)) {
                        self.add_at(name, at, value as f64 * other.value as f64);
                    }
                }
                (Read::Mean(bits), [(total, _), (count, _)]) => {
                    self.mean(name, (field(total), bits), field(count));
                }
                (Read::Share, [(counter, unit), (whole, _)]) => {
                    if let Some(whole) = field(whole) {
                        self.rate(name, field(counter), unit / whole.value as f64, Bits::Wide);
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds a counter's increase per second, times `unit`.
    fn rate(&mut self, metric: &'static str, counter: Option<Counter>, unit: f64, bits: Bits) {
        let increase = counter.and_then(|counter| self.increase(metric, false, counter, bits));
        let Some(Increase { by, since, until }) = increase else { return };
        let elapsed_s = seconds(since, until);
        self.add_over(metric, (since, until), elapsed_s.map(|elapsed_s| by as f64 * unit / elapsed_s));
    }

    /// Adds a counter's increase divided by another's; no sample if the other did not increase.
    fn mean(&mut self, metric: &'static str, (total, bits): (Option<Counter>, Bits), count: Option<Counter>) {
        let total = total.and_then(|total| self.increase(metric, false, total, bits));
        let count = count.and_then(|count| self.increase(metric, true, count, Bits::Wide));
        if let Some((total, count)) = total.zip(count).filter(|(_, count)| count.by > 0) {
            self.add_over(metric, (total.since, total.until), total.by as f64 / count.by as f64);
        }
    }

    /// Removes the object's samples that were added last; its counters stay.
    pub(super) fn withdraw(&mut self) {
        let ours = |event: &Event| match event {
            Event::HostSample(sample) => sample.scope == self.scope && sample.name == self.name,
            _ => false,
        };
        while self.figures.samples.last().is_some_and(ours) {
            self.figures.samples.pop();
        }
    }

    /// Remembers a counter, and returns its increase since the previous reading.
    fn increase(
        &mut self,
        metric: &'static str,
        divisor: bool,
        counter: Counter,
        bits: Bits,
    ) -> Option<Increase> {
        let key = (self.scope, Arc::clone(&self.name), metric, divisor);
        let before = self.figures.previous.get(&key).copied();
        self.figures.current.insert(key, counter);
        let before = before?;
        let by = bits.increase(before.value, counter.value)?;
        Some(Increase { by, since: before.at, until: counter.at })
    }
}

/// Seconds between two times, if there are any.
pub(super) fn seconds(since: Nanos, until: Nanos) -> Option<f64> {
    let elapsed = (until - since).0 as f64 / 1e9;
    (elapsed > 0.0).then_some(elapsed)
}

#[cfg(test)]
mod tests {
    use super::{Bits, Counter, Figures};
    use model::{Event, HostScope, Nanos};

    fn counter(value: u64, at_ms: i64) -> Counter {
        Counter { value, at: Nanos::from_millis(at_ms) }
    }

    fn values(figures: &mut Figures) -> Vec<(String, f64)> {
        let of = |event| match event {
            Event::HostSample(sample) => (sample.metric.to_string(), sample.value),
            other => panic!("{other:?}"),
        };
        std::mem::take(&mut figures.samples).into_iter().map(of).collect()
    }

    #[test]
    fn counters_become_rates_at_the_second_reading() {
        let mut figures = Figures::default();
        figures.begin(Nanos(1_000_000_000));
        figures.of(HostScope::Host, "").rate("bytes", Some(counter(100, 1_000)), 1.0, Bits::Wide);
        assert_eq!(values(&mut figures), []);
        figures.begin(Nanos(3_000_000_000));
        let mut figure = figures.of(HostScope::Host, "");
        figure.rate("bytes", Some(counter(150, 3_000)), 512.0, Bits::Wide);
        figure.rate("new", Some(counter(1, 3_000)), 1.0, Bits::Wide);
        assert_eq!(values(&mut figures), [("bytes".to_owned(), 50.0 * 512.0 / 2.0)]);
    }

    #[test]
    fn rate_uses_the_time_between_its_own_readings() {
        let mut figures = Figures::default();
        for (second, late_ms) in [(1, 5), (2, 45)] {
            figures.begin(Nanos(second * 1_000_000_000));
            let counter = counter(second as u64 * 1_040, 1_000 * second + late_ms);
            figures.of(HostScope::Host, "").rate("bytes", Some(counter), 1.0, Bits::Wide);
        }
        let Some(Event::HostSample(sample)) = figures.samples.first() else { panic!("no sample") };
        assert_eq!((sample.start, sample.end), (Nanos::from_millis(1_005), Nanos::from_millis(2_045)));
        assert_eq!(values(&mut figures), [("bytes".to_owned(), 1_000.0)]);
    }

    #[test]
    fn rate_restarts_after_a_missing_reading() {
        let mut figures = Figures::default();
        for (second, value) in [(1, Some(10)), (2, None), (3, Some(500))] {
            figures.begin(Nanos(second * 1_000_000_000));
            let counter = value.map(|value| counter(value, 1_000 * second));
            figures.of(HostScope::Device, "sda").rate("reads", counter, 1.0, Bits::Wide);
        }
        assert_eq!(values(&mut figures), []);
    }

    #[test]
    fn narrow_counters_wrap_and_reset_counters_yield_no_increase() {
        let wrapped = Bits::Narrow.increase(u64::from(u32::MAX) - 9, 10);
        assert_eq!(wrapped, Some(20));
        assert_eq!(Bits::Narrow.increase(1_000, 10), None);
        assert_eq!(Bits::Wide.increase(u64::from(u32::MAX), 10), None);
        assert_eq!(Bits::Wide.increase(7, 7), Some(0));
    }

    #[test]
    fn mean_over_no_operations_is_absent() {
        let mut figures = Figures::default();
        for (second, total, count) in [(1, 100, 10), (2, 100, 10), (3, 160, 12)] {
            figures.begin(Nanos(second * 1_000_000_000));
            let [total, count] = [total, count].map(|value| counter(value, 1_000 * second));
            figures.of(HostScope::Device, "sda").mean("wait_ms", (Some(total), Bits::Narrow), Some(count));
        }
        assert_eq!(values(&mut figures), [("wait_ms".to_owned(), 30.0)]);
    }
}
