//! Attaches programs to their hooks, and detaches them without waiting.
//!
//! Detaching a program from a tracepoint waits until every task has been seen outside of such programs
//! (`perf_event_detach_bpf_prog`, `kernel/trace/bpf_trace.c`), and closing the tracepoint's event waits for that again, under
//! one lock for all events (`perf_trace_event_unreg`, `kernel/trace/trace_event_perf.c`): some 30 ms each, three seconds and
//! more for ninety of them. A process that does nothing but exit does that, after this one has closed its own descriptors.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

use libbpf_rs::{Link, Object};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::bpf;
use crate::error::Error;
use crate::perf_event;
use crate::plan::Point;
use crate::registry::Tracepoint;

/// The name of the process that closes last: at most 15 characters.
const NAME: &std::ffi::CStr = c"brokerscope-end";

/// What is attached, until it is dropped.
#[derive(Default)]
pub(super) struct Links(pub(super) Vec<Link>);

impl Drop for Links {
    fn drop(&mut self) {
        let kept: Vec<RawFd> = self.0.iter().map(|link| link.as_fd().as_raw_fd()).collect();
        let held = close_elsewhere(&kept);
        self.0.clear();
        // Only now: the one that closes last waits.
        drop(held);
    }
}

/// Starts a process that is the last to close these: it does so when the result is dropped. Without such a process the
/// caller is the last.
fn close_elsewhere(kept: &[RawFd]) -> Option<OwnedFd> {
    if kept.is_empty() {
        return None;
    }
    // No program that is started has them.
    let (reads, writes) = pipe_with(PipeFlags::CLOEXEC).ok()?;
    let mut kept = kept.to_vec();
    kept.push(reads.as_raw_fd());
    kept.sort_unstable();
    // SAFETY: the child goes on in `end`, which keeps to what it may do.
    match unsafe { libc::fork() } {
        // SAFETY: this is the child.
        0 => unsafe { end(&kept, reads.as_raw_fd()) },
        child if child > 0 => {
            let mut status = 0;
            // SAFETY: a child of this process, and a place for its status; it ends at once.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            Some(writes)
        }
        _ => None,
    }
}

/// Ends once more, as nobody's child, holding nothing but these, as soon as nobody can write to `reads` any more: the kernel closes
/// them as the process exits.
///
/// # Safety
/// In a child of `fork` that has called nothing before. It makes system calls only, since other threads' locks may be
/// held for ever in its memory.
unsafe fn end(kept: &[RawFd], reads: RawFd) -> ! {
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
        while libc::read(reads, (&raw mut byte).cast(), 1) < 0 && *libc::__errno_location() == libc::EINTR {}
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

/// To the tracepoint or function that the program names itself.
pub(super) fn attach_typed(object: &Object, name: &str) -> Result<Link, Error> {
    let link = bpf::program(object, name)?.attach_trace();
    link.map_err(|error| Error::Refused { program: name.to_owned(), why: error.to_string() })
}

/// To a classic tracepoint.
pub(super) fn attach_point(object: &Object, point: &Point) -> Result<Link, Error> {
    let Tracepoint { name, program, .. } = point.tracepoint;
    let event = perf_event::tracepoint(point.id);
    let event = event.map_err(|source| Error::Tracepoint { tracepoint: (*name).to_owned(), source })?;
    let link = perf_event::attach(&bpf::program(object, program)?, event);
    link.map_err(|error| Error::Refused { program: (*program).to_owned(), why: error.to_string() })
}

/// The period of the clock on each CPU; `cpus.bpf.c` has it too.
const TICK_NS: u64 = 10_000_000;

/// To a clock on each of these CPUs. A user who may load programs may still not have clocks (`kernel.perf_event_paranoid`).
pub(super) fn attach_clock(object: &Object, name: &str, cpus: &[i32]) -> Result<Vec<Link>, Error> {
    let program = bpf::program(object, name)?;
    let refused = |why: String| Error::Refused { program: name.to_owned(), why };
    let attach_one = |&cpu: &i32| {
        let clock = perf_event::cpu_clock(cpu, TICK_NS).map_err(|error| refused(error.to_string()))?;
        perf_event::attach(&program, clock).map_err(|error| refused(error.to_string()))
    };
    cpus.iter().map(attach_one).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Read as _;
    use std::os::fd::{AsRawFd as _, RawFd};

    use super::{PipeFlags, close_elsewhere, pipe_with};

    /// Whether the other ends of all that is written to are closed within so many milliseconds.
    fn is_closed(fd: RawFd, within_ms: i32) -> bool {
        let mut poll = libc::pollfd { fd, events: 0, revents: 0 };
        // SAFETY: one descriptor, and room for the answer.
        let told = unsafe { libc::poll(&raw mut poll, 1, within_ms) };
        told == 1 && poll.revents & libc::POLLHUP != 0
    }

    #[test]
    fn another_process_closes_last_and_not_before_this_one_has() {
        let (reads, writes) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let held = close_elsewhere(&[writes.as_raw_fd()]).unwrap();
        assert!(!is_closed(reads.as_raw_fd(), 0));
        drop(writes);
        // It would take no time at all to end: it waits.
        assert!(!is_closed(reads.as_raw_fd(), 200), "the other has closed it before its time");
        drop(held);
        assert!(is_closed(reads.as_raw_fd(), 60_000), "the other still holds it");
        assert_eq!(File::from(reads).read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn for_nothing_there_is_no_other() {
        assert!(close_elsewhere(&[]).is_none());
    }
}
