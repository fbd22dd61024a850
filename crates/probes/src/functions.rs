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

/// The names of all of them.
pub(crate) fn wanted() -> Vec<String> {
    let calls = tracepoints::ALL.iter().flat_map(|table| of_calls(table));
    calls.map(|function| function.name).collect()
}
