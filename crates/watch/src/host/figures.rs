//! From readings to samples: remembers counters as they stood and gives their increases. Knows no files.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Event, HostSample, HostScope, Nanos};

use super::metrics::{METRICS, Metric, Read};

/// The readings of one moment, beside the ones before.
#[derive(Default)]
pub(super) struct Figures {
    /// When the reading before was, and this one.
    before: Option<Nanos>,
    now: Nanos,
    /// Counters then and now: what is not read again is forgotten.
    then: HashMap<Key, u64>,
    stand: HashMap<Key, u64>,
    names: HashMap<Box<str>, Arc<str>>,
    /// Of this reading.
    pub(super) samples: Vec<Event>,
}

/// A counter: of what, which, for which figure, and whether it is the figure's divisor.
type Key = (HostScope, Arc<str>, &'static str, bool);

/// Names are devices, interfaces, cgroups: no host has more of them than this in a sample's scope.
const MAX_NAMES: usize = 4_096;

impl Figures {
    /// Begins a reading.
    pub(super) fn begin(&mut self, now: Nanos) {
        self.before = (self.now > Nanos::ZERO).then_some(self.now);
        self.now = now;
        std::mem::swap(&mut self.then, &mut self.stand);
        self.stand.clear();
    }

    /// The figures of one thing.
    pub(super) fn of(&mut self, scope: HostScope, name: &str) -> Figure<'_> {
        let name = self.name(name);
        Figure { figures: self, scope, name }
    }

    /// Seconds since the reading before; none at the first.
    pub(super) fn elapsed_s(&self) -> Option<f64> {
        let elapsed = (self.now - self.before?).0 as f64 / 1e9;
        (elapsed > 0.0).then_some(elapsed)
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

    fn put(&mut self, scope: HostScope, name: Arc<str>, metric: &'static str, value: f64) {
        let (start, end) = (self.before.unwrap_or(self.now), self.now);
        let metric = self.name(metric);
        self.samples.push(Event::HostSample(Box::new(HostSample { start, end, scope, name, metric, value })));
    }
}

/// How wide a counter is in the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bits {
    /// Wraps: `/proc/diskstats` prints times as `unsigned int` (block/genhd.c, `diskstats_show`).
    Narrow,
    /// Never wraps; one that goes back is another thing's, or was reset.
    Wide,
}

impl Bits {
    /// What was added between two readings. A 32-bit counter that was in its upper half and is in its lower
    /// one has wrapped.
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

/// The figures of one thing: each call adds a sample, or none where there is nothing to say yet.
pub(super) struct Figure<'f> {
    figures: &'f mut Figures,
    scope: HostScope,
    name: Arc<str>,
}

