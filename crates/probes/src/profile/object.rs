//! The profile's BPF object: loaded with its settings, attached to the scheduler and to a sampling clock. Reads no tables.
//!
//! The clock is a kernel timer on each CPU. It needs no hardware counter, so it works in virtual machines too. Code
//! that runs with interrupts off, such as the scheduler, is sampled only when they are on again: a thread that runs for
//! microseconds at a time gets a little less than its share.

use std::mem::offset_of;

use libbpf_rs::{Link, Object, ProgramMut, libbpf_sys};

use super::ProfileOptions;
use crate::bpf::profile::{OBJECT, types};
use crate::bpf::{self, Loader, map_name};
use crate::error::Error;
use crate::process_ids::ProcessIds;
use crate::{facts, perf_event};

/// Return addresses kept of a stack.
pub(super) const MAX_FRAMES: usize = 127;
const MAX_CALLS: usize = 8;

const _: () = assert!(size_of::<types::stack>() == 8 + 8 * MAX_FRAMES);

/// What to load the object for.
pub(super) enum Sampling<'a> {
    /// Time summed in the kernel.
    Total {
        options: &'a ProfileOptions,
        /// Whether the kernel filters by system call.
        in_calls: bool,
    },
    /// Single samples of a process, in the ring buffer.
    Each { pid: u32, hz: u32 },
}

pub(super) fn load(sampling: &Sampling<'_>) -> Result<Object, Error> {
    let ids = ProcessIds::of_this_host()?;
    let mut loader = Loader::open("brokerscope_prof", OBJECT)?;
    // Unused maps take no memory. Single samples are read soon, so few stacks are stored at a time.
    match sampling {
        Sampling::Total { options, .. } => {
            loader.choose_programs(|program| match program {
                "sample_total" => options.on_cpu_hz.is_some(),
                "sched_switch" => options.off_cpu_from.is_some(),
                _ => false,
            });
            loader.resize(map_name!(profile.ring), 4096)?;
        }
        Sampling::Each { .. } => {
            loader.choose_programs(|program| program == "sample_each");
            loader.resize(map_name!(profile.stack_times), 1)?;
            loader.resize(map_name!(profile.off_cpu_threads), 1)?;
            loader.resize(map_name!(profile.stacks), 1024)?;
        }
    }
    loader.set(offset_of!(types::rodata, settings), &settings(sampling, &ids)?)?;
    loader.set(offset_of!(types::rodata, pid_settings), &ids.settings())?;
    loader.load()
}

fn settings(sampling: &Sampling<'_>, ids: &ProcessIds) -> Result<types::profile_settings, Error> {
    let pid = match *sampling {
        Sampling::Total { options, .. } => options.pid,
        Sampling::Each { pid, .. } => pid,
    };
    let of_process = types::profile_settings {
        tgid: ids.root_of(pid).ok_or(Error::OtherPidNamespace { pid })?,
        ..types::profile_settings::default()
    };
    Ok(match *sampling {
        Sampling::Total { options, in_calls } => {
            let mut call = [0; MAX_CALLS];
            let calls = if in_calls { options.calls.as_slice() } else { &[] };
            for (slot, number) in call.iter_mut().zip(calls) {
                *slot = *number;
            }
            let min = options.off_cpu_from.unwrap_or_default().as_nanos();
            types::profile_settings {
                by_thread: u8::from(options.by_thread),
                calls: calls.len().min(MAX_CALLS) as u8,
                period_ns: period_ns(options.on_cpu_hz.unwrap_or(1)),
                min_ns: u64::try_from(min).unwrap_or(u64::MAX),
                call,
                ..of_process
            }
        }
        Sampling::Each { hz, .. } => types::profile_settings { period_ns: period_ns(hz), ..of_process },
    })
}

pub(super) fn attach_switches(object: &Object) -> Result<Link, Error> {
    let program = bpf::program(object, "sched_switch")?;
    program.attach_trace().map_err(|source| Error::Attach { program: "sched_switch".to_owned(), source })
}

/// Whether programs can read the registers with which a thread entered the kernel. Linux 5.15 and later can.
pub(super) fn sees_calls() -> bool {
    facts::has_helper(libbpf_sys::BPF_PROG_TYPE_PERF_EVENT, libbpf_sys::BPF_FUNC_task_pt_regs)
}

/// Runs the program that many times a second on each CPU that is online now.
pub(super) fn attach_clock(program: &ProgramMut<'_>, hz: u32) -> Result<Vec<Link>, Error> {
    let attach_one = |cpu| {
        let event = perf_event::cpu_clock(cpu, period_ns(hz)).map_err(Error::Sampling)?;
        let name = || program.name().to_string_lossy().into_owned();
        perf_event::attach(program, event).map_err(|source| Error::Attach { program: name(), source })
    };
    perf_event::online_cpus().map_err(Error::Sampling)?.into_iter().map(attach_one).collect()
}

/// The time between two samples of a CPU.
pub(super) fn period_ns(hz: u32) -> u64 {
    1_000_000_000 / u64::from(hz.max(1))
}

#[cfg(test)]
mod tests {
    use super::period_ns;

    #[test]
    fn sampling_rate_zero_is_one_per_second() {
        assert_eq!(period_ns(99), 10_101_010);
        assert_eq!(period_ns(0), 1_000_000_000);
    }
}
