//! A comparison for people: tables that fit 80 columns, a heat map and bars. Does not look at the terminal.

use std::io::{self, Write};

use compare::{Configuration, Figure};

use super::heat::Scale;
use super::{ComparisonReport, figures};
use crate::Style;
use crate::escape::escape;
use crate::paint::{Role, paint};
use crate::quantity::{format_count, format_count_of};
use crate::table::{Heading, Table};
use crate::text_writer::TextWriter;

/// A terminal has at least 80 columns; the last one stays empty.
const WIDTH: usize = 79;
/// Columns of a heat map's row, and of a bar.
const CELLS: usize = 58;
const BAR: usize = 40;
/// Causes listed per configuration, unless the table is wide.
const CAUSES: usize = 5;
/// A bar's last cell, in eighths.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Writes a comparison.
pub fn write_text(out: &mut dyn Write, style: &Style, report: &ComparisonReport) -> io::Result<()> {
    let mut text = Text { text: TextWriter { width: WIDTH, ..TextWriter::new(out, style) }, report };
    text.lead()?;
    text.load()?;
    text.latencies()?;
    text.differences()?;
    text.causes()?;
    text.heat_map()?;
    text.bars()?;
    text.notes()?;
    text.text.out.flush()
}

struct Text<'a> {
    text: TextWriter<&'a mut dyn Write>,
    report: &'a ComparisonReport,
}

