//! Profiles where a process's threads spend their time, on and off the CPU: sampled and summed in the kernel, named
//! here. A separate BPF object that neither needs nor disturbs [`crate::Probes`]. Draws nothing.

mod object;
mod sampler;
mod tables;

use std::time::Duration;

use libbpf_rs::{Link, Object};
use model::{Nanos, StackTime};

pub use crate::user::Java;
pub use sampler::Sampler;

use crate::bpf;
use crate::error::Error;
use crate::overhead::{self, ProgramCost};
use object::Sampling;
use tables::Frames;

/// What to profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileOptions {
    /// The process, as this process's `/proc` numbers it.
    pub pid: u32,
    /// Samples per second on each CPU, of running threads.
    pub on_cpu_hz: Option<u32>,
    /// Minimum length of the off-CPU intervals to measure.
    pub off_cpu_from: Option<Duration>,
    /// Numbers of system calls to profile (at most 8); empty: everything.
    pub calls: Vec<i32>,
    /// Keep threads of the same name apart.
    pub by_thread: bool,
    /// Makes the kernel measure the BPF programs' run time.
    pub measure: bool,
}

/// A running profile.
pub struct Profile {
    links: Vec<Link>,
    object: Object,
    options: ProfileOptions,
    frames: Frames,
    in_calls: bool,
    _measuring: Option<std::os::fd::OwnedFd>,
}

/// A finished profile.
#[derive(Clone, Debug)]
pub struct ProfileResult {
    /// Where the time went, unordered.
    pub stacks: Vec<StackTime>,
    /// What could not be seen.
    pub losses: ProfileLosses,
    /// Whether the kernel could restrict the profile to [`ProfileOptions::calls`]; if not, it contains everything.
    pub in_calls: bool,
    /// How far Java's frames could be seen and named.
    pub java: Java,
    /// Cost of each BPF program.
    pub costs: Vec<ProgramCost>,
}

/// Counts of what a profile could not see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProfileLosses {
    /// Stacks without room: their time is counted under `[stack lost]`.
    pub stacks: u64,
    /// Samples and intervals in no table.
    pub uncounted: u64,
    /// Their total time.
    pub uncounted_time: Nanos,
    /// Intervals not followed: too many threads, or the kernel skipped the program.
    pub intervals: u64,
    /// Single samples that the reader did not fetch in time.
    pub samples: u64,
}

impl ProfileLosses {
    /// Whether anything was lost.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

impl Profile {
    /// Starts a profile.
    ///
    /// # Errors
    /// The kernel refuses the programs or the clock.
    pub fn attach(options: &ProfileOptions) -> Result<Self, Error> {
        let measuring = if options.measure { overhead::count_run_time() } else { None };
        let in_calls = options.calls.is_empty() || object::sees_calls();
        // The process may have ended when the profile ends.
        let frames = Frames::of(options.pid)?;
        let sampling = Sampling::Total { options, in_calls };
        let object = object::load(&sampling)?;
        let mut links = Vec::new();
        if options.off_cpu_from.is_some() {
            links.push(object::attach_switches(&object)?);
        }
        if let Some(hz) = options.on_cpu_hz {
            links.extend(object::attach_clock(&bpf::program(&object, "sample_total")?, hz)?);
        }
        Ok(Self { links, object, options: options.clone(), frames, in_calls, _measuring: measuring })
    }

    /// Stops, and resolves the stacks. Threads that are off the CPU now are counted up to now.
    ///
    /// # Errors
    /// The kernel's tables cannot be read.
    pub fn finish(self) -> Result<ProfileResult, Error> {
        let Self { links, object, options, mut frames, in_calls, .. } = self;
        drop(links);
        frames.user.refresh();
        let stacks = tables::read(&object, &options, &mut frames)?;
        let costs = overhead::costs(&object);
        let skipped = costs.iter().map(|cost| cost.skipped).sum();
        Ok(ProfileResult {
            stacks,
            losses: tables::losses(&object, skipped),
            in_calls,
            java: frames.user.java.clone(),
            costs,
        })
    }
}

/// The number of a system call on files or sockets, if this architecture has it.
pub fn call_number(name: &str) -> Option<i32> {
    let number = match name {
        "read" => libc::SYS_read,
        "pread64" => libc::SYS_pread64,
        "readv" => libc::SYS_readv,
        "preadv" => libc::SYS_preadv,
        "preadv2" => libc::SYS_preadv2,
        "write" => libc::SYS_write,
        "pwrite64" => libc::SYS_pwrite64,
        "writev" => libc::SYS_writev,
        "pwritev" => libc::SYS_pwritev,
        "pwritev2" => libc::SYS_pwritev2,
        "fsync" => libc::SYS_fsync,
        "fdatasync" => libc::SYS_fdatasync,
        "msync" => libc::SYS_msync,
        "sync_file_range" => libc::SYS_sync_file_range,
        "sendfile" => libc::SYS_sendfile,
        "splice" => libc::SYS_splice,
        _ => return None,
    };
    i32::try_from(number).ok()
}

#[cfg(test)]
mod tests {
    use super::call_number;

    #[test]
    fn resolves_system_call_names_to_numbers() {
        assert_eq!(call_number("write").map(i64::from), Some(libc::SYS_write));
        assert_ne!(call_number("write"), call_number("writev"));
        assert_eq!(call_number("vfs_write"), None);
    }
}
