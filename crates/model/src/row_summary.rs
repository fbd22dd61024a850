//! Summaries of rows: the few columns that say when an event was, whose it was, and how it might affect others. That is
//! enough to find what a verdict can depend on, and to join requests with writes, without making events of all rows.
//! Does not say what is slow.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::row::NonEmpty;
use crate::{FileKind, FileOpKind, Nanos, Partition, Request, Tid, TopicId};

/// The summary of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum RowSummary {
    /// A request, for a row filter.
    Request(RequestPosition),
    /// A request, to find the long ones.
    LongRequest(RequestTiming),
    /// A file operation.
    FileOp(FileOpSummary),
    /// A thread off the CPU.
    OffCpu(OffCpuSummary),
    /// An operation on a connection.
    SocketOp {
        /// When it began.
        start: Nanos,
        /// When it ended.
        end: Nanos,
        /// The thread.
        tid: Tid,
    },
    /// Anything else that has a length.
    Span {
        /// When it began.
        start: Nanos,
        /// When it ended.
        end: Nanos,
    },
}

/// The time, client and connection of a request, as in [`crate::Request`].
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields of Request")]
pub struct RequestPosition {
    pub arrival: Nanos,
    pub arrival_end: Nanos,
    pub end: Option<Nanos>,
    pub api_key: i16,
    pub client_id: Option<Arc<str>>,
    /// A hash of both ends of its connection.
    pub connection: u64,
}

row! {
    request_timing_row =>
    /// The columns of a [`crate::Request`] that tell whether it was slow, and whether that was intended.
    #[derive(Clone, Debug, PartialEq)]
    #[allow(missing_docs, reason = "the fields of Request")]
    pub struct RequestTiming {
        arrival: Nanos as "arrival_ns",
        arrival_end: Nanos as "arrival_end_ns",
        response: Option<Nanos> as "response_ns",
        end: Option<Nanos> as "end_ns",
        head_of_line: Option<Nanos> as "head_of_line_ns",
        data: Option<Nanos> as "data_ns",
        api: &'static str,
        api_key: i16,
        correlation_id: i32,
        min_bytes: Option<i32>,
        max_wait_ms: Option<i32>,
    }
}

/// Declares the times of types with a request's columns.
macro_rules! of_request {
    ($($Columns:ty),*) => {$(
        impl $Columns {
            /// First byte of the request to last byte of the response.
            pub fn latency(&self) -> Option<Nanos> {
                self.end.map(|end| end - self.arrival)
            }

            /// When the last byte of its response was seen, or else its own last byte.
            pub fn last_seen(&self) -> Nanos {
                self.end.unwrap_or(self.arrival_end)
            }
        }
    )*};
}
of_request!(Request, RequestColumns, RequestPosition, RequestTiming);

row! {
    file_op_summary_row =>
    /// The time, kind and thread of a [`crate::FileOp`].
    #[derive(Clone, Debug, PartialEq)]
    #[allow(missing_docs, reason = "the fields of FileOp")]
    pub struct FileOpSummary {
        start: Nanos as "start_ns",
        end: Nanos as "end_ns",
        op: FileOpKind,
        kind: FileKind,
        tid: Tid,
    }
}

row! {
    off_cpu_summary_row =>
    /// The time and thread of a [`crate::OffCpu`].
    #[derive(Clone, Debug, PartialEq)]
    #[allow(missing_docs, reason = "the fields of OffCpu")]
    pub struct OffCpuSummary {
        start: Nanos as "start_ns",
        end: Nanos as "end_ns",
        woken: Option<Nanos> as "woken_ns",
        preempted: bool,
        tid: Tid,
    }
}

