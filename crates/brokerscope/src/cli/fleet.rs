//! What `fleet` takes.

use std::path::PathBuf;

use clap::Args;

use super::flags;
use crate::options::Presentation;

/// `fleet`.
#[derive(Debug, Args)]
#[command(mut_args(flags::of_brokers))]
#[command(after_help = "Examples:
  brokerscope fleet /recordings
  brokerscope fleet /recordings --cluster prod --date 2026-11-22 --wide
  brokerscope fleet /recordings --figures --format csv
  brokerscope fleet s3://bucket/recordings --date 2026-11-22

Recordings lie in folders cluster=NAME/broker=NAME/date=DAY, directly or one below the other; those of one broker are taken
together. Where no folder names the broker, each recording is one. The same folders are read in SQL: deploy/sql.")]
pub(crate) struct FleetArgs {
    /// The directory with recordings of many brokers, or `s3://BUCKET/PREFIX`: where that is and who asks, the environment says
    /// by the variables of AWS.
    pub(crate) directory: PathBuf,
    /// Only this cluster (repeatable).
    #[arg(long = "cluster", value_name = "NAME")]
    pub(crate) clusters: Vec<String>,
    /// Only this day, as its folder is called (repeatable).
    #[arg(long = "date", value_name = "DAY")]
    pub(crate) dates: Vec<String>,
    /// Show the figures of every broker instead.
    #[arg(long)]
    pub(crate) figures: bool,
    /// Show only the first N differences; without it, 20 in a table and all elsewhere.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..), conflicts_with = "figures")]
    pub(crate) top: Option<u32>,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}
