//! `stacks`: where threads spend their time, as a flame graph and as folded text.

mod inside;
#[cfg(feature = "live")]
mod live;

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};

use analysis::source::{self, Recording};
use analysis::{EventSource as _, Step};
use clap::Args;
use model::{CpuState, Event, Nanos, StackTime};
use page::flame_graph::{self, FoldedStacks, Header};
use recording::Table;
use report::quantity::format_count;

use self::inside::Inside;
use super::Run;
use crate::args::{Flags, Presentation, Source, Target};
use crate::failure::usage;
use crate::file_access::FileAccess;
use crate::output::{self, Destination};
use crate::quantity;

/// Longest thread name in the kernel, in bytes (`TASK_COMM_LEN` less the NUL).
const MAX_NAME_BYTES: usize = 15;
/// Note on which off-CPU time a recording holds.
const OFF_CPU_NOTE: &str =
    "off CPU: only what the recording holds: intervals within operations, and long waits after them";

/// `stacks`.
#[derive(Debug, Args)]
#[command(after_help = "Java frames need a broker that was started with -XX:+PreserveFramePointer, and
the list that `jcmd PID Compiler.perfmap` (JDK 17) writes.

Examples:
  brokerscope stacks --for 10s -o stacks.svg
  brokerscope stacks --off-cpu --inside write --for 30s --folded write.folded
  brokerscope stacks --inside ext4_dirty_inode --thread data-plane -o dirty.svg
  brokerscope stacks --from DIR --on-cpu -o cpu.svg")]
pub(crate) struct Stacks {
    /// Show time on the CPU (without this and --off-cpu, both).
    #[arg(long, help_heading = "Filter")]
    on_cpu: bool,
    /// Show time off the CPU.
    #[arg(long, help_heading = "Filter")]
    off_cpu: bool,
    /// Show only stacks within this system call (write, read, fsync, sendfile, each with its variants) or function (a `*`
    /// at its end matches anything, as in ext4_*).
    #[arg(long, help_heading = "Filter", value_name = "CALL|FUNCTION")]
    inside: Option<Inside>,
    /// Show only threads whose name starts with this. The kernel keeps 15 characters of a name.
    #[arg(long, help_heading = "Filter", value_name = "NAME")]
    thread: Option<String>,
    /// Show threads of the same name separately.
    #[arg(long, help_heading = "Output")]
    each_thread: bool,
    /// Take this many samples per second on each CPU (live).
    #[arg(long, value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    frequency: u32,
    /// Leave out off-CPU intervals shorter than this.
    #[arg(long, help_heading = "Filter", alias = "slower-than", value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    min: Nanos,
    /// Write the flame graph to this file, an SVG; `-` for standard output.
    #[arg(short, long, help_heading = "Output", value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write folded stacks (frame;frame microseconds) for other tools; `-` for standard output.
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    folded: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    presentation: Presentation,
}

impl Run for Stacks {
    const FLAGS: Flags = Flags {
        hidden: &["format", "wide", "no-attach", "flight-recorder", "see-tls"],
        unused: &["log-dir"],
        help: &[(
            "pid",
            "Profile this process, a broker or any other; without it, the broker that runs here",
        )],
        ..Flags::NONE
    };

    fn run(&self) -> anyhow::Result<()> {
        let access = FileAccess::of(self.source.recording()?)?;
        let sinks = Sinks::of(self)?;
        if let Some(directory) = self.source.recording()? {
            access.enter()?;
            let options = self.target.read_options(self.presentation.times);
            let mut recording =
                source::open_tables(directory, &[Table::CpuSamples, Table::OffCpu], &options)?;
            sinks.write(self, &Profile::read(self, directory, &mut recording))?;
            return Ok(recording.check()?);
        }
        #[cfg(feature = "live")]
        return sinks.write(self, &live::profile(self)?);
        #[cfg(not(feature = "live"))]
        return crate::args::cannot_watch();
    }
}

/// Time by stack, and the notes on it.
struct Profile {
    stacks: FoldedStacks,
    header: Header,
}

/// The conditions on stacks.
struct StackFilter<'a> {
    args: &'a Stacks,
    /// Whether the kernel has already left out stacks outside the system call.
    in_calls: bool,
}

impl StackFilter<'_> {
    fn admits(&self, spent: &StackTime) -> bool {
        let state = states(self.args).contains(&spent.state);
        let thread = self.args.thread.as_deref().is_none_or(|prefix| is_named(&spent.thread, prefix));
        let inside = self.in_calls || self.args.inside.as_ref().is_none_or(|it| it.matches(&spent.stack));
        state && thread && inside
    }
}

/// Whether a thread's name may start with the requested text. The kernel may have truncated the name.
fn is_named(name: &str, prefix: &str) -> bool {
    name.starts_with(prefix) || (name.len() >= MAX_NAME_BYTES && prefix.starts_with(name))
}

/// The states to show.
fn states(args: &Stacks) -> &'static [CpuState] {
    match (args.on_cpu, args.off_cpu) {
        (true, false) => &[CpuState::On],
        (false, true) => &[CpuState::Off],
        _ => &[CpuState::On, CpuState::Off],
    }
}

