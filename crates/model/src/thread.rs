//! Where threads were: intervals off the CPU, samples on it, and time summed by stack. Does not classify stacks:
//! `diagnose` does.

use std::sync::Arc;

use crate::{Nanos, Pid, Tid};

row! {
    off_cpu_row =>
    /// One interval off the CPU, with the kernel stack at which the thread left it.
    #[derive(Clone, Debug, PartialEq)]
    pub struct OffCpu {
        /// When the thread was switched out.
        start: Nanos as "start_ns",
        /// When it ran again.
        end: Nanos as "end_ns" => length: Nanos as "latency_ns" "From start to end.",
        /// When it was made runnable, where that was seen: from there to `end` it waited for a CPU.
        woken: Option<Nanos> as "woken_ns",
        /// The process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// The thread's name as far as it is known.
        thread: Arc<str>,
        /// Whether it was preempted while runnable, instead of waiting for something.
        preempted: bool,
        /// Kernel stack, outermost function first, joined by `;`; empty where none could be taken.
        stack: Arc<str>,
        /// The thread that made it runnable, where that was seen.
        waker: Option<Waker>,
    }
}

row! {
    waker_row =>
    /// The thread that made another one runnable.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Waker {
        /// The thread; 0 for an idle CPU that took an interrupt.
        tid: Tid as "woken_by_tid",
        /// Its name; for an interrupt, the thread that it happened to interrupt.
        thread: Arc<str> as "woken_by_thread",
        /// Its kernel stack, outermost function first, joined by `;`; empty where none was taken.
        stack: Arc<str> as "woken_by_stack",
    }
}

row! {
    cpu_sample_row =>
    /// One sample of a thread on the CPU.
    #[derive(Clone, Debug, PartialEq)]
    pub struct CpuSample {
        /// When it was taken.
        at: Nanos as "at_ns",
        /// The processor time it stands for: one period of the clock.
        period: Nanos as "period_ns",
        /// The process.
        pid: Pid,
        /// The thread.
        tid: Tid,
        /// The thread's name as far as it is known.
        thread: Arc<str>,
        /// Stack, outermost function first, joined by `;`, as in [`crate::StackTime::stack`].
        stack: Arc<str>,
    }
}

/// Time by stack: how long and how often threads were there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackTime {
    /// Whether the threads were on the CPU or off it.
    pub state: CpuState,
    /// The threads' name as far as it is known.
    pub thread: Arc<str>,
    /// The thread, where threads of one name are kept separate.
    pub tid: Option<Tid>,
    /// Stack, outermost function first, joined by `;`: user space's frames where they could be named, then the
    /// kernel's. Kernel frames end in [`StackTime::KERNEL`], frames of code compiled at run time (Java) in
    /// [`StackTime::COMPILED`], as in the output of `stackcollapse-perf`.
    pub stack: Arc<str>,
    /// Total time.
    pub time: Nanos,
    /// Number of samples or intervals.
    pub count: u64,
}

/// Whether a thread has a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuState {
    /// It runs.
    On,
    /// It waits: for what its stack shows, or for a CPU.
    Off,
}

impl StackTime {
    /// Suffix of a kernel frame.
    pub const KERNEL: &'static str = "_[k]";
    /// Suffix of a frame of code that was compiled at run time.
    pub const COMPILED: &'static str = "_[j]";
}

impl From<&CpuSample> for StackTime {
    fn from(sample: &CpuSample) -> Self {
        Self {
            state: CpuState::On,
            thread: Arc::clone(&sample.thread),
            tid: Some(sample.tid),
            stack: Arc::clone(&sample.stack),
            time: sample.period,
            count: 1,
        }
    }
}

impl From<&OffCpu> for StackTime {
    /// An interval's stack has only kernel frames, without suffixes.
    fn from(interval: &OffCpu) -> Self {
        let frames = interval.stack.split(';').filter(|frame| !frame.is_empty());
        let frames: Vec<String> = frames.map(|frame| format!("{frame}{}", Self::KERNEL)).collect();
        Self {
            state: CpuState::Off,
            thread: Arc::clone(&interval.thread),
            tid: Some(interval.tid),
            stack: frames.join(";").into(),
            time: interval.length(),
            count: 1,
        }
    }
}

lengths! {
    /// How long it was off the CPU.
    OffCpu::length;
}

#[cfg(test)]
mod tests {
    use super::{CpuState, StackTime};
    use crate::{Nanos, OffCpu};

    #[test]
    fn off_cpu_interval_becomes_stack_time_with_kernel_frames() {
        let interval = OffCpu {
            start: Nanos(5),
            end: Nanos(12),
            woken: None,
            pid: 1,
            tid: 2,
            thread: "handler".into(),
            preempted: false,
            stack: "vfs_write;__schedule".into(),
            waker: None,
        };
        let spent = StackTime::from(&interval);
        assert_eq!((spent.state, spent.time, spent.count), (CpuState::Off, Nanos(7), 1));
        assert_eq!(&*spent.stack, "vfs_write_[k];__schedule_[k]");
        assert_eq!(&*StackTime::from(&OffCpu { stack: "".into(), ..interval }).stack, "");
    }
}