row! {
    request_columns_row =>
    /// The columns of a [`Request`] that aggregates need.
    #[derive(Clone, Debug, PartialEq)]
    #[allow(missing_docs, reason = "the fields of Request")]
    pub struct RequestColumns {
        arrival: Nanos as "arrival_ns",
        arrival_end: Nanos as "arrival_end_ns",
        response: Option<Nanos> as "response_ns",
        end: Option<Nanos> as "end_ns",
        head_of_line: Option<Nanos> as "head_of_line_ns",
        data: Option<Nanos> as "data_ns",
        api_key: i16,
        api: &'static str,
        client_id: Option<Arc<str>>,
        client: SocketAddr,
        acks: Option<i16>,
        min_bytes: Option<i32>,
        max_wait_ms: Option<i32>,
        error_code: Option<i16>,
        error: Option<Arc<str>>,
        partitions: Vec<PartitionColumns>,
    }
}

row! {
    partition_columns_row =>
    /// A partition in [`RequestColumns`].
    #[derive(Clone, Debug, PartialEq)]
    #[allow(missing_docs, reason = "the fields of Partition")]
    pub struct PartitionColumns {
        topic: Option<Arc<str>>,
        topic_id: Option<TopicId>,
        partition: i32,
        bytes: u32,
        records: Option<u32>,
        error_code: Option<i16>,
        newest_record: Option<Nanos> as "newest_record_ns",
    }
}

impl From<&Request> for RequestColumns {
    fn from(request: &Request) -> Self {
        Self {
            arrival: request.arrival,
            arrival_end: request.arrival_end,
            response: request.response,
            end: request.end,
            head_of_line: request.head_of_line,
            data: request.data,
            api_key: request.api_key,
            api: request.api,
            client_id: request.client_id.clone(),
            client: request.client,
            acks: request.acks,
            min_bytes: request.min_bytes,
            max_wait_ms: request.max_wait_ms,
            error_code: request.error_code,
            error: request.error.clone(),
            partitions: request.partitions.iter().map(Into::into).collect(),
        }
    }
}

impl From<&Partition> for PartitionColumns {
    fn from(of: &Partition) -> Self {
        let &Partition { topic_id, partition, bytes, records, error_code, newest_record, .. } = of;
        Self { topic: of.topic.clone(), topic_id, partition, bytes, records, error_code, newest_record }
    }
}

lengths! {
    /// How long it took.
    FileOpColumns::latency;
}

row! {
    file_op_columns_row =>
    /// The columns of a [`crate::FileOp`] that aggregates need.
    #[derive(Clone, Debug, PartialEq)]
    #[allow(missing_docs, reason = "the fields of FileOp")]
    pub struct FileOpColumns {
        start: Nanos as "start_ns",
        end: Nanos as "end_ns",
        op: FileOpKind,
        bytes: Option<u64>,
        disk_bytes: Option<u64>,
        readahead_bytes: Option<u64>,
        file: Arc<str>,
        kind: FileKind,
        device: Arc<str> as "device" in NonEmpty,
    }
}

/// The choice whether to read a row, by its summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowChoice {
    /// It is read.
    Read,
    /// It lies in a gap between stretches of time that are read whole. It is read if it is the first or the last of its
    /// kind there.
    Edge {
        /// Its kind.
        kind: u64,
        /// The gap's number.
        gap: u32,
    },
}

/// Selects the rows that are read.
pub trait RowFilter: Send + Sync {
    /// Chooses whether to read a row. If a row lies outside all stretches from its start to its end, all moments in
    /// between are in the same gap: every row of its table and kind that lies within its time gets the same choice.
    fn choose(&self, row: &RowSummary) -> RowChoice;
}

/// The fields that join the write of a record batch with a request. Both have the same number for a topic.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields of FileOp and BatchHead")]
pub struct WriteKey {
    pub start: Nanos,
    pub end: Nanos,
    pub topic: u32,
    pub partition: i32,
    pub crc: u32,
    pub bytes: u32,
    pub base_offset: i64,
}

/// The fields that join one partition of a produce request with its write.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields of Request and Partition")]
pub struct ProduceKey {
    pub arrival: Nanos,
    pub response: Option<Nanos>,
    pub last_seen: Nanos,
    /// `None` if the name is not known.
    pub topic: Option<u32>,
    pub partition: i32,
    pub bytes: u32,
    pub error_code: Option<i16>,
    /// The CRC and the bytes of its first batch.
    pub batch: Option<(u32, u32)>,
    pub base_offset: Option<i64>,
}
