//! What one process offers for probing its JVM. Decides nothing: see [`super::JvmPlan`].

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use libbpf_rs::libbpf_sys;

use super::hotspot::{self, Tables};
use super::library::Library;
use crate::facts;

/// Without this flag the JVM skips the monitors' probes.
const FLAG: &str = "DTraceMonitorProbes";
/// An `ObjectMonitor` has about 200 bytes.
const MAX_MONITOR_BYTES: u64 = 4_096;

/// The facts of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JvmFacts {
    /// The process.
    pub pid: u32,
    /// Where this process can reach the other's `libjvm.so`; else why it cannot.
    pub library: Result<PathBuf, String>,
    /// The probes in it, as `provider:name`.
    pub probes: BTreeSet<String>,
    /// Whether `DTraceMonitorProbes` is on; else why that is unknown. `ExtendedDTraceProbes` also switches it on.
    pub monitor_probes: Result<bool, String>,
    /// Offset of the owner in an `ObjectMonitor`, in bytes; else why it is unknown.
    pub owner_at: Result<u64, String>,
    /// Whether programs can read the registers with which a thread entered the kernel. `bpf_task_pt_regs` does
    /// (Linux 5.15).
    pub call_registers: bool,
    /// Whether the kernel supports probes in user space (`CONFIG_UPROBE_EVENTS`).
    pub uprobes: bool,
}

impl JvmFacts {
    /// Surveys a process without stopping it. Reads its library, about 30 MB.
    pub fn survey(pid: u32) -> Self {
        let library = Library::of(pid);
        Self {
            pid,
            monitor_probes: read_tables(pid, &library, "flags", |tables| hotspot::is_on(tables, FLAG)),
            owner_at: read_tables(pid, &library, "monitors' owners", owner_at),
            probes: library.as_ref().map(|library| library.probes.clone()).unwrap_or_default(),
            library: library.map(|library| library.path),
            call_registers: facts::has_helper(
                libbpf_sys::BPF_PROG_TYPE_TRACEPOINT,
                libbpf_sys::BPF_FUNC_task_pt_regs,
            ),
            uprobes: Path::new("/sys/bus/event_source/devices/uprobe/type").exists(),
        }
    }
}

/// Reads the process's own tables.
#[allow(clippy::disallowed_methods, reason = "/proc")]
fn read_tables<T>(
    pid: u32,
    library: &Result<Library, String>,
    what: &str,
    read: impl FnOnce(&Tables<'_>) -> Option<T>,
) -> Result<T, String> {
    let library = library.as_ref().map_err(Clone::clone)?;
    let memory = File::open(format!("/proc/{pid}/mem"))
        .map_err(|error| format!("the memory of process {pid} cannot be read: {error}"))?;
    read(&Tables { memory: &memory, exported: &library.exported })
        .ok_or_else(|| format!("the {what} of process {pid} are not where HotSpot's vmStructs tables say"))
}

fn owner_at(tables: &Tables<'_>) -> Option<u64> {
    tables.field("ObjectMonitor", "_owner", false).filter(|&at| at < MAX_MONITOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::JvmFacts;

    #[test]
    fn process_without_a_jvm_has_no_probes() {
        let facts = JvmFacts::survey(std::process::id());
        assert!(facts.library.is_err() && facts.probes.is_empty());
        assert!(facts.monitor_probes.is_err() && facts.owner_at.is_err());
    }
}
