//! How full producers' batches are. Does not know their settings.

use model::Request;
use model::api_key::PRODUCE;

use crate::bounds;
use crate::catalog;
use crate::encoding::Encoder;
use crate::histogram::Histogram;

/// Of what one partition was sent in one request: with magic 2 that is one record batch, before, one message set.
#[derive(Debug)]
pub(crate) struct Batches {
    bytes: Histogram,
    records: Histogram,
}

impl Default for Batches {
    fn default() -> Self {
        Self { bytes: Histogram::within(bounds::BYTES), records: Histogram::within(bounds::RECORDS) }
    }
}

impl Batches {
    pub(crate) fn request(&mut self, request: &Request) {
        if request.api_key != PRODUCE {
            return;
        }
        for batch in request.partitions.iter().filter(|batch| batch.bytes > 0) {
            self.bytes.observe(f64::from(batch.bytes));
            if let Some(records) = batch.records {
                self.records.observe(f64::from(records));
            }
        }
    }

    pub(crate) fn encode(&self, out: &mut dyn Encoder) {
        for (family, histogram) in
            [(&catalog::BATCH_BYTES, &self.bytes), (&catalog::BATCH_RECORDS, &self.records)]
        {
            out.family(family);
            out.histogram(&[], histogram);
        }
    }
}
