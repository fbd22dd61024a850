//! `coordinator-busy`: what kept the group coordinator's threads from a request's record.
//!
//! A partition of the coordinator's topic is handled by one thread at a time, and its events wait for each other and
//! for a free thread (`EventAccumulator`, `MultiThreadedEventProcessor`). Once its record is appended, the answer is
//! one more event.

use model::{EvidenceKind, FileOp, Nanos, TopicPartition};

use crate::causes::candidate::{CauseCandidate, evidence, merge_into};
use crate::causes::handlers::{pool_busy, threads_themselves};
use crate::causes::spec::causes;
use crate::causes::{controller, operation};
use crate::stages::Breakdown;
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::waits::LockHold;
use crate::window::pools::ThreadPool;

causes! {
    CoordinatorBusy: Queue in Threads {
        event: "the lack of a free coordinator thread",
        needs: "other appends of the group's partition of __consumer_offsets, or what held up the coordinator's thread that appended the request's record or all of its threads, for most of the wait; never exact",
        root_evidence: &[EvidenceKind::Request, EvidenceKind::FileOp],
        advice: &[
            "the coordinator's threads were busy with other groups: first remove what kept them busy (the evidence names it); then let clients commit offsets less often (auto.commit.interval.ms), or raise group.coordinator.threads",
        ],
        source: "Kafka's documentation, broker configuration: group.coordinator.threads; KIP-848",
    }
}

/// What delayed a request before the append of its record, or its answer after it.
/// The stretch lies before or after the append.
pub(crate) fn busy(breakdown: &Breakdown<'_>, append: &FileOp, span: TimeSpan) -> Vec<CauseCandidate> {
    let window = breakdown.window;
    let pool = ThreadPool::of_name(&append.thread).unwrap_or(ThreadPool::GroupCoordinator);
    let mut free = TimeBudget::new(span);
    let mut found = Vec::new();
    let appends = |of| window.partitions.of(of).overlapping(span).map(move |op| (of, op));
    let others = append.topic_partition.iter().flat_map(appends);
    for (partition, op) in others.filter(|(_, op)| (op.start, op.tid) != (append.start, append.tid)) {
        let Some(time) = free.take_any(op.span()) else { continue };
        let deeper = operation::of_op_or_wait(window, &LockHold::without_after(window, op));
        merge_into(&mut found, of_other_append(breakdown, pool, (partition, op), time).behind_any(deeper));
    }
    if pool == ThreadPool::Raft {
        for candidate in controller::busy(window, span, &mut free) {
            merge_into(&mut found, candidate);
        }
        return found;
    }
    // Before its own append it waited for that thread, and afterwards for any.
    let taker = (span.end <= append.start).then_some(append.tid);
    for piece in free.pieces(span) {
        for candidate in pool_busy(window, pool, taker, piece) {
            merge_into(&mut found, candidate);
        }
    }
    found
}

/// The wait while another record was appended to the partition.
fn of_other_append(
    breakdown: &Breakdown<'_>,
    pool: ThreadPool,
    (partition, op): (&TopicPartition, &FileOp),
    time: Nanos,
) -> CauseCandidate {
    let thread = breakdown.window.name(op.tid, &op.thread);
    let text = format!("waited while {thread} appended other records to {partition}");
    let seen = evidence(EvidenceKind::FileOp, &op.span(), text).of_thread(op.tid, &thread);
    threads_themselves(pool, seen, time)
}
