//! What can stop a capture from being read. Damage inside a capture is not an error: see
//! [`crate::file::Notes`] and [`crate::Counters`].

use std::io;

/// Why packets cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is no packet capture.
    #[error(
        "{name}: not a packet capture: {why}; expected pcap or pcapng, as tcpdump -w and Wireshark write"
    )]
    NotACapture {
        /// The file, or `-`.
        name: String,
        /// What it is instead.
        why: &'static str,
    },
    /// The input cannot be read.
    #[error("{name}: cannot read: {source}")]
    Read {
        /// The file, or `-`.
        name: String,
        /// The system's reason.
        source: io::Error,
    },
    /// There is no such interface.
    #[cfg(feature = "live")]
    #[error("no network interface is called {name}; `ip link` lists them, and `any` means all of them")]
    NoInterface {
        /// The name asked for.
        name: String,
    },
    /// The kernel refused a step of opening a live capture.
    #[cfg(feature = "live")]
    #[error("live capture on {interface}: {step}: {source}{}", remedy(source))]
    Live {
        /// The interface asked for.
        interface: String,
        /// What was being done.
        step: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
}

#[cfg(feature = "live")]
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => " (run as root or with CAP_NET_RAW)",
        io::ErrorKind::OutOfMemory => " (ask for a smaller ring)",
        _ => "",
    }
}
