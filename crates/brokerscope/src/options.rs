//! Flags that several commands share. Does not act on them.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use model::Nanos;

use crate::client::Client;
use crate::failure::Usage;
use crate::quantity;

/// Samples a second on each CPU, of what a broker's threads do between calls.
pub(crate) const CPU_SAMPLES: u32 = 49;
/// Shorter waits for Java monitors explain no slow request.
pub(crate) const LEAST_LOCK_WAIT: Nanos = Nanos::from_micros(100);

/// What to look at.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Filter {
    /// The broker's port (repeatable); without it, whatever speaks Kafka.
    #[arg(long = "port", value_name = "PORT")]
    pub(crate) ports: Vec<u16>,
    /// Show only this topic (repeatable).
    #[arg(long = "topic", value_name = "TOPIC")]
    pub(crate) topics: Vec<String>,
    /// Show only this API, for example produce (repeatable).
    #[arg(long = "api", value_name = "API")]
    pub(crate) apis: Vec<String>,
    /// Record header to show as message id.
    #[arg(long, value_name = "HEADER")]
    pub(crate) message_id: Option<String>,
}

/// Which requests to show, of those that the [`Filter`] lets through.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Selection {
    /// Show only this client: its client id (`*` at an end for any more, as in app-*), its address, or
    /// address:port (repeatable).
    #[arg(long = "client", value_name = "CLIENT")]
    pub(crate) clients: Vec<Client>,
    /// Show only requests with an error code, and those that could not be read or were not answered.
    #[arg(long)]
    pub(crate) errors: bool,
    /// Leave out what waited as it had asked to: fetches that no data came for, group members that
    /// waited for the others. Of a fetch that data came for, only the time from then on is its latency.
    #[arg(long)]
    pub(crate) no_waits: bool,
}

/// Which broker it is about.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Target {
    /// The broker's process; without it, the broker that runs here.
    #[arg(long, value_name = "PID")]
    pub(crate) pid: Option<u32>,
    /// A log dir of the broker (repeatable); without it, the broker's own.
    #[arg(long = "log-dir", value_name = "DIR")]
    pub(crate) log_dirs: Vec<PathBuf>,
}

/// Where a command gets what was seen of a broker from.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Source {
    /// Read a recording instead of watching live.
    #[arg(long, value_name = "RECORDING")]
    pub(crate) from: Option<PathBuf>,
    /// Stop after this time (live).
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::time)]
    pub(crate) duration: Option<Nanos>,
    #[command(flatten)]
    pub(crate) jvm: AskJvm,
}

/// What the JVM of a broker that is watched is asked.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct AskJvm {
    /// Ask the broker's JVM nothing (live): threads have the 15 characters of their names that the kernel keeps.
    #[arg(long)]
    pub(crate) no_attach: bool,
    /// Have the broker's JVM record who waits for locks, by Flight Recorder (live).
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Jfr::Auto)]
    pub(crate) flight_recorder: Jfr,
}

#[cfg(feature = "live")]
impl AskJvm {
    /// When to have it record; none where it is to be left alone.
    pub(crate) fn recording(self) -> Option<watch::Jfr> {
        (!self.no_attach).then(|| self.flight_recorder.into())
    }
}

/// What was made of the same broker beside a recording.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct MadeBeside {
    /// Use these recordings of JDK Flight Recorder too, which were made of the broker at the same time on the same
    /// host (several after one --jfr).
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) jfr: Vec<PathBuf>,
}

/// When to have the broker's JVM record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Jfr {
    /// Where starting it does not hold the broker up: from JDK 25 on, and where it was started before
    #[default]
    Auto,
    /// Also where that stops the broker for 25 ms or more, once, and has all its code compiled anew
    Always,
    /// Not at all
    Never,
}

#[cfg(feature = "live")]
impl From<Jfr> for watch::Jfr {
    fn from(when: Jfr) -> Self {
        match when {
            Jfr::Auto => Self::Auto,
            Jfr::Always => Self::Always,
            Jfr::Never => Self::Never,
        }
    }
}

impl Source {
    /// The recording to read; none for the broker itself.
    pub(crate) fn recording(&self) -> Result<Option<&Path>, Usage> {
        match &self.from {
            Some(_) if self.duration.is_some() => {
                Err(Usage("--for is for live input; a recording is read to its end".to_owned()))
            }
            Some(_) if self.jvm.no_attach => {
                Err(Usage("--no-attach is for live input; to read a recording no JVM is asked".to_owned()))
            }
            from => Ok(from.as_deref()),
        }
    }

    /// Whether only the user ends it.
    pub(crate) fn is_endless(&self) -> bool {
        self.from.is_none() && self.duration.is_none()
    }
}

/// What a program says that can only read, where it is to watch.
#[cfg(not(feature = "live"))]
pub(crate) fn cannot_watch() -> Usage {
    Usage("--from RECORDING is needed: this brokerscope was built without the feature `live`".to_owned())
}

/// How it is shown.
#[derive(Clone, Debug, Args)]
pub(crate) struct Presentation {
    /// How to write it; json is one object a line.
    #[arg(long, value_enum, default_value_t = Format::Table)]
    pub(crate) format: Format,
    /// Show times in UTC instead of local time.
    #[arg(long)]
    pub(crate) utc: bool,
    /// Say nothing but the data and errors.
    #[arg(long)]
    pub(crate) quiet: bool,
    /// More columns on the right; leave nothing out.
    #[arg(long)]
    pub(crate) wide: bool,
}

impl Presentation {
    /// Says what became of the broker, but not that its first process is watched, which was said.
    #[cfg(feature = "live")]
    pub(crate) fn say_change(&self, change: &model::BrokerChange, first: model::Pid) {
        let pid = change.pid;
        match change.state {
            model::BrokerState::Gone => {
                self.say(&format!("broker {pid} is gone; waiting for it to come back"));
            }
            model::BrokerState::Watched if pid != first => {
                self.say(&format!("the broker is back: watching {pid}"));
            }
            model::BrokerState::Watched => {}
        }
    }

    /// Says which flags were given that mean nothing to a command.
    pub(crate) fn say_unused(&self, command: &str, flags: &[(&str, bool)]) {
        for (flag, _) in flags.iter().filter(|(_, given)| *given) {
            self.say(&format!("{flag} means nothing to {command}"));
        }
    }
}

/// The forms of output. Their names say enough in a list of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    // For people.
    Table,
    // One JSON object a line.
    Json,
    // Comma-separated values.
    Csv,
}
