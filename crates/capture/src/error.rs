//! Why a capture cannot be read.
//! Damage after which reading goes on is not an error: see [`crate::file::Notes`] and [`crate::Counters`].

use std::io;

/// Why packets cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The input is not a packet capture.
    #[error(
        "{name}: not a packet capture: {why}; expected pcap or pcapng, as tcpdump -w and Wireshark write, plain or \
         compressed with gzip, zstd or lz4"
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
        /// The operating system's reason.
        source: io::Error,
    },
    /// The capture is invalid from some byte on; everything before it was read.
    #[error("{name}: damaged at byte {at}{}: {why}; the rest is skipped", unpacked(*.packed))]
    Damaged {
        /// The file, or `-`.
        name: String,
        /// The byte at which the damage starts, in the file or in its decompressed content.
        at: u64,
        /// Whether the file is compressed.
        packed: bool,
        /// What is wrong.
        why: String,
    },
    /// A file overlaps in time with too many others.
    #[error(
        "{name}: skipped: it overlaps in time with {limit} other captures, the most that can be read together; name fewer, \
         or merge them first (mergecap)"
    )]
    TooManySideBySide {
        /// The file.
        name: String,
        /// How many files are read together.
        limit: usize,
    },
    /// There is no such interface.
    #[cfg(feature = "live")]
    #[error("no network interface {name}; `ip link` lists them, `any` captures on all of them")]
    NoInterface {
        /// The requested name.
        name: String,
    },
    /// The kernel refused a step of opening a live capture.
    #[cfg(feature = "live")]
    #[error("live capture on {interface}: {step}: {source}{}", remedy(source))]
    Live {
        /// The requested interface.
        interface: String,
        /// The step that failed.
        step: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
}

fn unpacked(packed: bool) -> &'static str {
    if packed { " of the decompressed data" } else { "" }
}

#[cfg(feature = "live")]
fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::PermissionDenied => " (run as root or with CAP_NET_RAW)",
        io::ErrorKind::OutOfMemory => " (free memory for the capture ring buffer)",
        _ => "",
    }
}
