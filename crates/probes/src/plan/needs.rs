//! What a purpose needs of a host, and the reason and remedy if the host lacks it.

use super::{Mechanism, Point, Purpose, State};
use crate::facts::{Capabilities, Facts, Field, Format, Lockdown, PidNamespace, Tracefs};
use crate::registry::{Declaration, Function, Need, Tracepoint, TracepointField};

const SHARED_PIDS: &str = "run it in the host's pid namespace (docker run --pid=host; hostPID: true)";

/// The tracepoints to use, or the first thing that is missing.
pub(super) fn points(
    declaration: &Declaration,
    mechanism: Mechanism,
    facts: &Facts,
) -> Result<Vec<Point>, State> {
    host(declaration, facts)?;
    if mechanism != Mechanism::Tracepoints {
        return Ok(Vec::new());
    }
    let is_there = |tracepoint: &&Tracepoint| {
        // A kernel that has tracepoints of system calls, but not this one, does not have the call.
        !tracepoint.optional || facts.tracepoints.contains_key(tracepoint.name)
    };
    declaration.tracepoints.iter().filter(is_there).map(|tracepoint| locate(tracepoint, facts)).collect()
}

/// The functions to hook, which cost threads that do not call them nothing; or the first thing that is missing.
pub(super) fn functions(purpose: Purpose, facts: &Facts) -> Result<Vec<&'static Function>, State> {
    let declaration = purpose.declaration();
    host(declaration, facts)?;
    if let Some(refused) = &facts.functions.refused {
        return Err(unhookable(refused, facts));
    }
    let is_known = |function: &Function| facts.functions.known.contains(function.name);
    if let Some(absent) = declaration.functions.iter().find(|it| !it.optional && !is_known(it)) {
        return Err(missing_without_remedy(format!("this kernel has no function {}", absent.name)));
    }
    let known: Vec<_> = declaration.functions.iter().filter(|function| is_known(function)).collect();
    if known.is_empty() {
        return Err(missing_without_remedy(match purpose {
            Purpose::Ext4Functions => "ext4 is not loaded, or has no BTF",
            Purpose::XfsFunctions => "xfs is not loaded, or has no BTF",
            Purpose::BtrfsFunctions => "btrfs is not loaded, or has no BTF",
            _ => "this kernel has none of its functions",
        }));
    }
    Ok(known)
}

/// Whether a function of the kernel can be hooked.
pub(crate) fn permits_function(name: &str, facts: &Facts) -> Result<(), State> {
    match &facts.functions.refused {
        Some(refused) => Err(unhookable(refused, facts)),
        None if facts.functions.known.contains(name) => Ok(()),
        None => Err(missing_without_remedy(format!("this kernel has no function {name}"))),
    }
}

fn unhookable(refused: &str, facts: &Facts) -> State {
    missing(
        format!("the kernel does not let programs hook its functions ({refused})"),
        &functions_remedy(facts),
    )
}

/// Checks what probes of a single process need.
pub(crate) fn permits_process(facts: &Facts) -> Result<(), State> {
    permits_bpf(facts)?;
    meets(Need::Process, facts)
}

fn host(declaration: &Declaration, facts: &Facts) -> Result<(), State> {
    permits_bpf(facts)?;
    declaration.needs.iter().try_for_each(|need| meets(*need, facts))
}

/// Checks that the host has one thing that a purpose needs.
pub(crate) fn meets(need: Need, facts: &Facts) -> Result<(), State> {
    match (need, &facts.pid_namespace) {
        (Need::KernelThreads, PidNamespace::Below(_)) => {
            Err(missing("the kernel's threads are outside this pid namespace", SHARED_PIDS))
        }
        (Need::Process, PidNamespace::Unknown(why)) => Err(missing(
            format!("the broker's pid in the host's pid namespace is not known: {why}"),
            SHARED_PIDS,
        )),
        (Need::Btf, _) if !facts.btf => Err(missing(
            "this kernel has no BTF (/sys/kernel/btf/vmlinux)",
            "a kernel with CONFIG_DEBUG_INFO_BTF=y",
        )),
        (Need::Symbols, _) if !facts.kallsyms => Err(missing(
            "/proc/kallsyms shows no addresses",
            "sysctl kernel.kptr_restrict=1 (or 0), and CAP_SYSLOG unless root",
        )),
        (Need::FindVma, _) if !facts.find_vma => Err(missing(
            "this kernel's BPF programs cannot find the file mapped at an address",
            "Linux 5.17 or newer",
        )),
        (Need::CpuTimes, _) if !facts.cpu_times => Err(missing(
            "the kernel does not say where it counts the time of each CPU (kernel_cpustat)",
            "a kernel with CONFIG_KALLSYMS_ALL=y and BTF of its variables",
        )),
        (Need::TickRate, _) if facts.hz.is_none() => Err(missing(
            "the kernel's HZ, in which jbd2 counts, is unknown",
            "make /boot/config-$(uname -r) readable",
        )),
        (Need::Typed(name), _) if !facts.tracepoints.contains_key(name) => {
            Err(no_such_tracepoint(name, facts))
        }
        // It is a module's tracepoint: its arguments have types only if the module has BTF.
        (Need::Typed(name), _) => match name.split_once('/') {
            Some((module, _)) if facts.untyped_modules.contains(module) => {
                Err(missing(format!("the module {module} has no BTF"), "Linux 5.11 or newer"))
            }
            _ => Ok(()),
        },
        (
            Need::Process
            | Need::KernelThreads
            | Need::Btf
            | Need::Symbols
            | Need::FindVma
            | Need::CpuTimes
            | Need::TickRate,
            _,
        ) => Ok(()),
    }
}

