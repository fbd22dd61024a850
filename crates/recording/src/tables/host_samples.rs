//! `host_samples/`: figures of the host, its devices and the broker as a whole.

use model::{Event, HostSample, HostScope, Nanos};

use crate::cells::BadRow;
use crate::columns::{F64, I64, Name, Text, columns};
use crate::table::{Decode, Encode};
use crate::text::TextPool;

columns! {
    HostSamples, HostSampleCells {
        start_ns: I64,
        end_ns: I64,
        scope: Name<HostScope>,
        name: Text,
        metric: Text,
        value: F64,
    }
}

impl Encode for HostSamples {
    type Row = HostSample;

    fn append(&mut self, sample: &HostSample) {
        self.start_ns.append_value(sample.start.0);
        self.end_ns.append_value(sample.end.0);
        self.scope.append_value(sample.scope.as_str());
        self.name.append_value(&sample.name);
        self.metric.append_value(&sample.metric);
        self.value.append_value(sample.value);
    }

    fn weight(sample: &HostSample) -> usize {
        48 + sample.name.len() + sample.metric.len()
    }
}

impl Decode for HostSampleCells {
    fn event(&self, i: usize, pool: &mut TextPool) -> Result<Event, BadRow> {
        Ok(Event::HostSample(Box::new(HostSample {
            start: Nanos(self.start_ns.at(i)?),
            end: Nanos(self.end_ns.at(i)?),
            scope: self.scope.at(i)?,
            name: self.name.at(i, pool)?,
            metric: self.metric.at(i, pool)?,
            value: self.value.at(i)?,
        })))
    }
}
