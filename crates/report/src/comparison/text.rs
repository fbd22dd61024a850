//! A comparison for people: tables that fit 80 columns, a heat map and bars. Does not look at the terminal.

use std::io::{self, Write};

use compare::{Configuration, Figure};
use model::Nanos;

use super::heat::Scale;
use super::{ComparisonReport, figures};
use crate::Style;
use crate::escape::escape;
use crate::paint::{Role, paint};
use crate::quantity::{format_count, format_count_of};
use crate::table::{Heading, Table};

/// The columns that a terminal has at least.
const WIDTH: usize = 80;
/// Of these, what a row of the heat map and a bar have.
const CELLS: usize = 58;
const BAR: usize = 40;
/// Causes of each configuration.
const CAUSES: usize = 5;
/// How a bar's last cell is filled, in eighths.
const EIGHTHS: [char; 8] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// Writes all of it.
pub fn write_text(out: &mut dyn Write, look: &Style, compared: &ComparisonReport) -> io::Result<()> {
    let mut text = Text { out, look, compared };
    text.lead()?;
    text.load()?;
    text.latencies()?;
    text.differences()?;
    text.causes()?;
    text.heat_map()?;
    text.bars()?;
    text.notes()?;
    text.out.flush()
}

struct Text<'a> {
    out: &'a mut dyn Write,
    look: &'a Style,
    compared: &'a ComparisonReport,
}