impl Figure<'_> {
    /// A value as it stands.
    pub(super) fn stands(&mut self, metric: &'static str, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.figures.put(self.scope, Arc::clone(&self.name), metric, value);
        }
    }

    /// What the list of figures says of such a thing, whose fields these are.
    pub(super) fn sample(&mut self, field: &mut dyn FnMut(&'static str) -> Option<u64>) {
        let scope = self.scope;
        for &Metric { name, read, sources, .. } in METRICS.iter().filter(|metric| metric.scope == scope) {
            let mut first = || sources.iter().find_map(|(source, unit)| Some((field(source)?, *unit)));
            match (read, sources) {
                (Read::Value, _) => self.stands(name, first().map(|(value, unit)| value as f64 * unit)),
                (Read::Rate(bits), _) => {
                    let (counter, unit) = first().unzip();
                    self.rate(name, counter, unit.unwrap_or(1.0), bits);
                }
                (Read::Product, [(one, _), (other, _)]) => {
                    let both = field(one).zip(field(other));
                    self.stands(name, both.map(|(one, other)| one as f64 * other as f64));
                }
                (Read::Mean(bits), [(total, _), (count, _)]) => {
                    self.mean(name, (field(total), bits), field(count));
                }
                (Read::Share, [(counter, unit), (whole, _)]) => {
                    if let Some(whole) = field(whole) {
                        self.rate(name, field(counter), unit / whole as f64, Bits::Wide);
                    }
                }
                _ => {}
            }
        }
    }

    /// A counter's increase per second, times `unit`.
    fn rate(&mut self, metric: &'static str, counter: Option<u64>, unit: f64, bits: Bits) {
        let increase = counter.and_then(|counter| self.increase(metric, false, counter, bits));
        let elapsed_s = self.figures.elapsed_s();
        let rate = increase.zip(elapsed_s).map(|(increase, elapsed_s)| increase as f64 * unit / elapsed_s);
        self.stands(metric, rate);
    }

    /// A counter's increase divided by another's; absent where that did not increase.
    fn mean(&mut self, metric: &'static str, (total, bits): (Option<u64>, Bits), count: Option<u64>) {
        let total = total.and_then(|total| self.increase(metric, false, total, bits));
        let count = count.and_then(|count| self.increase(metric, true, count, Bits::Wide));
        let mean = total.zip(count).filter(|(_, count)| *count > 0);
        self.stands(metric, mean.map(|(total, count)| total as f64 / count as f64));
    }

    /// Takes back what was added last of this thing; its counters are remembered all the same.
    pub(super) fn withdraw(&mut self) {
        let ours = |event: &Event| match event {
            Event::HostSample(sample) => sample.scope == self.scope && sample.name == self.name,
            _ => false,
        };
        while self.figures.samples.last().is_some_and(ours) {
            self.figures.samples.pop();
        }
    }

    /// What a counter was increased by since the reading before.
    fn increase(&mut self, metric: &'static str, divisor: bool, counter: u64, bits: Bits) -> Option<u64> {
        let key = (self.scope, Arc::clone(&self.name), metric, divisor);
        let before = self.figures.then.get(&key).copied();
        self.figures.stand.insert(key, counter);
        bits.increase(before?, counter)
    }
}

#[cfg(test)]
mod tests {
    use super::{Bits, Figures};
    use model::{Event, HostScope, Nanos};

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
        figures.of(HostScope::Host, "").rate("bytes", Some(100), 1.0, Bits::Wide);
        assert_eq!(values(&mut figures), []);
        figures.begin(Nanos(3_000_000_000));
        let mut figure = figures.of(HostScope::Host, "");
        figure.rate("bytes", Some(150), 512.0, Bits::Wide);
        figure.rate("new", Some(1), 1.0, Bits::Wide);
        assert_eq!(values(&mut figures), [("bytes".to_owned(), 50.0 * 512.0 / 2.0)]);
    }

    #[test]
    fn a_thing_that_was_away_begins_anew() {
        let mut figures = Figures::default();
        for (second, counter) in [(1, Some(10)), (2, None), (3, Some(500))] {
            figures.begin(Nanos(second * 1_000_000_000));
            figures.of(HostScope::Device, "sda").rate("reads", counter, 1.0, Bits::Wide);
        }
        assert_eq!(values(&mut figures), []);
    }

    #[test]
    fn a_narrow_counter_wraps_and_one_that_was_reset_says_nothing() {
        let wrapped = Bits::Narrow.increase(u64::from(u32::MAX) - 9, 10);
        assert_eq!(wrapped, Some(20));
        assert_eq!(Bits::Narrow.increase(1_000, 10), None);
        assert_eq!(Bits::Wide.increase(u64::from(u32::MAX), 10), None);
        assert_eq!(Bits::Wide.increase(7, 7), Some(0));
    }

    #[test]
    fn a_mean_of_nothing_is_absent() {
        let mut figures = Figures::default();
        for (second, total, count) in [(1, 100, 10), (2, 100, 10), (3, 160, 12)] {
            figures.begin(Nanos(second * 1_000_000_000));
            let total = (Some(total), Bits::Narrow);
            figures.of(HostScope::Device, "sda").mean("wait_ms", total, Some(count));
        }
        assert_eq!(values(&mut figures), [("wait_ms".to_owned(), 30.0)]);
    }
}
