//! Attaches programs to their hooks, and detaches them without waiting.
//!
//! Detaching a program from a tracepoint waits until every task has left such programs (`perf_event_detach_bpf_prog`,
//! `kernel/trace/bpf_trace.c`), and closing the tracepoint's event waits for that again, under one lock for all events
//! (`perf_trace_event_unreg`, `kernel/trace/trace_event_perf.c`): about 30 ms each, more than three seconds for ninety
//! of them. So a process that only exits does that, after this one has closed its own descriptors.

use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd, RawFd};

use libbpf_rs::{Link, Object};
use rustix::pipe::{PipeFlags, pipe_with};

use crate::bpf;
use crate::error::Error;
use crate::perf_event;
use crate::plan::Point;
use crate::registry::Tracepoint;

/// Name of the closing process: at most 15 characters.
const NAME: &std::ffi::CStr = c"brokerscope-end";

/// Attached programs; detached on drop.
#[derive(Default)]
pub(super) struct Links(pub(super) Vec<Link>);

impl Drop for Links {
    fn drop(&mut self) {
        let fds: Vec<RawFd> = self.0.iter().map(|link| link.as_fd().as_raw_fd()).collect();
        let closer = close_elsewhere(&fds);
        self.0.clear();
        // Only now: the process that closes last is the one that waits.
        drop(closer);
    }
}

/// Starts a process that closes these descriptors last, when the result is dropped.
///
/// Without such a process the caller closes last.
fn close_elsewhere(fds: &[RawFd]) -> Option<OwnedFd> {
    if fds.is_empty() {
        return None;
    }
    // Programs that this process executes do not inherit them.
    let (reads, writes) = pipe_with(PipeFlags::CLOEXEC).ok()?;
    let mut fds = fds.to_vec();
    fds.push(reads.as_raw_fd());
    fds.sort_unstable();
    // SAFETY: the child continues in `end`, which does only what a forked child may.
    match unsafe { libc::fork() } {
        // SAFETY: this is the child.
        0 => unsafe { end(&fds, reads.as_raw_fd()) },
        child if child > 0 => {
            let mut status = 0;
            // SAFETY: waits for a child of this process, with room for its status; it ends immediately.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            Some(writes)
        }
        _ => None,
    }
}

/// Forks again, into an orphan that holds only these descriptors. The orphan exits when all writers of `reads` are
/// closed: the kernel closes the descriptors as the process exits.
///
/// # Safety
/// Call only in a child of `fork` that has called nothing else. Makes only system calls, because other threads' locks
/// may be held for ever in its memory.
unsafe fn end(fds: &[RawFd], reads: RawFd) -> ! {
    // SAFETY: all of them take numbers, static text, or a byte of this stack.
    unsafe {
        if libc::fork() > 0 {
            libc::_exit(0);
        }
        libc::prctl(libc::PR_SET_NAME, NAME.as_ptr());
        // It must not hold its parent's directories, files or pipes that long.
        libc::chdir(c"/".as_ptr());
        let mut from = 0;
        for &fd in fds {
            close_range(from, fd - 1);
            from = fd + 1;
        }
        close_range(from, RawFd::MAX);
        let mut byte = 0_u8;
        // Nothing is written: it returns when the last writer has closed the pipe, or has ended.
        while libc::read(reads, (&raw mut byte).cast(), 1) < 0 && *libc::__errno_location() == libc::EINTR {}
        libc::_exit(0)
    }
}

/// # Safety
/// Nothing may use these descriptors any more.
unsafe fn close_range(first: RawFd, last: RawFd) {
    if first <= last {
        // SAFETY: numbers only; Linux has this call since 5.9.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}

/// Attaches to the tracepoint or function that the program names itself.
pub(super) fn attach_typed(object: &Object, name: &str) -> Result<Link, Error> {
    let link = bpf::program(object, name)?.attach_trace();
    link.map_err(|error| Error::Refused { program: name.to_owned(), why: error.to_string() })
}

/// Attaches to a classic tracepoint.
pub(super) fn attach_point(object: &Object, point: &Point) -> Result<Link, Error> {
    let Tracepoint { name, program, .. } = point.tracepoint;
    let event = perf_event::tracepoint(point.id);
    let event = event.map_err(|source| Error::Tracepoint { tracepoint: (*name).to_owned(), source })?;
    let link = perf_event::attach(&bpf::program(object, program)?, event);
    link.map_err(|error| Error::Refused { program: (*program).to_owned(), why: error.to_string() })
}

/// Period of the clock on each CPU; `cpus.bpf.c` has it too.
const TICK_NS: u64 = 10_000_000;

/// Attaches to a clock on each of these CPUs. A user who may load programs may still not open clocks
/// (`kernel.perf_event_paranoid`).
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

    /// Whether the pipe's other end is closed within that time.
    fn is_closed(fd: RawFd, within_ms: i32) -> bool {
        let mut poll = libc::pollfd { fd, events: 0, revents: 0 };
        // SAFETY: one descriptor, and room for the answer.
        let ready = unsafe { libc::poll(&raw mut poll, 1, within_ms) };
        ready == 1 && poll.revents & libc::POLLHUP != 0
    }

    #[test]
    fn other_process_closes_the_links_only_after_this_one() {
        let (reads, writes) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let closer = close_elsewhere(&[writes.as_raw_fd()]).unwrap();
        assert!(!is_closed(reads.as_raw_fd(), 0));
        drop(writes);
        // A process that does not wait would already have ended.
        assert!(!is_closed(reads.as_raw_fd(), 200), "the other has closed it before its time");
        drop(closer);
        assert!(is_closed(reads.as_raw_fd(), 60_000), "the other still holds it");
        assert_eq!(File::from(reads).read(&mut [0]).unwrap(), 0);
    }

    #[test]
    fn no_process_is_started_for_no_links() {
        assert!(close_elsewhere(&[]).is_none());
    }
}
