//! `locks`: waits for locks, with their holders, and JVM pauses; from a recording, the JVM's own files, or live.
//! Fuzzed by: dump, jfr.

pub(super) mod dumps;

use std::io::BufReader;
use std::path::{Path, PathBuf};

use analysis::recorder::plan::OFF_CPU;
use analysis::{Usage, open_file, read_flight_recording};
use anyhow::Context as _;
use clap::Args;
use diagnose::{Config, LockRow, Locks as LockEngine, PauseMerger};
use jvm::gc_log::GcLog;
use model::{CpuState, Event, JvmPause, Nanos};
use page::flame_graph::{self, FoldedStacks, Header};
use recording::Table;
use report::locks::{LockSummary, LockWaits, stack_time};
use report::pauses::Pauses;
use report::quantity::{format_count, format_count_of};
use report::{Sink, Writer};

use super::Run;
use crate::args::{DumpFiles, Flags, JfrFiles, Scope, Source};
use crate::file_access::FileAccess;
use crate::output::{self, Destination, Pace, Stdout};
use crate::reader::{self, Input, Reader};

/// Tables with waits, their holders and what the holders did.
const TABLES: [Table; 10] = [
    Table::LockWaits,
    Table::JvmPauses,
    Table::ProcessStops,
    Table::CpuGaps,
    Table::Requests,
    Table::OffCpu,
    Table::Reclaims,
    Table::DirtyThrottles,
    Table::BlockIos,
    Table::FileOps,
];

/// Longest time between two reports of one pause: a flight recording delays events longer than a recording of ours.
const MAX_PAUSE_SKEW: Nanos = Nanos::from_millis(10_000);

/// `locks`.
#[derive(Debug, Args)]
#[command(mut_arg("jfr", |flag| flag.conflicts_with("for")))]
#[command(mut_arg("dump", |flag| flag.conflicts_with_all(["from", "jfr", "gc_log", "summary", "pauses", "flame"])))]
#[command(after_help = "Waits are reported by the broker's JVM. Without its reports, waits for a
partition's log are inferred from the order of appends; the start is then the
earliest possible one.

Examples:
  brokerscope locks --slower-than 10ms
  brokerscope locks --from DIR --slower-than 50ms --topic orders
  brokerscope locks --from DIR --summary
  brokerscope locks --from DIR --flame waits.svg
  brokerscope locks --from DIR --pauses
  brokerscope locks --jfr broker.jfr --slower-than 1ms
  brokerscope locks --gc-log kafkaServer-gc.log* --slower-than 50ms
  brokerscope locks --dump jstack-*.txt javacore.*.txt")]
pub(crate) struct Locks {
    /// Show a summary instead: count, time and reasons of waits, by lock and by holder.
    #[arg(long, help_heading = "Output", conflicts_with = "pauses")]
    summary: bool,
    /// Show JVM pauses instead: garbage collections and other safepoints.
    #[arg(long, help_heading = "Output")]
    pauses: bool,
    /// Read JVM pauses from GC logs (-Xlog:gc*,safepoint).
    #[arg(long, help_heading = "JVM", value_name = "FILE", num_args = 1.., conflicts_with_all = ["from", "jfr"])]
    gc_log: Vec<PathBuf>,
    /// Write a flame graph (SVG) of the stacks in which threads waited.
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    flame: Option<PathBuf>,
    #[command(flatten)]
    jfr: JfrFiles,
    #[command(flatten)]
    dump: DumpFiles,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    scope: Scope,
}

impl Run for Locks {
    const FLAGS: Flags = Flags {
        unused: &["port", "api", "message-id"],
        help: &[
            ("slower-than", "Show only waits, or pauses, that took at least this long"),
            (
                "jfr",
                "Read recordings of JDK Flight Recorder, or of async-profiler in that format (several after one \
                 --jfr); with --from, recordings of the same broker at the same time on the same host",
            ),
            (
                "dump",
                "Read thread dumps (jstack, jcmd PID Thread.print, kill -QUIT in a log) and OpenJ9 javacores, several \
                 in one file too: each blocked thread with its lock, the holder, the method, and the number of dumps",
            ),
        ],
        ..Flags::NONE
    };

