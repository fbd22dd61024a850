//! Programs on their hooks, and off them again without anybody waiting for long.
//!
//! Taking a program off a tracepoint waits until every task has been seen outside of such programs
//! (`perf_event_detach_bpf_prog`, `kernel/trace/bpf_trace.c`), and closing the tracepoint's event waits for that once more, under
//! one lock for all events (`perf_trace_event_unreg`, `kernel/trace/trace_event_perf.c`): some 30 ms each, and with ninety
//! of them three seconds and more. So the programs come off side by side, which takes one such wait for all; and the
//! events, on which nothing runs any more, are left to a process that does nothing but end.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use libbpf_rs::Link;

/// Links let go of side by side. More threads than that would take longer to start than they save.
const AT_ONCE: usize = 16;
/// What the process is called that closes the events: at most 15 characters.
const NAME: &std::ffi::CStr = c"brokerscope-end";

/// What is attached, until it is dropped.
#[derive(Default)]
pub(super) struct Links {
    links: Vec<Link>,
    /// The tracepoints' events, so that no link is the last to close one.
    events: Vec<OwnedFd>,
}

impl Links {
    /// Keeps a link, with the event that it is on if it is on one.
    pub(super) fn keep(&mut self, link: Link, event: Option<OwnedFd>) {
        self.links.push(link);
        self.events.extend(event);
    }
}

impl Drop for Links {
    fn drop(&mut self) {
        let mut links = std::mem::take(&mut self.links);
        let each = links.len().div_ceil(AT_ONCE).max(1);
        std::thread::scope(|scope| {
            while !links.is_empty() {
                let some = links.split_off(links.len().saturating_sub(each));
                scope.spawn(move || drop(some));
            }
        });
        leave_to_another(&self.events);
    }
}

/// Has a process of its own be the last to close these. Where there can be none, its caller is.
fn leave_to_another(events: &[OwnedFd]) {
    let mut kept: Vec<RawFd> = events.iter().map(AsRawFd::as_raw_fd).collect();
    kept.sort_unstable();
    if kept.is_empty() {
        return;
    }
    // SAFETY: the child goes on in `end`, which keeps to what it may do.
    match unsafe { libc::fork() } {
        // SAFETY: this is the child.
        0 => unsafe { end(&kept) },
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
