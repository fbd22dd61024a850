//! Requests as CSV: one line a partition, message ids in one field separated by blanks.
//! `error_code` is the partition's; the response's own is `response_error_code`.

use std::io::{self, Write};

use model::{Partition, Request};

use super::{RequestReport, RequestSummary};
use crate::csv::{self, known};

const HEADINGS: [&str; 34] = [
    "arrival_ns",
    "arrival_end_ns",
    "response_ns",
    "end_ns",
    "latency_ns",
    "head_of_line_ns",
    "api",
    "api_key",
    "api_version",
    "correlation_id",
    "client_id",
    "client",
    "broker",
    "request_bytes",
    "response_bytes",
    "acks",
    "throttle_ms",
    "error",
    "topic",
    "topic_id",
    "partition",
    "bytes",
    "records",
    "batch_crc",
    "base_offset",
    "error_code",
    "message_ids",
    "fetch_offset",
    "transactional_id",
    "group_id",
    "min_bytes",
    "max_wait_ms",
    "response_error_code",
    "data_ns",
];

/// Requests as CSV.
pub struct RequestCsv<W> {
    out: W,
    headed: bool,
}

impl<W: Write> RequestCsv<W> {
    /// CSV to this output.
    pub fn new(out: W) -> Self {
        Self { out, headed: false }
    }

    fn head(&mut self) -> io::Result<()> {
        if !self.headed {
            self.headed = true;
            csv::write_line(&mut self.out, HEADINGS)?;
        }
        Ok(())
    }

    fn line(&mut self, request: &Request, partition: Option<&Partition>) -> io::Result<()> {
        let mut fields = request_fields(request);
        fields.extend(partition_fields(partition));
        fields.extend(later_fields(request));
        csv::write_line(&mut self.out, fields.iter().map(String::as_str))
    }
}

fn request_fields(request: &Request) -> Vec<String> {
    vec![
        request.arrival.0.to_string(),
        request.arrival_end.0.to_string(),
        known(request.response.map(|at| at.0)),
        known(request.end.map(|at| at.0)),
        known(request.latency().map(|length| length.0)),
        known(request.head_of_line.map(|length| length.0)),
        request.api.to_owned(),
        request.api_key.to_string(),
        request.api_version.to_string(),
        request.correlation_id.to_string(),
        known(request.client_id.as_deref()),
        request.client.to_string(),
        request.broker.to_string(),
        request.request_bytes.to_string(),
        known(request.response_bytes),
        known(request.acks),
        known(request.throttle_ms),
        known(request.error.as_deref()),
    ]
}

fn partition_fields(partition: Option<&Partition>) -> [String; 10] {
    let Some(partition) = partition else { return Default::default() };
    [
        known(partition.topic.as_deref()),
        known(partition.topic_id),
        partition.partition.to_string(),
        partition.bytes.to_string(),
        known(partition.records),
        known(partition.batches.first().map(|batch| batch.crc)),
        known(partition.base_offset),
        known(partition.error_code),
        partition.message_ids.join(" "),
        known(partition.fetch_offset),
    ]
}

/// What came to the request's fields later: at the right, because scripts count columns.
fn later_fields(request: &Request) -> [String; 6] {
    [
        known(request.transactional_id.as_deref()),
        known(request.group_id.as_deref()),
        known(request.min_bytes),
        known(request.max_wait_ms),
        known(request.error_code),
        known(request.data.map(|at| at.0)),
    ]
}

impl<W: Write> RequestReport for RequestCsv<W> {
    fn request(&mut self, request: &Request) -> io::Result<()> {
        self.head()?;
        if request.partitions.is_empty() {
            return self.line(request, None);
        }
        request.partitions.iter().try_for_each(|partition| self.line(request, Some(partition)))
    }

    fn finish(&mut self, _summary: &RequestSummary) -> io::Result<()> {
        self.head()?;
        self.out.flush()
    }
}
