//! The sampling clock: one of the kernel's timers on each CPU. It needs no hardware counter, so that it works
//! in virtual machines too. What runs with interrupts off, as the scheduler itself, is counted where they are on
//! again: a thread that runs for microseconds at a time is given a little less than it takes.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};

use libbpf_rs::{Link, ProgramMut, libbpf_sys};

use crate::error::Error;

/// `include/uapi/linux/perf_event.h`.
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;

/// Has the program run so many times a second on each CPU that is online now.
pub(super) fn attach(program: &ProgramMut<'_>, hz: u32) -> Result<Vec<Link>, Error> {
    let cpus = fs::read_to_string("/sys/devices/system/cpu/online").map_err(Error::Sampling)?;
    let attach_one = |cpu| {
        let event = open(cpu, period_ns(hz)).map_err(Error::Sampling)?;
        let name = || program.name().to_string_lossy().into_owned();
        let link = program
            .attach_perf_event(event.as_raw_fd())
            .map_err(|source| Error::Attach { program: name(), source })?;
        // The link closes it.
        let _ = event.into_raw_fd();
        Ok(link)
    };
    listed(&cpus).map(attach_one).collect()
}

/// The time between two samples of a CPU.
pub(super) fn period_ns(hz: u32) -> u64 {
    1_000_000_000 / u64::from(hz.max(1))
}

/// The kernel's lists of CPUs: `0-3,8`.
fn listed(cpus: &str) -> impl Iterator<Item = i32> + '_ {
    cpus.trim().split(',').flat_map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let numbers = first.parse::<i32>().ok().zip(last.parse::<i32>().ok());
        numbers.map(|(first, last)| first..=last).into_iter().flatten()
    })
}

fn open(cpu: i32, period_ns: u64) -> io::Result<OwnedFd> {
    let mut attributes = libbpf_sys::perf_event_attr {
        type_: libbpf_sys::PERF_TYPE_SOFTWARE,
        size: size_of::<libbpf_sys::perf_event_attr>() as u32,
        config: PERF_COUNT_SW_CPU_CLOCK,
        ..Default::default()
    };
    attributes.__bindgen_anon_1.sample_period = period_ns;
    let (any_process, no_group) = (-1, -1);
    // SAFETY: the attributes are valid for the size they name, and the other arguments are numbers.
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
    // SAFETY: the kernel has just returned this descriptor and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

#[cfg(test)]
mod tests {
    use super::{listed, period_ns};

    #[test]
    fn cpus_are_listed_as_the_kernel_lists_them() {
        assert_eq!(listed("0-3,8\n").collect::<Vec<_>>(), [0, 1, 2, 3, 8]);
        assert_eq!(listed("0\n").collect::<Vec<_>>(), [0]);
        assert_eq!(listed("\n").count(), 0);
    }

    #[test]
    fn a_clock_of_no_ticks_ticks_once_a_second() {
        assert_eq!(period_ns(99), 10_101_010);
        assert_eq!(period_ns(0), 1_000_000_000);
    }
}
