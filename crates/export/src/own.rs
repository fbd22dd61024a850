//! What the exporting process itself takes, as it is told. Does not read it.

use crate::catalog::{self, Family};
use crate::encoding::Encoder;

/// A reading of the own process. What could not be read is absent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessUsage {
    /// User and system time, seconds.
    pub cpu_seconds: Option<f64>,
    /// Memory resident.
    pub resident_bytes: Option<u64>,
    /// Address space.
    pub virtual_bytes: Option<u64>,
    /// Open file descriptors.
    pub open_fds: Option<u64>,
    /// When the process was started, seconds since 1970.
    pub start_time_seconds: Option<f64>,
    /// Time spent in its BPF programs, seconds; only where that is measured.
    pub bpf_seconds: Option<f64>,
    /// How often they ran.
    pub bpf_runs: Option<u64>,
}

impl ProcessUsage {
    pub(crate) fn encode(&self, out: &mut dyn Encoder) {
        let count = |count: Option<u64>| count.map(|count| count as f64);
        let figures: [(&'static Family, Option<f64>); 7] = [
            (&catalog::BPF_TIME, self.bpf_seconds),
            (&catalog::BPF_RUNS, count(self.bpf_runs)),
            (&catalog::PROCESS_CPU, self.cpu_seconds),
            (&catalog::PROCESS_RESIDENT, count(self.resident_bytes)),
            (&catalog::PROCESS_VIRTUAL, count(self.virtual_bytes)),
            (&catalog::PROCESS_FDS, count(self.open_fds)),
            (&catalog::PROCESS_START, self.start_time_seconds),
        ];
        for (family, value) in figures {
            out.family(family);
            if let Some(value) = value {
                out.number(&[], value, None);
            }
        }
    }
}
