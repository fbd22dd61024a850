//! Flags shared by several commands, each declared once. Also the options that commands derive from them.

use std::path::{Path, PathBuf};

use analysis::Usage;
use analysis::filter::RequestFilter;
#[cfg(feature = "live")]
use analysis::source::LiveOptions;
use analysis::source::ReadOptions;
use clap::builder::TypedValueParser as _;
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, ValueEnum};
use model::Nanos;
use report::{Style, Zone};
#[cfg(feature = "live")]
use watch::admin::ClientProperties;

use crate::output::{self, Pace};
use crate::quantity;
#[cfg(feature = "live")]
use crate::watch_mode::FullFlag;

/// Samples per second on each CPU of what the broker's threads run between calls.
#[cfg(feature = "live")]
pub(crate) const CPU_SAMPLES_HZ: u32 = 49;
/// Minimum wait for a Java monitor; shorter ones explain no slow request.
#[cfg(feature = "live")]
pub(crate) const MIN_LOCK_WAIT: Nanos = Nanos::from_micros(100);

/// Rows of a ranking in a table, unless the user asks for more.
const DEFAULT_ROWS: usize = 20;

/// How a command treats shared flags. It accepts all of them, because scripts pass them.
pub(crate) struct Flags {
    /// Flags hidden from help.
    pub(crate) hidden: &'static [&'static str],
    /// Flags hidden from help, and reported as having no effect when given.
    pub(crate) unused: &'static [&'static str],
    /// Addition to that report.
    pub(crate) unused_why: &'static str,
    /// Flags that are refused when given.
    pub(crate) refused: &'static [&'static str],
    /// Reason for the refusal.
    pub(crate) refused_why: &'static str,
    /// Help texts that replace a flag's own.
    pub(crate) help: &'static [(&'static str, &'static str)],
    /// Default values that replace a flag's own.
    pub(crate) defaults: &'static [(&'static str, &'static str)],
}

impl Flags {
    /// Leaves all shared flags as declared.
    pub(crate) const NONE: Self = Self {
        hidden: &[],
        unused: &[],
        unused_why: "",
        refused: &[],
        refused_why: "",
        help: &[],
        defaults: &[],
    };

    /// Adapts a flag's declaration to the command.
    pub(crate) fn adapt(&self, flag: Arg) -> Arg {
        let Some(name) = flag.get_long().map(str::to_owned) else { return flag };
        let text = |texts: &[(&str, &'static str)]| {
            texts.iter().find(|(flag, _)| *flag == name).map(|(_, text)| *text)
        };
        let mut hidden = [self.hidden, self.unused, self.refused].into_iter().flatten();
        let flag = if hidden.any(|hidden| *hidden == name) { flag.hide(true) } else { flag };
        let flag = text(self.help).map_or(flag.clone(), |help| flag.help(help));
        text(self.defaults).map_or(flag.clone(), |value| flag.default_value(value))
    }

    /// Reports the given flags that have no effect on the command.
    ///
    /// # Errors
    /// A refused flag was given.
    pub(crate) fn check(&self, matches: &ArgMatches) -> Result<(), Usage> {
        let Some((command, matches)) = matches.subcommand() else { return Ok(()) };
        let is_given = |flag: &&&str| matches.value_source(flag) == Some(ValueSource::CommandLine);
        if let Some(flag) = self.refused.iter().find(is_given) {
            return Err(Usage::new(format!("{command} does not take --{flag}: {}", self.refused_why)));
        }
        for flag in self.unused.iter().filter(is_given) {
            tracing::info!("--{flag} has no effect on {command}{}", self.unused_why);
        }
        Ok(())
    }
}

/// Messages on standard error.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Verbosity {
    /// Print only data, warnings and errors.
    #[arg(long, global = true, display_order = 900)]
    pub(crate) quiet: bool,
    /// Print also what is read and watched, and how; with explain, everything that could not be observed.
    #[arg(long, global = true, conflicts_with = "quiet", display_order = 901)]
    pub(crate) verbose: bool,
}

/// Conditions on requests and topics.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Filter")]
pub(crate) struct Filter {
    /// Show only this broker port (repeatable); without it, every port with Kafka traffic.
    #[arg(id = "port", long, value_name = "PORT")]
    pub(crate) ports: Vec<u16>,
    /// Show only this topic (repeatable).
    #[arg(id = "topic", long, value_name = "TOPIC")]
    pub(crate) topics: Vec<String>,
    /// Show only this API, for example produce (repeatable).
    #[arg(id = "api", long, value_name = "API")]
    pub(crate) apis: Vec<String>,
    /// Show this record header as message id.
    #[arg(id = "message-id", long, value_name = "HEADER")]
    pub(crate) message_id: Option<String>,
}

