//! What `compare` takes.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use model::Nanos;

use crate::quantity;

/// `compare`.
#[derive(Debug, Args)]
#[command(after_help = "Each CONFIGURATION is a recording, a directory that holds the repetitions of one, or
NAME=DIR,DIR... for repetitions and names of your own. Behind a directory, @10s-20s takes only that part
of the run, from the first request on (@10s- and @-20s too): one recording compares with itself before
and after a change. The first one is the base.

Examples:
  brokerscope compare before/ after/ --slo 65ms
  brokerscope compare ext4=a1,a2,a3 xfs=b1,b2,b3 -o compare.html
  brokerscope compare before=DIR@-60s after=DIR@60s- --api fetch --topic orders")]
pub(crate) struct Compare {
    /// What to compare, at least two: DIR, DIR@FROM-TO or NAME=DIR,DIR... (see below).
    #[arg(value_name = "CONFIGURATION", required = true, num_args = 2..)]
    pub(crate) configurations: Vec<String>,
    /// The objective: a request that takes as long, or longer, misses it, and its cause is looked for.
    #[arg(long, alias = "slower-than", value_name = "TIME", default_value = "100ms", value_parser = quantity::time)]
    pub(crate) slo: Nanos,
    /// Compare only requests of this API (repeatable).
    #[arg(long = "api", value_name = "API", default_value = "produce")]
    pub(crate) apis: Vec<String>,
    /// Compare only requests for this topic (repeatable).
    #[arg(long = "topic", value_name = "TOPIC")]
    pub(crate) topics: Vec<String>,
    /// Leave out the beginning of every run: what warms up is not what is compared.
    #[arg(long, value_name = "TIME", default_value = "0", value_parser = quantity::time)]
    pub(crate) skip: Nanos,
    /// How to write it; json is one object a line.
    #[arg(long, value_enum, default_value_t = ComparisonFormat::Table)]
    pub(crate) format: ComparisonFormat,
    /// Write a page for a browser too; `-` for standard output, and nothing else there.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write a note in Markdown too.
    #[arg(long, value_name = "FILE")]
    pub(crate) md: Option<PathBuf>,
    /// Say nothing but the data and errors.
    #[arg(long)]
    pub(crate) quiet: bool,
    /// Cut no names and leave out no causes.
    #[arg(long)]
    pub(crate) wide: bool,
    /// Taken as by every command; a comparison has no times of day but in what it says of recordings.
    #[arg(long, hide = true)]
    pub(crate) utc: bool,
}

/// The forms of a comparison. Their names say enough in a list of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ComparisonFormat {
    // For people.
    Table,
    // One JSON object a line.
    Json,
    // Comma-separated values.
    Csv,
    // Markdown.
    Md,
}
