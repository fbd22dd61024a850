//! The processes that a live watch starts to parse untrusted data: `brokerscope parse-packets`, `parse-request-log`
//! and `parse-jvm`, with a socket as standard input. They are not commands for users.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sandbox::Access;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Runs the parser if the first argument asks for it.
pub(crate) fn run() -> Option<ExitCode> {
    let argument = std::env::args_os().nth(1)?;
    let (name, parse) = PARSERS.into_iter().find(|(name, _)| argument == *name)?;
    Some(match run_parser(parse) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // If standard error is closed too, nobody reads the message.
            let line = format!("brokerscope: {name}: {error}\n");
            let _ = io::stderr().write_all(line.as_bytes());
            ExitCode::FAILURE
        }
    })
}

/// Parses data from the socket, for the watch at its other end.
type Parse = fn(OwnedFd) -> io::Result<()>;

const PARSERS: [(&str, Parse); 3] = [
    (watch::PARSE_PACKETS, watch::parse_packets),
    (watch::PARSE_REQUEST_LOG, watch::parse_request_log),
    (watch::PARSE_JVM, watch::parse_jvm),
];

fn run_parser(parse: Parse) -> io::Result<()> {
    // The watch ends this process once it has the last rows, also if a service manager signals all processes of a
    // service.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    sandbox::enter(&Access::default())?;
    parse(socket)
}
