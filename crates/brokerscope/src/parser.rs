//! Processes that a live watch starts to parse what others wrote, with a socket as their standard input: `brokerscope parse-packets`
//! and `parse-flight`, the latter in the folder that it reads. No commands of a user's.

use std::io::{self, Write as _};
use std::os::fd::AsFd as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use sandbox::Access;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// Runs the parser that the first argument asks for; none where it asks for none.
pub(crate) fn run() -> Option<ExitCode> {
    let asked = std::env::args_os().nth(1)?;
    let parsed = if asked == watch::PARSE_PACKETS {
        enter(&Access::default()).and_then(|()| watch::parse_packets(socket()?))
    } else if asked == watch::PARSE_FLIGHT {
        enter(&Access::default().read(".")).and_then(|()| watch::parse_flight(socket()?))
    } else {
        return None;
    };
    Some(parsed.map_or_else(
        |error| {
            // Where that is not open either, nobody listens.
            let _ = io::stderr().write_all(format!("brokerscope: a parser: {error}\n").as_bytes());
            ExitCode::FAILURE
        },
        |()| ExitCode::SUCCESS,
    ))
}

fn socket() -> io::Result<std::os::fd::OwnedFd> {
    io::stdin().as_fd().try_clone_to_owned()
}

/// Gives away all that this process could do.
fn enter(access: &Access) -> io::Result<()> {
    // The watch ends it, once it has the last rows: also where a service manager signals all of a service's processes.
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
    }
    sandbox::enter(access).map(drop)
}
