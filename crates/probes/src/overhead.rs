//! What the BPF programs cost, by the kernel's own count. Does not say what that means for the broker.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libbpf_rs::{Object, ProgramImpl, libbpf_sys};

/// One program's runs since it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCost {
    /// Its name in `bpf/`.
    pub program: String,
    /// Time spent in it, nanoseconds; 0 unless BPF statistics were on.
    pub run_time_ns: u64,
    /// How often it ran; 0 unless BPF statistics were on.
    pub run_count: u64,
    /// Runs that the kernel skipped because another program was running on that CPU (Linux 5.12).
    pub skipped: u64,
}

/// The costs of the programs that were loaded.
pub(crate) fn costs(object: &Object) -> Vec<ProgramCost> {
    let programs = object.progs().filter(ProgramImpl::autoload);
    let costs = programs.filter_map(|program| {
        let info = info(program.as_fd())?;
        Some(ProgramCost {
            program: program.name().to_string_lossy().into_owned(),
            run_time_ns: info.run_time_ns,
            run_count: info.run_cnt,
            skipped: info.recursion_misses,
        })
    });
    costs.collect()
}

/// Runs that the kernel skipped, of all programs.
pub(crate) fn skipped(object: &Object) -> u64 {
    costs(object).iter().map(|cost| cost.skipped).sum()
}

fn info(program: BorrowedFd<'_>) -> Option<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = size_of_val(&info) as u32;
    // SAFETY: `info` is writable for `length` bytes, and with all lengths inside it zero the kernel follows
    // no pointer in it.
    let result =
        unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length) };
    (result == 0).then_some(info)
}

/// Switches the kernel's BPF run-time statistics on until the descriptor is closed (Linux 5.8). They cost
/// two clock readings per run, for every BPF program of the host.
pub fn count_run_time() -> Option<OwnedFd> {
    // SAFETY: the call takes a number only.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    // SAFETY: the kernel has just returned this descriptor and nobody else has it.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}
