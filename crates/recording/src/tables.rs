//! One module per table: its columns, how an event becomes a row and a row an event.

pub(crate) mod block_ios;
pub(crate) mod broker_changes;
pub(crate) mod conclusions;
pub(crate) mod cpu_samples;
pub(crate) mod device;
pub(crate) mod dirty_throttles;
pub(crate) mod file_ops;
pub(crate) mod gc_pauses;
pub(crate) mod host_samples;
pub(crate) mod journal_commits;
pub(crate) mod kernel_spans;
pub(crate) mod lock_waits;
pub(crate) mod losses;
pub(crate) mod off_cpu;
pub(crate) mod reclaims;
pub(crate) mod requests;
pub(crate) mod socket_ops;
pub(crate) mod tcp_troubles;
