//! The command line: reads what the user typed and hands it to the command. Everything else is done by the
//! crates it depends on.

mod advising;
mod apart;
mod cli;
mod client;
mod commands;
mod comparing;
mod failure;
mod filter;
mod flight_recordings;
mod function_name;
mod grounds;
mod input;
mod inside;
mod near_slow;
mod options;
mod output;
mod own_cost;
mod own_process;
mod packets;
mod quantity;
#[cfg(feature = "object-stores")]
mod remote;
#[cfg(not(feature = "object-stores"))]
#[path = "remote/absent.rs"]
mod remote;
mod request_log;
mod seen;
mod segments;
mod stop;
mod topics;
#[cfg(feature = "live")]
mod watched;

use std::process::ExitCode;

use clap::Parser as _;
use cli::{Cli, Command};

fn main() -> ExitCode {
    let mut command = Cli::parse().command;
    // Until the end is told, which may be of them.
    let mut kept = Vec::new();
    failure::exit_code(remote::bring(&mut command, &mut kept).and_then(|()| run(command)))
}

fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Requests(args) => commands::requests::run(&args),
        Command::Io(args) => commands::io::run(&args),
        Command::Files(args) => commands::files::run(&args),
        Command::Kernel(args) => commands::kernel::run(&args),
        Command::Locks(args) => commands::locks::run(&args),
        Command::Stacks(args) => commands::stacks::run(&args),
        Command::Segment(args) => commands::segment::run(&args),
        Command::Record(args) => commands::record::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Report(args) => commands::report::run(&args),
        Command::Compare(args) => commands::compare::run(&args),
        Command::Advise(args) => commands::advise::run(&args),
        Command::Fleet(args) => commands::fleet::run(&args),
        Command::Logs(args) => commands::logs::run(&args),
        Command::Top(args) => commands::top::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
    }
}
