//! A captured packet and its link type. Does not look inside.

/// One captured packet, borrowed from the file, pipe or ring it was read from.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// When it was captured: `CLOCK_REALTIME`, nanoseconds since 1970-01-01 UTC.
    pub time_ns: i64,
    /// The type of its first header.
    pub link: LinkType,
    /// Its length on the link; more than `bytes` if a snap length cut it.
    pub original_len: u32,
    /// The captured bytes.
    pub bytes: &'a [u8],
}

/// The header at the start of a packet. Follows the LINKTYPE_ values of <https://www.tcpdump.org/linktypes.html>.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LinkType {
    /// BSD loopback: an address family in the capturing host's byte order (0).
    Null,
    /// Ethernet (1).
    Ethernet,
    /// IPv4 or IPv6 without a link header (101; 12 and 14 in old files; 228 and 229).
    RawIp,
    /// OpenBSD loopback: an address family in network byte order (108).
    Loop,
    /// Linux "cooked" capture (113).
    LinuxSll,
    /// Linux "cooked" capture, version 2 (276).
    LinuxSll2,
    /// A link type that is not supported.
    Other(u16),
}

impl LinkType {
    /// The link type with this number in a capture file.
    pub fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Null,
            1 => Self::Ethernet,
            12 | 14 | 101 | 228 | 229 => Self::RawIp,
            108 => Self::Loop,
            113 => Self::LinuxSll,
            276 => Self::LinuxSll2,
            other => Self::Other(other),
        }
    }
}
