//! The vocabulary that every part of brokerscope shares: what was seen (events), where and when, and
//! what was concluded (verdicts).
//!
//! It does not know where an event came from, how it is stored or how it is printed. Events are plain
//! values; times are [`Nanos`] on one clock (see [`clock`]); text that repeats (topics, threads, stacks)
//! is shared by `Arc<str>`.

pub mod block_io;
pub mod clock;
pub mod event;
pub mod file_op;
pub mod journal;
pub mod loss;
pub mod nanos;
pub mod off_cpu;
pub mod outcome;
pub mod request;
pub mod throttle;
pub mod topic;
pub mod verdict;

pub use block_io::{BlockIo, Direction};
pub use clock::ClockOffset;
pub use event::Event;
pub use file_op::{BatchHead, Device, FileKind, FileOp, FileOpKind};
pub use journal::JournalCommit;
pub use loss::{Loss, LossKind};
pub use nanos::Nanos;
pub use off_cpu::OffCpu;
pub use outcome::Hold;
pub use request::{Batch, Partition, Request};
pub use throttle::DirtyThrottle;
pub use topic::{TopicId, TopicPartition};
pub use verdict::{Cause, Confidence, Evidence, EvidenceKind, Stage, Stages, Verdict};

/// A thread's id as the kernel's root pid namespace numbers it.
pub type Tid = u32;
/// A process's id as the kernel's root pid namespace numbers it.
pub type Pid = u32;
