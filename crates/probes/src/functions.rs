//! The kernel's functions that BPF programs can hook, where it allows that: those of system calls, and those of file
//! systems whose length is reported. One table; what a kernel really has is in [`crate::facts`].

use crate::tracepoints::{self, Absent, Needed};

/// A function of the kernel and the programs for its entry and its return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name (`__x64_sys_write`).
    pub name: String,
    /// The program at its entry.
    pub entry: String,
    /// The program at its return.
    pub exit: String,
    /// What to do on a kernel that has no such function.
    pub absent: Absent,
}

/// Modules that may hold them. Where one is built in, its functions are the kernel's own.
pub(crate) const MODULES: &[&str] = &["ext4", "jbd2", "xfs", "btrfs"];

/// What the kernel prepends to a system call's name (`arch/*/include/asm/syscall_wrapper.h`).
#[cfg(target_arch = "aarch64")]
const SYSTEM_CALL: &str = "__arm64_sys_";
#[cfg(not(target_arch = "aarch64"))]
const SYSTEM_CALL: &str = "__x64_sys_";

/// The functions of the system calls whose tracepoints a table lists.
pub(crate) fn of_calls(table: &[Needed]) -> Vec<Function> {
    table.iter().filter_map(of_call).collect()
}

fn of_call(needed: &Needed) -> Option<Function> {
    let call = needed.name.strip_prefix("syscalls/sys_enter_")?;
    Some(Function {
        name: format!("{SYSTEM_CALL}{call}"),
        entry: format!("{call}_called"),
        exit: format!("{call}_returned"),
        absent: needed.absent,
    })
}

/// ext4's and its journal's (`bpf/span_functions.h`).
pub(crate) const EXT4: &[&str] =
    &["ext4_file_write_iter", "ext4_sync_file", "ext4_dirty_inode", "jbd2_log_wait_commit"];
/// XFS's.
pub(crate) const XFS: &[&str] =
    &["xfs_file_write_iter", "xfs_file_fsync", "xfs_log_force", "xfs_log_force_seq"];
/// btrfs's.
pub(crate) const BTRFS: &[&str] = &["btrfs_file_write_iter", "btrfs_sync_file", "btrfs_commit_transaction"];

/// A file system's functions: those that a kernel does not have are done without.
pub(crate) fn of_file_system(names: &[&str]) -> Vec<Function> {
    let functions = names.iter().map(|name| Function {
        name: (*name).to_owned(),
        entry: format!("{name}_enter"),
        exit: format!("{name}_leave"),
        absent: Absent::Fine,
    });
    functions.collect()
}

/// The names of all of them.
pub(crate) fn wanted() -> Vec<String> {
    let calls = tracepoints::ALL.iter().flat_map(|table| of_calls(table)).map(|function| function.name);
    let of_file_systems = [EXT4, XFS, BTRFS].into_iter().flatten().map(|name| (*name).to_owned());
    calls.chain(of_file_systems).collect()
}
