//! Which hooks to use on this host: a pure function of [`Facts`]. Loads nothing.

mod by_function;
mod missing;

use crate::facts::{Facts, Field};
use crate::functions::{self, Function};
use crate::tracepoints::{self, Needed};

pub(crate) use missing::permits_process;

/// What a hook is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    /// Writes of the broker to files.
    FileWrites,
    /// Its reads of files.
    FileReads,
    /// `sendfile`, `splice`, `copy_file_range`.
    FileTransfers,
    /// `fsync`, `fdatasync`.
    FileSyncs,
    /// Truncation and allocation.
    FileSizes,
    /// Renames and removals.
    FileNames,
    /// Opens.
    FileOpens,
    /// `msync`.
    MappedSyncs,
    /// How much of what is read comes from the device.
    DiskReads,
    /// Operations of processes that the broker starts.
    ChildProcesses,
    /// Off-CPU intervals within these.
    OffCpu,
    /// Faults on mapped files that wait for the device.
    MmapFaults,
    /// When a thread off the CPU became runnable, and by whom.
    Wakeups,
    /// Kernel stacks of off-CPU intervals, by name.
    KernelStacks,
    /// jbd2 commits.
    JournalCommits,
    /// How long each phase of a commit took.
    CommitPhases,
    /// Which transaction a write joined.
    JournalHandles,
    /// Requests to block devices.
    BlockIo,
    /// How long they waited before the driver had them.
    BlockQueue,
    /// Pauses for dirty pages.
    DirtyThrottling,
    /// Direct reclaim because the host is short of memory.
    DirectReclaim,
    /// Direct reclaim because a memory cgroup is.
    MemcgReclaim,
    /// ext4's fast commits.
    FastCommits,
    /// Waits for space in XFS's log.
    XfsLogGrants,
    /// Writes of XFS's log.
    XfsLogWrites,
    /// Commits of btrfs transactions.
    BtrfsCommits,
    /// Calls on its TCP connections, closed windows and windows that do not scale.
    SocketOps,
    /// Segments sent again on these.
    TcpRetransmits,
    /// Long waits of file systems' own threads.
    KernelThreads,
    /// ext4's and its journal's functions, from entry to return.
    Ext4Functions,
    /// XFS's.
    XfsFunctions,
    /// btrfs's.
    BtrfsFunctions,
}

