//! What all experiments take.

use std::path::PathBuf;

use crate::kafka::DEFAULT_VERSION;

/// Arguments that all experiments have.
#[derive(Clone, Debug, clap::Args)]
pub struct ExperimentArguments {
    /// How often each configuration is run
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repetitions: u32,
    /// How long each run is measured (each experiment has its own default)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=3600))]
    pub seconds: Option<u64>,
    /// What a request may take before it counts as a miss, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 65, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    pub slo: u64,
    /// Run these only
    #[arg(long, value_name = "CONFIGURATION", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Print the configurations and end
    #[arg(long)]
    pub list: bool,
    /// Keep recordings and results in DIR; what is there already is not done again
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Drop what an earlier experiment left in DIR
    #[arg(long)]
    pub anew: bool,
    /// Write a page of the comparison to FILE
    #[arg(short = 'o', long, value_name = "FILE")]
    pub page: Option<PathBuf>,
    /// Seed of the load
    #[arg(long, value_name = "S", default_value_t = 1)]
    pub seed: u64,
    /// Version of Kafka to run
    #[arg(long, value_name = "VERSION", default_value = DEFAULT_VERSION)]
    pub kafka: String,
}