/// Formats the conditions for titles and notes.
fn conditions(args: &Stacks) -> String {
    let inside = args.inside.as_ref().map(|inside| format!(" inside {inside}"));
    let thread = args.thread.as_ref().map(|thread| format!(" of threads {thread}*"));
    [inside, thread].into_iter().flatten().collect()
}

impl Profile {
    /// Reads the time by stack from a recording.
    fn read(args: &Stacks, directory: &Path, recording: &mut Recording) -> Self {
        let filter = StackFilter { args, in_calls: false };
        let mut time = RecordedTime::default();
        while let Step::Event(event) = recording.next() {
            time.event(&event, &filter);
        }
        let mut missing = Vec::new();
        let mut broker = "the broker".to_owned();
        if let Some(reader) = recording.recording() {
            missing = reader.notes();
            broker = reader.manifest().broker.as_ref().map_or(broker, |of| format!("broker {}", of.pid));
        }
        if states(args).contains(&CpuState::On) && time.samples == 0 {
            missing.push("the recording holds no on-CPU samples".to_owned());
        }
        let title = format!("Where {broker} spent its time{}", conditions(args));
        let header = Header { title, notes: vec![time.describe_method(args, directory)], missing };
        Self { stacks: time.stacks, header }
    }
}

/// Time by stack in a recording, so far.
#[derive(Default)]
struct RecordedTime {
    stacks: FoldedStacks,
    samples: u64,
    period: Option<Nanos>,
    span: Option<(Nanos, Nanos)>,
}

impl RecordedTime {
    fn event(&mut self, event: &Event, filter: &StackFilter<'_>) {
        let mut spent = match event {
            Event::CpuSample(sample) => {
                self.samples += 1;
                self.period.get_or_insert(sample.period);
                StackTime::from(&**sample)
            }
            Event::OffCpu(interval) if interval.length() >= filter.args.min => StackTime::from(&**interval),
            _ => return,
        };
        let (first, last) = self.span.unwrap_or((event.time(), event.time()));
        self.span = Some((first.min(event.time()), last.max(event.time())));
        spent.tid = spent.tid.filter(|_| filter.args.each_thread);
        if filter.admits(&spent) {
            self.stacks.add(&spent);
        }
    }

    fn describe_method(&self, args: &Stacks, dir: &Path) -> String {
        let mut parts = vec![format!("from {}", dir.display())];
        parts.extend(self.span.map(|(first, last)| format!("{} of observation", last - first)));
        if let Some(period) = self.period.filter(|_| states(args).contains(&CpuState::On)) {
            let hz = 1e9 / period.0.max(1) as f64;
            parts.push(format!("on CPU: {hz:.0} samples a second on each CPU"));
        }
        if states(args).contains(&CpuState::Off) {
            parts.push(OFF_CPU_NOTE.to_owned());
        }
        parts.join("; ")
    }
}

/// Output files, checked before anything is measured.
struct Sinks<'a> {
    svg: Option<Destination<'a>>,
    folded: Option<Destination<'a>>,
}

impl<'a> Sinks<'a> {
    fn of(args: &'a Stacks) -> anyhow::Result<Self> {
        let (svg, folded) = (args.output.as_deref(), args.folded.as_deref());
        match (svg, folded) {
            (None, None) if io::stdout().is_terminal() => {
                usage("say where to write the flame graph: -o FILE.svg, or --folded -")
            }
            (None, None) => Ok(Self { svg: Some(Destination::open(Path::new("-"))?), folded: None }),
            _ if svg == folded => usage("the flame graph and the folded stacks need different files"),
            _ => {
                let open = |path: Option<&'a Path>| path.map(Destination::open).transpose();
                Ok(Self { svg: open(svg)?, folded: open(folded)? })
            }
        }
    }

    fn write(&self, args: &Stacks, profile: &Profile) -> anyhow::Result<()> {
        let states = states(args);
        if let Some(folded) = &self.folded {
            folded.write(|out| profile.stacks.write_folded(out, states))?;
        }
        if let Some(svg) = &self.svg {
            svg.write(|out| flame_graph::write_svg(out, &profile.stacks, states, &profile.header))?;
        }
        if profile.stacks.is_empty() {
            tracing::warn!("no samples and no off-CPU intervals{}", conditions(args));
        }
        let totals = states.iter().map(|&state| {
            let total = profile.stacks.total(state);
            let (place, of) = match state {
                CpuState::On => ("on", "samples"),
                CpuState::Off => ("off", "intervals"),
            };
            format!("{} {place} CPU in {} {of}", total.time, format_count(total.count))
        });
        tracing::info!("{}", totals.collect::<Vec<_>>().join(", "));
        output::log_notes(&profile.header.missing);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::is_named;

    #[test]
    fn thread_filter_matches_truncated_names() {
        assert!(is_named("data-plane-kafk", "data-plane"));
        assert!(is_named("data-plane-kafk", "data-plane-kafka-request-handler"));
        assert!(!is_named("data", "data-plane"), "a short name is whole");
        assert!(!is_named("GC Thread#0", "data"));
        assert!(is_named("", ""));
    }
}
