//! Kills the process on dangerous system calls, with seccomp.
//!
//! A denylist, not an allowlist: which calls the C library, threads and the allocator make depends on their versions
//! and on the processor, and a call missing from an allowlist would kill a command on somebody's machine. Landlock and
//! the lack of capabilities keep out what an allowlist would keep out beyond this list.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

/// System calls that are denied in a sandbox.
/// They concern other processes, BPF programs, kernel modules, other programs, mounts, namespaces, keys, clocks,
/// hardware, and subsystems with a history of vulnerabilities.
const DENIED_CALLS: [i64; 51] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_personality,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_fanotify_init,
    libc::SYS_open_by_handle_at,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];
#[cfg(target_arch = "x86_64")]
const ARCH_CALLS: [i64; 3] = [libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const ARCH_CALLS: [i64; 0] = [];

const NETWORK: [i64; 6] = [
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
];

/// Makes these calls kill the process from now on.
/// The network's calls kill it too, unless `network` is set.
///
/// # Errors
/// This kernel does not support it; the text says why.
pub(crate) fn refuse(network: bool) -> Result<(), String> {
    install(network).map_err(|error| error.to_string())
}

fn install(network: bool) -> Result<(), Error> {
    let mut refused: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let of_network: &[i64] = if network { &[] } else { &NETWORK };
    refused
        .extend([&DENIED_CALLS, &ARCH_CALLS[..], of_network].concat().into_iter().map(|call| (call, vec![])));
    // A user namespace grants every capability inside it.
    refused.insert(libc::SYS_clone, vec![with_bit(0, libc::CLONE_NEWUSER as u64)?]);
    // Both inject input into the user's terminal.
    refused.insert(libc::SYS_ioctl, vec![equal(1, libc::TIOCSTI)?, equal(1, libc::TIOCLINUX)?]);
    apply(refused, SeccompAction::KillProcess)?;
    // `clone3` passes its flags in memory, where a filter cannot see them. On ENOSYS the C library calls `clone`.
    let flags_unseen = BTreeMap::from([(libc::SYS_clone3, vec![])]);
    apply(flags_unseen, SeccompAction::Errno(libc::ENOSYS as u32))?;
    #[cfg(target_arch = "x86_64")]
    seccompiler::apply_filter(&NO_X32)?;
    Ok(())
}

fn apply(calls: BTreeMap<i64, Vec<SeccompRule>>, action: SeccompAction) -> Result<(), Error> {
    let processor = TargetArch::try_from(std::env::consts::ARCH)?;
    let filter = SeccompFilter::new(calls, SeccompAction::Allow, action, processor)?;
    seccompiler::apply_filter(&BpfProgram::try_from(filter)?)
}

fn with_bit(argument: u8, bit: u64) -> Result<SeccompRule, Error> {
    rule(argument, SeccompCmpOp::MaskedEq(bit), bit)
}

fn equal(argument: u8, value: u64) -> Result<SeccompRule, Error> {
    rule(argument, SeccompCmpOp::Eq, value)
}

fn rule(argument: u8, comparison: SeccompCmpOp, value: u64) -> Result<SeccompRule, Error> {
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, comparison, value)?;
    Ok(SeccompRule::new(vec![condition])?)
}

/// First x32 call number (arch/x86/include/uapi/asm/unistd.h): x32 numbers would bypass the list.
#[cfg(target_arch = "x86_64")]
const X32: u32 = 0x4000_0000;
/// Loads the call number and kills the process if it is an x32 one.
/// See include/uapi/linux/seccomp.h, `bpf_common.h`.
#[cfg(target_arch = "x86_64")]
const NO_X32: [seccompiler::sock_filter; 4] = {
    const fn step(code: u16, k: u32, jf: u8) -> seccompiler::sock_filter {
        seccompiler::sock_filter { code, jt: 0, jf, k }
    }
    [step(0x20, 0, 0), step(0x35, X32, 1), step(0x06, 0x8000_0000, 0), step(0x06, 0x7fff_0000, 0)]
};
