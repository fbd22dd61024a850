//! The classic tracepoints that the BPF programs hook, and the fields they read. One table; what a kernel
//! really offers is in [`crate::facts`].

/// A tracepoint, the BPF program for it and the fields that program reads.
#[derive(Debug, PartialEq, Eq)]
pub struct Needed {
    /// Group and name (`block/block_rq_issue`), as under `events/` in tracefs.
    pub name: &'static str,
    /// The program in `bpf/`.
    pub program: &'static str,
    /// Fields in the order of the C structure in `bpf/events.h`; empty where the layout is ABI.
    pub fields: &'static [NeededField],
    /// What to do on a kernel that has no such tracepoint.
    pub absent: Absent,
}

/// What a tracepoint's absence means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absent {
    /// What it is needed for cannot be seen.
    Missing,
    /// Nothing: the architecture has no such system call, or the program can do without.
    Fine,
}

/// A field and the sizes in bytes that the program can take.
#[derive(Debug, PartialEq, Eq)]
pub struct NeededField {
    /// Its name in the format file.
    pub name: &'static str,
    /// Least size; 0 where the program does without the field.
    pub min: u16,
    /// Greatest size.
    pub max: u16,
}

const fn field(name: &'static str, size: u16) -> NeededField {
    NeededField { name, min: size, max: size }
}

const fn required(name: &'static str, program: &'static str, fields: &'static [NeededField]) -> Needed {
    Needed { name, program, fields, absent: Absent::Missing }
}

const fn entry(name: &'static str, program: &'static str) -> Needed {
    Needed { name, program, fields: &[], absent: Absent::Missing }
}

/// One program serves the returns of all system calls.
const fn exit(name: &'static str) -> Needed {
    Needed { name, program: "call_exit", fields: &[], absent: Absent::Missing }
}

/// A call that only old architectures have.
const fn old(call: &Needed) -> Needed {
    Needed { name: call.name, program: call.program, fields: call.fields, absent: Absent::Fine }
}

pub(crate) const FILE_WRITES: &[Needed] = &[
    entry("syscalls/sys_enter_write", "write_enter"),
    entry("syscalls/sys_enter_pwrite64", "pwrite64_enter"),
    entry("syscalls/sys_enter_writev", "writev_enter"),
    entry("syscalls/sys_enter_pwritev", "pwritev_enter"),
    entry("syscalls/sys_enter_pwritev2", "pwritev2_enter"),
    exit("syscalls/sys_exit_write"),
    exit("syscalls/sys_exit_pwrite64"),
    exit("syscalls/sys_exit_writev"),
    exit("syscalls/sys_exit_pwritev"),
    exit("syscalls/sys_exit_pwritev2"),
];

pub(crate) const FILE_READS: &[Needed] = &[
    entry("syscalls/sys_enter_read", "read_enter"),
    entry("syscalls/sys_enter_pread64", "pread64_enter"),
    entry("syscalls/sys_enter_readv", "readv_enter"),
    entry("syscalls/sys_enter_preadv", "preadv_enter"),
    entry("syscalls/sys_enter_preadv2", "preadv2_enter"),
    exit("syscalls/sys_exit_read"),
    exit("syscalls/sys_exit_pread64"),
    exit("syscalls/sys_exit_readv"),
    exit("syscalls/sys_exit_preadv"),
    exit("syscalls/sys_exit_preadv2"),
];

pub(crate) const FILE_TRANSFERS: &[Needed] = &[
    entry("syscalls/sys_enter_sendfile64", "sendfile64_enter"),
    entry("syscalls/sys_enter_splice", "splice_enter"),
    entry("syscalls/sys_enter_copy_file_range", "copy_file_range_enter"),
    exit("syscalls/sys_exit_sendfile64"),
    exit("syscalls/sys_exit_splice"),
    exit("syscalls/sys_exit_copy_file_range"),
];

pub(crate) const FILE_SYNCS: &[Needed] = &[
    entry("syscalls/sys_enter_fsync", "fsync_enter"),
    entry("syscalls/sys_enter_fdatasync", "fdatasync_enter"),
    exit("syscalls/sys_exit_fsync"),
    exit("syscalls/sys_exit_fdatasync"),
];

