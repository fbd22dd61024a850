//! Targets, with the measured values and whether they are reached.

use crate::run::Cost;

/// One target.
pub(crate) struct Target {
    pub(crate) what: String,
    /// The measured value, the median if there were several runs.
    pub(crate) measured: f64,
    /// Minimum and maximum of all runs.
    pub(crate) spread: Option<(f64, f64)>,
    pub(crate) bound: Bound,
    pub(crate) unit: &'static str,
}

#[derive(Clone, Copy)]
pub(crate) enum Bound {
    AtMost(f64),
    AtLeast(f64),
}

impl Target {
    /// The headings of [`Self::row`].
    pub(crate) const HEADINGS: [&'static str; 5] = ["target", "measured", "spread", "wanted", ""];

    /// A target for the median of several runs.
    pub(crate) fn of_runs(what: String, runs: &[f64], bound: Bound, unit: &'static str) -> Self {
        let mut sorted = runs.to_vec();
        sorted.sort_by(f64::total_cmp);
        let measured = sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN);
        let spread = sorted.first().copied().zip(sorted.last().copied());
        Self { what, measured, spread, bound, unit }
    }

    /// Targets for a program's runs: their time in seconds, and the peak memory of any of them in MiB.
    pub(crate) fn of_costs(what: &str, costs: &[Cost], most_seconds: f64, most_mib: f64) -> [Self; 2] {
        let seconds: Vec<f64> = costs.iter().map(|cost| cost.wall.as_secs_f64()).collect();
        let peak_kib = costs.iter().map(|cost| cost.peak_kib).max().unwrap_or(0);
        let memory = Self {
            what: format!("{what}: peak memory"),
            measured: peak_kib as f64 / 1_024.0,
            spread: None,
            bound: Bound::AtMost(most_mib),
            unit: "MiB",
        };
        [Self::of_runs(format!("{what}: time"), &seconds, Bound::AtMost(most_seconds), "s"), memory]
    }

    pub(crate) fn is_met(&self) -> bool {
        match self.bound {
            Bound::AtMost(most) => self.measured <= most,
            Bound::AtLeast(least) => self.measured >= least,
        }
    }

    pub(crate) fn row(&self) -> Vec<String> {
        let wanted = match self.bound {
            Bound::AtMost(most) => format!("at most {most} {}", self.unit),
            Bound::AtLeast(least) => format!("at least {least} {}", self.unit),
        };
        let spread =
            self.spread.map_or_else(|| "-".to_owned(), |(least, most)| format!("{least:.2} to {most:.2}"));
        let verdict = if self.is_met() { "reached" } else { "MISSED" };
        vec![
            self.what.clone(),
            format!("{:.2} {}", self.measured, self.unit),
            spread,
            wanted,
            verdict.to_owned(),
        ]
    }
}
