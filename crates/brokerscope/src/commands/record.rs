//! `record`: records everything that can be observed about a broker, to be explained later.

#[cfg(feature = "live")]
mod intake;
#[cfg(feature = "live")]
pub(super) mod manifest;
#[cfg(feature = "live")]
mod recorder;

use std::path::PathBuf;

use clap::Args;
use model::Nanos;
#[cfg(feature = "live")]
use recording::WriterOptions;

use super::Run;
use crate::args::{Client, Flags, Service};
use crate::quantity;
use crate::watch_mode::WatchMode;

/// `record`.
#[derive(Debug, Args)]
#[command(after_help = "Needs root, or the capabilities that `brokerscope doctor` lists. What cannot be
watched is reported, and recorded as missing.

Examples:
  brokerscope record -o DIR --for 60s && brokerscope explain DIR
  brokerscope record -o DIR --slower-than 100ms --max-disk 20GiB
  brokerscope record -o DIR --slower-than 100ms --watch full
  brokerscope record -o DIR --pid 4400 --message-id id")]
pub(crate) struct Record {
    /// Write to this directory; it must not exist, or must be empty and owned by this user.
    #[arg(short, long, help_heading = "Output", value_name = "DIR")]
    output: PathBuf,
    /// Keep the recording within this size: with --slower-than its oldest parts are removed, else it ends.
    #[arg(long, help_heading = "Output", value_name = "SIZE", value_parser = quantity::disk)]
    max_disk: Option<u64>,
    /// Keep this share of the file system free in the same way, also when others fill it; none for no bound.
    #[arg(long, help_heading = "Output", value_name = "SHARE", default_value = "10%", value_parser = quantity::share)]
    min_free: f64,
    /// Take this many samples per second of what the broker runs on each CPU; 49 unless given, 0 takes none. Needs
    /// --watch full.
    #[arg(long, value_name = "HZ", value_parser = clap::value_parser!(u32).range(0..=999))]
    cpu_samples: Option<u32>,
    /// Record waits for Java monitors of at least this length, if the broker's JVM runs with -XX:+DTraceMonitorProbes.
    #[arg(long, help_heading = "JVM", value_name = "TIME", default_value = "100us", value_parser = quantity::time)]
    lock_waits: Nanos,
    #[command(flatten)]
    service: Service,
    #[command(flatten)]
    mode: WatchMode,
    #[command(flatten)]
    client: Client,
}

impl Run for Record {
    const FLAGS: Flags = Flags {
        hidden: &["format", "utc", "wide"],
        refused: &["topic", "api"],
        refused_why: "the cause is often in another topic or API; give the flag to explain",
        help: &[
            (
                "slower-than",
                "Keep fine detail only around requests that took at least this long; the host's samples are kept, and with \
                 --watch full every request. Without it, everything is kept",
            ),
            (
                "watch",
                "Watch in this mode. auto: always-on with --slower-than; full without it, with --see-tls, --request-log, \
                 --interface, --message-id or --cpu-samples, and where the kernel lacks what always-on needs. always-on does not record quick \
                 requests, packets and waits for locks",
            ),
            (
                "for",
                "Stop after this time; without it, on Ctrl-C. A broker that is restarted meanwhile is followed",
            ),
            ("port", "Capture this port (repeatable); without it, the broker's own"),
            ("message-id", "Record this record header as message id"),
        ],
        ..Flags::NONE
    };

    #[cfg(feature = "live")]
    fn run(&self) -> anyhow::Result<()> {
        recorder::run(self)
    }

    #[cfg(not(feature = "live"))]
    fn run(&self) -> anyhow::Result<()> {
        anyhow::bail!(
            "{}: this brokerscope was built without the feature `live` and can only read; build it with that feature, \
             on Linux",
            self.output.display()
        )
    }
}

impl Record {
    /// Options of the recording's writer.
    #[cfg(feature = "live")]
    fn writer_options(&self) -> WriterOptions {
        WriterOptions {
            max_bytes: self.max_disk.unwrap_or(u64::MAX),
            min_free: if self.min_free.is_finite() { self.min_free } else { 0.0 },
            removes_oldest: self.flight_threshold().is_some(),
            ..WriterOptions::default()
        }
    }

    /// Threshold of slow requests if detail is recorded only around those.
    #[cfg(feature = "live")]
    fn flight_threshold(&self) -> Option<Nanos> {
        Some(self.service.scope.slow.slower_than).filter(|slower_than| *slower_than > Nanos::ZERO)
    }
}

#[cfg(all(test, feature = "live"))]
mod tests {
    use model::Nanos;

    use crate::args::MIN_LOCK_WAIT;

    #[test]
    fn lock_wait_threshold_defaults_to_that_of_live_commands() {
        let matches = crate::command().try_get_matches_from(["brokerscope", "record", "-o", "x"]).unwrap();
        let (_, record) = matches.subcommand().unwrap();
        assert_eq!(record.get_one::<Nanos>("lock_waits"), Some(&MIN_LOCK_WAIT));
    }
}
