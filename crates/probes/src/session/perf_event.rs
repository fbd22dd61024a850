//! Attaches a program to a classic tracepoint by the number that the plan holds. libbpf's own way would look
//! that number up in a mounted tracefs, which a host need not have.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::{Link, ProgramMut, libbpf_sys};

use crate::error::Error;
use crate::plan::Point;

/// The program runs for every hit of the tracepoint, on all CPUs, until the link is dropped.
pub(super) fn attach(program: &ProgramMut<'_>, point: &Point) -> Result<Link, Error> {
    let event =
        open(point.id).map_err(|source| Error::Tracepoint { tracepoint: point.name.to_owned(), source })?;
    let link = program
        .attach_perf_event(event.as_raw_fd())
        .map_err(|error| Error::Refused { program: point.program.to_owned(), why: error.to_string() })?;
    // The link closes it.
    let _ = event.into_raw_fd();
    Ok(link)
}

/// `include/uapi/linux/perf_event.h`.
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;

/// A BPF program on a tracepoint's perf event runs for all processes and CPUs, whichever the event itself
/// is for (`kernel/trace/bpf_trace.c`, `perf_event_attach_bpf_prog`): any one CPU will do.
fn open(tracepoint: u64) -> io::Result<OwnedFd> {
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: libbpf_sys::PERF_TYPE_TRACEPOINT,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        config: tracepoint,
        ..Default::default()
    };
    let (any_process, first_cpu, no_group) = (-1, 0, -1);
    // SAFETY: the attributes are valid for the size they name, and the other arguments are numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw mut attributes,
            any_process,
            first_cpu,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}
