//! Records of threads off the CPU, and of the stacks of those who woke them, which come before.

use std::collections::HashMap;
use std::mem::offset_of;
use std::sync::Arc;

use super::{Decoder, Record, record};
use crate::bpf::types;
use crate::event::{OffCpu, Waker};

const _: () = {
    assert!(size_of::<types::off_cpu_event>() == 80 + 8 * 48);
    assert!(offset_of!(types::off_cpu_event, stack) == 80);
    assert!(size_of::<types::waker_stack_event>() == 24 + 8 * 32);
    assert!(offset_of!(types::waker_stack_event, stack) == 24);
};

// SAFETY: generated from the C structure in events.h, which holds integers and arrays only.
unsafe impl Record for types::off_cpu_event {}
// SAFETY: as above.
unsafe impl Record for types::waker_stack_event {}

/// Threads between their wake-up and their return: past this many, some returns were lost.
const MOST_WOKEN: usize = 4_096;

/// The stacks of wakers, by the thread they woke and when.
#[derive(Default)]
pub(super) struct Wakers(HashMap<u32, (u64, Arc<str>)>);

impl Wakers {
    fn learn(&mut self, tid: u32, woken_ns: u64, stack: Arc<str>) {
        if self.0.len() >= MOST_WOKEN {
            self.0.clear();
        }
        self.0.insert(tid, (woken_ns, stack));
    }

    /// Told once; an earlier wake-up's is not this one's.
    fn stack(&mut self, tid: u32, woken_ns: u64) -> Option<Arc<str>> {
        self.0.remove(&tid).filter(|(at_ns, _)| *at_ns == woken_ns).map(|(_, stack)| stack)
    }
}

impl Decoder {
    pub(super) fn waker_stack(&mut self, bytes: &[u8]) -> Option<()> {
        let record: types::waker_stack_event = record(bytes, offset_of!(types::waker_stack_event, stack))?;
        let frames = record.stack.get(..record.frames as usize).unwrap_or(&record.stack);
        let stack = self.stacks.text(frames);
        self.wakers.learn(record.tid, record.woken_ns, stack);
        Some(())
    }

    pub(super) fn off_cpu(&mut self, bytes: &[u8]) -> Option<OffCpu> {
        let record: types::off_cpu_event = record(bytes, offset_of!(types::off_cpu_event, stack))?;
        let frames = record.stack.get(..record.frames as usize).unwrap_or(&record.stack);
        let stack = self.stacks.text(frames);
        self.committing.waited(record.tid, record.start_ns, &stack);
        Some(OffCpu {
            start_ns: record.start_ns,
            end_ns: record.end_ns,
            woken_ns: (record.woken_ns != 0).then_some(record.woken_ns),
            pid: self.pid,
            tid: record.tid,
            comm: self.text(&record.comm),
            preempted: record.preempted != 0,
            stack,
            waker: (record.woken_ns != 0).then(|| self.waker(&record)),
        })
    }

    fn waker(&mut self, record: &types::off_cpu_event) -> Waker {
        Waker {
            tid: record.waker_tid,
            comm: self.text(&record.waker_comm),
            stack: self.wakers.stack(record.tid, record.woken_ns).unwrap_or_default(),
        }
    }
}