impl Purpose {
    /// Every purpose, those that others build upon first.
    pub const ALL: [Self; 32] = [
        Self::FileWrites,
        Self::FileReads,
        Self::FileTransfers,
        Self::FileSyncs,
        Self::FileSizes,
        Self::FileNames,
        Self::FileOpens,
        Self::MappedSyncs,
        Self::DiskReads,
        Self::ChildProcesses,
        Self::OffCpu,
        Self::MmapFaults,
        Self::Wakeups,
        Self::KernelStacks,
        Self::JournalCommits,
        Self::CommitPhases,
        Self::JournalHandles,
        Self::BlockIo,
        Self::BlockQueue,
        Self::DirtyThrottling,
        Self::DirectReclaim,
        Self::MemcgReclaim,
        Self::FastCommits,
        Self::XfsLogGrants,
        Self::XfsLogWrites,
        Self::BtrfsCommits,
        Self::SocketOps,
        Self::TcpRetransmits,
        Self::KernelThreads,
        Self::Ext4Functions,
        Self::XfsFunctions,
        Self::BtrfsFunctions,
    ];

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::FileWrites => "file-writes",
            Self::FileReads => "file-reads",
            Self::FileTransfers => "file-transfers",
            Self::FileSyncs => "file-syncs",
            Self::FileSizes => "file-sizes",
            Self::FileNames => "file-names",
            Self::FileOpens => "file-opens",
            Self::MappedSyncs => "mapped-syncs",
            Self::DiskReads => "disk-reads",
            Self::ChildProcesses => "child-processes",
            Self::MmapFaults => "mmap-faults",
            Self::OffCpu => "off-cpu",
            Self::Wakeups => "wakeups",
            Self::KernelStacks => "kernel-stacks",
            Self::JournalCommits => "journal-commits",
            Self::CommitPhases => "commit-phases",
            Self::JournalHandles => "journal-handles",
            Self::BlockIo => "block-io",
            Self::BlockQueue => "block-queue",
            Self::DirtyThrottling => "dirty-throttling",
            Self::DirectReclaim => "direct-reclaim",
            Self::MemcgReclaim => "memcg-reclaim",
            Self::FastCommits => "fast-commits",
            Self::XfsLogGrants => "xfs-log-grants",
            Self::XfsLogWrites => "xfs-log-writes",
            Self::BtrfsCommits => "btrfs-commits",
            Self::SocketOps => "socket-ops",
            Self::TcpRetransmits => "tcp-retransmits",
            Self::KernelThreads => "kernel-threads",
            Self::Ext4Functions => "ext4-functions",
            Self::XfsFunctions => "xfs-functions",
            Self::BtrfsFunctions => "btrfs-functions",
        }
    }

    /// By what it is best done on this host.
    fn mechanism(self, facts: &Facts) -> Mechanism {
        match self {
            // Completions come in interrupts, in which programs on classic tracepoints may be skipped.
            Self::BlockIo if facts.btf && facts.block_queue_argument => {
                Mechanism::BtfTracepoints(&["block_rq_issue_of_queue", "block_rq_complete"])
            }
            Self::BlockIo if facts.btf => Mechanism::BtfTracepoints(&["block_rq_issue", "block_rq_complete"]),
            Self::BlockQueue if facts.block_queue_argument => {
                Mechanism::BtfTracepoints(&["block_bio_queue_of_queue", "block_split_of_queue"])
            }
            Self::BlockQueue => Mechanism::BtfTracepoints(&["block_bio_queue", "block_split"]),
            Self::OffCpu => Mechanism::BtfTracepoints(&["sched_switch"]),
            Self::Wakeups => Mechanism::BtfTracepoints(&["sched_waking"]),
            // Within the hook of OffCpu.
            Self::KernelStacks | Self::KernelThreads => Mechanism::StackHelper,
            Self::BtrfsCommits => Mechanism::BtfTracepoints(&["btrfs_transaction_commit"]),
            Self::TcpRetransmits => Mechanism::BtfTracepoints(&["tcp_retransmit_skb"]),
            Self::Ext4Functions | Self::XfsFunctions | Self::BtrfsFunctions => Mechanism::Functions,
            _ => Mechanism::Tracepoints,
        }
    }

    /// The purposes without which this one sees nothing.
    fn requires(self) -> &'static [Self] {
        match self {
            Self::OffCpu | Self::JournalHandles | Self::ChildProcesses => &[Self::FileWrites],
            Self::DiskReads => &[Self::FileReads],
            Self::MmapFaults => &[Self::OffCpu, Self::DiskReads],
            Self::Wakeups | Self::KernelStacks => &[Self::OffCpu],
            Self::CommitPhases => &[Self::JournalCommits],
            Self::BlockQueue => &[Self::BlockIo],
            // Without the waits inside, a commit has an end and no beginning.
            Self::BtrfsCommits | Self::KernelThreads => &[Self::KernelStacks],
            // Most calls on sockets are calls on files too.
            Self::SocketOps => &[Self::FileTransfers],
            Self::TcpRetransmits => &[Self::SocketOps],
            _ => &[],
        }
    }

    /// The kernel's functions that serve it where they can be hooked.
    fn functions(self, facts: &Facts) -> Vec<Function> {
        match self {
            Self::Ext4Functions => functions::of_file_system(functions::EXT4),
            Self::XfsFunctions => functions::of_file_system(functions::XFS),
            Self::BtrfsFunctions => functions::of_file_system(functions::BTRFS),
            _ => functions::of_calls(self.tracepoints(facts)),
        }
    }

    /// The classic tracepoints it takes beside its mechanism.
    fn tracepoints(self, facts: &Facts) -> &'static [Needed] {
        match self {
            Self::BlockIo if facts.btf => &[],
            Self::FileWrites => tracepoints::FILE_WRITES,
            Self::FileReads => tracepoints::FILE_READS,
            Self::FileTransfers => tracepoints::FILE_TRANSFERS,
            Self::FileSyncs => tracepoints::FILE_SYNCS,
            Self::FileSizes => tracepoints::FILE_SIZES,
            Self::FileNames => tracepoints::FILE_NAMES,
            Self::FileOpens => tracepoints::FILE_OPENS,
            Self::MappedSyncs => tracepoints::MAPPED_SYNCS,
            Self::DiskReads => tracepoints::DISK_READS,
            Self::ChildProcesses => tracepoints::CHILD_PROCESSES,
            Self::MmapFaults => tracepoints::MMAP_FAULTS,
            Self::JournalCommits => tracepoints::JOURNAL_COMMITS,
            Self::CommitPhases => tracepoints::COMMIT_PHASES,
            Self::JournalHandles => tracepoints::JOURNAL_HANDLES,
            Self::BlockIo => tracepoints::BLOCK_IO,
            Self::DirtyThrottling => tracepoints::DIRTY_THROTTLING,
            Self::DirectReclaim => tracepoints::DIRECT_RECLAIM,
            Self::MemcgReclaim => tracepoints::MEMCG_RECLAIM,
            Self::FastCommits => tracepoints::FAST_COMMITS,
            Self::XfsLogGrants => tracepoints::XFS_LOG_GRANTS,
            Self::XfsLogWrites => tracepoints::XFS_LOG_WRITES,
            Self::SocketOps => tracepoints::SOCKET_CALLS,
            Self::OffCpu
            | Self::Wakeups
            | Self::KernelStacks
            | Self::BlockQueue
            | Self::BtrfsCommits
            | Self::TcpRetransmits
            | Self::KernelThreads
            | Self::Ext4Functions
            | Self::XfsFunctions
            | Self::BtrfsFunctions => &[],
        }
    }
}

