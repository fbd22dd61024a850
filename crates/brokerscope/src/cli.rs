//! What can be typed: the commands and what each takes. Flags that several share are in [`crate::options`].

mod advise;
mod compare;
mod explain;
mod export;
mod flags;
mod fleet;
mod logs;
mod names;
mod recordings;
mod top;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::function_name::FunctionName;
use crate::inside::Inside;
use crate::options::{
    AskJvm, CPU_SAMPLES, Filter, LEAST_LOCK_WAIT, MadeBeside, Presentation, Selection, Source, Target,
};
use crate::quantity;
pub(crate) use advise::Advise;
pub(crate) use compare::{Compare, ComparisonFormat};

pub(crate) use explain::Explain;
pub(crate) use export::Export;
pub(crate) use fleet::FleetArgs;
pub(crate) use logs::Logs;
pub(crate) use top::Top;

/// Why was this Kafka request slow? Watches a broker's network, kernel and disk, and says.
#[derive(Debug, Parser)]
#[command(name = "brokerscope", version, max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    /// The question to answer.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The questions.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Which requests were slow?
    Requests(Requests),
    /// Which file operations of the broker were slow?
    Io(Io),
    /// Which files cause the disk reads and writes?
    Files(Files),
    /// How long did journal commits and file-system functions take, side by side in time?
    Kernel(Kernel),
    /// Who waited for which lock, held by whom?
    Locks(Locks),
    /// Where does a thread spend its time, on and off the CPU?
    Stacks(Stacks),
    /// What is in this segment?
    Segment(Segment),
    /// Collect everything, to explain it later.
    Record(Record),
    /// Why was it slow?
    Explain(Explain),
    /// What happens all the time, as metrics for Prometheus?
    Export(Export),
    /// Why was it slow, as a page to look at and pass on?
    Report(Report),
    /// Did the change help?
    Compare(Compare),
    /// What should I change?
    Advise(Advise),
    /// Which broker is different?
    Fleet(FleetArgs),
    /// What do the broker's own logs say about slow things?
    Logs(Logs),
    /// What is going on, on the whole screen?
    Top(Top),
    /// What can be seen on this host, and what is missing?
    Doctor(Doctor),
}

/// `requests`.
#[derive(Debug, Args)]
#[command(mut_args(flags::read_later))]
#[command(after_help = "Examples:
  brokerscope requests trace.pcap --api produce --slower-than 100ms
  brokerscope requests ring.pcap* --format json
  brokerscope requests trace.pcap --summary
  brokerscope requests trace.pcap --top 20 --client 'payments-*' --no-waits
  tcpdump -i any -U -w - port 9092 | brokerscope requests - --message-id id
  brokerscope requests live:any --port 9092 --for 30s --format json")]
pub(crate) struct Requests {
    /// pcap or pcapng files, plain or compressed (gzip, zstd, lz4), in any order: they are read by the time of
    /// their packets; `-` for a pipe from tcpdump; or live:IFACE (live:any, live:lo).
    #[arg(value_name = "INPUT", required = true)]
    pub(crate) inputs: Vec<String>,
    /// Capture only so many bytes of each packet, from its IP header on (live; without it, whole packets).
    /// Costs less, and what begins further inside a packet is not seen: a request behind others, a later
    /// partition. Rows that lack something say so; requests that were not seen at all count as gaps.
    #[arg(long, value_name = "BYTES", value_parser = quantity::snaplen)]
    pub(crate) snaplen: Option<u32>,
    /// Show only requests that took at least this long.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    pub(crate) slower_than: model::Nanos,
    /// Show only the N slowest, slowest first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) top: Option<u32>,
    /// Show one view of all instead: latency percentiles by API, topic, client and connection, and
    /// how full the producers' batches are.
    #[arg(long, conflicts_with = "top")]
    pub(crate) summary: bool,
    /// Stop after this time (live and `-`).
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::time)]
    pub(crate) duration: Option<model::Nanos>,
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}

