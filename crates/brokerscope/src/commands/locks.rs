//! `locks`: who waited for which lock, held by whom, and when the JVM stopped; from a recording, the JVM's own files, or live.

pub(crate) mod dump;
mod files;
mod flame;

use anyhow::Context as _;
use diagnose::{Config, LockRow, Locks, PauseMerger};
use model::{Event, JvmPause, Nanos};
use recording::Table;
use report::locks::{LockCsv, LockJson, LockReport, LockSummary, LockSummaryReport, LockTable};
use report::pauses::{PauseCsv, PauseJson, PauseReport, PauseTable};
use report::quantity::{format_count, format_count_of};

use crate::cli::Locks as Args;
use crate::failure;
use crate::flight_recordings::Beside;
use crate::options::{Filter, Format};
use crate::output::{self, Pace};
use crate::seen::{self, About, Reader};
use flame::Flame;

/// What waits, their holders and what those were doing are told from.
const TABLES: [Table; 8] = [
    Table::LockWaits,
    Table::JvmPauses,
    Table::Requests,
    Table::OffCpu,
    Table::Reclaims,
    Table::DirtyThrottles,
    Table::BlockIos,
    Table::FileOps,
];

/// How far apart two accounts of one stop may come: a flight recording holds events back longer than a recording of ours.
const STOPS_APART: Nanos = Nanos::from_millis(10_000);

/// Shows the waits, or the stops of the JVM.
pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let Filter { ports, apis, message_id, .. } = &args.filter;
    let unused =
        [("--port", !ports.is_empty()), ("--api", !apis.is_empty()), ("--message-id", message_id.is_some())];
    args.presentation.say_unused("locks", &unused);
    if !args.dump.is_empty() {
        return dump::read(args);
    }
    args.flame.as_deref().map_or(Ok(()), failure::check_place)?;
    let files = !args.jfr.is_empty() || !args.gc_log.is_empty();
    if files && args.source.from.is_none() {
        return files::read(args);
    }
    let beside = Beside::read(&args.jfr, args.target.pid)?;
    let start = |about: &About| Shown { beside, ..Shown::new(args, about) };
    seen::read(&args.source, &args.target, &args.presentation, &TABLES, start)
}

/// The output, and what went to it.
struct Shown<'a> {
    locks: Locks,
    stops: PauseMerger,
    /// What the JVM's own files hold, to be told among the rest.
    beside: Beside,
    to: To,
    flame: Option<Flame<'a>>,
    args: &'a Args,
    waits: Count,
    pauses: Count,
}

/// Where rows go: waits or stops.
enum To {
    Waits(Box<dyn LockReport>),
    Pauses(Box<dyn PauseReport>),
}

/// How many there were, how many of them were shown, and the longest.
#[derive(Default)]
struct Count {
    seen: u64,
    shown: u64,
    longest: Nanos,
}

impl Count {
    fn add(&mut self, length: Nanos, shown: bool) {
        self.seen += 1;
        self.shown += u64::from(shown);
        self.longest = self.longest.max(length);
    }
}

impl<'a> Shown<'a> {
    fn new(args: &'a Args, about: &About) -> Self {
        let pace = if args.summary { Pace::AllThere } else { about.pace };
        if args.summary && args.source.is_endless() {
            args.presentation.say("Ctrl-C shows what was found");
        }
        // A live watch tells each stop once.
        let (config, apart) = match about.pace {
            Pace::AllThere => (Config::replay(args.slower_than), STOPS_APART),
            Pace::AsTheyCome | Pace::HandedOn => (Config::live(args.slower_than).with_jvm(), Nanos::ZERO),
        };
        Self {
            locks: Locks::new(config, about.off_cpu),
            stops: PauseMerger::new(apart),
            beside: Beside::default(),
            to: to(args, pace),
            flame: args.flame.as_deref().map(Flame::new),
            args,
            waits: Count::default(),
            pauses: Count::default(),
        }
    }

    fn show(&mut self, all: bool) -> anyhow::Result<()> {
        while let Some(row) = self.locks.take(all) {
            self.wait(&row)?;
        }
        while let Some(pause) = self.stops.take(all) {
            self.pause(&pause)?;
        }
        Ok(())
    }

