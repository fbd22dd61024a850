//! Compared figures, by name and scale. Does not compute them.

use model::named;

named! {
    /// A figure of a configuration. The names are a contract: scripts read them.
    pub enum Figure {
        /// Requests per second, from the first one's arrival to the last one's.
        RequestsPerSecond = "requests_per_s",
        /// Bytes of records per second.
        BytesPerSecond = "record_bytes_per_s",
        /// The median latency.
        P50 = "latency_p50_ns",
        /// The 90th percentile of latencies.
        P90 = "latency_p90_ns",
        /// The 99th percentile.
        P99 = "latency_p99_ns",
        /// The 99.9th percentile.
        P999 = "latency_p999_ns",
        /// The highest latency.
        Max = "latency_max_ns",
        /// The share of requests whose latency was as long as the objective or longer.
        SloMisses = "slo_miss_ratio",
    }
}

/// Scale on which two values of a figure are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// By their ratio.
    Ratio,
    /// By their difference: a share may be zero.
    Difference,
}

impl Figure {
    /// The name for people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::RequestsPerSecond => "requests/s",
            Self::BytesPerSecond => "bytes/s",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
            Self::Max => "max",
            Self::SloMisses => "SLO misses",
        }
    }

    /// Whether more of it is better; `None` for requests, because there are fewer if each carries more.
    pub const fn more_is_better(self) -> Option<bool> {
        match self {
            Self::RequestsPerSecond => None,
            Self::BytesPerSecond => Some(true),
            Self::P50 | Self::P90 | Self::P99 | Self::P999 | Self::Max | Self::SloMisses => Some(false),
        }
    }

    /// The scale on which two of its values are compared.
    pub const fn scale(self) -> Scale {
        if matches!(self, Self::SloMisses) { Scale::Difference } else { Scale::Ratio }
    }

    /// For a percentile, the share of latencies that do not exceed it.
    pub(crate) const fn quantile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P99 => Some(0.99),
            Self::P999 => Some(0.999),
            _ => None,
        }
    }
}

/// Every figure's value in its own unit; `None` if there is no data for it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures([Option<f64>; Figure::ALL.len()]);

impl Figures {
    /// One figure's value.
    pub fn of(&self, figure: Figure) -> Option<f64> {
        self.0.get(figure as usize).copied().flatten()
    }

    pub(crate) fn set(&mut self, figure: Figure, value: Option<f64>) {
        if let Some(slot) = self.0.get_mut(figure as usize) {
            *slot = value.filter(|value| value.is_finite());
        }
    }
}

impl Scale {
    /// Maps a value to the scale on which differences are taken.
    pub(crate) fn onto(self, value: f64) -> Option<f64> {
        match self {
            Self::Ratio => (value > 0.0).then(|| value.ln()),
            Self::Difference => Some(value),
        }
    }

    /// Maps it back.
    pub(crate) fn back(self, value: f64) -> f64 {
        match self {
            Self::Ratio => value.exp(),
            Self::Difference => value,
        }
    }

    /// Converts a difference on the ratio scale to a relative change. Leaves a difference on the other scale as it is.
    pub(crate) fn change(self, difference: f64) -> f64 {
        match self {
            Self::Ratio => difference.exp_m1(),
            Self::Difference => difference,
        }
    }
}

/// A range of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

#[cfg(test)]
mod tests {
    use super::Figure;

    #[test]
    fn figures_are_numbered_in_order() {
        for (i, figure) in Figure::ALL.into_iter().enumerate() {
            assert_eq!(figure as usize, i);
        }
    }
}
