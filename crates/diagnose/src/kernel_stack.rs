//! What a kernel stack at a context switch says about the wait. Looks at names only; which ones is in `rules`.

pub(crate) mod rules;

#[cfg(test)]
mod tests;

use model::{OffCpu, Waker, named};

use crate::kernel_stack::rules::{RULES, Rule};

named! {
    /// What a thread waited for, with its name in `io`: of the cause that it stands for, where there is one.
    pub(crate) enum Wait {
        /// The commit of a jbd2 transaction: fs/jbd2/transaction.c, fs/jbd2/commit.c.
        Journal = "journal-commit",
        /// A fast commit: `fs/ext4/fast_commit.c`.
        FastCommit = "fast-commit",
        /// Leave to change anything while somebody has the whole journal: `j_barrier_count`, fs/jbd2/transaction.c.
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
        /// A page that is being written and must not change meanwhile.
        StablePage = "stable-page",
        /// Pages that are being written.
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
        /// Leave to hand a block request to the device.
        DeviceQueue = "device-queue",
        /// A block request.
        Device = "device",
        /// Leave to write to a file system that somebody has frozen: fs/super.c.
        Frozen = "fs-frozen",
        /// To go on: a signal, the freezer of its cgroup or a tracer had stopped it.
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
    /// The kind of wait that a verdict takes it for: one that is refused a place in the device's queue waits for
    /// the device.
    pub(crate) fn of_verdict(self) -> Self {
        if self == Self::DeviceQueue { Self::Device } else { self }
    }
}

/// Functions that every wait ends in and that tell nothing.
const TAIL: &[&str] =
    &["schedule", "bit_wait", "wait_on_bit", "prepare_to_wait", "trace", "preempt", "__switch_to"];
/// Those that take a lock: who wants it tells more.
const LOCKS: &[&str] = &[
    "mutex_lock*",
    "__mutex_lock*",
    "rwsem_down_*",
    "down_read*",
    "down_write*",
    "__down_read*",
    "__down_write*",
];

/// What the interval was spent on. A thread that was preempted waited for a CPU only.
pub(crate) fn classify(interval: &OffCpu) -> Wait {
    if interval.preempted { Wait::RunQueue } else { read(&interval.stack).0 }
}

/// The function that names the wait best: the one a rule knows, else the innermost that is no scheduler's.
pub(crate) fn telling_frame(stack: &str) -> &str {
    read(stack).1
}

/// What a thread with this stack waits for, and the function that says so best.
pub(crate) fn read(stack: &str) -> (Wait, &str) {
    let frames: Vec<&str> = frames(stack).collect();
    let known = RULES.iter().find_map(|rule| rule.frame(&frames).map(|frame| (rule.wait, frame)));
    known.unwrap_or_else(|| {
        let tells = |frame: &&&str| {
            !TAIL.iter().any(|tail| frame.contains(tail)) && !LOCKS.iter().any(|lock| is_named(frame, lock))
        };
        let telling = frames.iter().rev().find(tells);
        (Wait::Other, telling.copied().unwrap_or_default())
    })
}

/// Whether a thread waits for what user space decides: another thread's wake-up, a ready connection, a timer.
pub(crate) fn is_of_user_space(stack: &str) -> bool {
    const CALLS: [&str; 6] =
        ["futex_wait*", "do_futex", "ep_poll", "do_epoll_wait", "do_sys_poll", "hrtimer_nanosleep"];
    frames(stack).any(|frame| CALLS.iter().any(|call| is_named(frame, call)))
}

/// Whether who woke another was at work, as its stack shows, and not in an interrupt that it happened to take.
pub(crate) fn is_at_work(waker: &Waker) -> bool {
    const INTERRUPTS: [&str; 8] =
        ["irq", "interrupt", "sysvec", "softirq", "hrtimer", "el1h_64", "apic", "nmi"];
    let is_interrupt = |frame: &str| INTERRUPTS.iter().any(|name| frame.contains(name));
    waker.tid != 0 && !waker.stack.is_empty() && !frames(&waker.stack).any(is_interrupt)
}

/// A stack's functions, outermost first, without the compiler's suffixes (`do_get_write_access.part.0`) and
/// offsets.
pub(crate) fn frames(stack: &str) -> impl DoubleEndedIterator<Item = &str> {
    stack.split(';').map(|frame| {
        let end = frame.find(['.', '+']).unwrap_or(frame.len());
        frame.get(..end).unwrap_or(frame)
    })
}

/// Whether a function has this name, or begins with it where the name ends in `*`.
pub(crate) fn is_named(function: &str, name: &str) -> bool {
    match name.strip_suffix('*') {
        Some(beginning) => function.starts_with(beginning),
        None => function == name,
    }
}

impl Rule {
    /// The function that makes the rule hold, the first of the rule's that is there, or its caller.
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