pub(crate) const FILE_SIZES: &[Needed] = &[
    entry("syscalls/sys_enter_ftruncate", "ftruncate_enter"),
    entry("syscalls/sys_enter_truncate", "truncate_enter"),
    entry("syscalls/sys_enter_fallocate", "fallocate_enter"),
    exit("syscalls/sys_exit_ftruncate"),
    exit("syscalls/sys_exit_truncate"),
    exit("syscalls/sys_exit_fallocate"),
];

pub(crate) const FILE_NAMES: &[Needed] = &[
    old(&entry("syscalls/sys_enter_rename", "rename_enter")),
    old(&entry("syscalls/sys_enter_renameat", "renameat_enter")),
    entry("syscalls/sys_enter_renameat2", "renameat2_enter"),
    old(&entry("syscalls/sys_enter_unlink", "unlink_enter")),
    entry("syscalls/sys_enter_unlinkat", "unlinkat_enter"),
    old(&exit("syscalls/sys_exit_rename")),
    old(&exit("syscalls/sys_exit_renameat")),
    exit("syscalls/sys_exit_renameat2"),
    old(&exit("syscalls/sys_exit_unlink")),
    exit("syscalls/sys_exit_unlinkat"),
];

pub(crate) const FILE_OPENS: &[Needed] = &[
    old(&entry("syscalls/sys_enter_open", "open_enter")),
    old(&entry("syscalls/sys_enter_creat", "creat_enter")),
    entry("syscalls/sys_enter_openat", "openat_enter"),
    entry("syscalls/sys_enter_openat2", "openat2_enter"),
    old(&exit("syscalls/sys_exit_open")),
    old(&exit("syscalls/sys_exit_creat")),
    exit("syscalls/sys_exit_openat"),
    exit("syscalls/sys_exit_openat2"),
];

/// What sockets have beside the calls on files.
pub(crate) const SOCKET_CALLS: &[Needed] = &[
    entry("syscalls/sys_enter_recvfrom", "recvfrom_enter"),
    entry("syscalls/sys_enter_recvmsg", "recvmsg_enter"),
    entry("syscalls/sys_enter_sendto", "sendto_enter"),
    entry("syscalls/sys_enter_sendmsg", "sendmsg_enter"),
    exit("syscalls/sys_exit_recvfrom"),
    exit("syscalls/sys_exit_recvmsg"),
    exit("syscalls/sys_exit_sendto"),
    exit("syscalls/sys_exit_sendmsg"),
];

pub(crate) const MAPPED_SYNCS: &[Needed] =
    &[entry("syscalls/sys_enter_msync", "msync_enter"), exit("syscalls/sys_exit_msync")];

/// The page's `order` came with large pages in the page cache (Linux 5.18).
pub(crate) const DISK_READS: &[Needed] = &[Needed {
    name: "filemap/mm_filemap_add_to_page_cache",
    program: "page_added",
    fields: &[
        field("i_ino", 8),
        field("s_dev", 4),
        field("index", 8),
        NeededField { name: "order", min: 0, max: 1 },
    ],
    absent: Absent::Missing,
}];

/// Since Linux 6.12. Without it a fault is known by the pages it adds.
pub(crate) const MMAP_FAULTS: &[Needed] = &[Needed {
    name: "filemap/mm_filemap_fault",
    program: "page_fault",
    fields: &[field("i_ino", 8), field("s_dev", 4), field("index", 8)],
    absent: Absent::Fine,
}];

pub(crate) const CHILD_PROCESSES: &[Needed] = &[
    Needed {
        name: "task/task_newtask",
        program: "task_start",
        fields: &[field("pid", 4), field("clone_flags", 8)],
        absent: Absent::Missing,
    },
    Needed { name: "sched/sched_process_exit", program: "task_end", fields: &[], absent: Absent::Missing },
];

pub(crate) const JOURNAL_COMMITS: &[Needed] = &[
    Needed {
        name: "jbd2/jbd2_start_commit",
        program: "start_commit",
        fields: &[field("dev", 4), field("transaction", 4)],
        absent: Absent::Missing,
    },
    Needed {
        name: "jbd2/jbd2_end_commit",
        program: "end_commit",
        fields: &[field("dev", 4), field("transaction", 4)],
        absent: Absent::Missing,
    },
];

