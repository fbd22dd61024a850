//! Formats figures and their changes for people.

use compare::{Difference, Figure, Interval, Outcome, Scale};
use model::Nanos;

use crate::escape::escape;
use crate::paint::Role;
use crate::quantity::{NONE, format_count};

/// Names wider than this are cut, with an ellipsis.
pub(super) const NAME: usize = 18;

/// A configuration's name, safe and short enough for a column.
pub(super) fn name(name: &str, wide: bool) -> String {
    let safe = escape(name);
    if wide || safe.chars().count() <= NAME {
        return safe.into_owned();
    }
    let mut cut: String = safe.chars().take(NAME - 1).collect();
    cut.push('…');
    cut
}

/// A figure's value in its unit.
pub(super) fn value(figure: Figure, value: Option<f64>) -> String {
    let Some(value) = value else { return NONE.to_owned() };
    match figure {
        Figure::RequestsPerSecond => rate(value),
        Figure::BytesPerSecond => bytes(value),
        Figure::SloMisses => share(value),
        _ => Nanos(value as i64).to_string(),
    }
}

fn rate(value: f64) -> String {
    if value < 99.95 { format!("{value:.1}") } else { format_count(value.round() as u64) }
}

/// A byte rate in at most ten columns.
fn bytes(value: f64) -> String {
    let (mut number, mut unit) = (value, "B/s");
    for next in ["KiB/s", "MiB/s", "GiB/s"] {
        if number >= 1024.0 {
            (number, unit) = (number / 1024.0, next);
        }
    }
    if number < 99.95 && unit != "B/s" {
        format!("{number:.1} {unit}")
    } else {
        format!("{number:.0} {unit}")
    }
}

/// `1.85 %`.
fn share(value: f64) -> String {
    match value * 100.0 {
        0.0 => "0 %".to_owned(),
        hundredths if hundredths < 0.1 => format!("{hundredths:.3} %"),
        hundredths if hundredths < 10.0 => format!("{hundredths:.2} %"),
        hundredths => format!("{hundredths:.1} %"),
    }
}

/// A figure's change: `-73 %`, `+12 %`, `×14`; of a share, `-1.5 pts`.
pub(super) fn change(figure: Figure, change: Option<f64>) -> String {
    change.map_or_else(|| NONE.to_owned(), |change| format!("{} {}", number(figure, change), unit(figure)))
}

/// A confidence interval, in the unit of the change: `-80 to -61`.
pub(super) fn interval(figure: Figure, interval: Option<Interval>) -> String {
    interval.map_or_else(
        || NONE.to_owned(),
        |Interval { low, high }| format!("{} to {}", number(figure, low), number(figure, high)),
    )
}

fn unit(figure: Figure) -> &'static str {
    if figure.scale() == Scale::Ratio { "%" } else { "pts" }
}

/// A change in per cent or percentage points, without the unit.
fn number(figure: Figure, change: f64) -> String {
    let hundredths = change * 100.0;
    let text = match hundredths.abs() {
        size if figure.scale() == Scale::Difference && size < 0.095 => format!("{hundredths:+.3}"),
        size if figure.scale() == Scale::Difference && size < 0.95 => format!("{hundredths:+.2}"),
        size if size < 9.95 => format!("{hundredths:+.1}"),
        size if size < 9_999.5 => format!("{hundredths:+.0}"),
        _ => format!("{hundredths:+.0e}"),
    };
    // Zero has no sign.
    if text.trim_start_matches(['+', '-', '0', '.']).is_empty() { "0".to_owned() } else { text }
}

/// Outcome of a difference: `lower, better`.
pub(super) fn outcome(difference: &Difference) -> String {
    let words = difference.outcome.words();
    match difference.outcome {
        Outcome::Lower | Outcome::Higher => match is_better(difference) {
            Some(true) => format!("{words}, better"),
            Some(false) => format!("{words}, worse"),
            None => words.to_owned(),
        },
        _ => words.to_owned(),
    }
}

/// Colour of an outcome.
pub(super) fn role(difference: &Difference) -> Role {
    match difference.outcome {
        Outcome::Lower | Outcome::Higher => match is_better(difference) {
            Some(true) => Role::Good,
            Some(false) => Role::Bad,
            None => Role::Faint,
        },
        _ => Role::Faint,
    }
}

fn is_better(difference: &Difference) -> Option<bool> {
    Some((difference.outcome == Outcome::Higher) == difference.figure.more_is_better()?)
}

/// Request time per minute of the runs.
pub(super) fn per_minute(time: Nanos, seconds: f64) -> String {
    if seconds <= 0.0 {
        return NONE.to_owned();
    }
    Nanos((time.0 as f64 / seconds * 60.0) as i64).to_string()
}

#[cfg(test)]
mod tests {
    use super::{change, interval, name, value};
    use compare::{Figure, Interval};

    #[test]
    fn formats_figures_with_units() {
        for (figure, number, text) in [
            (Figure::RequestsPerSecond, 1_003.4, "1,003"),
            (Figure::RequestsPerSecond, 7.25, "7.2"),
            (Figure::BytesPerSecond, 1_572_864.0, "1.5 MiB/s"),
            (Figure::BytesPerSecond, 153_600.0, "150 KiB/s"),
            (Figure::BytesPerSecond, 0.0, "0 B/s"),
            (Figure::BytesPerSecond, 5e12, "4657 GiB/s"),
            (Figure::P999, 126_400_000.0, "126 ms"),
            (Figure::SloMisses, 0.0185, "1.85 %"),
            (Figure::SloMisses, 0.000_12, "0.012 %"),
            (Figure::SloMisses, 0.0, "0 %"),
        ] {
            assert_eq!(value(figure, Some(number)), text);
        }
        for (figure, number, text) in [
            (Figure::P99, -0.73, "-73 %"),
            (Figure::P99, 0.0123, "+1.2 %"),
            (Figure::P99, 0.000_01, "0 %"),
            (Figure::P99, 1e6, "+1e8 %"),
            (Figure::SloMisses, -0.015, "-1.5 pts"),
            (Figure::SloMisses, 0.000_12, "+0.012 pts"),
        ] {
            assert_eq!(change(figure, Some(number)), text);
        }
        let span = Interval { low: -0.8, high: -0.061 };
        assert_eq!(interval(Figure::P99, Some(span)), "-80 to -6.1");
        assert_eq!(name("a very long name of it\n", false), "a very long name …");
    }
}
