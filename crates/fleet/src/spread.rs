//! The middle of several numbers and their distance from it. A few odd numbers do not move these measures.

/// Median and median absolute deviation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The median; for an even count, the mean of the middle two.
    pub median: f64,
    /// The median of the distances from it.
    pub mad: f64,
}

impl Spread {
    /// The spread of finite numbers; `None` if there are none.
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let median = median(numbers.to_vec())?;
        let mad = self::median(numbers.iter().map(|number| (number - median).abs()).collect())?;
        Some(Self { median, mad })
    }
}

/// The median; `None` if there are no numbers.
pub(crate) fn median(mut numbers: Vec<f64>) -> Option<f64> {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    let upper = *numbers.get(middle)?;
    if numbers.len() % 2 == 1 {
        return Some(upper);
    }
    Some(f64::midpoint(*numbers.get(middle - 1)?, upper))
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn outliers_move_neither_median_nor_mad() {
        for (numbers, median, mad) in [
            (&[3.0][..], 3.0, 0.0),
            (&[1.0, 2.0], 1.5, 0.5),
            (&[10.0, 11.0, 9.0, 10.0, 1e9], 10.0, 1.0),
            (&[5.0, 5.0, 5.0, 40.0], 5.0, 0.0),
        ] {
            assert_eq!(Spread::of(numbers), Some(Spread { median, mad }), "{numbers:?}");
        }
        assert_eq!(Spread::of(&[]), None);
    }
}