pub(crate) const COMMIT_PHASES: &[Needed] = &[Needed {
    name: "jbd2/jbd2_run_stats",
    program: "run_stats",
    fields: &[
        field("dev", 4),
        field("tid", 4),
        field("wait", 8),
        field("running", 8),
        field("locked", 8),
        field("flushing", 8),
        field("logging", 8),
        field("handle_count", 4),
        field("blocks", 4),
        field("blocks_logged", 4),
    ],
    absent: Absent::Missing,
}];

pub(crate) const JOURNAL_HANDLES: &[Needed] = &[Needed {
    name: "jbd2/jbd2_handle_start",
    program: "handle_start",
    fields: &[field("dev", 4), field("tid", 4)],
    absent: Absent::Missing,
}];

/// Where there is no BTF. `rwbs` grew from 8 to 10 bytes; the program keeps up to 15.
pub(crate) const BLOCK_IO: &[Needed] = &[
    Needed {
        name: "block/block_rq_issue",
        program: "rq_issue",
        fields: &[
            field("dev", 4),
            field("sector", 8),
            field("nr_sector", 4),
            field("bytes", 4),
            NeededField { name: "rwbs", min: 1, max: 15 },
        ],
        absent: Absent::Missing,
    },
    Needed {
        name: "block/block_rq_complete",
        program: "rq_complete",
        fields: &[field("dev", 4), field("sector", 8), field("nr_sector", 4)],
        absent: Absent::Missing,
    },
];

pub(crate) const DIRTY_THROTTLING: &[Needed] = &[Needed {
    name: "writeback/balance_dirty_pages",
    program: "balance_dirty_pages",
    fields: &[field("limit", 8), field("setpoint", 8), field("dirty", 8), field("pause", 8)],
    absent: Absent::Missing,
}];

pub(crate) const DIRECT_RECLAIM: &[Needed] = &[
    required("vmscan/mm_vmscan_direct_reclaim_begin", "reclaim_begin", &[]),
    required("vmscan/mm_vmscan_direct_reclaim_end", "reclaim_end", &[field("nr_reclaimed", 8)]),
];

/// One program serves both ends: they are of one class and have the same fields.
pub(crate) const MEMCG_RECLAIM: &[Needed] = &[
    required("vmscan/mm_vmscan_memcg_reclaim_begin", "memcg_reclaim_begin", &[]),
    required("vmscan/mm_vmscan_memcg_reclaim_end", "reclaim_end", &[field("nr_reclaimed", 8)]),
];

pub(crate) const FAST_COMMITS: &[Needed] = &[
    required("ext4/ext4_fc_commit_start", "fc_commit_start", &[field("dev", 4)]),
    required("ext4/ext4_fc_commit_stop", "fc_commit_stop", &[]),
];

pub(crate) const XFS_LOG_GRANTS: &[Needed] = &[
    required("xfs/xfs_log_grant_sleep", "grant_sleep", &[field("dev", 4)]),
    required("xfs/xfs_log_grant_wake", "grant_wake", &[]),
];

pub(crate) const XFS_LOG_WRITES: &[Needed] = &[
    required("xfs/xlog_iclog_syncing", "iclog_syncing", &[field("dev", 4), field("lsn", 8)]),
    required("xfs/xlog_iclog_sync_done", "iclog_sync_done", &[field("dev", 4), field("lsn", 8)]),
];

/// A tracepoint of a module that is hooked with typed arguments: that it exists says the module is there.
pub(crate) const BTRFS_COMMIT: &str = "btrfs/btrfs_transaction_commit";

/// Those that are hooked with typed arguments and may be missing.
pub(crate) const TYPED: &[&str] = &[BTRFS_COMMIT];

/// Every table.
pub(crate) const ALL: &[&[Needed]] = &[
    FILE_WRITES,
    FILE_READS,
    FILE_TRANSFERS,
    FILE_SYNCS,
    FILE_SIZES,
    FILE_NAMES,
    FILE_OPENS,
    SOCKET_CALLS,
    MAPPED_SYNCS,
    DISK_READS,
    MMAP_FAULTS,
    CHILD_PROCESSES,
    JOURNAL_COMMITS,
    COMMIT_PHASES,
    JOURNAL_HANDLES,
    BLOCK_IO,
    DIRTY_THROTTLING,
    DIRECT_RECLAIM,
    MEMCG_RECLAIM,
    FAST_COMMITS,
    XFS_LOG_GRANTS,
    XFS_LOG_WRITES,
];
