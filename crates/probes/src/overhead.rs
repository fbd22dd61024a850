//! What the BPF programs cost, by the kernel's own accounting.
//!
//! Does not know what that means for the broker.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read as _;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use libbpf_rs::{Object, ProgramImpl, libbpf_sys};

use crate::slice::Slice;

/// One program's runs since it was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramCost {
    /// Its name in `bpf/`.
    pub program: String,
    /// Time spent in it, nanoseconds; 0 unless BPF statistics were on.
    pub run_time_ns: u64,
    /// Number of runs; 0 unless BPF statistics were on.
    pub run_count: u64,
    /// Runs the kernel skipped because another program ran on that CPU (Linux 5.12).
    pub skipped: u64,
}

/// Costs of the loaded programs.
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

/// Sum of the runs that the kernel skipped.
pub(crate) fn skipped(object: &Object) -> u64 {
    costs(object).iter().map(|cost| cost.skipped).sum()
}

/// Run time of a program since it was loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTime {
    /// Time spent in it, nanoseconds, while BPF statistics were on.
    pub run_time_ns: u64,
    /// Number of runs meanwhile.
    pub runs: u64,
}

/// The link of a program's descriptor (`bpf_prog_new_fd`, kernel/bpf/syscall.c).
const PROGRAM: &str = "anon_inode:bpf-prog";

/// The BPF programs that a process has loaded.
///
/// They are descriptors, and the kernel reports each in `fdinfo` without a call of bpf(2), which would delay programs
/// and needs a capability.
pub struct Programs {
    fdinfo: Vec<PathBuf>,
}

impl Programs {
    /// Lists a process's current programs, by its name in `/proc`. Reads the link of each descriptor, which takes a tenth of
    /// the time that reading its `fdinfo` takes: a watch has hundreds of other descriptors.
    pub fn of(process: &str) -> Self {
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let programs = in_slices(descriptors).filter(|descriptor| {
            fs::read_link(descriptor.path()).is_ok_and(|link| link.as_os_str() == PROGRAM)
        });
        let fdinfo = Path::new("/proc").join(process).join("fdinfo");
        Self { fdinfo: programs.map(|descriptor| fdinfo.join(descriptor.file_name())).collect() }
    }

    /// Run time of each program so far, by its id.
    pub fn run_times(&self) -> BTreeMap<u32, RunTime> {
        in_slices(self.fdinfo.iter()).filter_map(|path| read_program(path)).collect()
    }
}

/// Rests between two descriptors whenever a slice is over: each takes some microseconds.
fn in_slices<D>(descriptors: impl Iterator<Item = D>) -> impl Iterator<Item = D> {
    let mut slice = Slice::new(Slice::LONG);
    descriptors.inspect(move |_| {
        slice.rest_if_over(|| false);
    })
}

/// A program's entry has half as many, so one call reads it all.
const MAX_FDINFO_BYTES: usize = 1_024;

#[allow(clippy::disallowed_methods, reason = "/proc")]
fn read_program(path: &Path) -> Option<(u32, RunTime)> {
    let mut fdinfo = [0; MAX_FDINFO_BYTES];
    let length = File::open(path).ok()?.read(&mut fdinfo).ok()?;
    program(std::str::from_utf8(fdinfo.get(..length)?).ok()?)
}

/// A program's id and run time (`bpf_prog_show_fdinfo`, kernel/bpf/syscall.c); `None` for another descriptor.
fn program(fdinfo: &str) -> Option<(u32, RunTime)> {
    let field =
        |name: &str| fdinfo.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    field("prog_type:")?;
    let (run_time_ns, runs) = (field("run_time_ns:")?, field("run_cnt:")?);
    Some((u32::try_from(field("prog_id:")?).ok()?, RunTime { run_time_ns, runs }))
}

fn info(program: BorrowedFd<'_>) -> Option<libbpf_sys::bpf_prog_info> {
    let mut info = libbpf_sys::bpf_prog_info::default();
    let mut length = size_of_val(&info) as u32;
    // SAFETY: `info` is writable for `length` bytes, and because all lengths inside it are zero, the kernel follows no
    // pointer in it.
    let result =
        unsafe { libbpf_sys::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut length) };
    (result == 0).then_some(info)
}

/// Switches the kernel's BPF run-time statistics on (Linux 5.8). They stay on until the descriptor is closed.
///
/// They cost two clock readings per run, for every BPF program of the host.
pub fn count_run_time() -> Option<OwnedFd> {
    // SAFETY: the call takes a number only.
    let fd = unsafe { libbpf_sys::bpf_enable_stats(libbpf_sys::BPF_STATS_RUN_TIME) };
    // SAFETY: the kernel has just returned this descriptor and nothing else owns it.
    (fd >= 0).then(|| unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::{RunTime, program};

    #[test]
    fn parses_run_time_only_from_program_descriptors() {
        let fdinfo = "pos:\t0\nflags:\t02000000\nprog_type:\t17\nprog_jited:\t1\nprog_tag:\tab\nmemlock:\t4096\n\
                      prog_id:\t42\nrun_time_ns:\t1500\nrun_cnt:\t3\nrecursion_misses:\t0\n";
        assert_eq!(program(fdinfo), Some((42, RunTime { run_time_ns: 1_500, runs: 3 })));
        assert_eq!(program("pos:\t0\nflags:\t0100002\nlink_type:\traw_tracepoint\nprog_id:\t42\n"), None);
        assert_eq!(program(""), None);
    }
}
