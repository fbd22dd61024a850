//! The vocabulary that every part of brokerscope shares: what was seen (events), where and when, and
//! what was concluded (verdicts).
//!
//! It does not know where an event came from, how it is stored or how it is printed. Events are plain
//! values; times are [`Nanos`] on one clock (see [`clock`]); text that repeats (topics, threads, stacks)
//! is shared by `Arc<str>`.

pub mod api_key;
#[macro_use]
pub mod row;

pub mod block_io;
pub mod broker_change;
pub mod cause;
pub mod clock;
pub mod cpu_sample;
pub mod event;
pub mod file_op;
pub mod host_facts;
pub mod host_sample;
pub mod journal;
pub mod jvm_pause;
pub mod kafka_times;
pub mod kernel_span;
pub mod lock_wait;
pub mod log_entry;
pub mod loss;
pub mod nanos;
pub mod off_cpu;
pub mod outcome;
pub mod reclaim;
pub mod request;
pub mod row_summary;
pub mod socket_op;
pub mod stack_time;
pub mod throttle;
pub mod topic;
pub mod verdict;

pub use block_io::{BlockIo, Direction};
pub use broker_change::{BrokerChange, BrokerState};
pub use cause::Cause;
pub use clock::ClockOffset;
pub use cpu_sample::CpuSample;
pub use event::{Event, Table};
pub use file_op::{BatchHead, Device, FileKind, FileOp, FileOpKind};
pub use host_facts::{Ext4, HostFacts, Interface, Known, Limits, Volume};
pub use host_sample::{HostSample, HostScope};
pub use journal::{CommitPhases, JournalCommit};
pub use jvm_pause::{JvmPause, JvmPauseKind};
pub use kafka_times::KafkaTimes;
pub use kernel_span::{KernelSpan, SpanSource};
pub use lock_wait::{Lock, LockHolder, LockKind, LockSource, LockWait};
pub use log_entry::{LogEntry, LogKind};
pub use loss::{Loss, LossKind};
pub use nanos::Nanos;
pub use off_cpu::{OffCpu, Waker};
pub use outcome::IntendedWait;
pub use reclaim::Reclaim;
pub use request::{Batch, Partition, Request};
pub use row::{Column, ColumnType, Named, Row, Rows, Value, ValueVisitor};
pub use socket_op::{SocketOp, SocketOpKind, TcpEvent, TcpEventKind};
pub use stack_time::{CpuState, StackTime};
pub use throttle::DirtyThrottle;
pub use topic::{TopicId, TopicPartition};
pub use verdict::{
    Confidence, Doubt, Evidence, EvidenceKind, STAGE_COLUMNS, Stage, StageSpan, Stages, Verdict, Waiter,
};

/// A thread's id, as [`Pid`]; 0 for one that the pid namespace does not see, as the kernel's own from a container.
pub type Tid = u32;
/// A process's id as `/proc` shows it where it was seen: in the pid namespace of whoever watched.
pub type Pid = u32;
