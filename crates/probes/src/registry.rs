//! Every probe, declared once: its purpose, the tracepoints and functions that it hooks, its BPF programs, the fields
//! they read and what they need of a host. The plan, what is loaded, the fields' offsets in the programs' settings and
//! the lists of `doctor` and of reports follow from here.
//!
//! A field that the C structure `fields` (`bpf/events.h`) does not have is a compile error; a unit test compares every
//! program and every field with the compiled object.

use std::mem::offset_of;

use crate::always_on;
use crate::bpf::probes::types;

/// How one [`Purpose`] is served.
#[derive(Clone, Copy)]
pub(crate) struct Declaration {
    /// The purposes that this one depends on.
    pub(crate) requires: &'static [Purpose],
    /// What it needs of the host, with any hook.
    pub(crate) needs: &'static [Need],
    /// Kernel functions that serve it if they can be hooked. Optional ones may be missing.
    pub(crate) functions: &'static [Function],
    /// Classic tracepoints, if no function serves and no alternative of `typed` holds.
    pub(crate) tracepoints: &'static [Tracepoint],
    /// Programs on tracepoints with typed arguments: the first alternative that holds is used.
    pub(crate) typed: TypedPrograms,
    /// A program that a clock runs on each CPU.
    pub(crate) clock: Option<&'static str>,
}

const NONE: Declaration =
    Declaration { requires: &[], needs: PROCESS, functions: &[], tracepoints: &[], typed: &[], clock: None };

impl Declaration {
    const fn requires(self, requires: &'static [Purpose]) -> Self {
        Self { requires, ..self }
    }

    const fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    const fn or_typed(self, typed: TypedPrograms) -> Self {
        Self { typed, ..self }
    }
}

/// Alternatives of programs on tracepoints with typed arguments.
type TypedPrograms = &'static [(When, &'static [&'static str])];

const fn typed(needs: &'static [Need], typed: TypedPrograms) -> Declaration {
    NONE.needs(needs).or_typed(typed)
}

/// What a purpose needs of the host besides BPF itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The process's id in the root pid namespace.
    Process,
    /// The kernel's own threads are in this pid namespace.
    KernelThreads,
    /// BTF of the kernel, to read its structures.
    Btf,
    /// Addresses in `/proc/kallsyms`.
    Symbols,
    /// The kernel's HZ.
    TickRate,
    /// The helper `bpf_find_vma`.
    FindVma,
    /// The variable in which the kernel accounts each CPU's time, in its BTF.
    CpuTimes,
    /// A module's tracepoint with typed arguments, by group and name.
    Typed(&'static str),
}

const PROCESS: &[Need] = &[Need::Process];
const STRUCTURES: &[Need] = &[Need::Process, Need::Btf];
const WHOLE_HOST: &[Need] = &[];

/// The kernels that an alternative is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// The kernel has BTF.
    Btf,
    /// Tracepoints of block requests pass their queue first (before Linux 5.11).
    BlockQueueArgument,
}

/// A classic tracepoint and the BPF program on it.
#[derive(Debug, PartialEq, Eq)]
pub struct Tracepoint {
    /// Group and name (`block/block_rq_issue`), as under `events/` in tracefs.
    pub name: &'static str,
    /// The program in `bpf/`.
    pub program: &'static str,
    /// The fields that the program reads; empty if the layout is ABI.
    pub fields: &'static [TracepointField],
    /// Whether the purpose can be served on a kernel without it.
    pub optional: bool,
}

/// A field of a tracepoint.
#[derive(Debug, PartialEq, Eq)]
pub struct TracepointField {
    /// Its name in the format file.
    pub name: &'static str,
    /// Minimum size that the program accepts, in bytes; 0 if the field is optional.
    pub min_bytes: u16,
    /// Maximum size that the program accepts, in bytes.
    pub max_bytes: u16,
    /// Where the program finds the field's offset and size: an offset in `struct fields`.
    pub(crate) slot: usize,
}

/// A kernel function and the programs at its entry and its return.
#[derive(Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name (`__x64_sys_write`).
    pub name: &'static str,
    /// The program at its entry.
    pub entry: &'static str,
    /// The program at its return.
    pub exit: &'static str,
    /// Whether the purpose can be served on a kernel without it.
    pub optional: bool,
}

