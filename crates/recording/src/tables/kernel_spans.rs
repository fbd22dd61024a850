//! `kernel_spans/`: calls of kernel functions that can hold up others.

use std::sync::Arc;

use model::{Device, Event, KernelSpan, Nanos, SpanSource};

use crate::cells::BadRow;
use crate::columns::{Derived, I64, Maybe, Name, Text, U32, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;

columns! {
    KernelSpans, KernelSpanCells {
        start_ns: I64,
        end_ns: I64,
        latency_ns: Derived<I64>,
        function: Text,
        device: Maybe<Text>,
        device_major: Maybe<U32>,
        device_minor: Maybe<U32>,
        tid: U32,
        thread: Text,
        seen_by: Name<SpanSource>,
    }
}

impl Encode for KernelSpans {
    type Row = KernelSpan;

    fn append(&mut self, span: &KernelSpan) {
        self.start_ns.append_value(span.start.0);
        self.end_ns.append_value(span.end.0);
        self.latency_ns.append_value(span.latency().0);
        self.function.append_value(&span.function);
        let device = span.device.as_ref();
        self.device.append_option(device.map(|device| &*device.name));
        self.device_major.append_option(device.map(|device| device.major));
        self.device_minor.append_option(device.map(|device| device.minor));
        self.tid.append_value(span.tid);
        self.thread.append_value(&span.thread);
        self.seen_by.append_value(span.seen_by.as_str());
    }

    fn weight(span: &KernelSpan) -> usize {
        64 + span.function.len() + span.thread.len()
    }
}

impl KernelSpanCells {
    /// The number is there or the device is not.
    fn device(&self, i: usize, pool: &mut TextPool) -> Result<Option<Device>, BadRow> {
        let Some(major) = self.device_major.maybe(i) else { return Ok(None) };
        let name = self.device.maybe(i, pool).unwrap_or_else(|| Arc::from(""));
        Ok(Some(Device { major, minor: self.device_minor.at(i)?, name }))
    }
}

impl Decode for KernelSpanCells {
    fn event(&self, i: usize, pool: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::KernelSpan(Box::new(KernelSpan {
            start: Nanos(self.start_ns.at(i)?),
            end: Nanos(self.end_ns.at(i)?),
            function: self.function.at(i, pool)?,
            device: self.device(i, pool)?,
            tid: self.tid.at(i)?,
            thread: self.thread.at(i, pool)?,
            seen_by: self.seen_by.at(i)?,
        })))
    }
}
