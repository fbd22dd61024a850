//! What `top` takes.

use clap::Args;
use model::Nanos;

use super::flags;
use crate::options::{Filter, Presentation, Selection, Source, Target};
use crate::quantity;

/// `top`.
#[derive(Debug, Args)]
#[command(mut_args(flags::of_screen))]
#[command(after_help = "Examples:
  brokerscope top
  brokerscope top --slower-than 50ms --topic orders
  brokerscope top --from DIR --speed 10

Keys are those of htop; F1 tells them.")]
pub(crate) struct Top {
    /// Explain requests that took at least this long.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = quantity::time)]
    pub(crate) slower_than: Nanos,
    /// Replay a recording so many times as fast as it was.
    #[arg(long, value_name = "N", default_value = "1", value_parser = quantity::speed, requires = "from")]
    pub(crate) speed: f64,
    /// Capture on this network interface only (live).
    #[arg(long, value_name = "IFACE", default_value = "any", conflicts_with = "from")]
    pub(crate) interface: String,
    #[command(flatten)]
    pub(crate) source: Source,
    #[command(flatten)]
    pub(crate) filter: Filter,
    #[command(flatten)]
    pub(crate) selection: Selection,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}