/// `program(field: size, …) on "group/name"`; a size is a number of bytes or a range.
macro_rules! tracepoints {
    ($($program:ident($($field:ident: $min:literal $(..= $max:literal)?),*) on $name:literal $($optional:ident)?),+ $(,)?) => {
        Declaration {
            tracepoints: &[$(Tracepoint {
                name: $name,
                program: stringify!($program),
                fields: &[$(TracepointField {
                    name: stringify!($field),
                    min_bytes: $min,
                    max_bytes: last!($min $($max)?),
                    slot: offset_of!(types::fields, $program.$field),
                }),*],
                optional: is_some!($($optional)?),
            }),+],
            ..NONE
        }
    };
}

macro_rules! last {
    ($first:literal) => {
        $first
    };
    ($first:literal $last:literal) => {
        $last
    };
}

macro_rules! is_some {
    () => {
        false
    };
    (optional) => {
        true
    };
}

/// The kernel's prefix of a system call's function. See `arch/*/include/asm/syscall_wrapper.h`.
#[cfg(target_arch = "aarch64")]
macro_rules! call_function {
    ($call:ident) => {
        concat!("__arm64_sys_", stringify!($call))
    };
}
#[cfg(not(target_arch = "aarch64"))]
macro_rules! call_function {
    ($call:ident) => {
        concat!("__x64_sys_", stringify!($call))
    };
}

/// System calls; only old architectures have the `optional` ones.
///
/// The layout of their tracepoints is ABI, and one program serves the returns of all.
macro_rules! calls {
    ($($call:ident $($optional:ident)?),+ $(,)?) => {
        Declaration {
            needs: STRUCTURES,
            functions: &[$(Function {
                name: call_function!($call),
                entry: concat!(stringify!($call), "_called"),
                exit: concat!(stringify!($call), "_returned"),
                optional: is_some!($($optional)?),
            }),+],
            tracepoints: &[$(
                Tracepoint {
                    name: concat!("syscalls/sys_enter_", stringify!($call)),
                    program: concat!(stringify!($call), "_enter"),
                    fields: &[],
                    optional: is_some!($($optional)?),
                },
                Tracepoint {
                    name: concat!("syscalls/sys_exit_", stringify!($call)),
                    program: "call_exit",
                    fields: &[],
                    optional: is_some!($($optional)?),
                },
            )+],
            ..NONE
        }
    };
}

/// Functions of a file system, whose module may be missing.
macro_rules! functions {
    ($($function:ident),+) => {
        Declaration {
            functions: &[$(Function {
                name: stringify!($function),
                entry: concat!(stringify!($function), "_enter"),
                exit: concat!(stringify!($function), "_leave"),
                optional: true,
            }),+],
            ..NONE
        }
    };
}

