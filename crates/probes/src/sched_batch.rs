//! Gives the broker's threads priority where CPUs are short.
//!
//! Only sets the scheduling policy; knows nothing of what its callers do.

use std::io;

/// `include/uapi/linux/sched.h`.
const SCHED_BATCH: u32 = 3;
/// The minimum that the scheduler accepts (`__setparam_fair`, kernel/sched/fair.c).
const SLICE_NS: u64 = 100_000;

/// `struct sched_attr` of `include/uapi/linux/sched/types.h`, as of Linux 3.14.
#[repr(C)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

/// Makes the calling thread preempt no thread when it wakes up (`SCHED_BATCH`).
///
/// Since Linux 6.12 it also yields after a tenth of a millisecond instead of after some milliseconds. Its share of the
/// CPUs stays the same: a reader that falls behind loses events.
///
/// # Errors
/// The kernel refuses, as inside some containers; nothing depends on it.
pub fn set_sched_batch() -> io::Result<()> {
    let nice = rustix::process::getpriority_process(None)?;
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: SCHED_BATCH,
        flags: 0,
        nice,
        priority: 0,
        runtime_ns: SLICE_NS,
        deadline_ns: 0,
        period_ns: 0,
    };
    // SAFETY: the attributes are readable for the size in them; 0 is the calling thread, and there are no flags.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::{SCHED_BATCH, set_sched_batch};

    #[test]
    fn set_sched_batch_changes_the_scheduling_policy() {
        // In another thread, so that the other tests are unaffected.
        let stepped = std::thread::spawn(|| {
            set_sched_batch().unwrap();
            // SAFETY: a number only.
            unsafe { libc::sched_getscheduler(0) }
        });
        assert_eq!(stepped.join().unwrap(), SCHED_BATCH as i32);
    }
}