impl Filter {
    /// Whether a topic is requested.
    pub(crate) fn admits_topic(&self, of: Option<&model::TopicPartition>) -> bool {
        self.topics.is_empty() || of.is_some_and(|of| self.topics.iter().any(|topic| *topic == *of.topic))
    }

    /// Returns the conditions on requests.
    pub(crate) fn requests(&self) -> RequestFilter {
        let Self { ports, topics, apis, .. } = self.clone();
        RequestFilter { ports, topics, apis }
    }

    /// Applies the conditions on packets to options.
    pub(crate) fn of_packets(&self, options: ReadOptions) -> ReadOptions {
        let Self { ports, message_id, .. } = self.clone();
        ReadOptions { ports, message_id, ..options }
    }
}

/// The broker.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct Target {
    /// Watch this broker's process; without it, the broker that runs here.
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// Use this log dir of the broker (repeatable); without it, the broker's own.
    #[arg(id = "log-dir", long, value_name = "DIR")]
    pub(crate) log_dirs: Vec<PathBuf>,
}

impl Target {
    /// The log dirs that the user named, else the broker's own.
    pub(crate) fn log_dirs_or(&self, own: &[PathBuf]) -> Vec<PathBuf> {
        if self.log_dirs.is_empty() { own } else { &self.log_dirs }.to_vec()
    }

    /// Options for reading files about the broker.
    pub(crate) fn read_options(&self, times: Times) -> ReadOptions {
        let Self { pid, log_dirs } = self.clone();
        let (jfr, ports, message_id) = (Vec::new(), Vec::new(), None);
        ReadOptions { jfr, pid, log_dirs, topics: None, ports, message_id, zone: times.zone() }
    }

    /// Options for watching everything that verdicts depend on.
    #[cfg(feature = "live")]
    pub(crate) fn live_options(&self, jvm: Jvm) -> LiveOptions {
        LiveOptions {
            pid: self.pid,
            log_dirs: self.log_dirs.clone(),
            interface: Some("any".to_owned()),
            ports: Vec::new(),
            always_on: None,
            max_cost: None,
            message_id: None,
            jvm: jvm.recording(),
            see_tls: jvm.see_tls,
            request_log: None,
            min_lock_wait: Some(MIN_LOCK_WAIT),
            cpu_samples_hz: CPU_SAMPLES_HZ,
            memory: watch::Memory::default(),
            wait: std::time::Duration::from_millis(50),
        }
    }
}

/// Connection to the broker for reading its settings in force.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct Client {
    /// Read the broker's settings in force with this Kafka client configuration (live): for brokers whose listeners need
    /// TLS or a password. Without it, a plaintext listener is used.
    #[arg(long, value_name = "FILE")]
    pub(crate) client_properties: Option<PathBuf>,
}

#[cfg(feature = "live")]
impl Client {
    /// Reads the file, before anything is watched, and logs its warnings.
    ///
    /// # Errors
    /// The file cannot be read, or something in it is not supported.
    pub(crate) fn read(&self) -> anyhow::Result<ClientProperties> {
        let Some(file) = &self.client_properties else { return Ok(ClientProperties::default()) };
        let client = ClientProperties::read(file)?;
        for warning in client.warnings() {
            tracing::warn!("{warning}");
        }
        Ok(client)
    }
}

/// Duration of a live command.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct Duration {
    /// Stop after this time (live).
    #[arg(id = "for", long, value_name = "TIME", value_parser = quantity::time)]
    pub(crate) duration: Option<Nanos>,
}

impl Duration {
    /// Ending of a message that tells the user how to stop; empty with a duration.
    #[cfg(feature = "live")]
    pub(crate) fn until(self) -> &'static str {
        if self.duration.is_some() { "" } else { "; Ctrl-C stops" }
    }
}

/// The threshold of slowness.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Filter")]
pub(crate) struct Slow {
    /// Show only what took at least this long.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    pub(crate) slower_than: Nanos,
}

/// Number of results.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Filter")]
pub(crate) struct Top {
    /// Show only the N slowest, slowest first.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000).map(|n| n as usize))]
    pub(crate) top: Option<usize>,
}

