//! What a kernel stack at a context switch shows about the wait. Looks at names only; the names are in `rules`.

pub(crate) mod rules;

#[cfg(test)]
mod tests;

use model::{OffCpu, Waker, named};

use crate::kernel_stack::rules::{RULES, Rule};

named! {
    /// What a thread waited for, with its name in `io`: the name of the cause that it stands for, if there is one.
    pub(crate) enum Wait {
        /// The commit of a jbd2 transaction: fs/jbd2/transaction.c, fs/jbd2/commit.c.
        Journal = "journal-commit",
        /// A fast commit: `fs/ext4/fast_commit.c`.
        FastCommit = "fast-commit",
        /// Permission to change anything while something holds the whole journal: `j_barrier_count`,
        /// fs/jbd2/transaction.c.
        JournalBarrier = "journal-barrier",
        /// Room in the journal: fs/jbd2/checkpoint.c.
        Checkpoint = "journal-checkpoint",
        /// The pause of a writer of too many dirty pages: mm/page-writeback.c.
        DirtyPages = "dirty-throttling",
        /// Memory that had to be freed first: mm/vmscan.c.
        Reclaim = "memory-reclaim",
        /// The sleep of a thread whose cgroup is over `memory.high`: mm/memcontrol.c.
        MemoryHigh = "memory-throttled",
        /// The sleep of a thread whose cgroup is over its share of a device: block/blk-cgroup.c, block/blk-iolatency.c,
        /// block/blk-iocost.c.
        IoThrottle = "io-throttled",
        /// An NFS server: fs/nfs, net/sunrpc/sched.c.
        Nfs = "nfs-wait",
        /// A page's lock: mm/filemap.c.
        PageLock = "page-lock",
        /// A page under writeback that must not change meanwhile.
        StablePage = "stable-page",
        /// Pages under writeback.
        Writeback = "writeback-wait",
        /// Room in XFS's log: `fs/xfs/xfs_log.c`.
        XfsLogSpace = "xfs-log-space",
        /// XFS's log on its way to the device.
        XfsLogForce = "xfs-log-force",
        /// An XFS inode's lock: `fs/xfs/xfs_inode.c`.
        XfsInodeLock = "xfs-inode-lock",
        /// Any other inode's lock.
        InodeLock = "inode-lock",
        /// The commit of a btrfs transaction or of its log of fsyncs: fs/btrfs/transaction.c, fs/btrfs/tree-log.c.
        BtrfsTransaction = "btrfs-transaction",
        /// Permission to submit a block request to the device.
        DeviceQueue = "device-queue",
        /// A block request.
        Device = "device",
        /// Permission to write to a frozen file system: fs/super.c.
        Frozen = "fs-frozen",
        /// The end of a stop by a signal, the cgroup's freezer or a tracer.
        Stopped = "stopped",
        /// The other end of a connection.
        Network = "network",
        /// A CPU.
        RunQueue = "run-queue",
        /// Anything else.
        Other = "other",
    }
}

impl Wait {
    /// The kind of wait in a verdict: a thread that waits for a place in the device's queue waits for the device.
    pub(crate) fn of_verdict(self) -> Self {
        if self == Self::DeviceQueue { Self::Device } else { self }
    }
}

/// Functions in which every wait ends and that identify none.
const TAIL: &[&str] =
    &["schedule", "bit_wait", "wait_on_bit", "prepare_to_wait", "trace", "preempt", "__switch_to"];
/// Functions that take a lock: their callers are more specific.
const LOCKS: &[&str] = &[
    "mutex_lock*",
    "__mutex_lock*",
    "rwsem_down_*",
    "down_read*",
    "down_write*",
    "__down_read*",
    "__down_write*",
];

/// What the interval was spent on. A preempted thread only waited for a CPU.
pub(crate) fn classify(interval: &OffCpu) -> Wait {
    if interval.preempted { Wait::RunQueue } else { read(&interval.stack).0 }
}

/// The function that names the wait best: one that a rule knows, else the innermost outside the scheduler.
pub(crate) fn naming_frame(stack: &str) -> &str {
    read(stack).1
}

/// What a thread with this stack waits for, and the function that shows it best.
pub(crate) fn read(stack: &str) -> (Wait, &str) {
    let frames: Vec<&str> = frames(stack).collect();
    let known = RULES.iter().find_map(|rule| rule.frame(&frames).map(|frame| (rule.wait, frame)));
    known.unwrap_or_else(|| {
        let is_specific = |frame: &&&str| {
            !TAIL.iter().any(|tail| frame.contains(tail)) && !LOCKS.iter().any(|lock| is_named(frame, lock))
        };
        let naming = frames.iter().rev().find(is_specific);
        (Wait::Other, naming.copied().unwrap_or_default())
    })
}

/// Whether user space asked for the wait: for another thread's wake-up, a ready connection or a timer.
pub(crate) fn is_of_user_space(stack: &str) -> bool {
    const CALLS: [&str; 6] =
        ["futex_wait*", "do_futex", "ep_poll", "do_epoll_wait", "do_sys_poll", "hrtimer_nanosleep"];
    frames(stack).any(|frame| CALLS.iter().any(|call| is_named(frame, call)))
}

/// Whether a waker was at work, by its stack. An interrupt that happened to run on it does not count.
pub(crate) fn is_at_work(waker: &Waker) -> bool {
    const INTERRUPTS: [&str; 8] =
        ["irq", "interrupt", "sysvec", "softirq", "hrtimer", "el1h_64", "apic", "nmi"];
    let is_interrupt = |frame: &str| INTERRUPTS.iter().any(|name| frame.contains(name));
    waker.tid != 0 && !waker.stack.is_empty() && !frames(&waker.stack).any(is_interrupt)
}

/// A stack's functions, outermost first. Without the compiler's suffixes (`do_get_write_access.part.0`) and offsets.
pub(crate) fn frames(stack: &str) -> impl DoubleEndedIterator<Item = &str> {
    stack.split(';').map(|frame| {
        let end = frame.find(['.', '+']).unwrap_or(frame.len());
        frame.get(..end).unwrap_or(frame)
    })
}

/// Whether a function has this name, or starts with it if the name ends in `*`.
pub(crate) fn is_named(function: &str, name: &str) -> bool {
    match name.strip_suffix('*') {
        Some(beginning) => function.starts_with(beginning),
        None => function == name,
    }
}

impl Rule {
    /// The function by which the rule matches. It is the first of the rule's that is on the stack, or its caller.
    fn frame<'s>(&self, frames: &[&'s str]) -> Option<&'s str> {
        let found =
            self.functions.iter().find_map(|name| frames.iter().find(|frame| is_named(frame, name)))?;
        if !self.within.is_empty() && !any_named(frames, &self.within) {
            return None;
        }
        if self.called_by.is_empty() {
            return Some(found);
        }
        let outermost = frames.iter().position(|frame| any_named(&[frame], &self.functions))?;
        frames.get(outermost.checked_sub(1)?).copied().filter(|by| any_named(&[by], &self.called_by))
    }
}

fn any_named(frames: &[&str], names: &[&str]) -> bool {
    frames.iter().any(|frame| names.iter().any(|name| is_named(frame, name)))
}
