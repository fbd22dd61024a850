//! Pairs windows with a treatment with their neighbours without one.

use super::treatment::Treatment;
use super::window::{Metric, Window};

const RESAMPLES: usize = 2_000;
/// Share trimmed at each end, so that a disturbed window counts for little.
const TRIMMED: f64 = 0.1;

/// A difference and its 95 % interval: in per cent of the neighbours, or in percentage points.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) middle: f64,
    pub(super) low: f64,
    pub(super) high: f64,
}

impl Estimate {
    pub(super) fn text(self) -> String {
        format!("{:+.1} [{:.1}, {:.1}]", self.middle, self.low, self.high)
    }
}

/// All pairs that count.
pub(super) struct Pairs<'w> {
    pairs: Vec<Pair<'w>>,
    /// Number of pairs dropped because of too much steal time.
    pub(super) dropped: usize,
}

struct Pair<'w> {
    treatment: Treatment,
    with: &'w Window,
    without: [&'w Window; 2],
}

impl<'w> Pairs<'w> {
    pub(super) fn of(windows: &'w [Window], max_steal: f64) -> Self {
        let (mut pairs, mut dropped) = (Vec::new(), 0);
        for neighbours in windows.windows(3) {
            let [before, with, after] = neighbours else { continue };
            let Some(treatment) = with.treatment else { continue };
            if neighbours.iter().any(|window| window.steal > max_steal) {
                dropped += 1;
            } else {
                pairs.push(Pair { treatment, with, without: [before, after] });
            }
        }
        Self { pairs, dropped }
    }

    pub(super) fn count(&self, treatment: Treatment) -> usize {
        self.pairs.iter().filter(|pair| pair.treatment == treatment).count()
    }

    /// The increase of a metric with a treatment; `None` with fewer than two pairs.
    pub(super) fn estimate(&self, treatment: Treatment, metric: Metric) -> Option<Estimate> {
        let of_treatment = self.pairs.iter().filter(|pair| pair.treatment == treatment);
        let differences: Vec<f64> = of_treatment.map(|pair| pair.difference(metric)).collect();
        let to_percent = |mean: f64| if is_share(metric) { mean * 100.0 } else { (mean.exp() - 1.0) * 100.0 };
        bootstrap(&differences).map(|estimate| Estimate {
            middle: to_percent(estimate.middle),
            low: to_percent(estimate.low),
            high: to_percent(estimate.high),
        })
    }
}

/// Whether a metric is a share: shares may be 0, so they are compared by difference, all others by ratio.
fn is_share(metric: Metric) -> bool {
    metric == Metric::Slow
}

impl Pair<'_> {
    fn difference(&self, metric: Metric) -> f64 {
        let with = self.with.figure(metric);
        let [before, after] = self.without.map(|window| window.figure(metric));
        if is_share(metric) {
            with - f64::midpoint(before, after)
        } else {
            with.ln() - f64::midpoint(before.ln(), after.ln())
        }
    }
}

/// The trimmed mean, with its 95 % interval over bootstrap samples of these values.
fn bootstrap(values: &[f64]) -> Option<Estimate> {
    if values.len() < 2 {
        return None;
    }
    let mut rng = fastrand::Rng::with_seed(1);
    let mut means: Vec<f64> = (0..RESAMPLES)
        .map(|_| trimmed_mean((0..values.len()).filter_map(|_| rng.choice(values).copied()).collect()))
        .collect();
    means.sort_by(f64::total_cmp);
    let at = |share: f64| means.get((RESAMPLES as f64 * share) as usize).copied();
    Some(Estimate { middle: trimmed_mean(values.to_vec()), low: at(0.025)?, high: at(0.975)? })
}

fn trimmed_mean(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let trimmed = (values.len() as f64 * TRIMMED) as usize;
    let kept = values.get(trimmed..values.len() - trimmed).unwrap_or_default();
    kept.iter().sum::<f64>() / kept.len() as f64
}

#[cfg(test)]
mod tests {
    use super::{Estimate, bootstrap, trimmed_mean};

    #[test]
    fn trimmed_mean_ignores_outliers() {
        assert!((trimmed_mean(vec![1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 900.0]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn bootstrap_interval_is_narrow_around_the_mean_of_similar_values() {
        let values: Vec<f64> = (0..40).map(|number| 0.05 + f64::from(number % 5) * 0.01).collect();
        let Estimate { middle, low, high } = bootstrap(&values).unwrap();
        assert!(low < middle && middle < high && (middle - 0.07).abs() < 1e-9, "{low} {middle} {high}");
        assert!(high - low < 0.02, "{low} to {high}");
        assert_eq!(bootstrap(&[0.1]), None);
    }
}