/// The network interface to capture on.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct Interface {
    /// Capture on this network interface (live); without it, on all.
    #[arg(long, value_name = "IFACE")]
    interface: Option<String>,
}

#[cfg(feature = "live")]
impl Interface {
    /// The interface, or `any`.
    pub(crate) fn name(&self) -> &str {
        self.interface.as_deref().unwrap_or("any")
    }
}

/// Memory limit.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct MaxMemory {
    /// Use at most this much memory, including the kernel's buffers (at least 96MiB).
    /// Events that do not fit are dropped and counted.
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = quantity::memory)]
    pub(crate) max_memory: u64,
}

/// A recording instead of a live broker.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct From {
    /// Read a recording instead of watching live.
    #[arg(long, value_name = "RECORDING")]
    pub(crate) from: Option<PathBuf>,
}

/// Input of a command: a recording or the live broker.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Source {
    #[command(flatten)]
    from: From,
    #[command(flatten)]
    pub(crate) length: Duration,
    #[command(flatten)]
    pub(crate) jvm: Jvm,
}

impl Source {
    /// The recording to read; `None` for the live broker.
    pub(crate) fn recording(&self) -> Result<Option<&Path>, Usage> {
        match &self.from.from {
            Some(_) if self.length.duration.is_some() => {
                Err(Usage::new("--for is for live input; a recording is read to its end"))
            }
            Some(_) if self.jvm.no_attach => {
                Err(Usage::new("--no-attach is for live input; reading a recording does not attach to a JVM"))
            }
            Some(_) if self.jvm.see_tls => {
                Err(Usage::new("--see-tls is for live input; a recording has what was read when it was made"))
            }
            from => Ok(from.as_deref()),
        }
    }

    /// Logs how to stop if only the user ends the command.
    pub(crate) fn announce_end(&self) {
        if self.from.from.is_none() && self.length.duration.is_none() {
            tracing::info!("Ctrl-C stops and shows the result");
        }
    }
}

/// Requests to the JVM of a watched broker.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "JVM")]
pub(crate) struct Jvm {
    /// Do not attach to the broker's JVM (live): thread names are then cut to the kernel's 15 characters.
    #[arg(long)]
    pub(crate) no_attach: bool,
    /// Record lock waits with JDK Flight Recorder in the broker's JVM (live).
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Jfr::Auto)]
    pub(crate) flight_recorder: Jfr,
    /// Read what TLS connections carry (live): loads an agent into the broker's JVM that copies it into memory, for
    /// brokerscope alone and until it ends.
    #[arg(long, conflicts_with = "no_attach")]
    pub(crate) see_tls: bool,
}

/// Kafka's request log, as a source of requests.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct RequestLog {
    /// Take requests that cannot be captured, such as those on TLS connections, from Kafka's request log while the broker
    /// writes it (live; kafka.request.logger at DEBUG; `brokerscope doctor` shows how to enable it).
    #[arg(long, value_name = "FILE", conflicts_with = "see_tls")]
    pub(crate) request_log: Option<PathBuf>,
}

/// When to record with Flight Recorder in the broker's JVM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Jfr {
    /// If starting it does not stall the broker: on JDK 25 or newer, or if it already runs
    #[default]
    Auto,
    /// Also if starting it stalls the broker once, for 25 ms or more, and makes the JVM compile all code again
    Always,
    /// Like `always`, plus the calls of request handlers on JDK 25 or newer, which bound queue and handler times: stalls
    /// the broker twice at the start and once at the end, for 27 ms or more each
    Handlers,
    /// Never
    Never,
}

#[cfg(feature = "live")]
impl Jvm {
    /// When to record; `None` if the JVM must not be attached to.
    pub(crate) fn recording(self) -> Option<watch::Jfr> {
        (!self.no_attach).then_some(match self.flight_recorder {
            Jfr::Auto => watch::Jfr::Auto,
            Jfr::Always => watch::Jfr::Always,
            Jfr::Handlers => watch::Jfr::Handlers,
            Jfr::Never => watch::Jfr::Never,
        })
    }
}

/// Flight Recorder files.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "JVM")]
pub(crate) struct JfrFiles {
    /// Use these JDK Flight Recorder files too, recorded from the same broker at the same time on the same host (several
    /// after one --jfr).
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) jfr: Vec<PathBuf>,
}

