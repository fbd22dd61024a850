//! An examination for people.

use std::io::{self, Write};

use super::{BrokerFound, DoctorReport, Examination, Hook};
use crate::escape::escape;
use crate::paint::{Role, paint};

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

    fn pairs<'a>(&mut self, pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone) -> io::Result<()> {
        let width = pairs.clone().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in pairs {
            writeln!(self.out, "  {:width$}  {}", escape(name), escape(value))?;
        }
        Ok(())
    }

    fn hook(&mut self, hook: &Hook, width: usize) -> io::Result<()> {
        let (mark, role) = if hook.missing.is_none() { ("yes", Role::Good) } else { ("no ", Role::Bad) };
        let mark = paint(self.colour, role, mark);
        write!(self.out, "  {mark}  {:width$}  {}", escape(&hook.purpose), escape(&hook.mechanism))?;
        match &hook.missing {
            Some(why) => writeln!(self.out, ": {}", escape(why)),
            None => writeln!(self.out),
        }
    }

    fn hooks(&mut self, hooks: &[Hook]) -> io::Result<()> {
        self.heading("\nWhat will be watched")?;
        let width = hooks.iter().map(|hook| hook.purpose.chars().count()).max().unwrap_or(0);
        hooks.iter().try_for_each(|hook| self.hook(hook, width))
    }

    fn brokers(&mut self, brokers: &[BrokerFound]) -> io::Result<()> {
        self.heading("\nBrokers")?;
        if brokers.is_empty() {
            return writeln!(self.out, "  none found running");
        }
        for broker in brokers {
            let node = broker.node_id.as_deref().map(|id| format!(", node {id}")).unwrap_or_default();
            writeln!(
                self.out,
                "  pid {}{}, listens on {}, log dirs {}",
                broker.pid,
                escape(&node),
                escape(&listed(&broker.listeners)),
                escape(&listed(&broker.log_dirs)),
            )?;
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
        self.pairs(examination.facts.iter().map(|fact| (fact.name.as_str(), fact.value.as_str())))?;
        if !examination.hooks.is_empty() {
            self.hooks(&examination.hooks)?;
        }
        self.brokers(&examination.brokers)?;
        if examination.remedies.is_empty() {
            self.heading("\nNothing is missing")?;
        } else {
            self.heading("\nWhat is missing, and what to do")?;
        }
        for remedy in &examination.remedies {
            writeln!(self.out, "  - {}", escape(&remedy.problem))?;
            writeln!(self.out, "    {}", escape(&remedy.action))?;
        }
        self.out.flush()
    }
}
