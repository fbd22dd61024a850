//! The kernel's perf events to which programs are attached: a tracepoint's, or a CPU's sampling clock.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, IntoRawFd as _, OwnedFd};

use libbpf_rs::{Link, ProgramMut, libbpf_sys};

/// `include/uapi/linux/perf_event.h`.
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;

/// Opens a tracepoint by its id.
///
/// A program on it runs for all processes and CPUs, regardless of the event's own (`kernel/trace/bpf_trace.c`,
/// `perf_event_attach_bpf_prog`): any one CPU will do. libbpf's own way would look the id up in a mounted tracefs,
/// which a host need not have.
pub(crate) fn tracepoint(id: u64) -> io::Result<OwnedFd> {
    let attributes = libbpf_sys::perf_event_attr {
        type_: libbpf_sys::PERF_TYPE_TRACEPOINT,
        config: id,
        ..Default::default()
    };
    open(attributes, 0)
}

/// The CPUs that are online now.
#[allow(clippy::disallowed_methods, reason = "/proc or /sys")]
pub(crate) fn online_cpus() -> io::Result<Vec<i32>> {
    Ok(parse_cpus(&fs::read_to_string("/sys/devices/system/cpu/online")?).collect())
}

/// Parses the kernel's lists of CPUs: `0-3,8`.
fn parse_cpus(cpus: &str) -> impl Iterator<Item = i32> + '_ {
    cpus.trim().split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let numbers = first.parse::<i32>().ok().zip(last.parse::<i32>().ok());
        numbers.map(|(first, last)| first..=last).into_iter().flatten()
    })
}

/// Opens a clock that ticks on a CPU with that period in nanoseconds.
pub(crate) fn cpu_clock(cpu: i32, period_ns: u64) -> io::Result<OwnedFd> {
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: libbpf_sys::PERF_TYPE_SOFTWARE,
        config: PERF_COUNT_SW_CPU_CLOCK,
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = period_ns;
    open(attributes, cpu)
}

fn open(mut attributes: libbpf_sys::perf_event_attr, cpu: i32) -> io::Result<OwnedFd> {
    attributes.size = size_of::<libbpf_sys::perf_event_attr>() as u32;
    let (any_process, no_group) = (-1, -1);
    // SAFETY: the attributes are valid for the size in them, and the other arguments are numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw mut attributes,
            any_process,
            cpu,
            no_group,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned this descriptor and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Runs the program for every hit or tick, until the link is dropped.
pub(crate) fn attach(program: &ProgramMut<'_>, event: OwnedFd) -> libbpf_rs::Result<Link> {
    let link = program.attach_perf_event(event.as_raw_fd())?;
    // The link closes it.
    let _ = event.into_raw_fd();
    Ok(link)
}

#[cfg(test)]
mod tests {
    use super::parse_cpus;

    #[test]
    fn parses_the_kernels_cpu_list() {
        assert_eq!(parse_cpus("0-3,8\n").collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert_eq!(parse_cpus("0\n").collect::<Vec<_>>(), [0]);
        assert_eq!(parse_cpus("\n").count(), 0);
    }
}
