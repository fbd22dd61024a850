//! `brokerscope-lab`: experiments on a real Kafka broker, by the library of the same crate.

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    match lab::run(lab::Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("brokerscope-lab: {error}");
            ExitCode::FAILURE
        }
    }
}
