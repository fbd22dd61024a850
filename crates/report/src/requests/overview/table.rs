//! An overview as tables for people, 100 columns wide where names allow. Leaves out what matters less
//! unless it is asked for all.

mod producers;
mod rows;

use std::io::{self, Write};

use model::Nanos;

use super::{GroupBy, GroupKey, Groups};
use crate::Style;
use crate::paint::{Role, paint};
use crate::quantity::{format_count, format_count_of};
use crate::table::Table;

/// Groups of each sort that are shown.
const SHOWN: usize = 10;
const INDENT: usize = 2;

/// An overview as tables.
pub struct OverviewTable<W> {
    out: W,
    look: Style,
}

impl<W: Write> OverviewTable<W> {
    /// Tables that look like this.
    pub fn new(out: W, look: &Style) -> Self {
        Self { out, look: look.clone() }
    }

    /// Writes all of it.
    pub fn write(&mut self, groups: &Groups) -> io::Result<()> {
        let requests = groups.by(GroupBy::Api).map(|(_, _, group)| group.requests).sum();
        self.lead(groups, requests)?;
        for by in [GroupBy::Api, GroupBy::Topic, GroupBy::Client, GroupBy::Connection] {
            self.groups(groups, by)?;
        }
        self.producers(groups)?;
        self.legend(groups)?;
        self.out.flush()
    }

    fn lead(&mut self, groups: &Groups, requests: u64) -> io::Result<()> {
        write!(self.out, "{}", format_count_of(requests, "request"))?;
        if let Some(rate) = groups.per_second(requests) {
            let span = groups.span.unwrap_or(Nanos::ZERO);
            write!(self.out, " in {span}, {} a second", rows::rate(rate))?;
        }
        writeln!(self.out)
    }

    /// Other tables than that of the APIs leave out what waited as it had asked to: it is nobody's trouble.
    fn groups(&mut self, groups: &Groups, by: GroupBy) -> io::Result<()> {
        let wide = self.look.wide;
        let found = groups
            .by(by)
            .filter(|(kind, ..)| wide || by == GroupBy::Api || kind.hold.is_none())
            .collect::<Vec<_>>();
        if found.is_empty() {
            return Ok(());
        }
        let shown = if wide || by == GroupBy::Api { found.len() } else { SHOWN };
        self.title(rows::title(by))?;
        let columns = rows::columns(by, wide);
        let mut table =
            Table::new(&mut self.out, columns, usize::MAX).coloured(self.look.colour).indented(INDENT);
        for group in found.iter().take(shown) {
            for cells in rows::cells(groups, group, wide) {
                table.row(cells)?;
            }
        }
        table.finish()?;
        let others = found.iter().find(|(_, who, _)| matches!(who, GroupKey::Others(_)));
        self.rest(found.len().saturating_sub(shown), others.is_some().then_some(groups.most))
    }

    fn producers(&mut self, groups: &Groups) -> io::Result<()> {
        if groups.producers.is_empty() {
            return Ok(());
        }
        let wide = self.look.wide;
        let shown = if wide { groups.producers.len() } else { SHOWN };
        self.title("Batches by producer: mean and percentiles of records and bytes in one; mean partitions a request")?;
        let columns = producers::columns(wide);
        let mut table =
            Table::new(&mut self.out, columns, usize::MAX).coloured(self.look.colour).indented(INDENT);
        for producer in groups.producers.iter().take(shown) {
            table.row(producers::cells(producer, wide))?;
        }
        table.finish()?;
        let others = groups.producers.iter().any(|(producer, _)| producer.client.is_none());
        self.rest(groups.producers.len().saturating_sub(shown), others.then_some(groups.most))
    }

    fn title(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "\n{}", paint(self.look.colour, Role::Heading, text))
    }

    fn rest(&mut self, more: usize, most_if_others: Option<usize>) -> io::Result<()> {
        if more > 0 {
            let more = format_count(more as u64);
            writeln!(self.out, "{:INDENT$}… and {more} more (--wide tells all)", "")?;
        }
        if let Some(most) = most_if_others {
            let most = format_count(most as u64);
            writeln!(
                self.out,
                "{:INDENT$}others: those there was no room for ({most} an API, twice as many in all)",
                ""
            )?;
        }
        Ok(())
    }

    fn legend(&mut self, groups: &Groups) -> io::Result<()> {
        let mut lines = Vec::new();
        if groups.groups.iter().any(|(_, _, group)| group.waited_in_line()) {
            lines.push("alone: without the time behind an earlier request of the same connection");
        }
        if groups.groups.iter().any(|(kind, ..)| kind.hold == Some(model::IntendedWait::LongPoll)) {
            lines.push("long poll: the fetch waited for data, as it had asked to, and none came, or less than it wanted");
        }
        if groups.groups.iter().any(|(kind, ..)| kind.hold.is_none() && kind.api == "FETCH") {
            lines.push("FETCH brought data; its wait for them is left out where packets tell when they were produced");
        }
        if groups.groups.iter().any(|(kind, ..)| kind.hold == Some(model::IntendedWait::Rebalance)) {
            lines.push("rebalance: the member waited for the others of its group");
        }
        if !lines.is_empty() {
            writeln!(self.out)?;
        }
        for line in lines {
            writeln!(self.out, "{}", paint(self.look.colour, Role::Faint, line))?;
        }
        Ok(())
    }
}
