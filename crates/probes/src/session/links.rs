//! Programs on their hooks, and off them again without anybody waiting for it.
//!
//! Taking a program off a tracepoint waits until every task has been seen outside of such programs
//! (`perf_event_detach_bpf_prog`, `kernel/trace/bpf_trace.c`), and closing the tracepoint's event waits for that once more, under
//! one lock for all events (`perf_trace_event_unreg`, `kernel/trace/trace_event_perf.c`): some 30 ms each, and with ninety
//! of them three seconds and more. So that is left to a process that does nothing but end.

use std::os::fd::{AsFd as _, AsRawFd as _, RawFd};

use libbpf_rs::Link;

/// What the process is called that lets go last: at most 15 characters.
const NAME: &std::ffi::CStr = c"brokerscope-end";

/// What is attached, until it is dropped.
#[derive(Default)]
pub(super) struct Links(Vec<Link>);

impl Links {
    pub(super) fn keep(&mut self, link: Link) {
        self.0.push(link);
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        let mut kept: Vec<RawFd> = self.0.iter().map(|link| link.as_fd().as_raw_fd()).collect();
        kept.sort_unstable();
        leave_to_another(&kept);
    }
}

/// Has a process of its own be the last to close these. Where there can be none, its caller is.
fn leave_to_another(kept: &[RawFd]) {
    if kept.is_empty() {
        return;
    }
    // SAFETY: the child goes on in `end`, which keeps to what it may do.
    match unsafe { libc::fork() } {
        // SAFETY: this is the child.
        0 => unsafe { end(kept) },
        child if child > 0 => {
            let mut status = 0;
            // SAFETY: a child of this process, and a place for its status; it ends at once.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
        }
        _ => {}
    }
}

/// Ends once more, as nobody's child, holding nothing but these: the kernel closes them as the process exits.
///
/// # Safety
/// In a child of `fork` that has called nothing before. It makes system calls only, since other threads' locks may be
/// held for ever in its memory.
unsafe fn end(kept: &[RawFd]) -> ! {
    // SAFETY: all of them take numbers, or text that lives for ever.
    unsafe {
        if libc::fork() > 0 {
            libc::_exit(0);
        }
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        // No directory, file or pipe of its maker's may be held for as long.
        libc::chdir(c"/".as_ptr());
        let mut from = 0;
        for &fd in kept {
            close_range(from, fd - 1);
            from = fd + 1;
        }
        close_range(from, RawFd::MAX);
        libc::_exit(0)
    }
}

/// # Safety
/// Nobody may use these any more.
unsafe fn close_range(first: RawFd, last: RawFd) {
    if first <= last {
        // SAFETY: numbers only; Linux has it since 5.9.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}
