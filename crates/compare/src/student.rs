//! Student's distribution, as far as an interval of 95 % needs it. Computes no other share.

/// The 97.5th percentile for 1 to 30 degrees of freedom; at the end, for infinitely many.
const T: [f64; 31] = [
    12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281, 2.2010, 2.1788, 2.1604,
    2.1448, 2.1314, 2.1199, 2.1098, 2.1009, 2.0930, 2.0860, 2.0796, 2.0739, 2.0687, 2.0639, 2.0595, 2.0555,
    2.0518, 2.0484, 2.0452, 2.0423, 1.9600,
];

/// Half the width of a 95 % interval, in standard errors. Degrees of freedom need not be whole: between whole numbers
/// the value is nearly linear in their inverse.
pub(crate) fn t(freedom: f64) -> f64 {
    let last = T.len() as f64 - 1.0;
    let at = |whole: f64| T.get(whole as usize - 1).copied().unwrap_or(1.96);
    let freedom = freedom.max(1.0);
    if freedom >= last {
        let share = last / freedom;
        return at(last) * share + 1.96 * (1.0 - share);
    }
    let (low, high) = (freedom.floor(), freedom.floor() + 1.0);
    let share = (1.0 / freedom - 1.0 / high) / (1.0 / low - 1.0 / high);
    at(low) * share + at(high) * (1.0 - share)
}

#[cfg(test)]
mod tests {
    use super::t;

    #[test]
    fn quantiles_match_tables_and_decrease_in_between() {
        for (freedom, expected) in [
            (0.2, 12.706),
            (1.0, 12.706),
            (2.0, 4.303),
            (30.0, 2.042),
            (60.0, 2.000),
            (120.0, 1.980),
            (1e9, 1.96),
        ] {
            assert!((t(freedom) - expected).abs() < 2e-3, "{freedom}: {}", t(freedom));
        }
        let falls = (10..2_000).map(|n| t(f64::from(n) / 10.0)).collect::<Vec<_>>();
        assert!(falls.windows(2).all(|pair| pair[1] < pair[0]));
    }
}
