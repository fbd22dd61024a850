//! What a kernel stack at a context switch says about the wait. Looks at names only.

use model::{Cause, OffCpu};

/// What a thread waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// A jbd2 transaction: fs/jbd2/transaction.c, fs/jbd2/commit.c.
    Journal,
    /// The pause of a writer of too many dirty pages: mm/page-writeback.c.
    DirtyPages,
    /// A block request.
    Device,
    /// Anything else, a CPU included.
    Other,
}

impl Wait {
    /// The cause that such a wait stands for, as `io` names it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Journal => Cause::JournalCommit.as_str(),
            Self::DirtyPages => Cause::DirtyThrottling.as_str(),
            Self::Device => Cause::SlowDevice.as_str(),
            Self::Other => "other",
        }
    }
}

/// A rule: the wait it stands for and the functions of which one must be on the stack.
struct Rule {
    wait: Wait,
    functions: &'static [&'static str],
}

/// In order of precedence: a journal wait ends in the same `io_schedule` as a plain read.
const RULES: &[Rule] = &[
    Rule { wait: Wait::DirtyPages, functions: &["balance_dirty_pages"] },
    // Waits that have a cause of their own, which is not named yet: they must not pass for a slow device.
    Rule {
        wait: Wait::Other,
        functions: &[
            "folio_wait_stable",
            "wait_for_stable_page",
            "folio_wait_writeback",
            "wait_on_page_writeback",
            "__folio_lock",
            "__lock_page",
            "jbd2_log_do_checkpoint",
        ],
    },
    Rule {
        wait: Wait::Journal,
        functions: &[
            "wait_transaction_locked",
            "wait_transaction_switching",
            "do_get_write_access",
            "jbd2_journal_get_write_access",
            "add_transaction_credits",
            "jbd2_log_wait_commit",
        ],
    },
    Rule {
        wait: Wait::Device,
        functions: &[
            "blk_mq_get_tag",
            "__wait_on_buffer",
            "wait_on_page_bit",
            "folio_wait_bit",
            "folio_wait_bit_common",
            "submit_bio_wait",
            "blkdev_issue_flush",
            "bit_wait_io",
            "io_schedule",
        ],
    },
];

/// Functions that every wait ends in and that tell nothing.
const TAIL: &[&str] = &["schedule", "io_schedule", "bit_wait", "wait_on_bit", "prepare_to_wait", "trace"];

/// What the interval was spent on. A thread that was preempted waited for a CPU only.
pub(crate) fn classify(interval: &OffCpu) -> Wait {
    if interval.preempted {
        return Wait::Other;
    }
    RULES
        .iter()
        .find(|rule| frames(&interval.stack).any(|frame| rule.functions.contains(&frame)))
        .map_or(Wait::Other, |rule| rule.wait)
}

/// The function that names the wait best: the one a rule knows, else the innermost that is no scheduler's.
pub(crate) fn telling_frame(stack: &str) -> &str {
    RULES
        .iter()
        .flat_map(|rule| rule.functions)
        .find_map(|function| frames(stack).find(|frame| frame == function))
        .or_else(|| frames(stack).rev().find(|frame| !TAIL.iter().any(|tail| frame.contains(tail))))
        .unwrap_or_default()
}

/// A stack's functions without the compiler's suffixes (`do_get_write_access.part.0`) and offsets.
fn frames(stack: &str) -> impl DoubleEndedIterator<Item = &str> {
    stack.split(';').map(|frame| {
        let end = frame.find(['.', '+']).unwrap_or(frame.len());
        frame.get(..end).unwrap_or(frame)
    })
}

#[cfg(test)]
mod tests {
    use super::{Wait, classify, telling_frame};
    use model::{Nanos, OffCpu};

    fn interval(stack: &str) -> OffCpu {
        OffCpu {
            start: Nanos(0),
            end: Nanos(1),
            woken: None,
            pid: 1,
            tid: 1,
            thread: "t".into(),
            preempted: false,
            waker: None,
            stack: stack.into(),
        }
    }

    #[test]
    fn a_stack_names_the_wait() {
        for (stack, wait, frame) in [
            (
                "ext4_dirty_inode;__ext4_mark_inode_dirty;ext4_reserve_inode_write;jbd2_journal_get_write_access;do_get_write_access;out_of_line_wait_on_bit;__wait_on_bit;bit_wait_io;io_schedule;schedule;__schedule",
                Wait::Journal,
                "do_get_write_access",
            ),
            (
                "ext4_da_write_begin;__ext4_journal_start_sb;jbd2__journal_start;start_this_handle;add_transaction_credits;wait_transaction_locked.isra.0;schedule",
                Wait::Journal,
                "wait_transaction_locked",
            ),
            (
                "generic_perform_write;balance_dirty_pages_ratelimited_flags;balance_dirty_pages;io_schedule_timeout;schedule_timeout;schedule",
                Wait::DirtyPages,
                "balance_dirty_pages",
            ),
            (
                "ext4_map_blocks;ext4_mb_new_blocks;ext4_wait_block_bitmap;__wait_on_buffer;bit_wait_io;io_schedule;schedule",
                Wait::Device,
                "__wait_on_buffer",
            ),
            (
                "generic_perform_write;ext4_da_write_begin;folio_wait_stable;folio_wait_writeback;folio_wait_bit_common;io_schedule;schedule",
                Wait::Other,
                "folio_wait_stable",
            ),
            (
                "vfs_write;ext4_file_write_iter;down_write;rwsem_down_write_slowpath;schedule",
                Wait::Other,
                "rwsem_down_write_slowpath",
            ),
            ("", Wait::Other, ""),
        ] {
            assert_eq!(classify(&interval(stack)), wait, "{stack}");
            assert_eq!(telling_frame(stack), frame, "{stack}");
        }
    }

    #[test]
    fn a_preempted_thread_waited_for_a_cpu_whatever_it_was_doing() {
        let mut preempted = interval("do_get_write_access;schedule");
        preempted.preempted = true;
        assert_eq!(classify(&preempted), Wait::Other);
    }
}
