//! What this kernel and this user offer for probing. Decides nothing: see [`crate::plan`].

mod functions;
mod privileges;
mod tick;
mod tracepoints;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use libbpf_rs::{MapType, libbpf_sys};

pub use functions::Functions;
pub(crate) use privileges::has_helper;
pub use privileges::{Capabilities, Lockdown, PidNamespace};
pub use tracepoints::{Field, Format, Tracefs};

use crate::registry::MODULES;

/// The facts of a host.
#[expect(clippy::struct_excessive_bools, reason = "independent facts, not states of one thing")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// `uname -r`.
    pub kernel_release: String,
    /// Why the kernel refuses `bpf(2)`; `None` if it permits it.
    pub bpf_refused: Option<String>,
    /// BPF ring buffers (Linux 5.8).
    pub ring_buffer: bool,
    /// BTF of the kernel itself (`CONFIG_DEBUG_INFO_BTF`).
    pub btf: bool,
    /// Whether programs can find the file mapped at an address. `bpf_find_vma` does (Linux 5.17).
    pub find_vma: bool,
    /// Whether programs can find where the kernel accounts each CPU's time. That is `kernel_cpustat`: the kernel's BTF
    /// has the type, and its symbol table the address.
    pub cpu_times: bool,
    /// This process's effective capabilities.
    pub capabilities: Capabilities,
    /// The kernel's lockdown state.
    pub lockdown: Lockdown,
    /// Which pid namespace this process's ids belong to.
    pub pid_namespace: PidNamespace,
    /// How the tracepoints' formats were read.
    pub tracefs: Tracefs,
    /// The tracepoints of `registry` that exist, by group and name.
    pub tracepoints: BTreeMap<String, Format>,
    /// What the kernel offers for hooking its functions.
    pub functions: Functions,
    /// Programs that the kernel refused to load or attach, by name, with the reason; a survey tries none.
    pub refused: BTreeMap<String, String>,
    /// Whether jbd2 is in the kernel or loaded; its tracepoints exist only then.
    pub jbd2: bool,
    /// Whether block tracepoints pass the queue as their first argument. Those of block requests do before Linux 5.11.
    pub block_queue_argument: bool,
    /// Loaded modules of file systems and journals without BTF: nothing typed can be hooked in them.
    pub untyped_modules: BTreeSet<String>,
    /// Whether `/proc/kallsyms` shows addresses (`kernel.kptr_restrict`): they are needed to name stack frames.
    pub kallsyms: bool,
    /// `kernel.perf_event_max_stack`: deeper stacks lose their outermost frames.
    pub max_stack: Option<u32>,
    /// Timer ticks per second, the unit of jbd2's phases.
    pub hz: Option<u32>,
}

impl Facts {
    /// Surveys this host. Takes a tenth of a second if the tick rate must be measured; changes nothing.
    pub fn survey() -> Self {
        let kernel_release = read_line("/proc/sys/kernel/osrelease").unwrap_or_default();
        let bpf_refused = privileges::bpf_refused();
        let (tracefs, formats) = tracepoints::survey();
        Self {
            ring_buffer: bpf_refused.is_none() && MapType::RingBuf.is_supported().unwrap_or(false),
            functions: functions::survey(bpf_refused.as_deref()),
            bpf_refused,
            btf: Path::new("/sys/kernel/btf/vmlinux").exists(),
            find_vma: has_helper(libbpf_sys::BPF_PROG_TYPE_TRACEPOINT, libbpf_sys::BPF_FUNC_find_vma),
            cpu_times: functions::has_variable("kernel_cpustat") && crate::kallsyms::lists("kernel_cpustat"),
            capabilities: Capabilities::of_this_process(),
            lockdown: Lockdown::current(),
            pid_namespace: PidNamespace::current(),
            jbd2: Path::new("/sys/module/jbd2").exists()
                || Path::new("/proc/fs/jbd2").exists()
                || formats.keys().any(|name| name.starts_with("jbd2/")),
            tracefs,
            block_queue_argument: tracepoints::arguments("block_rq_issue") == Some(2),
            tracepoints: formats,
            untyped_modules: untyped_modules(),
            refused: BTreeMap::new(),
            kallsyms: crate::kallsyms::shows_addresses(),
            max_stack: read_line("/proc/sys/kernel/perf_event_max_stack").and_then(|text| text.parse().ok()),
            hz: tick::rate(&kernel_release),
            kernel_release,
        }
    }
}

/// The trimmed content of a one-line kernel file.
#[allow(clippy::disallowed_methods, reason = "/proc or /sys")]
fn read_line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// A built-in module has no `initstate`, and its types are in the kernel's own BTF.
fn untyped_modules() -> BTreeSet<String> {
    let loaded = MODULES.iter().filter(|name| Path::new("/sys/module").join(name).join("initstate").exists());
    let untyped = loaded.filter(|name| !Path::new("/sys/kernel/btf").join(name).exists());
    untyped.map(|name| (*name).to_owned()).collect()
}