/// `io`.
#[derive(Debug, Args)]
#[command(mut_args(flags::of_files))]
#[command(after_help = "Examples:
  brokerscope io --slower-than 50ms
  brokerscope io --op fsync --op rename --slower-than 1ms --wide
  brokerscope io --summary --for 30s
  brokerscope io --from DIR --top 20
  brokerscope io --from DIR --slower-than 50ms --message-id id")]
pub(crate) struct Io {
    /// Show only operations that took at least this long.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    pub(crate) slower_than: model::Nanos,
    /// Show only this operation (repeatable).
    #[arg(long = "op", value_name = "OP", value_parser = names::file_op())]
    pub(crate) ops: Vec<model::FileOpKind>,
    /// Show only operations on this kind of file (repeatable).
    #[arg(long = "kind", value_name = "KIND", value_parser = names::file_kind())]
    pub(crate) kinds: Vec<model::FileKind>,
    /// Show only the N slowest, slowest first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) top: Option<u32>,
    /// Sum up instead: how many of each operation on each kind of file, how long they took, and why.
    #[arg(long, conflicts_with = "top")]
    pub(crate) summary: bool,
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}

/// `files`.
#[derive(Debug, Args)]
#[command(mut_args(flags::of_totals))]
#[command(after_help = "Examples:
  brokerscope files --for 60s
  brokerscope files --for 60s --rated-iops 40000
  brokerscope files --from DIR --by kind
  brokerscope files --from DIR --sort reads --top 10

Where the disk is read and what was read is sent to nobody, the first line says so.")]
pub(crate) struct Files {
    /// Count only operations that took at least this long.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    pub(crate) slower_than: model::Nanos,
    /// What to tell apart.
    #[arg(long, value_name = "WHAT", default_value = "file", value_parser = names::files_by())]
    pub(crate) by: report::files::GroupBy,
    /// What to put first; bytes are those read from disk and those written.
    #[arg(long, value_name = "WHAT", default_value = "bytes", value_parser = names::files_sort())]
    pub(crate) sort: report::files::Sort,
    /// Requests a second that each device is rated for, to compare with.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) rated_iops: Option<u64>,
    /// Show only the first N; without it, 20 in a table and all elsewhere.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) top: Option<u32>,
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}

/// `kernel`.
#[derive(Debug, Args)]
#[command(mut_args(flags::of_kernel))]
#[command(after_help = "Examples:
  brokerscope kernel --slower-than 50ms
  brokerscope kernel --from DIR --slower-than 100ms --wide
  brokerscope kernel --from DIR --function 'ext4_*' --device sda1")]
pub(crate) struct Kernel {
    /// Show only calls that took at least this long.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    pub(crate) slower_than: model::Nanos,
    /// Show only this function; `*` at the end for any more (repeatable).
    #[arg(long = "function", value_name = "FUNCTION")]
    pub(crate) functions: Vec<FunctionName>,
    /// Show only calls for this device, by name or major:minor (repeatable).
    #[arg(long = "device", value_name = "DEVICE")]
    pub(crate) devices: Vec<String>,
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}

/// `locks`.
#[derive(Debug, Args)]
#[command(mut_args(flags::of_locks))]
#[command(after_help = "Examples:
  brokerscope locks --slower-than 10ms
  brokerscope locks --from DIR --slower-than 50ms --topic orders
  brokerscope locks --from DIR --summary
  brokerscope locks --from DIR --flame waits.svg
  brokerscope locks --from DIR --pauses
  brokerscope locks --jfr broker.jfr --slower-than 1ms
  brokerscope locks --gc-log kafkaServer-gc.log* --slower-than 50ms
  brokerscope locks --dump jstack-*.txt javacore.*.txt