impl Text<'_> {
    fn configurations(&self) -> &[Configuration] {
        &self.compared.comparison.configurations
    }

    fn name(&self, of: &Configuration) -> String {
        figures::name(&of.name, self.look.wide)
    }

    fn lead(&mut self) -> io::Result<()> {
        let count = format_count_of(self.configurations().len() as u64, "configuration");
        let (base, slo) = (escape(self.compared.base()), self.compared.comparison.slo);
        let what = escape(&self.compared.of_what()).into_owned();
        let sentence =
            format!("{what} in {count}; the base is {base}; who took {slo} or longer missed the objective");
        for line in fill(&sentence) {
            writeln!(self.out, "{line}")?;
        }
        Ok(())
    }

    fn heading(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "\n{}", paint(self.look.colour, Role::Heading, text))
    }

    fn table(&mut self, columns: Vec<Heading>, rows: Vec<Vec<String>>) -> io::Result<()> {
        let mut table = Table::new(&mut *self.out, columns, rows.len()).coloured(self.look.colour);
        for row in rows {
            table.row(&row)?;
        }
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
        let rows = self.configurations().iter().map(row).collect();
        writeln!(self.out)?;
        self.table(columns, rows)
    }

    fn latencies(&mut self) -> io::Result<()> {
        let figures = [Figure::P50, Figure::P90, Figure::P99, Figure::P999, Figure::Max];
        let mut columns = vec![Heading::text("LATENCY", figures::NAME)];
        columns.extend(["P50", "P90", "P99", "P99.9", "MAX"].map(|heading| Heading::number(heading, 9)));
        let row = |of: &Configuration| {
            let values = figures.iter().map(|&figure| figures::value(figure, of.figures.of(figure)));
            std::iter::once(self.name(of)).chain(values).collect()
        };
        let rows = self.configurations().iter().map(row).collect();
        writeln!(self.out)?;
        self.table(columns, rows)
    }

    fn differences(&mut self) -> io::Result<()> {
        for at in 1..self.configurations().len() {
            let Some(name) = self.configurations().get(at).map(|of| escape(&of.name).into_owned()) else {
                continue;
            };
            let base = escape(self.compared.base()).into_owned();
            self.heading(&format!("{name} against {base}"))?;
            let columns = vec![
                Heading::text("FIGURE", 10),
                Heading::number("BASE", 9),
                Heading::number("HERE", 9),
                Heading::number("CHANGE", 9),
                Heading::text("95 % INTERVAL", 14),
                Heading::text("", 0),
            ];
            let colour = self.look.colour;
            let row = |of: &compare::Difference| {
                vec![
                    of.figure.title().to_owned(),
                    figures::value(of.figure, of.base),
                    figures::value(of.figure, of.value),
                    figures::change(of.figure, of.change),
                    figures::interval(of.figure, of.interval),
                    // The last column: what colours add to its length moves nothing.
                    paint(colour, figures::role(of), &figures::outcome(of)),
                ]
            };
            let rows = self.compared.comparison.differences_of(at).map(row).collect();
            self.table(columns, rows)?;
        }
        Ok(())
    }

    fn causes(&mut self) -> io::Result<()> {
        let columns = vec![
            Heading::text("SLOW BECAUSE OF", figures::NAME),
            Heading::text("CAUSE", 26),
            Heading::number("REQUESTS", 0),
            Heading::number("TIME", 8),
            Heading::number("PER MINUTE", 0),
        ];
        let most = if self.look.wide { usize::MAX } else { CAUSES };
        let rows = self.configurations().iter().flat_map(|of| {
            let causes = of.causes.iter().take(most).enumerate();
            let told = causes.map(|(at, total)| {
                vec![
                    if at == 0 { self.name(of) } else { String::new() },
                    total.cause.as_str().to_owned(),
                    format_count(total.requests),
                    total.time.to_string(),
                    figures::a_minute(total.time, of.seconds),
                ]
            });
            let nothing = vec![self.name(of), "nothing was slow".to_owned()];
            told.chain(of.causes.is_empty().then_some(nothing)).collect::<Vec<_>>()
        });
        let rows = rows.collect();
        writeln!(self.out)?;
        self.table(columns, rows)
    }

    fn heat_map(&mut self) -> io::Result<()> {
        let over_time = self.compared.comparison.over_time(CELLS);
        let Some(scale) = Scale::of(&over_time, self.look.colour) else { return Ok(()) };
        let cell = Nanos(over_time.bucket.0);
        self.heading(&format!("p99.9 over the time of the run, a cell is {}", seconds(cell.0 as f64 / 1e9)))?;
        for (of, row) in self.compared.comparison.configurations.iter().zip(&over_time.rows) {
            let name = figures::name(&of.name, false);
            let cells: String = row.iter().map(|&cell| scale.cell(cell)).collect();
            writeln!(self.out, "{name:<width$}  {}", cells.trim_end(), width = figures::NAME)?;
        }
        let cells = over_time.rows.first().map_or(0, Vec::len);
        let end = seconds(cells as f64 * cell.0 as f64 / 1e9);
        writeln!(
            self.out,
            "{:width$}  0 s{end:>rest$}",
            "",
            width = figures::NAME,
            rest = cells.saturating_sub(3)
        )?;
        writeln!(self.out, "{:width$}  {} and more", "", scale.legend().join("  "), width = figures::NAME)
    }

    fn bars(&mut self) -> io::Result<()> {
        let most_of =
            |figure| self.configurations().iter().filter_map(|of| of.figures.of(figure)).fold(0.0, f64::max);
        // How much a request carries may be just what was changed.
        let throughputs = [
            (Figure::BytesPerSecond, "Bytes of records a second"),
            (Figure::RequestsPerSecond, "Requests a second"),
        ];
        let carrying = throughputs.into_iter().map(|(figure, heading)| (figure, heading, most_of(figure)));
        let Some((figure, heading, most)) = carrying.into_iter().find(|(_, _, most)| *most > 0.0) else {
            return Ok(());
        };
        self.heading(heading)?;
        for of in &self.compared.comparison.configurations {
            let rate = of.figures.of(figure).unwrap_or(0.0);
            let (name, bar) = (figures::name(&of.name, false), bar(rate / most));
            let told = figures::value(figure, of.figures.of(figure));
            writeln!(self.out, "{name:<width$}  {bar} {told}", width = figures::NAME)?;
            for line in of.note.iter().flat_map(|note| fill_from(&escape(note), figures::NAME + 2)) {
                let line = paint(self.look.colour, Role::Faint, &line);
                writeln!(self.out, "{:width$}  {line}", "", width = figures::NAME)?;
            }
        }
        Ok(())
    }

    fn notes(&mut self) -> io::Result<()> {
        let mut notes = self.compared.cautions();
        notes.extend(self.compared.notes.iter().map(|note| escape(note).into_owned()));
        if notes.is_empty() {
            return Ok(());
        }
        writeln!(self.out)?;
        for note in notes {
            for (at, line) in fill_from(&note, 2).into_iter().enumerate() {
                writeln!(self.out, "{} {line}", if at == 0 { "-" } else { " " })?;
            }
        }
        Ok(())
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

fn fill(text: &str) -> Vec<String> {
    fill_from(text, 0)
}

/// The text in lines that end before the 80th column, if they begin after so many.
fn fill_from(text: &str, from: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if from + line.chars().count() + 1 + word.chars().count() < WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{bar, fill_from, seconds};

    #[test]
    fn bars_have_eighths_and_lines_end_in_time() {
        assert_eq!(bar(1.0).chars().count(), 40);
        assert_eq!(bar(0.5).chars().count(), 20);
        assert_eq!(bar(0.506_25), format!("{}▎", "█".repeat(20)));
        assert_eq!(bar(0.0), "");
        let lines = fill_from(&"word ".repeat(40), 10);
        assert!(lines.len() > 2 && lines.iter().all(|line| line.len() + 10 < 80));
        assert_eq!((seconds(20.04), seconds(1_800.0)), ("20 s".to_owned(), "30 min".to_owned()));
    }
}
