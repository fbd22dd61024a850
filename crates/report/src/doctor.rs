//! What can be observed on this host and what is missing. Does not examine the host: the caller does.

use std::io::{self, Write};

use model::Nanos;
use serde::Serialize;

use crate::escape::escape;
use crate::paint::{Role, paint};
use crate::text_writer::{INDENT, TextWriter};
use crate::{Style, json};

/// Results of one examination of a host.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(tag = "type", rename = "doctor")]
pub struct Examination {
    /// Whether this binary can watch live at all.
    pub live: bool,
    /// What the host offers.
    pub facts: Vec<Fact>,
    /// Hooks that are used, and those that cannot be.
    pub hooks: Vec<Hook>,
    /// The brokers that run on this host.
    pub brokers: Vec<BrokerFacts>,
    /// The watches that run on this host.
    pub watches: Vec<WatchFacts>,
    /// What each plan costs; empty if it was not measured.
    pub costs: Vec<PlanCost>,
    /// Problems and what to do about them; empty on a host where everything can be observed.
    pub remedies: Vec<Remedy>,
}

/// One fact about the host or a broker.
#[derive(Clone, Debug, Serialize)]
pub struct Fact {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// One purpose and how it is served.
#[derive(Clone, Debug, Serialize)]
pub struct Hook {
    /// The purpose.
    pub purpose: String,
    /// The mechanism that serves it.
    pub mechanism: String,
    /// Why it cannot be used; `None` if it is used.
    pub missing: Option<String>,
}

/// One broker.
#[derive(Clone, Debug, Serialize)]
pub struct BrokerFacts {
    /// Its process.
    pub pid: u32,
    /// Its `node.id`, if its properties set one.
    pub node_id: Option<String>,
    /// Addresses on which it listens.
    pub listeners: Vec<String>,
    /// Its log dirs.
    pub log_dirs: Vec<String>,
    /// Further facts.
    pub facts: Vec<Fact>,
}

/// A running watch and its overhead.
#[derive(Clone, Debug, Serialize)]
pub struct WatchFacts {
    /// Its process.
    pub pid: u32,
    /// `full` or `always-on`.
    pub mode: String,
    /// CPUs that its BPF programs use now; `None` if that cannot be measured.
    pub programs_cpus: Option<f64>,
    /// CPUs that its process has used since it started.
    pub process_cpus: f64,
    /// Its sources that are down now.
    pub down: Vec<OutageFacts>,
}

/// What the programs of a plan cost the requests of a synthetic load.
#[derive(Clone, Debug, Serialize)]
pub struct PlanCost {
    /// `always-on` or `full`.
    pub plan: String,
    /// The programs that ran.
    pub programs: Vec<ProgramFacts>,
    /// Why it was not measured; `None` if it was.
    pub missing: Option<String>,
}

/// What a BPF program costs a request.
#[derive(Clone, Debug, Serialize)]
pub struct ProgramFacts {
    /// Its name.
    pub program: String,
    /// How often it runs.
    pub runs_per_request: f64,
    /// Nanoseconds in it, with those that measuring takes.
    pub ns_per_request: f64,
}

/// A source of a watch that is down.
#[derive(Clone, Debug, Serialize)]
pub struct OutageFacts {
    /// Since when, UTC nanoseconds.
    pub since_ns: i64,
    /// Its purposes.
    pub purposes: Vec<String>,
    /// Why.
    pub why: String,
}

/// A problem and what to do about it.
#[derive(Clone, Debug, Serialize)]
pub struct Remedy {
    /// What cannot be observed, and why.
    pub problem: String,
    /// What to do.
    pub action: String,
}

/// Columns before a purpose's name: indentation, mark and gap.
const BEFORE: usize = 7;

/// Writes an examination as one JSON object.
pub fn write_json(mut out: impl Write, examination: &Examination) -> io::Result<()> {
    json::write_line(&mut out, examination)?;
    out.flush()
}

/// Writes an examination for people, in lines that fit a terminal.
pub fn write_text(out: impl Write, style: &Style, examination: &Examination) -> io::Result<()> {
    let mut text = Text(TextWriter::new(out, style));
    writeln!(text.0.out, "{}", style.heading("This host"))?;
    text.pairs(INDENT, pairs(&examination.facts))?;
    if !examination.hooks.is_empty() {
        text.hooks(&examination.hooks)?;
    }
    text.brokers(&examination.brokers)?;
    text.watches(&examination.watches)?;
    text.costs(&examination.costs)?;
    text.remedies(&examination.remedies)?;
    text.0.out.flush()
}

fn pairs(facts: &[Fact]) -> impl Iterator<Item = (&str, &str)> + Clone {
    facts.iter().map(|fact| (fact.name.as_str(), fact.value.as_str()))
}

struct Text<W>(TextWriter<W>);

impl<W: Write> Text<W> {
    fn pairs<'a>(
        &mut self,
        indent: usize,
        pairs: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> io::Result<()> {
        let width = pairs.clone().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        for (name, value) in pairs {
            let (before, column) = (format!("{:indent$}{:width$}  ", "", escape(name)), indent + width + 2);
            self.0.wrap(&before, (column, column), value, None)?;
        }
        Ok(())
    }

