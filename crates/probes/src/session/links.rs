//! Programs on their hooks, and off them again without anybody waiting for it.
//!
//! Taking a program off a tracepoint waits until every task has been seen outside of such programs
//! (`perf_event_detach_bpf_prog`, `kernel/trace/bpf_trace.c`), and closing the tracepoint's event waits for that once more, under
//! one lock for all events (`perf_trace_event_unreg`, `kernel/trace/trace_event_perf.c`): some 30 ms each, and with ninety
//! of them three seconds and more, of any length where the machine is busy. So that is left to a process that does nothing but end,
//! once this one has closed its own.

use std::os::fd::{AsFd as _, AsRawFd as _, FromRawFd as _, OwnedFd, RawFd};

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
        let kept: Vec<RawFd> = self.0.iter().map(|link| link.as_fd().as_raw_fd()).collect();
        let held = leave_to_another(&kept);
        self.0.clear();
        // Only now: whoever closes last is the one who waits.
        drop(held);
    }
}

/// Has a process of its own be the last to close these: it does so when what is returned is closed. Where there can be none, its
/// caller is the last.
fn leave_to_another(kept: &[RawFd]) -> Option<OwnedFd> {
    if kept.is_empty() {
        return None;
    }
    let (told, tells) = pipe()?;
    let mut kept = kept.to_vec();
    kept.push(told.as_raw_fd());
    kept.sort_unstable();
    // SAFETY: the child goes on in `end`, which keeps to what it may do.
    match unsafe { libc::fork() } {
        // SAFETY: this is the child.
        0 => unsafe { end(&kept, told.as_raw_fd()) },
        child if child > 0 => {
            let mut status = 0;
            // SAFETY: a child of this process, and a place for its status; it ends at once.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            Some(tells)
        }
        _ => None,
    }
}

/// Its end to read from and its end to write to; no program that is started has them.
fn pipe() -> Option<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: room for two descriptors.
    if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
        return None;
    }
    let [told, tells] = ends;
    // SAFETY: the kernel has just returned these and nobody else has them.
    Some(unsafe { (OwnedFd::from_raw_fd(told), OwnedFd::from_raw_fd(tells)) })
}

/// Ends once more, as nobody's child, holding nothing but these, as soon as nobody can write to `told` any more: the kernel closes
/// them as the process exits.
///
/// # Safety
/// In a child of `fork` that has called nothing before. It makes system calls only, since other threads' locks may be
/// held for ever in its memory.
unsafe fn end(kept: &[RawFd], told: RawFd) -> ! {
    // SAFETY: all of them take numbers, text that lives for ever, or a byte of this stack.
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
        let mut byte = 0_u8;
        // Nobody writes: it returns when the last who could has closed it, or has ended.
        while libc::read(told, (&raw mut byte).cast(), 1) < 0 && *libc::__errno_location() == libc::EINTR {}
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

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::os::fd::{AsRawFd as _, RawFd};

    use super::{leave_to_another, pipe};

    /// Whether the other ends of all that is written to are closed within so many milliseconds.
    fn is_closed(fd: RawFd, within_ms: i32) -> bool {
        let mut poll = libc::pollfd { fd, events: 0, revents: 0 };
        // SAFETY: one descriptor, and room for what is told of it.
        let told = unsafe { libc::poll(&raw mut poll, 1, within_ms) };
        told == 1 && poll.revents & libc::POLLHUP != 0
    }

    #[test]
    fn another_process_closes_last_and_not_before_this_one_has() {
        let (reads, writes) = pipe().unwrap();
        let held = leave_to_another(&[writes.as_raw_fd()]).unwrap();
        assert!(!is_closed(reads.as_raw_fd(), 0));
        drop(writes);
        // It would take no time at all to end: it waits.
        assert!(!is_closed(reads.as_raw_fd(), 200), "the other has closed it before it was told to");
        drop(held);
        assert!(is_closed(reads.as_raw_fd(), 60_000), "the other still holds it");
        assert_eq!(File::from(reads).read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn for_nothing_there_is_no_other() {
        assert!(leave_to_another(&[]).is_none());
    }
}
