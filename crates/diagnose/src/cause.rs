//! What can make an append slow: a table of causes, each in its own file with the evidence it needs.
//! Does not look at requests: `judge` does.

mod dirty_throttling;
mod index_page_fault;
mod journal_commit;
mod roll_fsync;
mod slow_device;
pub(crate) mod stack;
pub(crate) mod stop;

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, FileOp, FileOpKind, Nanos, OffCpu, TopicPartition};

use crate::hold::Hold;
use crate::window::Window;
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

/// The share of an append that a cause must explain to be named: more than half.
const DOMINANT: i64 = 2;

/// Which part of an append a wait was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// Inside the write.
    Write,
    /// After it, still holding the log: a store into a mapped index, for all that is known.
    After,
}

/// What a thread waited for in one part of an append: the waits of one kind together.
pub(crate) struct Waits<'w> {
    pub(crate) op: &'w FileOp,
    pub(crate) part: Part,
    pub(crate) kind: Wait,
    /// Time off the CPU in waits of this kind.
    pub(crate) time: Nanos,
    /// The longest of them.
    pub(crate) longest: &'w OffCpu,
}

/// Why an operation was slow, with what its thread waited for right after it where it is an append; as far as the
/// evidence says: never a guess.
pub(crate) fn of_op(window: &Window, hold: &Hold<'_>) -> Option<Finding> {
    let finding = if roll_fsync::is_one(hold.op) {
        Some(roll_fsync::find(window, hold))
    } else if index_page_fault::is_one(hold.op) {
        Some(index_page_fault::find(window, hold.op))
    } else {
        waited(window, hold)
    };
    finding.filter(|finding| finding.time.0.saturating_mul(DOMINANT) > hold.length().0)
}

/// What an operation's thread waited for the longest, where that is a cause.
fn waited(window: &Window, hold: &Hold<'_>) -> Option<Finding> {
    let Some(waits) = dominant_waits(hold) else { return dirty_throttling::without_stack(window, hold.op) };
    if let Some(fault) = index_page_fault::behind(window, &waits) {
        return Some(index_page_fault::find(window, fault).after_write(&waits));
    }
    match waits.kind {
        Wait::Journal => Some(journal_commit::find(window, &waits)),
        Wait::DirtyPages => Some(dirty_throttling::find(window, &waits)),
        Wait::Device => slow_device::find(window, &waits),
        // Waits that stand for no cause yet: they pass for no other.
        _ => None,
    }
}

/// The evidence that an operation gives of itself, whether or not its cause is known.
pub(crate) fn evidence_of_op(hold: &Hold<'_>) -> Vec<Evidence> {
    match dominant_waits(hold) {
        Some(waits) => evidence_of(&waits),
        None => vec![op_evidence(hold.op)],
    }
}

/// The write, and what it or its thread waited for.
fn evidence_of(waits: &Waits<'_>) -> Vec<Evidence> {
    vec![op_evidence(waits.op), off_cpu_evidence(waits)]
}

fn op_evidence(op: &FileOp) -> Evidence {
    let bytes = op.bytes.map_or_else(|| "failed".to_owned(), |bytes| format!("of {bytes} bytes"));
    let text = match op.op {
        FileOpKind::Write => {
            format!("write {bytes} at offset {} of {} took {}", op.offset, op.file, op.latency())
        }
        FileOpKind::MmapFault => {
            format!("a page of {} had to be read from the device, which took {}", op.file, op.latency())
        }
        kind => format!("{} of {} took {}", kind.as_str(), op.file, op.latency()),
    };
    Evidence {
        kind: EvidenceKind::FileOp,
        start: op.start,
        end: op.end,
        tid: Some(op.tid),
        thread: Some(Arc::clone(&op.thread)),
        text,
    }
}

fn off_cpu_evidence(waits: &Waits<'_>) -> Evidence {
    let function = stack::telling_frame(&waits.longest.stack);
    let place = if function.is_empty() { "an unknown place" } else { function };
    let time = waits.time;
    let text = match waits.part {
        Part::Write => format!("of which {time} off the CPU in {place}"),
        Part::After => format!("and right after it {time} off the CPU in {place}, still holding the log"),
    };
    let (start, end) = waits.span();
    Evidence {
        kind: EvidenceKind::OffCpu,
        start,
        end,
        tid: Some(waits.longest.tid),
        thread: Some(Arc::clone(&waits.longest.thread)),
        text,
    }
}

impl Finding {
    /// The same of what a thread waited for right after a write: joined by the order of things.
    fn after_write(mut self, waits: &Waits<'_>) -> Self {
        self.evidence.insert(0, op_evidence(waits.op));
        self.time = waits.time;
        self.confidence = self.confidence.min(waits.best_confidence());
        self.partition.clone_from(&waits.op.topic_partition);
        self
    }
}

impl Waits<'_> {
    /// The longest wait, as far as it belongs to the append.
    pub(crate) fn span(&self) -> (Nanos, Nanos) {
        match self.part {
            Part::Write => (self.longest.start.max(self.op.start), self.longest.end.min(self.op.end)),
            Part::After => (self.longest.start, self.longest.end),
        }
    }

    /// The transaction that the wait's own handle joined: known for handles of the write only.
    pub(crate) fn journal_transaction(&self) -> Option<u32> {
        self.op.journal_transaction.filter(|_| self.part == Part::Write)
    }

    /// What a join by this wait's thread is worth: after the write, that the wait belongs to the append is
    /// concluded from the order of what the thread did.
    pub(crate) fn best_confidence(&self) -> Confidence {
        match self.part {
            Part::Write => Confidence::Exact,
            Part::After => Confidence::Strong,
        }
    }
}

/// The kind of wait that took the most of an append.
fn dominant_waits<'w>(hold: &Hold<'w>) -> Option<Waits<'w>> {
    let mut kinds: Vec<Waits<'w>> = Vec::new();
    let inside = hold.inside.iter().map(|interval| (Part::Write, *interval));
    let after = hold.after.iter().map(|interval| (Part::After, *interval));
    for (part, interval) in inside.chain(after) {
        let kind = stack::classify(interval).of_verdict();
        let time = hold.waited_in(part, interval);
        match kinds.iter_mut().find(|waits| (waits.part, waits.kind) == (part, kind)) {
            Some(waits) => {
                waits.time += time;
                if interval.length() > waits.longest.length() {
                    waits.longest = interval;
                }
            }
            None => kinds.push(Waits { op: hold.op, part, kind, time, longest: interval }),
        }
    }
    kinds.into_iter().max_by_key(|waits| waits.time).filter(|waits| waits.time > Nanos::ZERO)
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
        Cause::RollFsync => roll_fsync::ADVICE,
        Cause::IndexPageFault => index_page_fault::ADVICE,
        Cause::GcPause => stop::GC_ADVICE,
        Cause::Safepoint => stop::SAFEPOINT_ADVICE,
        Cause::HeadOfLine => &[
            "the broker serves one request of a connection at a time: look at the request ahead; a lower max.in.flight.requests.per.connection shortens the queue",
        ],
        Cause::SlowClient => {
            &["the request's own bytes came slowly: look at the client and the network before it"]
        }
        Cause::Unobserved => &[],
    }
}
