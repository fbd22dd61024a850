//! The command line: parses arguments and runs the command. Everything else is done by the crates it depends on.

mod args;
mod commands;
mod failure;
mod file_access;
mod log;
mod output;
mod own_process;
#[cfg(feature = "live")]
mod parser;
mod quantity;
mod reader;
mod selection;
mod watch_mode;

use std::process::ExitCode;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};

pub use failure::EXIT_CODES;

/// Explain why a Kafka request was slow, from a broker's network, kernel and disk.
#[derive(Debug, Parser)]
#[command(name = "brokerscope", version, max_term_width = 80, disable_help_subcommand = true)]
struct Cli {
    #[command(flatten)]
    verbosity: args::Verbosity,
    #[command(subcommand)]
    command: commands::Command,
}

/// The declarations of all commands and flags. The parser, help, man pages, completions and the reference are
/// generated from them.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the command line of this process.
pub fn run() -> ExitCode {
    #[cfg(feature = "live")]
    if let Some(exit) = parser::run() {
        return exit;
    }
    let matches = command().get_matches();
    let Cli { verbosity, command } = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    log::start(&verbosity);
    failure::exit_code(command.run(&matches))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Cli;

    #[test]
    fn command_definitions_are_valid() {
        Cli::command().debug_assert();
    }
}
