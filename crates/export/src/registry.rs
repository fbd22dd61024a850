//! The values of all metrics, by metric and labels. Bounded by the labels that callers use: values from outside go
//! through [`crate::label`]. Knows no events.

use std::sync::Arc;

use model::Nanos;

use crate::catalog::{FAMILIES, Family, Kind, Metric};
use crate::format::Encoder;
use crate::histogram::{Exemplar, Histogram, Peak, STALE, seconds};

/// Every metric's series.
#[derive(Debug)]
pub(crate) struct Registry {
    /// By metric, each list sorted by labels, so that a search needs no key.
    families: Vec<Vec<Series>>,
}

#[derive(Debug)]
struct Series {
    labels: Vec<Arc<str>>,
    value: Value,
    exemplar: Option<Exemplar>,
}

#[derive(Debug)]
enum Value {
    Number(f64),
    Peak(Peak),
    Histogram(Histogram),
}

impl Value {
    fn of(family: &Family) -> Self {
        match family.kind {
            Kind::Counter | Kind::Gauge => Self::Number(0.0),
            Kind::Histogram => Self::Histogram(Histogram::within(family.bounds())),
        }
    }
}

impl Registry {
    /// Creates a registry with the series that exist from the start.
    pub(crate) fn new() -> Self {
        let series = |family: &Family, labels: Vec<&'static str>| Series {
            labels: labels.into_iter().map(Arc::from).collect(),
            value: Value::of(family),
            exemplar: None,
        };
        let families = FAMILIES.iter().map(|family| {
            let mut all: Vec<_> =
                (family.initial)().into_iter().map(|labels| series(family, labels)).collect();
            all.sort_by(|a, b| a.labels.cmp(&b.labels));
            all
        });
        Self { families: families.collect() }
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "there is a declaration and a list of series for every metric"
    )]
    fn series(&mut self, metric: Metric, labels: &[&str]) -> &mut Series {
        let (family, all) = (&FAMILIES[metric as usize], &mut self.families[metric as usize]);
        let found =
            all.binary_search_by(|one| one.labels.iter().map(|label| &**label).cmp(labels.iter().copied()));
        let place = found.unwrap_or_else(|place| {
            let labels = labels.iter().map(|label| Arc::from(*label)).collect();
            all.insert(place, Series { labels, value: Value::of(family), exemplar: None });
            place
        });
        &mut all[place]
    }

    /// Creates a series.
    pub(crate) fn start(&mut self, metric: Metric, labels: &[&str]) {
        self.series(metric, labels);
    }

    /// Adds to a counter.
    pub(crate) fn add(&mut self, metric: Metric, labels: &[&str], more: f64) {
        if let Value::Number(sum) = &mut self.series(metric, labels).value {
            *sum += more;
        }
    }

    /// Adds a whole number to a counter.
    pub(crate) fn count(&mut self, metric: Metric, labels: &[&str], more: u64) {
        self.add(metric, labels, more as f64);
    }

    /// Sets a counter's exemplar, unless it has a recent one.
    pub(crate) fn set_exemplar(
        &mut self,
        metric: Metric,
        labels: &[&str],
        at: Nanos,
        example: impl FnOnce() -> Exemplar,
    ) {
        let known = &mut self.series(metric, labels).exemplar;
        if known.as_ref().is_none_or(|known| at - known.at >= STALE) {
            *known = Some(example());
        }
    }

    /// Sets a gauge, or a counter that is counted elsewhere.
    pub(crate) fn set(&mut self, metric: Metric, labels: &[&str], value: f64) {
        self.series(metric, labels).value = Value::Number(value);
    }

    /// Updates the maximum of the last minute.
    pub(crate) fn raise(&mut self, metric: Metric, labels: &[&str], length: Nanos, at: Nanos) {
        let value = &mut self.series(metric, labels).value;
        if !matches!(value, Value::Peak(_)) {
            *value = Value::Peak(Peak::default());
        }
        if let Value::Peak(peak) = value {
            peak.add(length, at);
        }
    }

    /// Updates a histogram; every metric of that kind has one.
    fn histogram(&mut self, metric: Metric, labels: &[&str], observe: impl FnOnce(&mut Histogram)) {
        if let Value::Histogram(histogram) = &mut self.series(metric, labels).value {
            observe(histogram);
        }
    }

    /// Counts a value in a histogram.
    pub(crate) fn observe(&mut self, metric: Metric, labels: &[&str], value: f64) {
        self.histogram(metric, labels, |histogram| _ = histogram.observe(value));
    }

    /// Counts each value in a histogram the given number of times; `sum` is their exact sum.
    pub(crate) fn observe_counts(
        &mut self,
        metric: Metric,
        labels: &[&str],
        values: impl Iterator<Item = (f64, u64)>,
        sum: f64,
    ) {
        self.histogram(metric, labels, |histogram| histogram.observe_counts(values, sum));
    }

    /// Counts a duration in a histogram.
    pub(crate) fn observe_time(&mut self, metric: Metric, labels: &[&str], length: Nanos) {
        self.observe(metric, labels, seconds(length));
    }

    /// Like `observe_time`, with an exemplar unless the bucket has a recent one.
    pub(crate) fn observe_with(
        &mut self,
        metric: Metric,
        labels: &[&str],
        (length, at): (Nanos, Nanos),
        example: impl FnOnce(f64) -> Exemplar,
    ) {
        self.histogram(metric, labels, |histogram| histogram.observe_with(length, at, example));
    }

    /// Removes all series of a metric whose first label has this value.
    pub(crate) fn remove(&mut self, metric: Metric, first: &str) {
        if let Some(all) = self.families.get_mut(metric as usize) {
            all.retain(|one| one.labels.first().is_none_or(|label| **label != *first));
        }
    }

    /// Removes all series of a metric.
    pub(crate) fn clear(&mut self, metric: Metric) {
        if let Some(all) = self.families.get_mut(metric as usize) {
            all.clear();
        }
    }

    /// Writes all series.
    pub(crate) fn encode(&self, out: &mut dyn Encoder, now: Nanos) {
        for (family, all) in FAMILIES.iter().zip(&self.families) {
            out.family(family);
            for one in all {
                let labels: Vec<&str> = one.labels.iter().map(|label| &**label).collect();
                let example = one.exemplar.as_ref();
                match &one.value {
                    Value::Number(sum) => out.number(&labels, whole(family, *sum), example),
                    Value::Peak(peak) => out.number(&labels, seconds(peak.max_of_last_minute(now)), example),
                    Value::Histogram(histogram) => out.histogram(&labels, histogram),
                }
            }
        }
    }
}

/// Rounds counters, except of seconds: they count whole things, but sums of rates may not be whole.
fn whole(family: &Family, sum: f64) -> f64 {
    if family.kind == Kind::Counter && family.unit != "seconds" { sum.round() } else { sum }
}
