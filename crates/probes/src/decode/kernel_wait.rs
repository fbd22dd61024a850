//! Records of file systems' own threads that waited long: what they waited in, by their stack.

use std::mem::offset_of;

use model::SpanSource;

use super::{Decoded, Decoder, Record, record};
use crate::bpf::types;
use crate::event::{BTRFS_COMMIT, Event, KernelSpan};

const _: () = {
    assert!(size_of::<types::kernel_wait_event>() == 48 + 8 * 48);
    assert!(offset_of!(types::kernel_wait_event, stack) == 48);
};

// SAFETY: generated from the C structure in events.h, which holds integers and arrays only.
unsafe impl Record for types::kernel_wait_event {}

impl Decoder {
    /// Says nothing where the thread was at no file system's work, or within a commit whose end will tell of it.
    pub(super) fn kernel_wait(&mut self, bytes: &[u8]) -> Decoded {
        let least = offset_of!(types::kernel_wait_event, stack);
        let Some(record) = record::<types::kernel_wait_event>(bytes, least) else { return Decoded::Unknown };
        let frames = record.stack.get(..record.frames as usize).unwrap_or(&record.stack);
        let stack = self.stacks.text(frames);
        self.committing.waited(record.tid, record.start_ns, &stack);
        let Some(function) = function_of(&stack).filter(|&function| function != BTRFS_COMMIT) else {
            return Decoded::Learnt;
        };
        Decoded::Event(Event::KernelSpan(KernelSpan {
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            function: self.texts.share(function.as_bytes()),
            device: None,
            tid: record.tid,
            comm: self.text(&record.comm),
            seen_by: SpanSource::OffCpu,
        }))
    }
}

/// The outermost function of a file system that is more than its threads' loop.
fn function_of(stack: &str) -> Option<&str> {
    let names = stack.split(';').map(|name| name.split('.').next().unwrap_or(name));
    let of_file_system =
        |name: &str| ["xfs_", "xfsaild", "xlog_", "btrfs_"].iter().any(|p| name.starts_with(p));
    let loops = ["xfsaild", "btrfs_work_helper"];
    names.into_iter().find(|name| of_file_system(name) && !loops.contains(name))
}

#[cfg(test)]
mod tests {
    use super::function_of;

    #[test]
    fn the_function_is_the_outermost_of_a_file_system() {
        for (stack, function) in [
            ("ret_from_fork;kthread;xfsaild;xfsaild_push;xfs_log_force;__schedule", Some("xfsaild_push")),
            (
                "kthread;worker_thread;process_one_work;xlog_cil_push_work;down;__schedule",
                Some("xlog_cil_push_work"),
            ),
            (
                "kthread;transaction_kthread;btrfs_commit_transaction;__schedule",
                Some("btrfs_commit_transaction"),
            ),
            (
                "worker_thread;btrfs_work_helper;btrfs_finish_one_ordered.isra.0;__schedule",
                Some("btrfs_finish_one_ordered"),
            ),
            ("worker_thread;process_one_work;wb_workfn;__schedule", None),
            ("", None),
        ] {
            assert_eq!(function_of(stack), function, "{stack}");
        }
    }
}
