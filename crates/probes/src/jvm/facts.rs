//! What one process offers for probing its JVM, as data. Decides nothing: see [`super::JvmPlan`].

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use super::flags;
use super::library::Library;

/// The flag without which the monitors' probes are passed by.
const FLAG: &str = "DTraceMonitorProbes";

/// A process as the survey found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JvmFacts {
    /// The process.
    pub pid: u32,
    /// Where this process reaches its `libjvm.so`; else why it does not.
    pub library: Result<PathBuf, String>,
    /// The probes that are in it, by provider and name with a colon between.
    pub probes: BTreeSet<String>,
    /// Whether `DTraceMonitorProbes` is on, which `ExtendedDTraceProbes` switches on too; else why that is not known.
    pub monitor_probes: Result<bool, String>,
    /// Whether the kernel has probes in user space (`CONFIG_UPROBE_EVENTS`).
    pub uprobes: bool,
}

impl JvmFacts {
    /// Looks at a process; it is not stopped meanwhile. Reads its library, some 30 MB.
    pub fn survey(pid: u32) -> Self {
        let uprobes = Path::new("/sys/bus/event_source/devices/uprobe/type").exists();
        match Library::of(pid) {
            Ok(library) => Self {
                pid,
                monitor_probes: monitor_probes(pid, &library),
                library: Ok(library.path),
                probes: library.probes,
                uprobes,
            },
            Err(why) => Self {
                pid,
                library: Err(why.clone()),
                probes: BTreeSet::new(),
                monitor_probes: Err(why),
                uprobes,
            },
        }
    }
}

fn monitor_probes(pid: u32, library: &Library) -> Result<bool, String> {
    let memory = File::open(format!("/proc/{pid}/mem"))
        .map_err(|error| format!("the memory of process {pid} cannot be read: {error}"))?;
    flags::is_on(&memory, &library.exported, FLAG)
        .ok_or_else(|| format!("the flags of process {pid} are not where HotSpot's own tables say"))
}

#[cfg(test)]
mod tests {
    use super::JvmFacts;

    #[test]
    fn what_is_no_jvm_offers_nothing() {
        let facts = JvmFacts::survey(std::process::id());
        assert!(facts.library.is_err() && facts.probes.is_empty() && facts.monitor_probes.is_err());
    }
}
