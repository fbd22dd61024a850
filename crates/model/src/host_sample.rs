//! What the host, its devices and the broker as a whole did in a stretch of time. Does not judge it.

use std::sync::Arc;

use crate::Nanos;

/// One figure of one thing over about a second. Rates are per second of `end - start`; the metrics, their units
/// and sources are listed where they are read.
#[derive(Clone, Debug, PartialEq)]
pub struct HostSample {
    /// The reading before.
    pub start: Nanos,
    /// This reading.
    pub end: Nanos,
    /// What kind of thing it is of.
    pub scope: HostScope,
    /// Which one: a device, an interface, a group of threads, a cgroup; empty for the host itself.
    pub name: Arc<str>,
    /// The figure's name with its unit (`util_ratio`, `read_bytes_per_second`).
    pub metric: Arc<str>,
    /// Its value.
    pub value: f64,
}

/// What a sample is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HostScope {
    /// A block device, as iostat counts.
    Device,
    /// A network interface.
    Interface,
    /// The processor time of the broker's threads of one role.
    Threads,
    /// The broker's process.
    Process,
    /// The broker's cgroup.
    Cgroup,
    /// The host: memory, pressure, TCP.
    Host,
}

impl HostScope {
    /// Every scope.
    pub const ALL: [Self; 6] =
        [Self::Device, Self::Interface, Self::Threads, Self::Process, Self::Cgroup, Self::Host];

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Interface => "interface",
            Self::Threads => "threads",
            Self::Process => "process",
            Self::Cgroup => "cgroup",
            Self::Host => "host",
        }
    }

    /// The scope of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scope| scope.as_str() == name)
    }
}
