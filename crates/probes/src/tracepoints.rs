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
}

/// A field and the sizes in bytes that the program can take.
#[derive(Debug, PartialEq, Eq)]
pub struct NeededField {
    /// Its name in the format file.
    pub name: &'static str,
    /// Least size.
    pub min: u16,
    /// Greatest size.
    pub max: u16,
}

const fn field(name: &'static str, size: u16) -> NeededField {
    NeededField { name, min: size, max: size }
}

const fn system_call(name: &'static str, program: &'static str) -> Needed {
    Needed { name, program, fields: &[] }
}

/// One program serves every call whose arguments it reads alike, and one serves all returns.
pub(crate) const FILE_WRITES: &[Needed] = &[
    system_call("syscalls/sys_enter_write", "write_enter"),
    system_call("syscalls/sys_enter_pwrite64", "pwrite_enter"),
    system_call("syscalls/sys_enter_writev", "writev_enter"),
    system_call("syscalls/sys_enter_pwritev", "pwritev_enter"),
    system_call("syscalls/sys_enter_pwritev2", "pwritev_enter"),
    system_call("syscalls/sys_exit_write", "write_exit"),
    system_call("syscalls/sys_exit_pwrite64", "write_exit"),
    system_call("syscalls/sys_exit_writev", "write_exit"),
    system_call("syscalls/sys_exit_pwritev", "write_exit"),
    system_call("syscalls/sys_exit_pwritev2", "write_exit"),
];

pub(crate) const JOURNAL_COMMITS: &[Needed] = &[
    Needed {
        name: "jbd2/jbd2_start_commit",
        program: "start_commit",
        fields: &[field("dev", 4), field("transaction", 4)],
    },
    Needed {
        name: "jbd2/jbd2_end_commit",
        program: "end_commit",
        fields: &[field("dev", 4), field("transaction", 4)],
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
}];

pub(crate) const JOURNAL_HANDLES: &[Needed] = &[Needed {
    name: "jbd2/jbd2_handle_start",
    program: "handle_start",
    fields: &[field("dev", 4), field("tid", 4)],
}];

/// `rwbs` grew from 8 to 10 bytes; the program keeps up to 15.
const BLOCK_RQ_ISSUE: Needed = Needed {
    name: "block/block_rq_issue",
    program: "rq_issue",
    fields: &[
        field("dev", 4),
        field("sector", 8),
        field("nr_sector", 4),
        field("bytes", 4),
        NeededField { name: "rwbs", min: 1, max: 15 },
    ],
};

/// Where completions come from a BTF tracepoint.
pub(crate) const BLOCK_IO_ISSUE: &[Needed] = &[BLOCK_RQ_ISSUE];

pub(crate) const BLOCK_IO: &[Needed] = &[
    BLOCK_RQ_ISSUE,
    Needed {
        name: "block/block_rq_complete",
        program: "rq_complete",
        fields: &[field("dev", 4), field("sector", 8), field("nr_sector", 4)],
    },
];

pub(crate) const DIRTY_THROTTLING: &[Needed] = &[Needed {
    name: "writeback/balance_dirty_pages",
    program: "balance_dirty_pages",
    fields: &[field("limit", 8), field("setpoint", 8), field("dirty", 8), field("pause", 8)],
}];

/// Every table.
pub(crate) const ALL: &[&[Needed]] =
    &[FILE_WRITES, JOURNAL_COMMITS, COMMIT_PHASES, JOURNAL_HANDLES, BLOCK_IO, DIRTY_THROTTLING];
