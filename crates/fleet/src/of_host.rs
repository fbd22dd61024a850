//! How long a broker was sampled, and how many requests its devices served. Does not know which of the devices hold the
//! broker's files.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{HostSample, HostScope, Nanos};

/// A stack of volumes, arrays and disks has a few dozen devices at most.
const MAX_DEVICES: usize = 256;
/// Every sample of the host contains this figure, which shows how long was sampled.
const ALWAYS: &str = "cpu_count";
const READS: &str = "reads_per_second";
const WRITES: &str = "writes_per_second";

/// Adds up samples.
#[derive(Default)]
pub struct HostStats {
    sampled_ns: i64,
    /// When the host was first and last sampled.
    pub span: Option<(Nanos, Nanos)>,
    /// Reads and writes, by device.
    served: BTreeMap<Arc<str>, [f64; 2]>,
}

impl HostStats {
    /// Whether such samples are counted.
    pub fn is_counted(scope: HostScope, metric: &str) -> bool {
        matches!((scope, metric), (HostScope::Host, ALWAYS) | (HostScope::Device, READS | WRITES))
    }

    /// Counts a sample.
    pub fn host_sample(&mut self, sample: &HostSample) {
        let length = (sample.end - sample.start).at_least_zero().0;
        let which = match (sample.scope, &*sample.metric) {
            (HostScope::Host, ALWAYS) => {
                self.sampled_ns = self.sampled_ns.saturating_add(length);
                let (first, last) = self.span.unwrap_or((sample.start, sample.end));
                self.span = Some((first.min(sample.start), last.max(sample.end)));
                return;
            }
            (HostScope::Device, READS) => 0,
            (HostScope::Device, WRITES) => 1,
            _ => return,
        };
        let is_known = self.served.len() < MAX_DEVICES || self.served.contains_key(&sample.name);
        if !is_known || !sample.value.is_finite() || sample.value < 0.0 {
            return;
        }
        let served = self.served.entry(Arc::clone(&sample.name)).or_default();
        if let Some(sum) = served.get_mut(which) {
            *sum += sample.value * length as f64 / 1e9;
        }
    }

    /// The sampled time, in seconds.
    pub(crate) fn seconds(&self) -> f64 {
        self.sampled_ns as f64 / 1e9
    }

    /// Reads and writes served by the devices that `holds` selects; `None` if there are no samples of any.
    pub(crate) fn served(&self, holds: impl Fn(&str) -> bool) -> Option<[f64; 2]> {
        let of_broker = self.served.iter().filter(|(device, _)| holds(device)).map(|(_, served)| served);
        of_broker
            .copied()
            .reduce(|[reads, writes], [more_reads, more_writes]| [reads + more_reads, writes + more_writes])
    }
}
