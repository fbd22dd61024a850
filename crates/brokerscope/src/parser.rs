//! Processes of this program with a socket as standard input, in a sandbox: those that parse untrusted data for a live watch, and
//! the one that sends the requests of `doctor --measure`. They are not commands for users.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sandbox::Access;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::commands::doctor::measure;

/// Runs the process if the first argument asks for it.
pub(crate) fn run() -> Option<ExitCode> {
    let argument = std::env::args_os().nth(1)?;
    let (name, run) = PROCESSES.into_iter().find(|(name, _)| argument == *name)?;
    Some(match run_in_sandbox(run) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed too, nobody reads the message.
            let line = format!("brokerscope: {name}: {error}\n");
            let _ = io::stderr().write_all(line.as_bytes());
            ExitCode::FAILURE
        }
    })
}

/// Serves the other end of the socket.
type Run = fn(OwnedFd) -> io::Result<()>;

const PROCESSES: [(&str, Run); 4] = [
    (watch::PARSE_PACKETS, watch::parse_packets),
    (watch::PARSE_REQUEST_LOG, watch::parse_request_log),
    (watch::PARSE_JVM, watch::parse_jvm),
    (measure::SEND_REQUESTS, measure::send_requests),
];

fn run_in_sandbox(run: Run) -> io::Result<()> {
    // The watch ends a parser once it has the last rows, also if a service manager signals all processes of a
    // service.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    sandbox::enter(&Access::default())?;
    run(socket)
}