/// One entry per purpose; purposes that others build on come first.
macro_rules! purposes {
    ($($(#[doc = $doc:literal])+ $purpose:ident = $name:literal: $declaration:expr;)+) => {
        model::named! {
            /// What a probe is for; purposes that others build on come first.
            pub enum Purpose {
                $($(#[doc = $doc])+ $purpose = $name,)+
            }
        }

        impl Purpose {
            pub(crate) fn declaration(self) -> &'static Declaration {
                match self {
                    $(Self::$purpose => const { &$declaration }),+
                }
            }
        }
    };
}

purposes! {
    /// The broker's writes to files.
    FileWrites = "file-writes": calls![write, pwrite64, writev, pwritev, pwritev2];
    /// The broker's reads of files.
    FileReads = "file-reads": calls![read, pread64, readv, preadv, preadv2];
    /// `sendfile`, `splice`, `copy_file_range`.
    FileTransfers = "file-transfers": calls![sendfile64, splice, copy_file_range];
    /// `fsync`, `fdatasync`.
    FileSyncs = "file-syncs": calls![fsync, fdatasync];
    /// Truncation and allocation.
    FileSizes = "file-sizes": calls![ftruncate, truncate, fallocate];
    /// Renames and removals.
    FileNames = "file-names":
        calls![rename optional, renameat optional, renameat2, unlink optional, unlinkat];
    /// Opens.
    FileOpens = "file-opens": calls![open optional, creat optional, openat, openat2];
    /// `msync`.
    MappedSyncs = "mapped-syncs": calls![msync].needs(&[Need::Process, Need::Btf, Need::FindVma]);
    /// Bytes of reads that come from the device.
    // `order` came with large pages in the page cache (Linux 5.18).
    DiskReads = "disk-reads": tracepoints![
        page_added(i_ino: 8, s_dev: 4, index: 8, order: 0..=1) on "filemap/mm_filemap_add_to_page_cache",
    ].requires(&[Purpose::FileReads]);
    /// Operations of processes that the broker starts.
    ChildProcesses = "child-processes": tracepoints![
        task_start(pid: 4, clone_flags: 8) on "task/task_newtask",
        task_end() on "sched/sched_process_exit",
    ].requires(&[Purpose::FileWrites]);
    /// Off-CPU intervals within file operations.
    OffCpu = "off-cpu":
        typed(STRUCTURES, &[(When::Always, &["sched_switch"])]).requires(&[Purpose::FileWrites]);
    /// Faults on mapped files that wait for the device.
    // Since Linux 6.12. Without it, a fault is recognised by the pages it adds.
    MmapFaults = "mmap-faults": tracepoints![
        page_fault(i_ino: 8, s_dev: 4, index: 8) on "filemap/mm_filemap_fault" optional,
    ].requires(&[Purpose::OffCpu, Purpose::DiskReads]);
    /// When a thread off the CPU became runnable, and by whom.
    Wakeups = "wakeups":
        typed(STRUCTURES, &[(When::Always, &["sched_waking"])]).requires(&[Purpose::OffCpu]);
    /// Stops of the whole process: by a signal, a freezer or a tracer.
    // The tracepoint shows who sent the signal.
    ProcessStops = "process-stops": tracepoints![
        signal_generated(sig: 4, pid: 4) on "signal/signal_generate" optional,
    ].requires(&[Purpose::Wakeups]);
    /// CPUs that the hypervisor takes away: steal time, and pauses of the machine.
    CpuGaps = "cpu-gaps": Declaration { clock: Some("cpu_tick"), ..NONE }
        .needs(&[Need::Btf, Need::CpuTimes]);
    /// Kernel stacks of off-CPU intervals, by name.
    KernelStacks = "kernel-stacks":
        NONE.needs(&[Need::Process, Need::Symbols]).requires(&[Purpose::OffCpu]);
    /// jbd2 commits.
    JournalCommits = "journal-commits": tracepoints![
        start_commit(dev: 4, transaction: 4) on "jbd2/jbd2_start_commit",
        end_commit(dev: 4, transaction: 4) on "jbd2/jbd2_end_commit",
    ].needs(WHOLE_HOST);
    /// Durations of a commit's phases.
    CommitPhases = "commit-phases": tracepoints![
        run_stats(
            dev: 4, tid: 4, wait: 8, running: 8, locked: 8, flushing: 8, logging: 8, handle_count: 4, blocks: 4,
            blocks_logged: 4
        ) on "jbd2/jbd2_run_stats",
    ].needs(&[Need::TickRate]).requires(&[Purpose::JournalCommits]);
    /// Which transaction a write joined.
    JournalHandles = "journal-handles":
        tracepoints![handle_start(dev: 4, tid: 4) on "jbd2/jbd2_handle_start"].requires(&[Purpose::FileWrites]);
    /// Requests to block devices.
    // Completions come in interrupts, in which programs on classic tracepoints may be skipped. `rwbs` grew from 8 to 10
    // bytes; the program keeps up to 15.
    BlockIo = "block-io": tracepoints![
        rq_issue(dev: 4, sector: 8, nr_sector: 4, bytes: 4, rwbs: 1..=15) on "block/block_rq_issue",
        rq_complete(dev: 4, sector: 8, nr_sector: 4) on "block/block_rq_complete",
    ].needs(WHOLE_HOST).or_typed(&[
        (When::BlockQueueArgument, &["block_rq_issue_of_queue", "block_rq_complete"]),
        (When::Btf, &["block_rq_issue", "block_rq_complete"]),
    ]);
    /// How long block requests waited before the driver got them.
    BlockQueue = "block-queue": typed(&[Need::Btf], &[
        (When::BlockQueueArgument, &["block_bio_queue_of_queue", "block_split_of_queue"]),
        (When::Always, &["block_bio_queue", "block_split"]),
    ]).requires(&[Purpose::BlockIo]);
    /// Pauses for dirty pages.
    DirtyThrottling = "dirty-throttling": tracepoints![
        balance_dirty_pages(setpoint: 8, dirty: 8, pause: 8) on "writeback/balance_dirty_pages",
    ];
    /// Direct reclaim because the host is short of memory.
    DirectReclaim = "direct-reclaim": tracepoints![
        reclaim_begin() on "vmscan/mm_vmscan_direct_reclaim_begin",
        reclaim_end(nr_reclaimed: 8) on "vmscan/mm_vmscan_direct_reclaim_end",
    ];
    /// Direct reclaim because a memory cgroup is short of memory.
    // One program serves both ends: their tracepoints are of one class and have the same fields.
    MemcgReclaim = "memcg-reclaim": tracepoints![
        memcg_reclaim_begin() on "vmscan/mm_vmscan_memcg_reclaim_begin",
        reclaim_end(nr_reclaimed: 8) on "vmscan/mm_vmscan_memcg_reclaim_end",
    ];
    /// ext4's fast commits.
    FastCommits = "fast-commits": tracepoints![
        fc_commit_start(dev: 4) on "ext4/ext4_fc_commit_start",
        fc_commit_stop() on "ext4/ext4_fc_commit_stop",
    ].needs(WHOLE_HOST);
    /// Long fsyncs by other processes on ext4, which commit its journal.
    Ext4Fsyncs = "ext4-fsyncs": tracepoints![
        sync_file_enter(dev: 4) on "ext4/ext4_sync_file_enter",
        sync_file_exit() on "ext4/ext4_sync_file_exit",
    ];
    /// Waits for space in XFS's log.
    XfsLogGrants = "xfs-log-grants": tracepoints![
        grant_sleep(dev: 4) on "xfs/xfs_log_grant_sleep",
        grant_wake() on "xfs/xfs_log_grant_wake",
    ].needs(WHOLE_HOST);
    /// Writes of XFS's log.
    XfsLogWrites = "xfs-log-writes": tracepoints![
        iclog_syncing(dev: 4, lsn: 8) on "xfs/xlog_iclog_syncing",
        iclog_sync_done(dev: 4, lsn: 8) on "xfs/xlog_iclog_sync_done",
    ].needs(WHOLE_HOST);
    /// Commits of btrfs transactions.
    // Without the thread's waits inside, a commit has an end but no start.
    BtrfsCommits = "btrfs-commits": typed(
        &[Need::Btf, Need::Typed("btrfs/btrfs_transaction_commit")],
        &[(When::Always, &["btrfs_transaction_commit"])],
    ).requires(&[Purpose::KernelStacks]);
    /// Freezes of file systems, until they are thawed.
    // The ioctls alone do not show the freezes of device mapper's snapshots.
    FsFreezes = "fs-freezes": Declaration {
        functions: functions![freeze_super, thaw_super].functions,
        ..tracepoints![
            ioctl_enter() on "syscalls/sys_enter_ioctl",
            ioctl_exit() on "syscalls/sys_exit_ioctl",
        ]
    }.needs(&[Need::Btf]);
    /// Calls on the broker's TCP connections, closed windows and windows that do not scale.
    // Most calls on sockets are calls on files too.
    SocketOps = "socket-ops":
        calls![recvfrom, recvmsg, sendto, sendmsg].requires(&[Purpose::FileTransfers]);
    /// Retransmitted segments on these connections.
    TcpRetransmits = "tcp-retransmits":
        typed(STRUCTURES, &[(When::Always, &["tcp_retransmit_skb"])]).requires(&[Purpose::SocketOps]);
    /// Long waits of request handlers and network threads for Java locks, and who ended them.
    FutexWaits = "futex-waits": NONE.requires(&[Purpose::Wakeups, Purpose::KernelStacks]);
    /// Long waits of file systems' own threads.
    KernelThreads = "kernel-threads":
        NONE.needs(&[Need::KernelThreads, Need::Process]).requires(&[Purpose::KernelStacks]);
    /// Functions of ext4 and its journal, from entry to return.
    Ext4Functions = "ext4-functions":
        functions![ext4_file_write_iter, ext4_sync_file, ext4_dirty_inode, jbd2_log_wait_commit];
    /// Functions of XFS, from entry to return.
    XfsFunctions = "xfs-functions":
        functions![xfs_file_write_iter, xfs_file_fsync, xfs_log_force, xfs_log_force_seq];
    /// Functions of btrfs, from entry to return.
    BtrfsFunctions = "btrfs-functions":
        functions![btrfs_file_write_iter, btrfs_sync_file, btrfs_commit_transaction];
}

impl Purpose {
    /// Whether it concerns events that are far rarer than requests.
    pub(crate) fn is_rare(self) -> bool {
        matches!(
            self,
            Self::CpuGaps
                | Self::JournalCommits
                | Self::CommitPhases
                | Self::BlockIo
                | Self::BlockQueue
                | Self::DirtyThrottling
                | Self::DirectReclaim
                | Self::MemcgReclaim
                | Self::FastCommits
                | Self::Ext4Fsyncs
                | Self::XfsLogGrants
                | Self::XfsLogWrites
                | Self::FsFreezes
        )
    }
}

/// Modules that may hold hooked functions and tracepoints.
///
/// If one is built in, they belong to the kernel itself.
pub(crate) const MODULES: [&str; 4] = ["ext4", "jbd2", "xfs", "btrfs"];

/// All declarations.
pub(crate) fn declarations() -> impl Iterator<Item = &'static Declaration> {
    Purpose::ALL.into_iter().map(Purpose::declaration)
}

/// Group and name of every tracepoint that a plan may use.
pub(crate) fn tracepoint_names() -> impl Iterator<Item = &'static str> {
    let of_probes = declarations().flat_map(|declaration| {
        let typed = declaration.needs.iter().filter_map(|need| match need {
            Need::Typed(name) => Some(*name),
            _ => None,
        });
        declaration.tracepoints.iter().map(|tracepoint| tracepoint.name).chain(typed)
    });
    of_probes.chain(always_on::tracepoint_names())
}

/// Every function that a plan may use.
pub(crate) fn function_names() -> impl Iterator<Item = &'static str> {
    let of_probes =
        declarations().flat_map(|declaration| declaration.functions.iter().map(|function| function.name));
    of_probes.chain(always_on::function_names())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use libbpf_rs::ObjectBuilder;

    use super::{declarations, types};
    use crate::bpf::probes::OBJECT;

    /// Names of programs; the one for all returns of system calls appears once.
    fn program_names() -> BTreeSet<&'static str> {
        let programs = declarations().flat_map(|declaration| {
            let tracepoints = declaration.tracepoints.iter().map(|tracepoint| tracepoint.program);
            let functions = declaration.functions.iter().flat_map(|function| [function.entry, function.exit]);
            let typed = declaration.typed.iter().flat_map(|(_, programs)| programs.iter().copied());
            tracepoints.chain(functions).chain(typed).chain(declaration.clock)
        });
        programs.collect()
    }

    #[test]
    fn object_has_exactly_the_declared_programs() {
        let mut builder = ObjectBuilder::default();
        let object = builder.name("registry").unwrap().open_memory(OBJECT).unwrap();
        let built: BTreeSet<_> =
            object.progs().map(|program| program.name().to_str().unwrap().to_owned()).collect();
        assert_eq!(built, program_names().into_iter().map(str::to_owned).collect());
    }

    #[test]
    fn every_field_that_a_program_reads_is_declared() {
        let mut is_declared = [false; size_of::<types::fields>() / size_of::<types::field>()];
        for field in declarations().flat_map(|declaration| declaration.tracepoints).flat_map(|it| it.fields) {
            is_declared[field.slot / size_of::<types::field>()] = true;
        }
        let missing: Vec<_> = (0..is_declared.len()).filter(|&slot| !is_declared[slot]).collect();
        assert_eq!(missing, [], "slots of struct fields that no declaration fills in");
    }

    #[test]
    fn purposes_require_only_earlier_purposes() {
        for (index, purpose) in super::Purpose::ALL.into_iter().enumerate() {
            for required in purpose.declaration().requires {
                assert!(super::Purpose::ALL[..index].contains(required), "{purpose:?} requires {required:?}");
            }
        }
    }
}