Waits come from the broker's JVM. Where it told of none, those for a partition's log are inferred
from the order of the appends of produce requests; their start is the earliest that it can be.")]
pub(crate) struct Locks {
    /// Show only waits, or stops, that took at least this long.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    pub(crate) slower_than: model::Nanos,
    /// Sum up instead: by lock and by holder, how many waits, how long, and for what.
    #[arg(long, conflicts_with = "pauses")]
    pub(crate) summary: bool,
    /// Show when the JVM stopped all of its threads instead, for its collector or anything else.
    #[arg(long)]
    pub(crate) pauses: bool,
    /// Read recordings of JDK Flight Recorder, or of async-profiler in that format (several after one --jfr);
    /// with --from, what they tell of the broker that was recorded at the same time on the same host.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "duration")]
    pub(crate) jfr: Vec<PathBuf>,
    /// Read logs of the JVM's collector (-Xlog:gc*,safepoint): the stops in them.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["from", "jfr"])]
    pub(crate) gc_log: Vec<PathBuf>,
    /// Read thread dumps (jstack, jcmd PID Thread.print, kill -QUIT in a log) and OpenJ9 javacores, several in one
    /// file too: who is blocked on which lock, held by whom, in which method, in how many of the dumps.
    #[arg(long, value_name = "FILE", num_args = 1..,
          conflicts_with_all = ["from", "jfr", "gc_log", "summary", "pauses", "flame"])]
    pub(crate) dump: Vec<PathBuf>,
    /// Write a flame graph of the stacks at which threads waited, an SVG.
    #[arg(long, value_name = "FILE")]
    pub(crate) flame: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}

/// `stacks`.
#[derive(Debug, Args)]
#[command(mut_args(flags::of_stacks))]
#[command(after_help = "Examples:
  brokerscope stacks --for 10s -o stacks.svg
  brokerscope stacks --off-cpu --inside write --for 30s -o write.svg --folded write.folded
  brokerscope stacks --inside ext4_dirty_inode --thread data-plane -o dirty.svg
  brokerscope stacks --from DIR --on-cpu -o cpu.svg

Java's own frames need a broker that was started with -XX:+PreserveFramePointer, and the list
that `jcmd PID Compiler.perfmap` (JDK 17) writes.")]
pub(crate) struct Stacks {
    /// Show time on the CPU (without this and --off-cpu, both).
    #[arg(long)]
    pub(crate) on_cpu: bool,
    /// Show time off the CPU.
    #[arg(long)]
    pub(crate) off_cpu: bool,
    /// Only within this system call (write, read, fsync, sendfile, each with its variants) or function
    /// (`*` at its end for any more, as in ext4_*).
    #[arg(long, value_name = "CALL|FUNCTION")]
    pub(crate) inside: Option<Inside>,
    /// Only threads whose name begins so. The kernel knows fifteen characters of a name.
    #[arg(long, value_name = "NAME")]
    pub(crate) thread: Option<String>,
    /// Keep threads of the same name apart.
    #[arg(long)]
    pub(crate) each_thread: bool,
    /// Samples a second on each CPU (live).
    #[arg(long, value_name = "HZ", default_value_t = 99, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) frequency: u32,
    /// Leave out shorter absences from the CPU.
    #[arg(long, alias = "slower-than", value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    pub(crate) min: model::Nanos,
    /// The flame graph to write, an SVG; `-` for standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write folded stacks (frames;joined microseconds) for other tools; `-` for standard output.
    #[arg(long, value_name = "FILE")]
    pub(crate) folded: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}

/// `segment`.
#[derive(Debug, Args)]
#[command(
    after_help = "Payloads are never shown. The offset and the bytes are those of a write, as\n`io --format json` shows them.