/// How a hook gets at the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mechanism {
    /// The kernel's own functions, those in [`Hook::functions`], at entry and return (fentry, fexit).
    Functions,
    /// Classic tracepoints alone, those in [`Hook::points`].
    Tracepoints,
    /// Tracepoints with typed arguments, which need BTF but no tracefs, by these programs.
    BtfTracepoints(&'static [&'static str]),
    /// `bpf_get_stack` and `/proc/kallsyms`.
    StackHelper,
}

/// Whether a hook can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It will be used.
    Use,
    /// It cannot be.
    Missing {
        /// What this host lacks.
        why: String,
        /// What to do about it, where something can be done.
        remedy: Option<String>,
    },
}

/// One thing to observe and whether it can be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// What it is for.
    pub purpose: Purpose,
    /// How it works.
    pub mechanism: Mechanism,
    /// Whether it works here.
    pub state: State,
    /// The classic tracepoints to attach to; empty for missing hooks.
    pub points: Vec<Point>,
    /// The kernel's functions to attach to; empty for missing hooks.
    pub functions: Vec<Function>,
}

/// A classic tracepoint of the running kernel with the program for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    /// Group and name (`block/block_rq_issue`).
    pub name: &'static str,
    /// Its number on this kernel.
    pub id: u64,
    /// The BPF program.
    pub program: &'static str,
    /// Where the fields that the program reads lie, in the order of its C structure.
    pub fields: Vec<Field>,
}

/// What to attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// One for each [`Purpose`], in its order.
    pub hooks: Vec<Hook>,
    /// The kernel's HZ, if known.
    pub hz: Option<u32>,
    facts: Box<Facts>,
}

impl Plan {
    /// Decides by the facts alone.
    pub fn choose(facts: &Facts) -> Self {
        let mut hooks: Vec<Hook> = Vec::with_capacity(Purpose::ALL.len());
        for purpose in Purpose::ALL {
            hooks.push(Hook::choose(purpose, facts, &hooks));
        }
        Self { hooks, hz: facts.hz, facts: Box::new(facts.clone()) }
    }

