//! `off_cpu/`: stretches of time in which a thread was not on a CPU.

use std::sync::Arc;

use model::{Event, Nanos, OffCpu, Waker};

use crate::cells::{BadRow, Cells};
use crate::columns::{Derived, Flag, I64, Maybe, Text, U32, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;
use crate::text_cells::Texts;

columns! {
    OffCpus, OffCpuCells {
        start_ns: I64,
        end_ns: I64,
        latency_ns: Derived<I64>,
        woken_ns: Maybe<I64>,
        pid: U32,
        tid: U32,
        thread: Text,
        preempted: Flag,
        stack: Text,
        waker_tid: Maybe<U32>,
        waker_thread: Maybe<Text>,
        waker_stack: Maybe<Text>,
    }
}

impl Encode for OffCpus {
    type Row = OffCpu;

    fn append(&mut self, interval: &OffCpu) {
        self.start_ns.append_value(interval.start.0);
        self.end_ns.append_value(interval.end.0);
        self.latency_ns.append_value(interval.length().0);
        self.woken_ns.append_option(interval.woken.map(|at| at.0));
        self.pid.append_value(interval.pid);
        self.tid.append_value(interval.tid);
        self.thread.append_value(&interval.thread);
        self.preempted.append_value(interval.preempted);
        self.stack.append_value(&interval.stack);
        let waker = interval.waker.as_ref();
        self.waker_tid.append_option(waker.map(|waker| waker.tid));
        self.waker_thread.append_option(waker.map(|waker| &*waker.thread));
        self.waker_stack.append_option(waker.map(|waker| &*waker.stack));
    }

    fn weight(interval: &OffCpu) -> usize {
        let waker = interval.waker.as_ref().map_or(0, |waker| waker.thread.len() + waker.stack.len());
        80 + interval.thread.len() + interval.stack.len() + waker
    }
}

impl OffCpuCells {
    fn waker(&self, i: usize, pool: &mut TextPool) -> Option<Waker> {
        let tid = self.waker_tid.maybe(i)?;
        let mut text = |cells: &Cells<Texts>| cells.maybe(i, pool).unwrap_or_else(|| Arc::from(""));
        Some(Waker { tid, thread: text(&self.waker_thread), stack: text(&self.waker_stack) })
    }
}

impl Decode for OffCpuCells {
    fn event(&self, i: usize, pool: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::OffCpu(Box::new(OffCpu {
            start: Nanos(self.start_ns.at(i)?),
            end: Nanos(self.end_ns.at(i)?),
            woken: self.woken_ns.maybe(i).map(Nanos),
            pid: self.pid.at(i)?,
            tid: self.tid.at(i)?,
            thread: self.thread.at(i, pool)?,
            preempted: self.preempted.at(i)?,
            stack: self.stack.at(i, pool)?,
            waker: self.waker(i, pool),
        })))
    }
}
