//! The process that a live watch starts to parse packets: `brokerscope parse-packets`, with a socket as its standard input. No
//! command of a user's.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sandbox::Access;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Runs the parser if the first argument asks for it.
pub(crate) fn run() -> Option<ExitCode> {
    let is_asked_for = std::env::args_os().nth(1)? == watch::PARSE_PACKETS;
    is_asked_for.then(|| match parse() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where that is not open either, nobody listens.
            let line = format!("brokerscope: {}: {error}\n", watch::PARSE_PACKETS);
            let _ = io::stderr().write_all(line.as_bytes());
            ExitCode::FAILURE
        }
    })
}

fn parse() -> io::Result<()> {
    // The watch ends it, once it has the last rows: also where a service manager signals all of a service's processes.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    sandbox::enter(&Access::default())?;
    watch::parse_packets(socket)
}