Examples:
  brokerscope segment /data/topicA-0/00000000000000000000.log --records --message-id id
  brokerscope segment FILE --offset 90979668000 --bytes 2009 --message-id id"
)]
pub(crate) struct Segment {
    /// A segment's .log file.
    pub(crate) file: PathBuf,
    /// Look only at what was written at this file position.
    #[arg(long, value_name = "N", requires = "bytes", value_parser = quantity::size)]
    pub(crate) offset: Option<u64>,
    /// How many bytes were written there.
    #[arg(long, value_name = "M", requires = "offset", value_parser = quantity::size)]
    pub(crate) bytes: Option<u64>,
    /// Show every record, not only batches.
    #[arg(long)]
    pub(crate) records: bool,
    /// Record header to show as message id.
    #[arg(long, value_name = "HEADER")]
    pub(crate) message_id: Option<String>,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}

/// `record`.
#[derive(Debug, Args)]
#[command(mut_args(flags::of_recorder))]
#[command(after_help = "Needs root. What cannot be seen is said and recorded; the rest is.

Examples:
  brokerscope record -o DIR --for 60s && brokerscope explain DIR
  brokerscope record -o DIR --slower-than 100ms
  brokerscope record -o DIR --pid 4400 --message-id id")]
pub(crate) struct Record {
    /// The directory to write; it must not exist or be empty.
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: PathBuf,
    /// Keep fine detail only around requests and file operations that took at least this long; every request
    /// and the host's samples are kept. Without it, everything is.
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    pub(crate) slower_than: Option<model::Nanos>,
    /// The most memory the recorder takes, the kernel's buffers for it included (at least 96MiB). What does not
    /// fit is dropped and counted.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = quantity::memory)]
    pub(crate) max_memory: u64,
    /// Stop after this time; without it, on Ctrl-C. A broker that is restarted meanwhile is followed.
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::time)]
    pub(crate) duration: Option<model::Nanos>,
    /// The network interface to capture on.
    #[arg(long, value_name = "IFACE", default_value = "any")]
    pub(crate) interface: String,
    /// Samples a second of what the broker runs on each CPU; 0 takes none.
    #[arg(long, value_name = "HZ", default_value_t = CPU_SAMPLES, value_parser = clap::value_parser!(u32).range(0..=999))]
    pub(crate) cpu_samples: u32,
    /// Shortest wait for a Java monitor to record, where the broker's JVM runs with -XX:+DTraceMonitorProbes.
    #[arg(long, value_name = "TIME", default_value_t = LEAST_LOCK_WAIT, value_parser = quantity::time)]
    pub(crate) lock_waits: model::Nanos,
    #[command(flatten)]
    pub(crate) jvm: AskJvm,
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}

/// `report`.
#[derive(Debug, Args)]
#[command(mut_args(flags::of_page))]
#[command(after_help = "Examples:
  brokerscope report DIR -o page.html
  brokerscope report before/ after/ -o both.html --slower-than 65ms

The page is one file that needs no network: mail it, or attach it to an incident.")]
pub(crate) struct Report {
    /// Directories of recordings, or the pcap or pcapng files of one capture, plain or compressed (stages on the wire
    /// only).
    #[arg(value_name = "INPUT", required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// The file to write; `-` for standard output.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: PathBuf,
    /// Explain requests that took at least this long.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = quantity::time)]
    pub(crate) slower_than: model::Nanos,
    /// What to write.
    #[arg(long, value_enum, default_value_t = PageFormat::Html)]
    pub(crate) format: PageFormat,
    #[command(flatten)]
    pub(crate) beside: MadeBeside,
    /// Show times in UTC instead of local time.
    #[arg(long)]
    pub(crate) utc: bool,
    /// Say nothing but errors.
    #[arg(long)]
    pub(crate) quiet: bool,
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) target: Target,
}

/// The forms of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum PageFormat {
    /// A page for a browser
    Html,
    /// The page's data
    Json,
    /// A trace of the slow requests told in detail, for ui.perfetto.dev and Chrome
    Perfetto,
    /// A note for an issue or an incident
    Md,
}

/// `doctor`.
#[derive(Debug, Args)]
#[command(mut_args(flags::of_host))]
pub(crate) struct Doctor {
    /// Examine this broker only.
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn the_definitions_are_sound() {
        Cli::command().debug_assert();
    }
}
