//! For how many blocks of time a run depends on its past. The bootstrap must draw stretches of that length, or it would
//! mistake dependence for chance. Does not draw.
//!
//! Politis and White, "Automatic Block-Length Selection for the Dependent Bootstrap", Econometric Reviews 23 (2004), with
//! the correction of Patton, Politis and White, Econometric Reviews 28 (2009), for circular blocks.

/// Bound below which an autocorrelation counts as zero (2004, section 3.2). A multiple of `sqrt(log10 n / n)`.
const INSIGNIFICANT: f64 = 2.0;
/// At least this many insignificant ones in a row end the dependence.
const IN_A_ROW: usize = 5;

/// Length of a draw, in blocks; 1 if they do not depend on each other or are too few to say.
pub(crate) fn length(series: &[f64]) -> usize {
    let n = series.len();
    let covariances = covariances(series);
    let variance = covariances.first().copied().unwrap_or(0.0);
    if n <= 2 * IN_A_ROW || variance <= 0.0 {
        return 1;
    }
    let insignificant = INSIGNIFICANT * ((n as f64).log10() / n as f64).sqrt();
    let significant = |lag: usize| {
        covariances.get(lag).is_some_and(|covariance| (covariance / variance).abs() >= insignificant)
    };
    let most = covariances.len() - 1;
    let quiet = |lag: &usize| (lag + 1..=lag + IN_A_ROW).all(|later| !significant(later));
    let depends = (0..=most.saturating_sub(IN_A_ROW)).find(quiet);
    let depends = depends.unwrap_or_else(|| (1..=most).rev().find(|&lag| significant(lag)).unwrap_or(0));
    if depends == 0 {
        return 1;
    }
    let bandwidth = (2 * depends).min(most);
    let (mut spectrum, mut slope) = (variance, 0.0);
    for (lag, covariance) in covariances.iter().enumerate().take(bandwidth + 1).skip(1) {
        let weight = flat_top(lag as f64 / bandwidth as f64);
        spectrum += 2.0 * weight * covariance;
        slope += 2.0 * weight * lag as f64 * covariance;
    }
    let variance = 4.0 / 3.0 * spectrum * spectrum;
    if variance <= 0.0 {
        return 1;
    }
    let longest = (3.0 * (n as f64).sqrt()).min(n as f64 / 3.0).ceil();
    let length = (2.0 * slope * slope / variance * n as f64).cbrt();
    length.ceil().clamp(1.0, longest) as usize
}

/// Autocovariances by lag, as many as may matter.
fn covariances(series: &[f64]) -> Vec<f64> {
    let n = series.len() as f64;
    let mean = series.iter().sum::<f64>() / n;
    let lags = ((n.sqrt().ceil() as usize) + IN_A_ROW).min(series.len().saturating_sub(1));
    let at = |lag: usize| {
        let pairs = series.iter().zip(series.iter().skip(lag));
        pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n
    };
    (0..=lags).map(at).collect()
}

/// Politis and Romano's window.
fn flat_top(share: f64) -> f64 {
    if share <= 0.5 { 1.0 } else { (2.0 * (1.0 - share)).max(0.0) }
}

#[cfg(test)]
mod tests {
    use super::length;

    fn autoregressive(n: usize, part: f64, seed: u64) -> Vec<f64> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut last = 0.0;
        let mut next = || {
            last = part * last + (0..12).map(|_| random.f64()).sum::<f64>() - 6.0;
            last
        };
        (0..n).map(|_| next()).collect()
    }

    #[test]
    fn longer_dependence_yields_longer_draws() {
        let mean = |part: f64| {
            (0..40).map(|seed| length(&autoregressive(200, part, seed))).sum::<usize>() as f64 / 40.0
        };
        let (none, some, much) = (mean(0.0), mean(0.5), mean(0.9));
        // The theoretical lengths for these are 1, 9 and 32.
        assert!(none < 2.5 && some > 4.0 && some < 16.0 && much > some * 1.5, "{none} {some} {much}");
    }

    #[test]
    fn short_or_constant_series_have_no_dependence() {
        for series in [&[][..], &[1.0], &[2.0; 50], &[f64::NAN; 50]] {
            assert_eq!(length(series), 1);
        }
    }
}