    /// What remains where the kernel refuses a program: other hooks in its place, or none for its purposes.
    pub(crate) fn without(&self, program: &str, why: &str) -> Self {
        let mut facts = self.facts.clone();
        facts.refused.insert(program.to_owned(), why.to_owned());
        Self::choose(&facts)
    }

    /// Whether what serves this purpose will be used.
    pub fn uses(&self, purpose: Purpose) -> bool {
        self.hooks.iter().any(|hook| hook.purpose == purpose && hook.is_used())
    }

    /// Whether it names this program.
    pub(crate) fn needs(&self, program: &str) -> bool {
        self.used().flat_map(Hook::programs).any(|name| name == program)
    }

    /// The hooks that will be used.
    pub fn used(&self) -> impl Iterator<Item = &Hook> {
        self.hooks.iter().filter(|hook| hook.is_used())
    }
}

impl Hook {
    /// By the kernel's functions where those can be hooked, else by the purpose's other mechanism.
    fn choose(purpose: Purpose, facts: &Facts, before: &[Self]) -> Self {
        if let Err(missing) = required(purpose, before) {
            return Self::missing(purpose, purpose.mechanism(facts), missing);
        }
        let mechanism = purpose.mechanism(facts);
        let by_function = by_function::check(purpose, facts).map(|found| match found {
            Ok(functions) => Self { functions, ..Self::used(purpose, Mechanism::Functions) },
            Err(missing) => Self::missing(purpose, Mechanism::Functions, missing),
        });
        if let Some(hook) = by_function.map(|hook| hook.unless_refused(facts)) {
            if hook.is_used() || mechanism == Mechanism::Functions {
                return hook;
            }
        }
        match missing::check(purpose, facts) {
            Ok(points) => Self { points, ..Self::used(purpose, mechanism) }.unless_refused(facts),
            Err(missing) => Self::missing(purpose, mechanism, missing),
        }
    }

    fn used(purpose: Purpose, mechanism: Mechanism) -> Self {
        Self { purpose, mechanism, state: State::Use, points: Vec::new(), functions: Vec::new() }
    }

    fn missing(purpose: Purpose, mechanism: Mechanism, state: State) -> Self {
        Self { state, ..Self::used(purpose, mechanism) }
    }

    /// Missing, where the kernel refused one of its programs.
    fn unless_refused(self, facts: &Facts) -> Self {
        let refused = self.programs().find_map(|name| facts.refused.get_key_value(name));
        let Some((program, why)) = refused else { return self };
        let why = format!("this kernel refuses the program {program}: {why}");
        Self::missing(self.purpose, self.mechanism, State::Missing { why, remedy: None })
    }

    /// Whether it will be used.
    pub fn is_used(&self) -> bool {
        self.state == State::Use
    }

    /// The programs for tracepoints with typed arguments.
    pub(crate) fn typed_programs(&self) -> &'static [&'static str] {
        match self.mechanism {
            Mechanism::BtfTracepoints(programs) if self.is_used() => programs,
            _ => &[],
        }
    }

    /// The BPF programs it needs.
    pub(crate) fn programs(&self) -> impl Iterator<Item = &str> {
        let functions = self.functions.iter().flat_map(|it| [it.entry.as_str(), it.exit.as_str()]);
        let points = self.points.iter().map(|point| point.program);
        points.chain(self.typed_programs().iter().copied()).chain(functions)
    }
}

fn required(purpose: Purpose, before: &[Hook]) -> Result<(), State> {
    let is_used = |basis: &Purpose| before.iter().any(|hook| hook.purpose == *basis && hook.is_used());
    match purpose.requires().iter().find(|basis| !is_used(basis)) {
        None => Ok(()),
        Some(basis) => {
            Err(State::Missing { why: format!("needs {}, which is missing", basis.as_str()), remedy: None })
        }
    }
}

#[cfg(test)]
mod tests;