fn missing(why: impl Into<String>, remedy: &str) -> State {
    State::Missing { why: why.into(), remedy: Some(remedy.to_owned()) }
}

/// Missing, without a remedy.
fn missing_without_remedy(why: impl Into<String>) -> State {
    State::Missing { why: why.into(), remedy: None }
}

pub(crate) fn permits_bpf(facts: &Facts) -> Result<(), State> {
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

/// The privileges that BPF needs and this process lacks, and where to grant them.
///
/// The other capabilities named let it read the broker's files, processes and packets, the tracepoints' formats and the
/// kernel's symbols.
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

fn functions_remedy(facts: &Facts) -> String {
    let what = match facts.lockdown {
        Lockdown::Integrity => "boot with lockdown=none",
        Lockdown::Unknown if facts.functions.is_forbidden() => {
            "boot with lockdown=none, if `mount -t securityfs nodev /sys/kernel/security` shows that it is on in \
             /sys/kernel/security/lockdown"
        }
        _ => {
            "Linux 5.11 or newer with CONFIG_DEBUG_INFO_BTF_MODULES=y and \
             CONFIG_DYNAMIC_FTRACE_WITH_DIRECT_CALLS=y"
        }
    };
    format!("{what}; without it, tracepoints give everything but exact durations of kernel functions")
}

fn no_such_tracepoint(name: &str, facts: &Facts) -> State {
    if let Tracefs::Missing(why) = &facts.tracefs {
        return missing(
            format!("tracefs cannot be read: {why}"),
            "mount -t tracefs nodev /sys/kernel/tracing, and CAP_DAC_READ_SEARCH unless root",
        );
    }
    // Tracepoints of file systems come with their modules.
    match name.split_once('/').map_or(name, |(group, _)| group) {
        "jbd2" if !facts.jbd2 => {
            missing_without_remedy("jbd2 is not loaded: no ext4 file system with a journal is mounted")
        }
        "ext4" => missing_without_remedy("ext4 is not loaded, or older than its fast commits (Linux 5.10)"),
        "xfs" => missing_without_remedy(
            "xfs is not loaded, so no XFS file system is mounted, or it is older than Linux 5.9",
        ),
        "btrfs" => missing_without_remedy("btrfs is not loaded: no btrfs file system is mounted"),
        "syscalls" => {
            missing(format!("this kernel has no tracepoint {name}"), "a kernel with CONFIG_FTRACE_SYSCALLS=y")
        }
        _ => missing_without_remedy(format!("this kernel has no tracepoint {name}")),
    }
}

fn locate(tracepoint: &'static Tracepoint, facts: &Facts) -> Result<Point, State> {
    let format =
        facts.tracepoints.get(tracepoint.name).ok_or_else(|| no_such_tracepoint(tracepoint.name, facts))?;
    let fields = tracepoint.fields.iter().map(|field| locate_field(tracepoint, field, format));
    Ok(Point { tracepoint, id: format.id, fields: fields.collect::<Result<_, _>>()? })
}

/// Locates a field. A missing field or another size means a layout that this program does not know.
fn locate_field(tracepoint: &Tracepoint, field: &TracepointField, format: &Format) -> Result<Field, State> {
    let unknown = |what: String| {
        missing(
            format!("the tracepoint {} {what}: this kernel's layout is not supported", tracepoint.name),
            "report this kernel's release (uname -r) to brokerscope",
        )
    };
    match format.fields.get(field.name) {
        Some(found) if (field.min_bytes..=field.max_bytes).contains(&found.size) => Ok(*found),
        Some(found) => Err(unknown(format!("has a field {} of {} bytes", field.name, found.size))),
        None if field.min_bytes == 0 => Ok(Field { offset: 0, size: 0 }),
        None => Err(unknown(format!("has no field {}", field.name))),
    }
}