    fn hooks(&mut self, hooks: &[Hook]) -> io::Result<()> {
        let missing = hooks.iter().filter(|hook| hook.missing.is_some()).count();
        let count =
            if missing == 0 { String::new() } else { format!(" ({missing} of {} unavailable)", hooks.len()) };
        self.0.heading(&format!("What will be watched{count}"))?;
        let width = hooks.iter().map(|hook| hook.purpose.chars().count()).max().unwrap_or(0);
        let mut before = None;
        for hook in available_first(hooks) {
            let (mark, role) = if hook.missing.is_none() { ("yes", Role::Good) } else { ("no ", Role::Bad) };
            let mark = paint(self.0.style.colour, role, mark);
            let means = match &hook.missing {
                None => short(&hook.mechanism),
                Some(why) if before == Some(why) => "likewise".to_owned(),
                Some(why) => why.clone(),
            };
            let (name, column) =
                (format!("  {mark}  {:width$}  ", escape(&hook.purpose)), BEFORE + width + 2);
            self.0.wrap(&name, (column, column), &means, None)?;
            before = hook.missing.as_ref();
        }
        Ok(())
    }

    fn brokers(&mut self, brokers: &[BrokerFacts]) -> io::Result<()> {
        self.0.heading("Brokers")?;
        if brokers.is_empty() {
            return writeln!(self.0.out, "  none found running");
        }
        brokers.iter().try_for_each(|broker| self.broker(broker))
    }

    fn broker(&mut self, broker: &BrokerFacts) -> io::Result<()> {
        let node = broker.node_id.as_deref().map(|id| format!(", node {id}")).unwrap_or_default();
        writeln!(self.0.out, "  pid {}{}", broker.pid, escape(&node))?;
        let (listeners, log_dirs) = (join_or_unknown(&broker.listeners), join_or_unknown(&broker.log_dirs));
        let known = [("listens on", listeners.as_str()), ("log dirs", log_dirs.as_str())];
        self.pairs(INDENT + 2, known.into_iter().chain(pairs(&broker.facts)))
    }

    fn watches(&mut self, watches: &[WatchFacts]) -> io::Result<()> {
        if watches.is_empty() {
            return Ok(());
        }
        self.0.heading("Watches that run")?;
        let percent = |cpus: f64| format!("{:.2} % of a CPU", 100.0 * cpus);
        for watch in watches {
            writeln!(self.0.out, "  pid {}, {}", watch.pid, escape(&watch.mode))?;
            let programs = watch.programs_cpus.map_or("cannot be measured".to_owned(), percent);
            let process = percent(watch.process_cpus);
            let costs = [("BPF programs, now", programs.as_str()), ("process, so far", process.as_str())];
            self.pairs(INDENT + 2, costs.into_iter())?;
            for OutageFacts { since_ns, purposes, why } in &watch.down {
                let since = self.0.style.zone.date_and_time(Nanos(*since_ns));
                let down = format!("down since {since}: {}: {why}", purposes.join(", "));
                self.0.wrap("    ", (INDENT + 2, INDENT + 4), &down, Some(Role::Bad))?;
            }
        }
        Ok(())
    }

    fn costs(&mut self, costs: &[PlanCost]) -> io::Result<()> {
        if costs.is_empty() {
            return Ok(());
        }
        self.0.heading("Cost of the BPF programs, measured with requests of 100 bytes")?;
        let costs: Vec<_> = costs.iter().map(|cost| (cost.plan.as_str(), describe_cost(cost))).collect();
        self.pairs(INDENT, costs.iter().map(|(plan, cost)| (*plan, cost.as_str())))
    }

    fn remedies(&mut self, remedies: &[Remedy]) -> io::Result<()> {
        if remedies.is_empty() {
            return self.0.heading("Nothing is missing");
        }
        self.0.heading("What is missing, and what to do")?;
        for remedy in remedies {
            self.0.bullet(&remedy.problem)?;
            for action in remedy.action.split("; ") {
                self.0.wrap("      ", (INDENT + 4, INDENT + 4), action, Some(Role::Good))?;
            }
        }
        Ok(())
    }
}

fn describe_cost(PlanCost { programs, missing, .. }: &PlanCost) -> String {
    if let Some(why) = missing {
        return format!("not measured: {why}");
    }
    let sum = |of: fn(&ProgramFacts) -> f64| programs.iter().map(of).sum::<f64>();
    let (us, runs) = (sum(|one| one.ns_per_request) / 1e3, sum(|one| one.runs_per_request));
    format!(
        "{us:.1} µs of CPU time a request, in {runs:.1} runs; {:.1} % of a CPU at 5,000 requests/s",
        us / 2.0
    )
}

fn join_or_unknown(items: &[String]) -> String {
    if items.is_empty() { "(unknown)".to_owned() } else { items.join(" ") }
}

/// Unavailable hooks follow available ones.
fn available_first(hooks: &[Hook]) -> impl Iterator<Item = &Hook> {
    let missing = hooks.iter().filter(|hook| hook.missing.is_some());
    hooks.iter().filter(|hook| hook.missing.is_none()).chain(missing)
}

/// Merges the entry and exit hooks of a system call into one word.
fn short(mechanism: &str) -> String {
    let entered_call = |word: &str| word.strip_prefix("syscalls/sys_enter_").map(str::to_owned);
    let mut calls: Vec<String> = mechanism.split(' ').filter_map(entered_call).collect();
    let rest = mechanism.split(' ').filter(|word| !word.starts_with("syscalls/")).map(str::to_owned);
    if calls.is_empty() {
        return mechanism.to_owned();
    }
    calls.insert(0, "system calls".to_owned());
    calls.extend(rest);
    calls.join(" ")
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn entry_and_exit_tracepoints_share_one_name() {
        let both = "syscalls/sys_enter_fsync syscalls/sys_exit_fsync filemap/x";
        assert_eq!(short(both), "system calls fsync filemap/x");
        assert_eq!(short("jbd2/a jbd2/b"), "jbd2/a jbd2/b");
    }
}
