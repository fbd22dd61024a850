//! An examination for people: what the host is, what will be watched, its brokers, and what is in the way with what
//! to do about it, in lines that fit a terminal.

mod hooks;

use std::io::{self, Write};

use super::{BrokerFacts, DoctorReport, Examination, Remedy};
use crate::escape::escape;
use crate::paint::{Role, paint};
use crate::wrap::wrap;

/// How far what belongs to a heading is to its right.
const INDENT: usize = 2;

/// An examination as text.
pub struct DoctorText<W> {
    out: W,
    colour: bool,
}

impl<W: Write> DoctorText<W> {
    /// Text to this output.
    pub fn new(out: W, colour: bool) -> Self {
        Self { out, colour }
    }

    fn heading(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out, "{}", paint(self.colour, Role::Heading, text))
    }

    /// Text that begins in the line's `column` and goes on below itself.
    fn hanging(&mut self, column: usize, text: &str, role: Option<Role>) -> io::Result<()> {
        for (at, line) in wrap(text, column, column).iter().enumerate() {
            let blanks = if at == 0 { 0 } else { column };
            let line = role.map_or_else(|| line.clone(), |role| paint(self.colour, role, line));
            writeln!(self.out, "{:blanks$}{line}", "")?;
        }
        Ok(())
    }

    fn pairs<'a>(
        &mut self,
        indent: usize,
        pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> io::Result<()> {
        let width = pairs.clone().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in pairs {
            write!(self.out, "{:indent$}{:width$}  ", "", escape(name))?;
            self.hanging(indent + width + 2, &escape(value), None)?;
        }
        Ok(())
    }

    fn brokers(&mut self, brokers: &[BrokerFacts]) -> io::Result<()> {
        self.heading("\nBrokers")?;
        if brokers.is_empty() {
            return writeln!(self.out, "  none found running");
        }
        brokers.iter().try_for_each(|broker| self.broker(broker))
    }

    fn broker(&mut self, broker: &BrokerFacts) -> io::Result<()> {
        let node = broker.node_id.as_deref().map(|id| format!(", node {id}")).unwrap_or_default();
        writeln!(self.out, "  pid {}{}", broker.pid, escape(&node))?;
        let (listeners, log_dirs) = (listed(&broker.listeners), listed(&broker.log_dirs));
        let known = [("listens on", listeners.as_str()), ("log dirs", log_dirs.as_str())];
        let more = broker.facts.iter().map(|fact| (fact.name.as_str(), fact.value.as_str()));
        self.pairs(INDENT + 2, known.into_iter().chain(more))
    }

    fn remedies(&mut self, remedies: &[Remedy]) -> io::Result<()> {
        if remedies.is_empty() {
            return self.heading("\nNothing is missing");
        }
        self.heading("\nWhat is missing, and what to do")?;
        for remedy in remedies {
            write!(self.out, "  - ")?;
            self.hanging(INDENT + 2, &escape(&remedy.problem), None)?;
            for action in remedy.action.split("; ") {
                write!(self.out, "      ")?;
                self.hanging(INDENT + 4, &escape(action), Some(Role::Good))?;
            }
        }
        Ok(())
    }
}

fn listed(items: &[String]) -> String {
    if items.is_empty() { "(unknown)".to_owned() } else { items.join(" ") }
}

impl<W: Write> DoctorReport for DoctorText<W> {
    fn examination(&mut self, examination: &Examination) -> io::Result<()> {
        self.heading("This host")?;
        let facts = examination.facts.iter().map(|fact| (fact.name.as_str(), fact.value.as_str()));
        self.pairs(INDENT, facts)?;
        if !examination.hooks.is_empty() {
            self.hooks(&examination.hooks)?;
        }
        self.brokers(&examination.brokers)?;
        self.remedies(&examination.remedies)?;
        self.out.flush()
    }
}
