//! What `advise` takes.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use model::Nanos;

use super::flags;
use crate::options::{Presentation, Target};
use crate::quantity;

/// `advise`.
#[derive(Debug, Args)]
#[command(mut_args(flags::of_advice))]
#[command(
    after_help = "Each piece of advice says what was seen, the setting with its old and new value, what that cost slow
requests here, the risk, and by which comparison to see whether it helped. Where something is not known,
advice that needs it is left out and one line says so. Nothing on the host is changed.

Examples:
  brokerscope advise DIR
  brokerscope advise --for 60s
  brokerscope advise --all
  brokerscope advise server.properties --dump threads-*.txt
  brokerscope advise DIR --explain journal-commit
  brokerscope advise DIR --format json | jq -r 'select(.type == \"advice\") | .changes[0].setting'"
)]
pub(crate) struct Advise {
    /// A recording's directory, or a server.properties; without it, the broker that runs here.
    #[arg(value_name = "INPUT")]
    pub(crate) input: Option<PathBuf>,
    /// Watch the broker that runs here for so long first: without it no cost of anything is known.
    #[arg(long = "for", value_name = "TIME", value_parser = quantity::time, conflicts_with = "input")]
    pub(crate) duration: Option<Nanos>,
    /// Find out why requests were slow that took at least this long.
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = quantity::time)]
    pub(crate) slower_than: Nanos,
    /// Take the broker's settings from this server.properties.
    #[arg(long, value_name = "FILE")]
    pub(crate) properties: Option<PathBuf>,
    /// Take the JVM's options from this file: its command line, as ps shows it.
    #[arg(long, value_name = "FILE")]
    pub(crate) jvm_options: Option<PathBuf>,
    /// Use thread dumps of the broker too: jstack, jcmd PID Thread.print, javacores (several after one --dump).
    #[arg(long, value_name = "FILE", num_args = 1..)]
    pub(crate) dump: Vec<PathBuf>,
    /// Tell also of the rules that have nothing to advise, and why not.
    #[arg(long)]
    pub(crate) all: bool,
    /// Tell all about one rule: when it speaks, where its threshold comes from, and what it says of INPUT.
    #[arg(long, value_name = "RULE", value_parser = PossibleValuesParser::new(advise::RULES.iter().map(|rule| rule.name)), hide_possible_values = true, conflicts_with = "all")]
    pub(crate) explain: Option<String>,
    #[command(flatten)]
    pub(crate) target: Target,
    #[command(flatten)]
    pub(crate) presentation: Presentation,
}
