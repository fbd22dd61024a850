//! What the host, its devices and the broker as a whole did in a stretch of time. Does not judge it.

use std::sync::Arc;

use crate::Nanos;

row! {
    host_sample_row =>
    /// One figure of one thing over about a second. Rates are per second of `end - start`; the metrics, their units
    /// and sources are listed where they are read.
    #[derive(Clone, Debug, PartialEq)]
    pub struct HostSample {
        /// The reading before.
        start: Nanos as "start_ns",
        /// This reading.
        end: Nanos as "end_ns",
        /// What kind of thing it is of.
        scope: HostScope,
        /// Which one: a device, an interface, a group of threads, a cgroup; empty for the host itself.
        name: Arc<str>,
        /// The figure's name with its unit (`util_ratio`, `read_bytes_per_second`).
        metric: Arc<str>,
        /// Its value.
        value: f64,
    }
}

named! {
    /// What a sample is of.
    pub enum HostScope {
        /// A block device, as iostat counts.
        Device = "device",
        /// A network interface.
        Interface = "interface",
        /// The processor time of the broker's threads of one role.
        Threads = "threads",
        /// The broker's process.
        Process = "process",
        /// The broker's cgroup.
        Cgroup = "cgroup",
        /// The host: memory, pressure, TCP.
        Host = "host",
    }
}
