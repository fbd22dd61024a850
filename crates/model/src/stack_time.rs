//! Time that threads spent at one place of the code, added up. Does not draw it.

use std::sync::Arc;

use crate::{CpuSample, Nanos, OffCpu, Tid};

/// Where the time went: a stack, and how long and how often threads were there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StackTime {
    /// On the CPU or off it.
    pub state: CpuState,
    /// The threads' name as far as it is known.
    pub thread: Arc<str>,
    /// The thread, where threads of one name are kept apart.
    pub tid: Option<Tid>,
    /// Stack, outermost function first, joined by `;`: user space's frames where they could be named, then the
    /// kernel's. The kernel's end in [`StackTime::KERNEL`], those of code compiled at run time (Java) in
    /// [`StackTime::COMPILED`], as in the output of `stackcollapse-perf`.
    pub stack: Arc<str>,
    /// How long, all in all.
    pub time: Nanos,
    /// In how many samples or intervals.
    pub count: u64,
}

/// Whether a thread has a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CpuState {
    /// It runs.
    On,
    /// It waits: for whatever its stack says, or for a CPU.
    Off,
}

impl StackTime {
    /// What ends a frame of the kernel.
    pub const KERNEL: &'static str = "_[k]";
    /// What ends a frame of code that was compiled at run time.
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
    /// An interval's stack is the kernel's alone, and plain.
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

#[cfg(test)]
mod tests {
    use super::{CpuState, StackTime};
    use crate::{Nanos, OffCpu};

    #[test]
    fn an_interval_is_time_off_the_cpu_in_the_kernel() {
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