    fn run(&self) -> anyhow::Result<()> {
        if !self.dump.dump.is_empty() {
            return dumps::show(self);
        }
        let files = [&self.jfr.jfr[..], &self.gc_log].concat();
        let access =
            FileAccess::of(self.source.recording()?.into_iter().chain(files.iter().map(PathBuf::as_path)))?;
        let flame = self.flame.as_deref().map(WaitGraph::open).transpose()?;
        if !files.is_empty() && self.source.recording()?.is_none() {
            access.enter()?;
            return self.read_files(flame);
        }
        reader::read(&self.source, &self.scope, &self.jfr.jfr, &TABLES, |input| Rows::new(self, input, flame))
    }
}

impl Locks {
    /// Shows waits and pauses from the JVM's own files, which lack the kernel's side.
    fn read_files(&self, flame: Option<WaitGraph<'_>>) -> anyhow::Result<()> {
        self.refuse_duration()?;
        let mut rows = Rows::new(self, &Input::default(), flame);
        let mut notes = Vec::new();
        for path in &self.jfr.jfr {
            let mut pushed = Ok(());
            notes.extend(read_flight_recording(path, self.scope.target.pid, &mut |event| {
                if pushed.is_ok() {
                    pushed = rows.event(event);
                }
            })?);
            pushed?;
        }
        for path in &self.gc_log {
            for pause in GcLog::new(BufReader::new(open_file(path)?), None) {
                let pause = pause.with_context(|| path.display().to_string())?;
                rows.event(Event::JvmPause(Box::new(pause)))?;
            }
        }
        rows.finish(&notes)
    }

    fn refuse_duration(&self) -> Result<(), Usage> {
        let refusal = |_| Err(Usage::new("--for is for live input; a file is read to its end"));
        self.source.length.duration.map_or(Ok(()), refusal)
    }
}

/// The output, and counts of the rows written to it.
struct Rows<'a> {
    locks: LockEngine,
    jvm_pauses: PauseMerger,
    to: To,
    flame: Option<WaitGraph<'a>>,
    args: &'a Locks,
    waits: Count,
    pauses: Count,
}

/// The rows that are written: waits or pauses.
enum To {
    Waits(Box<dyn Sink<LockWaits>>),
    Pauses(Writer<Pauses, Stdout>),
}

/// The number of waits or pauses, how many of them were shown, and the longest.
#[derive(Default)]
struct Count {
    total: u64,
    shown: u64,
    longest: Nanos,
}

impl Count {
    fn add(&mut self, length: Nanos, shown: bool) {
        self.total += 1;
        self.shown += u64::from(shown);
        self.longest = self.longest.max(length);
    }
}

impl<'a> Rows<'a> {
    fn new(args: &'a Locks, input: &Input, flame: Option<WaitGraph<'a>>) -> Self {
        let pace = if args.summary { Pace::Buffered } else { input.pace };
        if args.summary {
            args.source.announce_end();
        }
        // A live watch reports each pause once.
        let (config, max_skew) = match input.pace {
            Pace::Buffered => (Config::replay(args.scope.slow.slower_than), MAX_PAUSE_SKEW),
            Pace::Immediate | Pace::Batched => {
                (Config::live(args.scope.slow.slower_than).with_jvm(), Nanos::ZERO)
            }
        };
        Self {
            locks: LockEngine::new(config, input.sees(OFF_CPU)),
            jvm_pauses: PauseMerger::new(max_skew),
            to: to(args, pace),
            flame,
            args,
            waits: Count::default(),
            pauses: Count::default(),
        }
    }

    fn show(&mut self, all: bool) -> anyhow::Result<()> {
        while let Some(row) = self.locks.take(all) {
            self.wait(&row)?;
        }
        while let Some(pause) = self.jvm_pauses.take(all) {
            self.pause(&pause)?;
        }
        Ok(())
    }