impl<'a> Text<'a> {
    fn configurations(&self) -> &'a [Configuration] {
        &self.report.comparison.configurations
    }

    fn name(&self, of: &Configuration) -> String {
        figures::name(&of.name, self.text.style.wide)
    }

    fn lead(&mut self) -> io::Result<()> {
        let count = format_count_of(self.configurations().len() as u64, "configuration");
        let (base, slo) = (self.report.base(), self.report.comparison.slo);
        let what = self.report.describe_requests();
        let sentence = format!(
            "{what} in {count}; the base is {base}; a request of {slo} or longer misses the objective"
        );
        self.text.wrap("", (0, 0), &sentence, None)
    }

    fn table(&mut self, columns: Vec<Heading>, rows: &[Vec<String>]) -> io::Result<()> {
        let mut table = Table::new(&mut self.text.out, columns, rows.len());
        table.colour = self.text.style.colour;
        rows.iter().try_for_each(|row| table.row(row))?;
        table.release()
    }

    fn load(&mut self) -> io::Result<()> {
        let columns = vec![
            Heading::text("CONFIGURATION", figures::NAME),
            Heading::number("RUNS", 0),
            Heading::number("TIME", 0),
            Heading::number("REQUESTS", 0),
            Heading::number("REQ/S", 0),
            Heading::number("RECORDS", 0),
            Heading::number("MISSED", 0),
            Heading::number("SHARE", 0),
        ];
        let row = |of: &Configuration| {
            vec![
                self.name(of),
                of.runs.len().to_string(),
                seconds(of.seconds),
                format_count(of.requests),
                figures::value(Figure::RequestsPerSecond, of.figures.of(Figure::RequestsPerSecond)),
                figures::value(Figure::BytesPerSecond, of.figures.of(Figure::BytesPerSecond)),
                format_count(of.slo_misses),
                figures::value(Figure::SloMisses, of.figures.of(Figure::SloMisses)),
            ]
        };
        let rows = self.configurations().iter().map(row).collect::<Vec<_>>();
        writeln!(self.text.out)?;
        self.table(columns, &rows)
    }

    fn latencies(&mut self) -> io::Result<()> {
        let figures = [Figure::P50, Figure::P90, Figure::P99, Figure::P999, Figure::Max];
        let mut columns = vec![Heading::text("LATENCY", figures::NAME)];
        columns.extend(["P50", "P90", "P99", "P99.9", "MAX"].map(|heading| Heading::number(heading, 9)));
        let row = |of: &Configuration| {
            let values = figures.iter().map(|&figure| figures::value(figure, of.figures.of(figure)));
            std::iter::once(self.name(of)).chain(values).collect()
        };
        let rows = self.configurations().iter().map(row).collect::<Vec<_>>();
        writeln!(self.text.out)?;
        self.table(columns, &rows)
    }

    fn differences(&mut self) -> io::Result<()> {
        for (at, of) in self.configurations().iter().enumerate().skip(1) {
            self.text.heading(&format!("{} against {}", escape(&of.name), escape(self.report.base())))?;
            let columns = vec![
                Heading::text("FIGURE", 10),
                Heading::number("BASE", 9),
                Heading::number("HERE", 9),
                Heading::number("CHANGE", 9),
                Heading::text("95 % INTERVAL", 14),
                Heading::text("", 0),
            ];
            let colour = self.text.style.colour;
            let row = |of: &compare::Difference| {
                vec![
                    of.figure.title().to_owned(),
                    figures::value(of.figure, of.base),
                    figures::value(of.figure, of.value),
                    figures::change(of.figure, of.change),
                    figures::interval(of.figure, of.interval),
                    // In the last column, colour codes misalign nothing.
                    paint(colour, figures::role(of), &figures::outcome(of)),
                ]
            };
            let rows = self.report.comparison.differences_of(at).map(row).collect::<Vec<_>>();
            self.table(columns, &rows)?;
        }
        Ok(())
    }

    fn causes(&mut self) -> io::Result<()> {
        let columns = vec![
            Heading::text("CONFIGURATION", figures::NAME),
            Heading::text("CAUSE", 26),
            Heading::number("REQUESTS", 0),
            Heading::number("TIME", 8),
            Heading::number("PER MINUTE", 0),
        ];
        let most = if self.text.style.wide { usize::MAX } else { CAUSES };
        let rows = self.configurations().iter().flat_map(|of| {
            let causes = of.causes.iter().take(most).enumerate();
            let cause_rows = causes.map(|(at, total)| {
                vec![
                    if at == 0 { self.name(of) } else { String::new() },
                    total.cause.as_str().to_owned(),
                    format_count(total.requests),
                    total.time.to_string(),
                    figures::per_minute(total.time, of.seconds),
                ]
            });
            let nothing = vec![self.name(of), "nothing was slow".to_owned()];
            cause_rows.chain(of.causes.is_empty().then_some(nothing)).collect::<Vec<_>>()
        });
        let rows = rows.collect::<Vec<_>>();
        writeln!(self.text.out)?;
        self.table(columns, &rows)
    }

    fn heat_map(&mut self) -> io::Result<()> {
        let over_time = self.report.comparison.over_time(CELLS);
        let Some(scale) = Scale::of(&over_time, self.text.style.colour) else { return Ok(()) };
        let cell = over_time.bucket.0 as f64 / 1e9;
        self.text.heading(&format!("p99.9 over the time of the run; each cell is {}", seconds(cell)))?;
        for (of, row) in self.configurations().iter().zip(&over_time.rows) {
            let cells: String = row.iter().map(|&cell| scale.cell(cell)).collect();
            self.row(&figures::name(&of.name, false), cells.trim_end())?;
        }
        let cells = over_time.rows.first().map_or(0, Vec::len);
        let (end, rest) = (seconds(cells as f64 * cell), cells.saturating_sub(3));
        self.row("", &format!("0 s{end:>rest$}"))?;
        self.row("", &format!("{} and more", scale.legend().join("  ")))
    }

    /// Writes a name, which may be empty, and the text next to it.
    fn row(&mut self, name: &str, text: &str) -> io::Result<()> {
        writeln!(self.text.out, "{name:<width$}  {text}", width = figures::NAME)
    }

    fn bars(&mut self) -> io::Result<()> {
        let most_of =
            |figure| self.configurations().iter().filter_map(|of| of.figures.of(figure)).fold(0.0, f64::max);
        // Bytes first: the change may affect how much a request carries.
        let throughputs = [
            (Figure::BytesPerSecond, "Record bytes per second"),
            (Figure::RequestsPerSecond, "Requests per second"),
        ];
        let carrying = throughputs.into_iter().map(|(figure, heading)| (figure, heading, most_of(figure)));
        let Some((figure, heading, most)) = carrying.into_iter().find(|(_, _, most)| *most > 0.0) else {
            return Ok(());
        };
        self.text.heading(heading)?;
        for of in self.configurations() {
            let rate = of.figures.of(figure);
            let (bar, rate) = (bar(rate.unwrap_or(0.0) / most), figures::value(figure, rate));
            self.row(&figures::name(&of.name, false), &format!("{bar} {rate}"))?;
            if let Some(note) = &of.note {
                let column = figures::NAME + 2;
                self.text.wrap(&" ".repeat(column), (column, column), note, Some(Role::Faint))?;
            }
        }
        Ok(())
    }

    fn notes(&mut self) -> io::Result<()> {
        let notes = [self.report.cautions(), self.report.notes.clone()].concat();
        if !notes.is_empty() {
            writeln!(self.text.out)?;
        }
        notes.iter().try_for_each(|note| self.text.wrap("- ", (2, 2), note, None))
    }
}

/// `20.0 s`, `12 min`.
fn seconds(seconds: f64) -> String {
    if seconds < 599.5 {
        format!("{} s", (seconds * 10.0).round() / 10.0)
    } else {
        format!("{:.0} min", seconds / 60.0)
    }
}

fn bar(share: f64) -> String {
    let eighths = (share * BAR as f64 * 8.0).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    bar.extend(EIGHTHS.get(eighths % 8).filter(|_| eighths % 8 > 0));
    bar
}

#[cfg(test)]
mod tests {
    use super::{bar, seconds};

    #[test]
    fn bars_use_eighths_and_long_times_use_minutes() {
        assert_eq!(bar(1.0).chars().count(), 40);
        assert_eq!(bar(0.5).chars().count(), 20);
        assert_eq!(bar(0.506_25), format!("{}▎", "█".repeat(20)));
        assert_eq!(bar(0.0), "");
        assert_eq!((seconds(20.04), seconds(1_800.0)), ("20 s".to_owned(), "30 min".to_owned()));
    }
}
