//! A comparison as named values, for the outputs that programs read. Figures are named as in [`compare::Figure`].

use compare::{Configuration, Difference, Figure, Figures, Interval, OverTime, RunFigures, Scale};
use model::Nanos;
use serde_json::{Map, Value, json};

use super::ComparisonReport;
use crate::fields::Fields;

/// Digits that a figure is told with: those that follow are not of the measurement.
const DIGITS: i32 = 6;

/// One configuration.
pub(super) fn configuration(compared: &ComparisonReport, at: usize, of: &Configuration) -> Fields {
    let mut fields = vec![
        ("type", json!("configuration")),
        ("configuration", json!(of.name)),
        ("base", json!(at == 0)),
        ("note", json!(of.note)),
        ("runs", of.runs.iter().map(run).collect()),
        ("requests", json!(of.requests)),
        ("unanswered", json!(of.unanswered)),
        ("seconds", number(Some(of.seconds))),
        ("slo_ns", json!(compared.comparison.slo.0)),
        ("slo_misses", json!(of.slo_misses)),
    ];
    fields.extend(figures(&of.figures));
    let intervals =
        Figure::ALL.into_iter().map(|figure| (figure.as_str().to_owned(), ends(of.interval(figure))));
    fields.push(("intervals", Value::Object(intervals.collect())));
    let cause = |total: &compare::CauseTime| json!({"cause": total.cause.as_str(), "requests": total.requests, "time_ns": total.time.0});
    fields.push(("causes", of.causes.iter().map(cause).collect()));
    Fields(fields)
}

fn run(run: &RunFigures) -> Value {
    let mut fields = Map::new();
    fields.insert("recording".to_owned(), json!(run.name));
    fields.insert("requests".to_owned(), json!(run.requests));
    fields.insert("unanswered".to_owned(), json!(run.unanswered));
    fields.insert("seconds".to_owned(), number(Some(run.seconds)));
    fields.insert("block_ns".to_owned(), json!(run.block.0));
    fields.insert("blocks_drawn_together".to_owned(), json!(run.stretch));
    fields.extend(figures(&run.figures).map(|(name, value)| (name.to_owned(), value)));
    Value::Object(fields)
}

fn figures(figures: &Figures) -> impl Iterator<Item = (&'static str, Value)> {
    Figure::ALL.into_iter().map(|figure| (figure.as_str(), number(figures.of(figure))))
}

/// One figure of one configuration against the base.
pub(super) fn difference(compared: &ComparisonReport, of: &Difference) -> Fields {
    let name = compared.comparison.configurations.get(of.configuration).map(|one| one.name.as_str());
    let why = match of.outcome {
        compare::Outcome::TooShort(shortfall) => Some(shortfall.to_string()),
        _ => None,
    };
    Fields(vec![
        ("type", json!("difference")),
        ("configuration", json!(name)),
        ("base", json!(compared.base())),
        ("figure", json!(of.figure.as_str())),
        ("base_value", number(of.base)),
        ("value", number(of.value)),
        ("change_is", json!(if of.figure.scale() == Scale::Ratio { "ratio" } else { "difference" })),
        ("change", number(of.change)),
        ("relative_change", number(of.value.zip(of.base).map(|(value, base)| value / base - 1.0))),
        ("low", number(of.interval.map(|it| it.low))),
        ("high", number(of.interval.map(|it| it.high))),
        ("outcome", json!(of.outcome.as_str())),
        ("why", json!(why)),
    ])
}

/// One row of the heat map.
pub(super) fn over_time(of: &Configuration, row: &[Option<u64>], bucket: Nanos) -> Fields {
    Fields(vec![
        ("type", json!("over-time")),
        ("configuration", json!(of.name)),
        ("figure", json!(Figure::P999.as_str())),
        ("bucket_ns", json!(bucket.0)),
        ("cells", json!(row)),
    ])
}

/// The rows of the heat map, each with its configuration.
pub(super) fn rows(compared: &ComparisonReport, over_time: &OverTime) -> Vec<Fields> {
    let configurations = compared.comparison.configurations.iter();
    configurations.zip(&over_time.rows).map(|(of, row)| self::over_time(of, row, over_time.bucket)).collect()
}

/// What all of it rests on.
pub(super) fn summary(compared: &ComparisonReport) -> Fields {
    let mut notes = compared.cautions();
    notes.extend_from_slice(&compared.notes);
    Fields(vec![
        ("type", json!("summary")),
        ("configurations", json!(compared.comparison.configurations.len())),
        ("base", json!(compared.base())),
        ("apis", json!(compared.apis)),
        ("topics", json!(compared.topics)),
        ("slo_ns", json!(compared.comparison.slo.0)),
        ("confidence", json!(compare::CONFIDENCE)),
        ("draws", json!(compare::RESAMPLES)),
        ("notes", json!(notes)),
    ])
}

fn ends(interval: Option<Interval>) -> Value {
    interval.map_or(Value::Null, |it| Value::Array(vec![number(Some(it.low)), number(Some(it.high))]))
}

/// A number with the digits that mean something; whole numbers without a point.
pub(super) fn number(value: Option<f64>) -> Value {
    let Some(value) = value.filter(|value| value.is_finite()) else { return Value::Null };
    if value == 0.0 {
        return json!(0);
    }
    let digits = DIGITS - 1 - value.abs().log10().floor() as i32;
    if digits <= 0 {
        return json!(value.round() as i64);
    }
    let scale = 10_f64.powi(digits);
    let rounded = (value * scale).round() / scale;
    if rounded.fract() == 0.0 { json!(rounded as i64) } else { json!(rounded) }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn numbers_have_six_digits_and_no_point_where_they_are_whole() {
        for (value, text) in [
            (0.0, "0"),
            (126_400_123.0, "126400123"),
            (1_003.200_000_001, "1003.2"),
            (0.018_512_345_6, "0.0185123"),
            (-0.75, "-0.75"),
            (f64::NAN, "null"),
        ] {
            assert_eq!(number(Some(value)).to_string(), text);
        }
    }
}
