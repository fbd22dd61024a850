//! What `explain` takes.

use std::path::PathBuf;

use clap::Args;
use model::Nanos;

use super::flags;
use crate::options::{AskJvm, Filter, MadeBeside, Presentation, Selection, Target};
use crate::quantity;

/// `explain`.
#[derive(Debug, Args)]
#[command(mut_args(flags::of_explanation))]
#[command(after_help = "Examples:
  brokerscope explain DIR --slower-than 50ms --topic orders
  brokerscope explain DIR --request 371409 --client 10.0.0.7:41234
  brokerscope explain DIR --format json | jq .cause
  brokerscope explain DIR --follow --slower-than 50ms
  brokerscope explain DIR --save --quiet > /dev/null && duckdb -c \
    \"select cause, count(*), max(latency_ns) from 'DIR/verdicts/*.parquet' group by cause\"
  brokerscope explain live --slower-than 50ms --for 10m")]
pub(crate) struct Explain {
    /// A recording's directory, also while it is written; pcap or pcapng files, plain or compressed (stages on the
    /// wire only); or live, or live:IFACE, for the broker that runs here, on all interfaces or this one.
    #[arg(value_name = "INPUT", required = true)]
    pub(crate) inputs: Vec<PathBuf>,
    /// Explain requests that took at least this long.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = quantity::time)]
    pub(crate) slower_than: Nanos,
    /// Tell everything about the request with this correlation id, however quick it was. Each connection has numbers of
    /// its own: --client ADDRESS:PORT says which.
    #[arg(long, value_name = "CORRELATION", allow_negative_numbers = true, conflicts_with_all = ["top", "slower_than"])]
    pub(crate) request: Option<i32>,
    /// Tell only the N slowest requests; the totals are of all.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) top: Option<u32>,
    /// Explain a recording while it is written: each verdict is told as soon as everything that bears on it is there, some
    /// 12 s after the request. Ends with the recorder, or on Ctrl-C.
    #[arg(long, conflicts_with = "top")]
    pub(crate) follow: bool,
    /// Keep the verdicts in the recording too, as the table verdicts/ (Parquet) beside its events, in place of those that
    /// were kept before.
    #[arg(long, conflicts_with_all = ["request", "ports", "topics", "apis", "clients", "errors", "no_waits"])]
    pub(crate) save: bool,
    /// Stop after this time (live, --follow).
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::time)]
    pub(crate) duration: Option<Nanos>,
    #[command(flatten)]
    pub(crate) jvm: AskJvm,
    #[command(flatten)]
    pub(crate) beside: MadeBeside,
    /// Show what Kafka's own request log (kafka.request.logger at DEBUG; plain or gzip) says of each request beside what
    /// was seen, and how far both agree (several files after one --request-log).
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) request_log: Vec<PathBuf>,
    /// Say of requests that nothing explains, or that only the time ties to a cause, what could not be decided and
    /// what would have told.
    #[arg(long)]
    pub(crate) why_not: bool,
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}
