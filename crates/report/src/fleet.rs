//! Which broker differs in what: differences for people and programs, and every broker's figures. Does not compare.

mod table;
mod view;

use std::io::{self, Write};

use fleet::{Broker, Fleet};

use crate::Style;

/// Differences between brokers.
pub struct Differences<'a>(pub &'a Fleet);

impl Differences<'_> {
    /// Writes a table for people, with at most so many rows.
    pub fn write_table(&self, out: &mut impl Write, look: &Style, most: usize) -> io::Result<()> {
        table::differences(out, look, self.0, most)
    }

    /// Writes one JSON object a difference, at most so many, and a last one about all brokers.
    pub fn write_json(&self, out: &mut impl Write, most: usize) -> io::Result<()> {
        let mut differences = self.0.differences.iter().take(most);
        differences.try_for_each(|difference| view::difference(difference).write_json(out))?;
        view::summary(self.0).write_json(out)?;
        out.flush()
    }

    /// Writes a line of CSV a difference, at most so many.
    pub fn write_csv(&self, out: &mut impl Write, most: usize) -> io::Result<()> {
        view::no_difference().write_csv_names(out)?;
        let mut differences = self.0.differences.iter().take(most);
        differences.try_for_each(|difference| view::difference(difference).write_csv(out))?;
        out.flush()
    }
}

/// The figures of every broker.
pub struct Figures<'a>(pub &'a [Broker]);

impl Figures<'_> {
    /// Writes a table for people.
    pub fn write_table(&self, out: &mut impl Write, look: &Style) -> io::Result<()> {
        table::figures(out, look, self.0)
    }

    /// Writes one JSON object a broker.
    pub fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        self.0.iter().try_for_each(|broker| view::broker(broker).write_json(out))?;
        out.flush()
    }

    /// Writes a line of CSV a broker.
    pub fn write_csv(&self, out: &mut impl Write) -> io::Result<()> {
        view::no_broker().write_csv_names(out)?;
        self.0.iter().try_for_each(|broker| view::broker(broker).write_csv(out))?;
        out.flush()
    }
}