    fn wait(&mut self, row: &LockRow) -> anyhow::Result<()> {
        let wanted = self.wants(row);
        self.waits.add(row.latency(), wanted);
        if !wanted {
            return Ok(());
        }
        self.flame.iter_mut().for_each(|flame| flame.add(row));
        match &mut self.to {
            To::Waits(report) => report.wait(row).context(output::CANNOT_WRITE),
            To::Pauses(_) => Ok(()),
        }
    }

    fn pause(&mut self, pause: &JvmPause) -> anyhow::Result<()> {
        let wanted = pause.length() >= self.args.slower_than;
        self.pauses.add(pause.length(), wanted);
        match &mut self.to {
            To::Pauses(report) if wanted => report.pause(pause).context(output::CANNOT_WRITE),
            _ => Ok(()),
        }
    }

    fn wants(&self, row: &LockRow) -> bool {
        // A dump shows a moment: how long its waits were it does not know.
        let long = row.latency() >= self.args.slower_than || row.latency() == Nanos::ZERO;
        let topics = &self.args.filter.topics;
        let topic = row.partition.as_ref().map(|of| &*of.topic);
        long && (topics.is_empty() || topics.iter().any(|wanted| Some(wanted.as_str()) == topic))
    }

    fn say(&self) {
        let Self { waits, pauses, args, .. } = self;
        let stops = |count: &Count| {
            format!("{} of the JVM, the longest {}", format_count_of(count.seen, "stop"), count.longest)
        };
        args.presentation.say(&match &self.to {
            To::Waits(_) if pauses.seen > 0 => format!(
                "{} shown of {} waits for locks; {} (--pauses shows them)",
                format_count(waits.shown),
                format_count(waits.seen),
                stops(pauses)
            ),
            To::Waits(_) => {
                format!("{} shown of {} waits for locks", format_count(waits.shown), format_count(waits.seen))
            }
            To::Pauses(_) if pauses.seen == 0 => "no stop of the JVM was seen".to_owned(),
            To::Pauses(_) => format!("{} shown of {}", format_count(pauses.shown), stops(pauses)),
        });
    }
}

impl Shown<'_> {
    fn take(&mut self, event: Event) -> anyhow::Result<()> {
        if let Event::JvmPause(pause) = &event {
            self.stops.push((**pause).clone());
        }
        self.locks.push(event);
        self.show(false)
    }
}

impl Reader for Shown<'_> {
    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        while let Some(earlier) = self.beside.before(&event) {
            self.take(earlier)?;
        }
        self.take(event)
    }

    fn finish(mut self, notes: &[String]) -> anyhow::Result<()> {
        while let Some(last) = self.beside.next() {
            self.take(last)?;
        }
        self.show(true)?;
        match &mut self.to {
            To::Waits(report) => report.finish(),
            To::Pauses(report) => report.finish(),
        }
        .context(output::CANNOT_WRITE)?;
        if let Some(flame) = &self.flame {
            flame.write(notes)?;
        }
        self.say();
        self.args.presentation.say_each(self.beside.notes());
        self.args.presentation.say_each(notes);
        Ok(())
    }
}

fn to(args: &Args, pace: Pace) -> To {
    let out = output::stdout(pace);
    let look = args.presentation.look(pace);
    let format = args.presentation.format;
    if args.pauses || !args.gc_log.is_empty() {
        return To::Pauses(match format {
            Format::Table => Box::new(PauseTable::new(out, &look)),
            Format::Json => Box::new(PauseJson(out)),
            Format::Csv => Box::new(PauseCsv::new(out)),
        });
    }
    To::Waits(match (args.summary, format) {
        (true, Format::Table) => Box::new(LockSummary::new(out, LockSummaryReport::Table(look))),
        (true, Format::Json) => Box::new(LockSummary::new(out, LockSummaryReport::Json)),
        (true, Format::Csv) => Box::new(LockSummary::new(out, LockSummaryReport::Csv)),
        (false, Format::Table) => Box::new(LockTable::new(out, &look)),
        (false, Format::Json) => Box::new(LockJson(out)),
        (false, Format::Csv) => Box::new(LockCsv::new(out)),
    })
}
