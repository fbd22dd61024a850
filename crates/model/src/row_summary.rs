//! What was recorded, by the few columns that say when it was, whose, and how it might bear on others: enough to tell what
//! a verdict can depend on, and to join what was sent with what was written, without making events of everything. Does not
//! say what is slow.

use std::sync::Arc;

use crate::{FileKind, FileOpKind, Nanos, Tid};

/// An event in outline.
#[derive(Clone, Debug, PartialEq)]
pub enum RowSummary {
    /// A request, for a row filter.
    Request(RequestPosition),
    /// A request, to find what took long.
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

/// A request, as [`crate::Request`] has it: where it lies, and whose it was.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields of Request")]
pub struct RequestPosition {
    pub arrival: Nanos,
    pub arrival_end: Nanos,
    pub end: Option<Nanos>,
    pub api_key: i16,
    pub client_id: Option<Arc<str>>,
    /// A number that both ends of its connection give, and hardly any other two.
    pub connection: u64,
}

row! {
    request_timing_row =>
    /// A request, as [`crate::Request`] has it: what tells whether it was slow, and for whose wish.
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

macro_rules! of_request {
    ($($sketch:ty),*) => {$(
        impl $sketch {
            /// First byte of the request to last byte of the response.
            pub fn latency(&self) -> Option<Nanos> {
                self.end.map(|end| end - self.arrival)
            }

            /// When the last byte of it, or of its response, was seen.
            pub fn last_seen(&self) -> Nanos {
                self.end.unwrap_or(self.arrival_end)
            }
        }
    )*};
}
of_request!(RequestPosition, RequestTiming);

row! {
    file_op_summary_row =>
    /// A file operation, as [`crate::FileOp`] has it.
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
    /// A stretch off the CPU, as [`crate::OffCpu`] has it.
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

/// What is wanted of a row that was seen in outline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowChoice {
    /// It is read.
    Read,
    /// It lies in a gap between stretches of time of which everything is read, and is read where it is the first or the last
    /// of its kind there.
    Edge {
        /// Its kind.
        kind: u64,
        /// The gap's number.
        gap: u32,
    },
}

/// Selects the rows that are read.
pub trait RowFilter: Send + Sync {
    /// What is wanted of a row. Of one that is beside all stretches from its start to its end, the gap is that of all moments
    /// in between: the same is wanted of every row of its table and kind that lies within it, whenever that was.
    fn choose(&self, row: &RowSummary) -> RowChoice;
}

/// The write of a record batch, by what joins it with a request; a topic is a number that both know it by.
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

/// One partition of a produce request, by what joins it with its write.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the fields of Request and Partition")]
pub struct ProduceKey {
    pub arrival: Nanos,
    pub response: Option<Nanos>,
    pub last_seen: Nanos,
    /// None where the name is not known.
    pub topic: Option<u32>,
    pub partition: i32,
    pub bytes: u32,
    pub error_code: Option<i16>,
    /// The CRC and the bytes of its first batch.
    pub batch: Option<(u32, u32)>,
    pub base_offset: Option<i64>,
}
