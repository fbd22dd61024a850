//! Errors of carrying out a plan. Missing hooks are not errors: see [`crate::State`].

use std::io;

/// Why probes could not be attached or read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The plan uses no hook at all; its hooks say why.
    #[error("none of the kernel hooks can be used on this host: run as root on a kernel with BPF")]
    NothingToAttach,
    /// libbpf or the kernel refused the BPF object.
    #[error("the kernel refused the BPF programs: {source}{}", log_text(.log))]
    Load {
        /// libbpf's error.
        source: libbpf_rs::Error,
        /// The last lines of its log, including the verifier's.
        log: String,
    },
    /// The kernel refused to load or attach one program.
    #[error("the kernel refused the BPF program {program}: {why}")]
    Refused {
        /// Its name.
        program: String,
        /// The last message of the verifier or libbpf about it.
        why: String,
    },
    /// This process's `/proc` belongs to a pid namespace that the process is not in.
    #[error(
        "/proc belongs to a pid namespace that brokerscope is not in: run `mount -t proc proc /proc` in its own"
    )]
    ForeignProc,
    /// The process has no id in this pid namespace.
    #[error(
        "process {pid} is in a pid namespace that brokerscope's does not contain: run brokerscope in the \
         broker's (nsenter -t PID -p -m) or in the host's (docker run --pid=host; hostPID: true)"
    )]
    OtherPidNamespace {
        /// Its id in `/proc`.
        pid: u32,
    },
    /// The BPF object has no such part: the build is broken.
    #[error("the BPF object has no {what} named {name}")]
    NoSuchPart {
        /// Program or map.
        what: &'static str,
        /// Its name.
        name: String,
    },
    /// `perf_event_open` of a tracepoint failed.
    #[error("the tracepoint {tracepoint} could not be opened: {source}")]
    Tracepoint {
        /// Its name (`block/block_rq_issue`).
        tracepoint: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A loaded program could not be attached.
    #[error("the BPF program {program} could not be attached: {source}")]
    Attach {
        /// Its name.
        program: String,
        /// libbpf's error.
        source: libbpf_rs::Error,
    },
    /// The sampling clock could not be opened on some CPU.
    #[error("the perf event for CPU samples could not be opened: {0}; run as root or with CAP_PERFMON")]
    Sampling(io::Error),
    /// The ring buffer could not be set up.
    #[error("the ring buffer could not be set up: {0}")]
    Ring(libbpf_rs::Error),
    /// Waiting for or reading the ring buffer failed.
    #[error("reading the ring buffer failed: {0}")]
    Read(io::Error),
}

fn log_text(log: &str) -> String {
    if log.is_empty() { String::new() } else { format!("\n{}", log.trim_end()) }
}
