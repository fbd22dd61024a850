//! What is compared, by name and scale. Does not compute it.

use model::named;

named! {
    /// A figure of a configuration. The names are a contract: scripts read them.
    pub enum Figure {
        /// Requests a second, from the first one's arrival to the last one's.
        RequestsPerSecond = "requests_per_s",
        /// Bytes of records a second.
        BytesPerSecond = "record_bytes_per_s",
        /// The median latency.
        P50 = "latency_p50_ns",
        /// What 90 % of the latencies do not exceed.
        P90 = "latency_p90_ns",
        /// 99 %.
        P99 = "latency_p99_ns",
        /// 99.9 %.
        P999 = "latency_p999_ns",
        /// The highest latency.
        Max = "latency_max_ns",
        /// The share of requests whose latency was the objective's or longer.
        SloMisses = "slo_miss_ratio",
    }
}

/// How two values of a figure are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// By their ratio.
    Ratio,
    /// By their difference: a share may be nothing.
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

    /// Whether more of it is better; none of requests, of which there are fewer where each carries more.
    pub const fn more_is_better(self) -> Option<bool> {
        match self {
            Self::RequestsPerSecond => None,
            Self::BytesPerSecond => Some(true),
            Self::P50 | Self::P90 | Self::P99 | Self::P999 | Self::Max | Self::SloMisses => Some(false),
        }
    }

    /// How two values of it are compared.
    pub const fn scale(self) -> Scale {
        if matches!(self, Self::SloMisses) { Scale::Difference } else { Scale::Ratio }
    }

    /// The share of latencies that it is not exceeded by, of a percentile.
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

/// Every figure's value in its own unit; none where there is nothing to tell it from.
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
    /// A value where differences are what is compared.
    pub(crate) fn onto(self, value: f64) -> Option<f64> {
        match self {
            Self::Ratio => (value > 0.0).then(|| value.ln()),
            Self::Difference => Some(value),
        }
    }

    /// Back again.
    pub(crate) fn back(self, value: f64) -> f64 {
        match self {
            Self::Ratio => value.exp(),
            Self::Difference => value,
        }
    }

    /// What a difference on this scale is called: a relative change, or a difference.
    pub(crate) fn change(self, difference: f64) -> f64 {
        match self {
            Self::Ratio => difference.exp_m1(),
            Self::Difference => difference,
        }
    }
}

/// From where to where.
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
    fn every_figure_has_its_own_slot_in_order() {
        for (i, figure) in Figure::ALL.into_iter().enumerate() {
            assert_eq!(figure as usize, i);
        }
    }
}
