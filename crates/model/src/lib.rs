//! The types that every part of brokerscope shares: observations with their place and time (events), and conclusions
//! (verdicts).
//!
//! Does not know where an event came from, how it is stored or how it is printed. Events are plain values; times are
//! [`Nanos`] on one clock (see [`clock`]); text that repeats (topics, threads, stacks) is shared by `Arc<str>`.

#[macro_use]
pub mod row;

pub mod api_key;
pub mod clock;
pub mod row_summary;

mod bounded_text;
mod capture_counters;
mod cause;
mod cpu_gap;
mod event;
mod file_op;
mod host;
mod jvm;
mod kernel;
mod log_entry;
mod process_stop;
mod request;
mod request_latencies;
mod socket_op;
mod thread;
mod tls_traffic;
mod topic;
mod verdict;

pub use bounded_text::beginning;
pub use capture_counters::CaptureCounters;
pub use cause::Cause;
pub use clock::{ClockOffset, Nanos};
pub use cpu_gap::{CpuGap, CpuGapKind};
pub use event::{BrokerChange, BrokerState, Event, Loss, LossKind, Table};
pub use file_op::{BatchHead, Device, FileKind, FileOp, FileOpKind};
pub use host::{Ext4, HostFacts, HostSample, HostScope, Interface, Known, Limits, Volume};
pub use jvm::{HandlerCall, JvmPause, JvmPauseKind, Lock, LockHolder, LockKind, LockSource, LockWait};
pub use kernel::{
    BlockIo, CommitPhases, Direction, DirtyThrottle, JournalCommit, KernelSpan, Reclaim, SpanSource,
};
pub use log_entry::{LogEntry, LogKind};
pub use process_stop::{ProcessStop, StopKind};
pub use request::{Batch, IntendedWait, METADATA_TOPIC, Partition, Request, RequestSource};
pub use request_latencies::{LatencyCount, RequestLatencies};
pub use row::{Column, ColumnType, Row, Rows, Value, ValueVisitor};
pub use socket_op::{SocketOp, SocketOpKind, TcpEvent, TcpEventKind};
pub use thread::{CpuSample, CpuState, OffCpu, StackTime, Waker};
pub use tls_traffic::{OTHER_LISTENERS, TlsCount, TlsTotals, TlsTraffic};
pub use topic::{PartitionState, TopicId, TopicPartition};
pub use verdict::{
    Confidence, Doubt, Evidence, EvidenceKind, KafkaTimes, STAGE_COLUMNS, Stage, StageSpan, Stages, Verdict,
    Waiter,
};

/// A thread's id, like [`Pid`]; 0 for a thread that is invisible in the pid namespace, such as the kernel's own threads
/// in a container.
pub type Tid = u32;
/// A process's id in the pid namespace of the process that watched it. `/proc` of the watching process shows it.
pub type Pid = u32;
