//! What `export` takes.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;
use model::Nanos;

use super::flags;
use crate::options::{AskJvm, Filter, Presentation, Target};
use crate::quantity;

/// `export`.
#[derive(Debug, Args)]
#[command(mut_args(flags::of_exporter))]
#[command(
    after_help = "Needs root, but for --from. /metrics answers as Prometheus' text, OpenMetrics or protobuf, whichever is
asked for; /healthz and /readyz say how it is. crates/export/METRICS.md lists all metrics.

Examples:
  brokerscope export
  brokerscope export --listen 10.0.0.1:9465 --slower-than 65ms --top-topics 50
  brokerscope export --otlp http://127.0.0.1:4318
  brokerscope export --from DIR --speed 60"
)]
pub(crate) struct Export {
    /// The address to answer on. Whoever reaches it learns the names of topics and clients.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9465")]
    pub(crate) listen: SocketAddr,
    /// Tell of a recording instead of the broker that runs here, and go on when it has been read.
    #[arg(long, value_name = "RECORDING")]
    pub(crate) from: Option<PathBuf>,
    /// Replay the recording so many times as fast as it was recorded; without it, as fast as it can be read.
    #[arg(long, value_name = "TIMES", requires = "from", value_parser = quantity::speed)]
    pub(crate) speed: Option<f64>,
    /// Explain requests that took at least this long.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = quantity::time)]
    pub(crate) slower_than: Nanos,
    /// Tell so many topics apart, those with the most bytes.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(0..=1_000))]
    pub(crate) top_topics: u32,
    /// Send slow requests as traces to this collector, too (OTLP/HTTP, `http://HOST:4318`). No TLS: a collector beside it does that.
    #[arg(long, value_name = "URL")]
    pub(crate) otlp: Option<export::otlp::Endpoint>,
    /// Send at most so many of them a second, the slowest.
    #[arg(long, value_name = "N", default_value_t = 10, requires = "otlp", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) otlp_traces: u32,
    /// Also have the kernel measure what the BPF programs take (live): that costs a clock reading or two a run.
    #[arg(long, conflicts_with = "from")]
    pub(crate) measure_probes: bool,
    /// The most memory to take, the kernel's buffers for it included (at least 96MiB). What does not fit is dropped and
    /// counted.
    #[arg(long, value_name = "SIZE", default_value = "128MiB", value_parser = quantity::memory)]
    pub(crate) max_memory: u64,
    /// Stop after this time; without it, on Ctrl-C. A broker that is restarted meanwhile is followed.
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::time)]
    pub(crate) duration: Option<Nanos>,
    /// The network interface to capture on (live).
    #[arg(long, value_name = "IFACE", default_value = "any")]
    pub(crate) interface: String,
    #[command(flatten)]
    pub(crate) jvm: AskJvm,
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}
