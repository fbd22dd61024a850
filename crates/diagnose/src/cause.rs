//! What can make an append slow: a table of causes, each in its own file with the evidence it needs.
//! Does not look at requests: `judge` does.

mod dirty_throttling;
mod journal_commit;
mod slow_device;
pub(crate) mod stack;

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, FileOp, Nanos, OffCpu, TopicPartition};

use crate::window::{Span, Window};
use stack::Wait;

/// Why something took long, and what proves it.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// The deepest cause that is proven.
    pub(crate) cause: Cause,
    /// The way to it, nearest first; ends with `cause`.
    pub(crate) chain: Vec<Cause>,
    /// Shared by everything that the same root event slowed.
    pub(crate) root: Arc<str>,
    pub(crate) confidence: Confidence,
    /// Nearest first.
    pub(crate) evidence: Vec<Evidence>,
    /// How much time it explains.
    pub(crate) time: Nanos,
    /// The partition of the request that lost it, where it was one.
    pub(crate) partition: Option<TopicPartition>,
}

/// The share of an operation that a cause must explain to be named: more than half.
const DOMINANT: i64 = 2;

/// What a thread waited for inside one operation: the waits of one kind together.
pub(crate) struct Waits<'w> {
    pub(crate) op: &'w FileOp,
    pub(crate) kind: Wait,
    /// Time off the CPU in waits of this kind.
    pub(crate) time: Nanos,
    /// The longest of them.
    pub(crate) longest: &'w OffCpu,
}

/// Why a file operation was slow, as far as the evidence says: never a guess.
pub(crate) fn of_file_op(window: &Window, op: &FileOp) -> Option<Finding> {
    let waits = dominant_waits(window, op);
    let finding = match &waits {
        Some(waits) => match waits.kind {
            Wait::Journal => Some(journal_commit::find(window, waits)),
            Wait::DirtyPages => Some(dirty_throttling::find(window, waits)),
            Wait::Device => slow_device::find(window, waits),
            Wait::Other => None,
        },
        None => dirty_throttling::without_stack(window, op),
    };
    finding.filter(|finding| finding.time.0.saturating_mul(DOMINANT) > op.latency().0)
}

/// The evidence that an operation gives of itself, whether or not its cause is known.
pub(crate) fn evidence_of_file_op(window: &Window, op: &FileOp) -> Vec<Evidence> {
    let mut evidence = vec![Evidence {
        kind: EvidenceKind::FileOp,
        start: op.start,
        end: op.end,
        tid: Some(op.tid),
        thread: Some(Arc::clone(&op.thread)),
        text: write_text(op),
    }];
    evidence.extend(dominant_waits(window, op).map(|waits| off_cpu_evidence(&waits)));
    evidence
}

fn write_text(op: &FileOp) -> String {
    let bytes = op.bytes.map_or_else(|| "failed".to_owned(), |bytes| format!("of {bytes} bytes"));
    format!("write {bytes} at offset {} of {} took {}", op.offset, op.file, op.latency())
}

fn off_cpu_evidence(waits: &Waits<'_>) -> Evidence {
    let function = stack::telling_frame(&waits.longest.stack);
    let place = if function.is_empty() { "an unknown place".to_owned() } else { function.to_owned() };
    Evidence {
        kind: EvidenceKind::OffCpu,
        start: waits.longest.start.max(waits.op.start),
        end: waits.longest.end.min(waits.op.end),
        tid: Some(waits.longest.tid),
        thread: Some(Arc::clone(&waits.longest.thread)),
        text: format!("of which {} off the CPU in {place}", waits.time),
    }
}

/// The kind of wait that took the most of an operation.
fn dominant_waits<'w>(window: &'w Window, op: &'w FileOp) -> Option<Waits<'w>> {
    let past = window.thread(op.tid)?;
    let mut kinds: Vec<Waits<'w>> = Vec::new();
    for interval in past.off_cpu.overlapping(op.start, op.end) {
        let kind = stack::classify(interval);
        let time = waited(interval).overlap(op.start, op.end);
        match kinds.iter_mut().find(|waits| waits.kind == kind) {
            Some(waits) => {
                waits.time += time;
                if interval.length() > waits.longest.length() {
                    waits.longest = interval;
                }
            }
            None => kinds.push(Waits { op, kind, time, longest: interval }),
        }
    }
    kinds.into_iter().max_by_key(|waits| waits.time).filter(|waits| waits.time > Nanos::ZERO)
}

/// The part of an interval in which the thread waited for something, not for a CPU.
fn waited(interval: &OffCpu) -> OffCpu {
    OffCpu { end: interval.woken.unwrap_or(interval.end), ..interval.clone() }
}

/// What to change about a cause, and where the advice comes from (`causes.md`).
pub fn advice(cause: Cause) -> &'static [&'static str] {
    match cause {
        Cause::JournalCommit => journal_commit::ADVICE,
        Cause::SlowDevice => slow_device::ADVICE,
        Cause::DirtyThrottling => dirty_throttling::ADVICE,
        Cause::LogLock => {
            &["more partitions spread the appends over more locks; find out what slowed the holder's write"]
        }
        Cause::HeadOfLine => &[
            "the broker serves one request of a connection at a time: look at the request ahead; a lower max.in.flight.requests.per.connection shortens the queue",
        ],
        Cause::SlowClient => {
            &["the request's own bytes came slowly: look at the client and the network before it"]
        }
        Cause::Unobserved => &[],
    }
}
