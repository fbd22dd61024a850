//! A comparison as JSON lines, as CSV and as the data of a page. The JSON lines are configurations, then differences,
//! then the rows of the heat map, and a summary. CSV has a row for each figure of each configuration except the base.
//! Figures are named as in [`compare::Figure`].

use std::io::{self, Write};

use compare::{Configuration, Difference, Figure, Figures, Interval, OverTime, RunFigures, Scale};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::ComparisonReport;
use crate::json;
use crate::rows::{Cell, Column, Format, Report, Writer, to_json};

/// Significant digits of a figure: further ones are noise.
const DIGITS: i32 = 6;
/// Limit on the cells of a heat map's row.
const MAX_CELLS: usize = 256;

struct Configurations;

struct ConfigurationRow<'a> {
    report: &'a ComparisonReport,
    is_base: bool,
    of: &'a Configuration,
}

impl Report for Configurations {
    type Row<'a> = ConfigurationRow<'a>;
    const TYPE: &'static str = "configuration";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<Configurations>;
        let mut columns = vec![
            Col::data("configuration", |row| row.of.name.as_str().into()),
            Col::data("base", |row| row.is_base.into()),
            Col::data("note", |row| row.of.note.as_deref().into()),
            Col::data("runs", |row| Cell::Value(row.of.runs.iter().map(run).collect())),
            Col::data("requests", |row| row.of.requests.into()),
            Col::data("unanswered", |row| row.of.unanswered.into()),
            Col::data("seconds", |row| number(Some(row.of.seconds)).into()),
            Col::data("slo_ns", |row| Cell::Length(row.report.comparison.slo)),
            Col::data("slo_misses", |row| row.of.slo_misses.into()),
        ];
        columns.extend(
            Figure::ALL.map(|figure| {
                Col::data(figure.as_str(), move |row| number(row.of.figures.of(figure)).into())
            }),
        );
        columns.push(Col::data("intervals", |row| {
            let interval = |figure: Figure| (figure.as_str().to_owned(), ends(row.of.interval(figure)));
            Cell::Value(Value::Object(Figure::ALL.into_iter().map(interval).collect()))
        }));
        columns.push(Col::data("causes", |row| {
            let cause = |total: &compare::CauseTime| {
                json!({"cause": total.cause.as_str(), "requests": total.requests, "time_ns": total.time.0})
            };
            Cell::Value(row.of.causes.iter().map(cause).collect())
        }));
        columns
    }
}

fn run(run: &RunFigures) -> Value {
    let mut fields = Map::new();
    fields.insert("recording".to_owned(), json!(run.name));
    fields.insert("requests".to_owned(), json!(run.requests));
    fields.insert("unanswered".to_owned(), json!(run.unanswered));
    fields.insert("seconds".to_owned(), number(Some(run.seconds)));
    fields.insert("block_ns".to_owned(), json!(run.block.0));
    fields.insert("blocks_drawn_together".to_owned(), json!(run.stretch));
    let figures =
        |figures: &Figures, figure: Figure| (figure.as_str().to_owned(), number(figures.of(figure)));
    fields.extend(Figure::ALL.into_iter().map(|figure| figures(&run.figures, figure)));
    Value::Object(fields)
}

struct Differences;

struct DifferenceRow<'a> {
    report: &'a ComparisonReport,
    of: &'a Difference,
}

impl Report for Differences {
    type Row<'a> = DifferenceRow<'a>;
    const TYPE: &'static str = "difference";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<Differences>;
        vec![
            Col::data("configuration", |row| {
                let configuration = row.report.comparison.configurations.get(row.of.configuration);
                configuration.map(|one| one.name.as_str()).into()
            }),
            Col::data("base", |row| row.report.base().into()),
            Col::data("figure", |row| row.of.figure.as_str().into()),
            Col::data("base_value", |row| number(row.of.base).into()),
            Col::data("value", |row| number(row.of.value).into()),
            Col::data("change_is", |row| {
                if row.of.figure.scale() == Scale::Ratio { "ratio".into() } else { "difference".into() }
            }),
            Col::data("change", |row| number(row.of.change).into()),
            Col::data("relative_change", |row| {
                number(row.of.value.zip(row.of.base).map(|(value, base)| value / base - 1.0)).into()
            }),
            Col::data("low", |row| number(row.of.interval.map(|it| it.low)).into()),
            Col::data("high", |row| number(row.of.interval.map(|it| it.high)).into()),
            Col::data("outcome", |row| row.of.outcome.as_str().into()),
            Col::data("why", |row| match row.of.outcome {
                compare::Outcome::TooShort(shortfall) => Cell::display(shortfall),
                _ => Cell::None,
            }),
        ]
    }
}

