//! Who comes first where a processor is short: the threads of the broker. Says so to the scheduler, and knows nothing of what
//! its callers do.

use std::io;

/// `include/uapi/linux/sched.h`.
const SCHED_BATCH: u32 = 3;
/// The least that the scheduler takes (`__setparam_fair`, kernel/sched/fair.c).
const SLICE_NS: u64 = 100_000;

/// `struct sched_attr` of `include/uapi/linux/sched/types.h`, as far as Linux 3.14 knew it.
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

/// Has the calling thread wait where it would take a processor from another one as it wakes up (`SCHED_BATCH`), and
/// give way after a tenth of a millisecond instead of after some (Linux 6.12). Its share of the processors stays what
/// it is: a reader that falls behind loses events.
///
/// # Errors
/// Where the kernel refuses, as inside of some containers; nothing depends on it.
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
    // SAFETY: the attributes are readable for the size that they name; 0 is the calling thread, and there are no flags.
    let result = unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::{SCHED_BATCH, set_sched_batch};

    #[test]
    fn a_thread_that_steps_back_is_the_schedulers_batch() {
        // In another thread: the other tests go on as they were.
        let stepped = std::thread::spawn(|| {
            set_sched_batch().unwrap();
            // SAFETY: a number only.
            unsafe { libc::sched_getscheduler(0) }
        });
        assert_eq!(stepped.join().unwrap(), SCHED_BATCH as i32);
    }
}
