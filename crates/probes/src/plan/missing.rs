//! What a purpose needs of a host, and what to say where the host lacks it.

use super::{Point, Purpose, State};
use crate::facts::{Capabilities, Facts, Field, Format, Lockdown, PidNamespace, Tracefs};
use crate::tracepoints::{self, Absent, Needed, NeededField};

/// The tracepoints to use, or the first thing that is missing.
pub(super) fn check(purpose: Purpose, facts: &Facts) -> Result<Vec<Point>, State> {
    check_host(purpose, facts)?;
    let needed = purpose.tracepoints(facts).iter().filter(|needed| !is_needless(needed, facts));
    needed.map(|needed| place(needed, facts)).collect()
}

/// What probes of one process alone need, whatever they are on.
pub(crate) fn permits_process(facts: &Facts) -> Result<(), State> {
    permitted(facts)?;
    knows_process_ids(facts)
}

/// What the purpose needs by whatever hooks it is served.
pub(super) fn check_host(purpose: Purpose, facts: &Facts) -> Result<(), State> {
    permitted(facts)?;
    if filters_by_process(purpose) {
        same_process_ids(purpose, facts)?;
    }
    if reads_kernel_structures(purpose) {
        has_btf(facts)?;
    }
    match purpose {
        Purpose::KernelStacks => has_names(facts),
        Purpose::CommitPhases => has_tick_rate(facts),
        Purpose::BtrfsCommits => has_typed_btrfs(facts),
        Purpose::MappedSyncs => finds_mappings(facts),
        _ => Ok(()),
    }
}

/// Block requests and what commits for everyone are observed for the whole host.
fn filters_by_process(purpose: Purpose) -> bool {
    !matches!(
        purpose,
        Purpose::JournalCommits
            | Purpose::CommitPhases
            | Purpose::BlockIo
            | Purpose::BlockQueue
            | Purpose::FastCommits
            | Purpose::XfsLogGrants
            | Purpose::XfsLogWrites
            | Purpose::BtrfsCommits
    )
}

/// Files and tasks are found by CO-RE; the other programs read tracepoints' records only.
fn reads_kernel_structures(purpose: Purpose) -> bool {
    matches!(
        purpose,
        Purpose::FileWrites
            | Purpose::FileReads
            | Purpose::FileTransfers
            | Purpose::FileSyncs
            | Purpose::FileSizes
            | Purpose::FileNames
            | Purpose::FileOpens
            | Purpose::MappedSyncs
            | Purpose::OffCpu
            | Purpose::Wakeups
            | Purpose::BlockQueue
            | Purpose::BtrfsCommits
            | Purpose::SocketOps
            | Purpose::TcpRetransmits
    )
}

fn missing(why: impl Into<String>, remedy: &str) -> State {
    State::Missing { why: why.into(), remedy: Some(remedy.to_owned()) }
}

fn permitted(facts: &Facts) -> Result<(), State> {
    if let Some(refused) = &facts.bpf_refused {
        return Err(missing(
            format!("the kernel does not let this user use BPF ({refused})"),
            &privileges(facts),
        ));
    }
    if facts.lockdown == Lockdown::Confidentiality {
        return Err(missing(
            "kernel lockdown \"confidentiality\" forbids BPF programs to read kernel memory",
            "boot with lockdown=integrity",
        ));
    }
    if !facts.ring_buffer {
        return Err(missing("this kernel has no BPF ring buffer", "Linux 5.8 or newer"));
    }
    Ok(())
}

/// What BPF takes and this process lacks, and where to say so. The others that are named let it read the broker's
/// files, processes and packets, the tracepoints' formats and the kernel's symbols.
fn privileges(facts: &Facts) -> String {
    let needed = [(Capabilities::BPF, "CAP_BPF"), (Capabilities::PERFMON, "CAP_PERFMON")];
    let lacking = needed.iter().filter(|(number, _)| !facts.capabilities.has(*number)).map(|(_, name)| *name);
    let lacking = lacking.collect::<Vec<_>>().join(" and ");
    let lacking = if lacking.is_empty() {
        "it has CAP_BPF and CAP_PERFMON; before Linux 5.11 also set LimitMEMLOCK=infinity, elsewhere seccomp may forbid bpf(2)"
            .to_owned()
    } else {
        format!("it lacks {lacking}")
    };
    format!(
        "{lacking}: run as root, or setcap cap_bpf,cap_perfmon,cap_net_raw,cap_sys_ptrace,cap_dac_read_search,\
         cap_syslog+ep on the binary; systemd: AmbientCapabilities=CAP_BPF CAP_PERFMON CAP_NET_RAW CAP_SYS_PTRACE \
         CAP_DAC_READ_SEARCH CAP_SYSLOG; Kubernetes: securityContext.capabilities.add: [BPF, PERFMON, NET_RAW, \
         SYS_PTRACE, DAC_READ_SEARCH, SYSLOG]"
    )
}

const SHARED_PIDS: &str = "run it in the host's pid namespace (docker run --pid=host; hostPID: true)";