/// Rows of the heat map.
struct HeatRows;

struct HeatRow<'a> {
    of: &'a Configuration,
    over_time: &'a OverTime,
    cells: &'a [Option<u64>],
}

impl Report for HeatRows {
    type Row<'a> = HeatRow<'a>;
    const TYPE: &'static str = "over-time";

    fn columns(&self) -> Vec<Column<Self>> {
        type Col = Column<HeatRows>;
        vec![
            Col::data("configuration", |row| row.of.name.as_str().into()),
            Col::data("figure", |_| Figure::P999.as_str().into()),
            Col::data("bucket_ns", |row| Cell::Length(row.over_time.bucket)),
            Col::data("cells", |row| Cell::Value(json!(row.cells))),
        ]
    }
}

impl ComparisonReport {
    fn configuration_rows(&self) -> Vec<ConfigurationRow<'_>> {
        let configurations = self.comparison.configurations.iter().enumerate();
        configurations.map(|(at, of)| ConfigurationRow { report: self, is_base: at == 0, of }).collect()
    }

    fn difference_rows(&self) -> Vec<DifferenceRow<'_>> {
        self.comparison.differences.iter().map(|of| DifferenceRow { report: self, of }).collect()
    }

    fn heat_rows<'a>(&'a self, over_time: &'a OverTime) -> Vec<HeatRow<'a>> {
        let configurations = self.comparison.configurations.iter();
        configurations.zip(&over_time.rows).map(|(of, cells)| HeatRow { of, over_time, cells }).collect()
    }

    /// The settings and notes of the comparison.
    fn summary(&self) -> Value {
        let mut notes = self.cautions();
        notes.extend_from_slice(&self.notes);
        json!({
            "type": "summary",
            "configurations": self.comparison.configurations.len(),
            "base": self.base(),
            "apis": self.apis,
            "topics": self.topics,
            "slo_ns": self.comparison.slo.0,
            "confidence": compare::CONFIDENCE,
            "draws": compare::RESAMPLES,
            "notes": notes,
        })
    }
}

/// Writes a comparison as JSON lines.
pub fn write_json(mut out: &mut dyn Write, report: &ComparisonReport) -> io::Result<()> {
    Writer::new(&mut out, &Configurations, &Format::Json).write_all(&report.configuration_rows())?;
    Writer::new(&mut out, &Differences, &Format::Json).write_all(&report.difference_rows())?;
    let over_time = report.comparison.over_time(MAX_CELLS);
    Writer::new(&mut out, &HeatRows, &Format::Json).write_all(&report.heat_rows(&over_time))?;
    json::write_line(&mut out, &report.summary())?;
    out.flush()
}

/// Writes the differences as CSV.
pub fn write_csv(out: &mut dyn Write, report: &ComparisonReport) -> io::Result<()> {
    Writer::new(out, &Differences, &Format::Csv).write_all(&report.difference_rows())
}

/// A comparison for the page: the objects of the JSON lines.
#[derive(Clone, Debug, Serialize)]
pub struct ComparisonData {
    configurations: Vec<Value>,
    differences: Vec<Value>,
    over_time: Vec<Value>,
    summary: Value,
}

impl From<&ComparisonReport> for ComparisonData {
    fn from(report: &ComparisonReport) -> Self {
        let over_time = report.comparison.over_time(MAX_CELLS);
        Self {
            configurations: objects(&Configurations, &report.configuration_rows()),
            differences: objects(&Differences, &report.difference_rows()),
            over_time: objects(&HeatRows, &report.heat_rows(&over_time)),
            summary: report.summary(),
        }
    }
}

fn objects<'a, R: Report>(report: &R, rows: &'a [R::Row<'a>]) -> Vec<Value> {
    // `to_json` writes valid JSON.
    rows.iter().filter_map(|row| serde_json::from_slice(&to_json(report, row)).ok()).collect()
}

fn ends(interval: Option<Interval>) -> Value {
    interval.map_or(Value::Null, |it| Value::Array(vec![number(Some(it.low)), number(Some(it.high))]))
}

/// A number rounded to its significant digits; whole numbers without a decimal point.
fn number(value: Option<f64>) -> Value {
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
    fn numbers_have_six_significant_digits_or_are_whole() {
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