/// Thread dumps.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "JVM")]
pub(crate) struct DumpFiles {
    /// Use thread dumps of the broker too: jstack, jcmd PID Thread.print, javacores (several after one --dump).
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) dump: Vec<PathBuf>,
}

/// Replay speed.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct Speed {
    /// Replay the recording this many times as fast as it was recorded.
    #[arg(long, value_name = "TIMES", requires = "from", value_parser = quantity::speed)]
    pub(crate) speed: Option<f64>,
}

/// Output format.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Presentation {
    /// Write in this format; json is one object per line.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) times: Times,
    /// Show more columns on the right, and leave nothing out.
    #[arg(long)]
    pub(crate) wide: bool,
}

/// Time zone of the output.
#[derive(Clone, Copy, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Times {
    /// Show times in UTC instead of local time.
    #[arg(long)]
    pub(crate) utc: bool,
}

impl Times {
    /// The requested time zone.
    pub(crate) fn zone(self) -> Zone {
        if self.utc { Zone::utc() } else { Zone::local() }
    }
}

impl Presentation {
    /// The requested output format.
    pub(crate) fn form(self, pace: Pace) -> report::Format {
        match self.format {
            Format::Table => report::Format::Table(self.look(pace)),
            Format::Json => report::Format::Json,
            Format::Csv => report::Format::Csv,
        }
    }

    /// Maximum number of rows: by default [`DEFAULT_ROWS`] in a table and all in other formats.
    pub(crate) fn max_rows(self, top: Top) -> usize {
        let default = if self.format == Format::Table { DEFAULT_ROWS } else { usize::MAX };
        top.top.unwrap_or(default)
    }

    /// Style of output for people.
    pub(crate) fn look(self, pace: Pace) -> Style {
        output::look(self.times.zone(), self.wide, pace)
    }
}

/// Output formats. Their names are enough in a list of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    // For people.
    Table,
    // One JSON object per line.
    Json,
    // Comma-separated values.
    Csv,
}

/// Conditions on the input, and the output format.
#[derive(Clone, Debug, Args)]
pub(crate) struct Scope {
    #[command(flatten)]
    pub(crate) slow: Slow,
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}

impl Scope {
    /// Whether a file operation is requested.
    pub(crate) fn admits(&self, op: &model::FileOp) -> bool {
        op.latency() >= self.slow.slower_than && self.filter.admits_topic(op.topic_partition.as_ref())
    }

    /// Options for reading files.
    pub(crate) fn read_options(&self) -> ReadOptions {
        self.filter.of_packets(self.target.read_options(self.presentation.times))
    }

    /// Options for watching everything that verdicts depend on.
    #[cfg(feature = "live")]
    pub(crate) fn live_options(&self, jvm: Jvm) -> LiveOptions {
        let Filter { ports, message_id, .. } = self.filter.clone();
        LiveOptions { ports, message_id, ..self.target.live_options(jvm) }
    }
}

/// Flags of commands that watch a broker as a service.
#[derive(Clone, Debug, Args)]
pub(crate) struct Service {
    #[command(flatten)]
    pub(crate) memory: MaxMemory,
    #[command(flatten)]
    pub(crate) length: Duration,
    #[command(flatten)]
    pub(crate) interface: Interface,
    #[command(flatten)]
    pub(crate) jvm: Jvm,
    #[command(flatten)]
    pub(crate) log: RequestLog,
    #[command(flatten)]
    pub(crate) scope: Scope,
}

#[cfg(feature = "live")]
impl Service {
    /// The flags that need a full watch, and whether each was given.
    pub(crate) fn full_flags(&self) -> [FullFlag; 4] {
        [
            ("--see-tls", self.jvm.see_tls),
            ("--request-log", self.log.request_log.is_some()),
            ("--interface", self.interface.interface.is_some()),
            ("--message-id", self.scope.filter.message_id.is_some()),
        ]
    }

    /// Options for watching, within the memory limit.
    pub(crate) fn live_options(&self) -> LiveOptions {
        LiveOptions {
            interface: Some(self.interface.name().to_owned()),
            request_log: self.log.request_log.clone(),
            memory: watch::Memory::within(self.memory.max_memory),
            ..self.scope.live_options(self.jvm)
        }
    }
}

/// Refuses to watch, in a build that can only read.
#[cfg(not(feature = "live"))]
pub(crate) fn cannot_watch() -> anyhow::Result<()> {
    let why = "--from RECORDING is needed: this brokerscope was built without the feature `live`";
    crate::failure::usage(why)
}