fn same_process_ids(purpose: Purpose, facts: &Facts) -> Result<(), State> {
    if purpose == Purpose::KernelThreads && matches!(facts.pid_namespace, PidNamespace::Below(_)) {
        return Err(missing("the kernel's threads are outside this pid namespace", SHARED_PIDS));
    }
    knows_process_ids(facts)
}

fn knows_process_ids(facts: &Facts) -> Result<(), State> {
    match &facts.pid_namespace {
        PidNamespace::Root | PidNamespace::Below(_) => Ok(()),
        PidNamespace::Unknown(why) => {
            Err(missing(format!("the kernel's number for the broker is not known: {why}"), SHARED_PIDS))
        }
    }
}

fn has_btf(facts: &Facts) -> Result<(), State> {
    if facts.btf {
        return Ok(());
    }
    Err(missing("this kernel has no BTF (/sys/kernel/btf/vmlinux)", "a kernel with CONFIG_DEBUG_INFO_BTF=y"))
}

fn has_names(facts: &Facts) -> Result<(), State> {
    if facts.kallsyms {
        return Ok(());
    }
    Err(missing(
        "/proc/kallsyms shows no addresses",
        "sysctl kernel.kptr_restrict=1 (or 0), and CAP_SYSLOG for who is not root",
    ))
}

fn finds_mappings(facts: &Facts) -> Result<(), State> {
    if facts.find_vma {
        return Ok(());
    }
    Err(missing(
        "this kernel's BPF programs cannot find the file mapped at an address",
        "Linux 5.17 or newer",
    ))
}

fn has_tick_rate(facts: &Facts) -> Result<(), State> {
    if facts.hz.is_some() {
        return Ok(());
    }
    Err(missing(
        "the kernel's HZ, in which jbd2 counts, is unknown",
        "make /boot/config-$(uname -r) readable",
    ))
}

/// A kernel that has tracepoints of system calls, but not of this one, does not have the call.
fn is_needless(needed: &Needed, facts: &Facts) -> bool {
    needed.absent == Absent::Fine && !facts.tracepoints.contains_key(needed.name)
}

/// The tracepoint is a module's: its arguments have types only where the module brings them.
fn has_typed_btrfs(facts: &Facts) -> Result<(), State> {
    if !facts.tracepoints.contains_key(tracepoints::BTRFS_COMMIT) {
        return Err(no_such_tracepoint(tracepoints::BTRFS_COMMIT, facts));
    }
    if facts.untyped_modules.contains("btrfs") {
        return Err(missing("the module btrfs has no BTF", "Linux 5.11 or newer"));
    }
    Ok(())
}

fn place(needed: &Needed, facts: &Facts) -> Result<Point, State> {
    let format = facts.tracepoints.get(needed.name).ok_or_else(|| no_such_tracepoint(needed.name, facts))?;
    let fields = needed.fields.iter().map(|field| locate(needed, field, format)).collect::<Result<_, _>>()?;
    Ok(Point { name: needed.name, id: format.id, program: needed.program, fields })
}

fn no_such_tracepoint(name: &str, facts: &Facts) -> State {
    if let Tracefs::Missing(why) = &facts.tracefs {
        return missing(
            format!("tracefs cannot be read: {why}"),
            "mount -t tracefs nodev /sys/kernel/tracing, and CAP_DAC_READ_SEARCH for who is not root",
        );
    }
    if let Some(why) = not_loaded(name, facts) {
        return State::Missing { why: why.to_owned(), remedy: None };
    }
    if name.starts_with("syscalls/") {
        return missing(
            format!("this kernel has no tracepoint {name}"),
            "a kernel with CONFIG_FTRACE_SYSCALLS=y",
        );
    }
    State::Missing { why: format!("this kernel has no tracepoint {name}"), remedy: None }
}

/// File systems bring their tracepoints with them.
fn not_loaded(tracepoint: &str, facts: &Facts) -> Option<&'static str> {
    match tracepoint.split_once('/')?.0 {
        "jbd2" if !facts.jbd2 => Some("jbd2 is not loaded: no ext4 file system with a journal is mounted"),
        "ext4" => Some("ext4 is not loaded, or older than its fast commits (Linux 5.10)"),
        "xfs" => Some("xfs is not loaded, so no XFS file system is mounted, or it is older than Linux 5.9"),
        "btrfs" => Some("btrfs is not loaded: no btrfs file system is mounted"),
        _ => None,
    }
}

/// A field that is gone or has another size means something this program does not know.
fn locate(needed: &Needed, field: &NeededField, format: &Format) -> Result<Field, State> {
    let unknown = |what: String| State::Missing {
        why: format!("the tracepoint {} {what}: this kernel is not known", needed.name),
        remedy: Some("report this kernel's release to brokerscope".to_owned()),
    };
    let Some(found) = format.fields.get(field.name) else {
        let does_without = field.min == 0;
        let nowhere = Field { offset: 0, size: 0 };
        return if does_without { Ok(nowhere) } else { Err(unknown(format!("has no field {}", field.name))) };
    };
    if (field.min..=field.max).contains(&found.size) {
        return Ok(*found);
    }
    Err(unknown(format!("has a field {} of {} bytes", field.name, found.size)))
}
