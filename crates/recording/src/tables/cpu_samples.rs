//! `cpu_samples/`: where threads of the broker were on the CPU.

use model::{CpuSample, Event, Nanos};

use crate::cells::BadRow;
use crate::columns::{I64, Text, U32, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;

columns! {
    CpuSamples, CpuSampleCells {
        at_ns: I64,
        period_ns: I64,
        pid: U32,
        tid: U32,
        thread: Text,
        stack: Text,
    }
}

impl Encode for CpuSamples {
    type Row = CpuSample;

    fn append(&mut self, sample: &CpuSample) {
        self.at_ns.append_value(sample.at.0);
        self.period_ns.append_value(sample.period.0);
        self.pid.append_value(sample.pid);
        self.tid.append_value(sample.tid);
        self.thread.append_value(&sample.thread);
        self.stack.append_value(&sample.stack);
    }

    fn weight(sample: &CpuSample) -> usize {
        48 + sample.thread.len() + sample.stack.len()
    }
}

impl Decode for CpuSampleCells {
    fn event(&self, i: usize, pool: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::CpuSample(Box::new(CpuSample {
            at: Nanos(self.at_ns.at(i)?),
            period: Nanos(self.period_ns.at(i)?),
            pid: self.pid.at(i)?,
            tid: self.tid.at(i)?,
            thread: self.thread.at(i, pool)?,
            stack: self.stack.at(i, pool)?,
        })))
    }
}
