//! The host's figures over the watched time: mean, maximum and last value of each. Does not know what they mean.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{HostSample, HostScope};

/// Limit on figures: a host has a few hundred.
const MAX_SERIES: usize = 10_000;

/// Figures by scope, metric and name.
#[derive(Clone, Debug, Default)]
pub struct Samples(BTreeMap<(&'static str, Arc<str>, Arc<str>), Series>);

/// One figure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Series {
    /// Number of samples.
    pub count: u64,
    /// Their sum.
    pub sum: f64,
    /// The maximum.
    pub most: f64,
    /// The last value.
    pub last: f64,
}

impl Series {
    /// The mean.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }
}

impl Samples {
    /// Adds one sample. Values that are not finite are ignored.
    pub fn add(&mut self, sample: &HostSample) {
        let key = (sample.scope.as_str(), Arc::clone(&sample.metric), Arc::clone(&sample.name));
        if !sample.value.is_finite() || (self.0.len() >= MAX_SERIES && !self.0.contains_key(&key)) {
            return;
        }
        let series = self.0.entry(key).or_default();
        series.count += 1;
        series.sum += sample.value;
        series.most = if series.count == 1 { sample.value } else { series.most.max(sample.value) };
        series.last = sample.value;
    }

    /// Whether there are no figures.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// One figure of all instances of a scope, by name.
    pub fn of<'s>(
        &'s self,
        scope: HostScope,
        metric: &'s str,
    ) -> impl Iterator<Item = (&'s Arc<str>, &'s Series)> {
        let matches =
            move |(of, name, _): &(&str, Arc<str>, Arc<str>)| *of == scope.as_str() && **name == *metric;
        self.0.iter().filter(move |(key, _)| matches(key)).map(|((_, _, name), series)| (name, series))
    }

    /// One figure of a scope with a single instance: the host, the process, the cgroup.
    pub fn one(&self, scope: HostScope, metric: &str) -> Option<Series> {
        self.of(scope, metric).next().map(|(_, series)| *series)
    }
}

#[cfg(test)]
mod tests {
    use model::{HostSample, HostScope, Nanos};

    use super::Samples;

    #[test]
    fn groups_samples_by_scope_and_name() {
        let mut samples = Samples::default();
        for (scope, name, value) in [
            (HostScope::Device, "sda", 0.5),
            (HostScope::Device, "sda", 1.0),
            (HostScope::Device, "sdb", 0.1),
            (HostScope::Host, "", f64::NAN),
        ] {
            let (name, metric) = (name.into(), "util_ratio".into());
            samples.add(&HostSample { start: Nanos(0), end: Nanos(1), scope, name, metric, value });
        }
        let of = samples.of(HostScope::Device, "util_ratio").map(|(name, series)| (&**name, series.mean()));
        assert_eq!(of.collect::<Vec<_>>(), [("sda", 0.75), ("sdb", 0.1)]);
        assert_eq!(samples.one(HostScope::Host, "util_ratio"), None);
    }
}
