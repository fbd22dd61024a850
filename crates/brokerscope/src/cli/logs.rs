//! What `logs` takes.

use std::path::PathBuf;

use clap::Args;
use model::{LogKind, Nanos};

use super::{flags, names};
use crate::options::{Filter, Presentation};
use crate::quantity;

/// `logs`.
#[derive(Debug, Args)]
#[command(mut_args(flags::of_logs))]
#[command(after_help = "Examples:
  brokerscope logs server.log*
  brokerscope logs server.log.2024-05-19-15.gz --list --kind segment-roll --slower-than 50ms
  brokerscope logs server.log --kind tier-cleanup --format csv
  brokerscope logs kafka-request.log --api produce --since '2024-05-19 15:00' --until '2024-05-19 16:00'
  brokerscope logs /var/log/kafka/server.log --follow --slower-than 100ms
  kubectl logs kafka-0 --timestamps | brokerscope logs - --patterns ours.txt

Known are lines of Kafka 2.0 to 4.1 in its own layout, log4j2's and others like them, as JSON, and behind
the prefixes of kubectl, the journal and containers; Kafka's request log at DEBUG; ends of the JVM's pauses.
A file of patterns has one a line, NAME UNIT EXPRESSION, as in:
  slow-disk ms write of (?<topic>[\\w.]+)-(?<partition>\\d+) stalled for (?<value>\\d+)
UNIT is that of the group value: ns, us, ms, s, min, bytes, count, or - for none.")]
pub(crate) struct Logs {
    /// Logs, plain or compressed (gzip, zstd), in the order in which their lines are listed; - for a pipe.
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// List what each line tells as it comes, and go on as the log is written to, also when it is rotated or
    /// emptied, until Ctrl-C.
    #[arg(long)]
    pub(crate) follow: bool,
    /// Stop after this time (--follow and -).
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::time)]
    pub(crate) duration: Option<Nanos>,
    /// List what each line tells instead of what it all comes to (JSON has both, CSV the list).
    #[arg(long)]
    pub(crate) list: bool,
    /// Show only what took at least this long; of a request log, then each such request too.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    pub(crate) slower_than: Nanos,
    /// Show only lines of this kind (repeatable).
    #[arg(long = "kind", value_name = "KIND", value_parser = names::log_kind())]
    pub(crate) kinds: Vec<LogKind>,
    /// Show only lines written at this time or later: 2024-05-19, '2024-05-19 15:04', 2024-05-19T15:04:47.458Z, or how
    /// long ago, as in 2h.
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// Show only lines written before this time.
    #[arg(long, value_name = "WHEN")]
    pub(crate) until: Option<String>,
    /// Tell only so many of the slowest in what it all comes to.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) top: u32,
    /// Look for the patterns in this file too.
    #[arg(long, value_name = "FILE")]
    pub(crate) patterns: Option<PathBuf>,
    /// The zone of times that name none: UTC, or +02:00. Without it, this machine's (TZ).
    #[arg(long, value_name = "ZONE")]
    pub(crate) log_zone: Option<String>,
    /// The day of the first line, of logs whose times have no date, as 2024-05-19.
    #[arg(long, value_name = "DATE")]
    pub(crate) date: Option<String>,
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}