    fn wait(&mut self, row: &LockRow) -> anyhow::Result<()> {
        let is_shown = self.matches(row);
        self.waits.add(row.latency(), is_shown);
        if !is_shown {
            return Ok(());
        }
        self.flame.iter_mut().for_each(|flame| flame.add(row));
        match &mut self.to {
            To::Waits(report) => report.row(row).context(output::CANNOT_WRITE),
            To::Pauses(_) => Ok(()),
        }
    }

    fn pause(&mut self, pause: &JvmPause) -> anyhow::Result<()> {
        let is_shown = pause.length() >= self.args.scope.slow.slower_than;
        self.pauses.add(pause.length(), is_shown);
        match &mut self.to {
            To::Pauses(report) if is_shown => report.row(pause).context(output::CANNOT_WRITE),
            _ => Ok(()),
        }
    }

    fn matches(&self, row: &LockRow) -> bool {
        // Zero means unknown: a thread dump shows a moment, not how long a wait was.
        let long = row.latency() >= self.args.scope.slow.slower_than || row.latency() == Nanos::ZERO;
        long && self.args.scope.filter.admits_topic(row.partition.as_ref())
    }

    fn log_counts(&self) {
        let Self { waits, pauses, .. } = self;
        let jvm_pauses = |count: &Count| {
            format!("{}, the longest {}", format_count_of(count.total, "JVM pause"), count.longest)
        };
        let shown =
            format!("{} shown of {} waits for locks", format_count(waits.shown), format_count(waits.total));
        let message = match &self.to {
            To::Waits(_) if pauses.total > 0 => {
                format!("{shown}; {} (--pauses shows them)", jvm_pauses(pauses))
            }
            To::Waits(_) => shown,
            To::Pauses(_) if pauses.total == 0 => "no JVM pause was seen".to_owned(),
            To::Pauses(_) => format!("{} shown of {}", format_count(pauses.shown), jvm_pauses(pauses)),
        };
        tracing::info!("{message}");
    }
}

impl Reader for Rows<'_> {
    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        if let Event::JvmPause(pause) = &event {
            self.jvm_pauses.push((**pause).clone());
        }
        self.locks.push(event);
        self.show(false)
    }

    fn finish(mut self, notes: &[String]) -> anyhow::Result<()> {
        self.show(true)?;
        let finished = match &mut self.to {
            To::Waits(report) => report.finish(),
            To::Pauses(report) => report.finish(),
        };
        finished.context(output::CANNOT_WRITE)?;
        self.flame.iter().try_for_each(|flame| flame.write(notes))?;
        self.log_counts();
        output::log_notes(notes);
        Ok(())
    }
}

fn to(args: &Locks, pace: Pace) -> To {
    let out = output::stdout(pace);
    let form = args.scope.presentation.form(pace);
    if args.pauses || !args.gc_log.is_empty() {
        return To::Pauses(Writer::new(out, &Pauses, &form));
    }
    To::Waits(if args.summary {
        Box::new(LockSummary::new(out, form))
    } else {
        Box::new(Writer::new(out, &LockWaits, &form))
    })
}

/// The flame graph of the stacks at which threads waited.
struct WaitGraph<'a> {
    file: Destination<'a>,
    fold: FoldedStacks,
    inferred: u64,
}

impl<'a> WaitGraph<'a> {
    /// Opens the file to write to.
    fn open(file: &'a Path) -> anyhow::Result<Self> {
        Ok(Self { file: Destination::open(file)?, fold: FoldedStacks::default(), inferred: 0 })
    }

    fn add(&mut self, row: &LockRow) {
        self.inferred += u64::from(row.stack.is_empty());
        self.fold.add(&stack_time(row));
    }

    fn write(&self, notes: &[String]) -> anyhow::Result<()> {
        let total = self.fold.total(CpuState::Off);
        let mut missing = notes.to_vec();
        if self.inferred > 0 {
            missing.push(format!("{} without a stack", format_count_of(self.inferred, "wait")));
        }
        let about = Header {
            title: "Where threads waited for locks".to_owned(),
            notes: vec![format!("{} in {} waits; the lock is on top", total.time, total.count)],
            missing,
        };
        self.file.write(|out| flame_graph::write_svg(out, &self.fold, &[CpuState::Off], &about)).map(drop)
    }
}
