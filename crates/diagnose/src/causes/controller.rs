//! KRaft's controller: `controller-busy`, `metadata-fsync`.
//!
//! One thread of the controller decides what to write (`QuorumController`). Another appends it to the cluster's
//! metadata and forces it to the device before the next append (`KafkaRaftClient.flushLeaderLog`). With one voter a
//! change is answered as soon as it is appended, so it waits only for the fsyncs of earlier changes. Other voters'
//! fetches are served by the same thread, so with several voters a change also waits for its own fsync. A request
//! that changes nothing is answered when everything decided before it is appended.

use model::{EvidenceKind, Nanos};

use crate::causes::candidate::{CauseCandidate, merge_into};
use crate::causes::handlers::pool_busy;
use crate::causes::lock_chain;
use crate::causes::spec::causes;
use crate::coordinators::is_of_controller;
use crate::locks::holders::is_handed_over;
use crate::stages::Breakdown;
use crate::time::{TimeBudget, TimeSpan};
use crate::window::Window;
use crate::window::pools::ThreadPool;

causes! {
    MetadataFsync: Link in Writes {
        event: "fsync{s} of the cluster's metadata",
        needs: "fsync, fdatasync or msync of a file of __cluster_metadata by the controller's raft thread, right after the append that has the request's record or while the request waited for that thread; never exact",
        root_evidence: &[EvidenceKind::FileOp],
        advice: &[
            "the controller forces every change of the cluster's metadata to the device: put metadata.log.dir on a device that nothing else uses, or a faster one",
        ],
        source: "Kafka's documentation, KRaft: metadata.log.dir; KafkaRaftClient.flushLeaderLog",
    }

    ControllerBusy: Queue in Threads {
        event: "a busy controller",
        needs: "what held up the controller's raft thread, or kept its event thread on a CPU or waiting for one, for most of the wait for the append that has the request's record, or after it; without such an append the answer must follow at once; never exact",
        root_evidence: &[EvidenceKind::Request, EvidenceKind::FileOp],
        advice: &[
            "the controller serves one change of the cluster's metadata after the other: first remove what kept it busy (the evidence names it); then make fewer changes at once, such as topics and partitions in large numbers",
        ],
        source: "Kafka's documentation, monitoring: EventQueueTimeMs and EventQueueProcessingTimeMs of the controller",
    }
}

/// Shorter waits are not examined.
const MIN_WAIT: Nanos = Nanos::from_millis(1);

/// What kept the controller busy in a stretch in which a request waited for it.
/// Covers the remaining time of the stretch. The controller's raft thread is examined piece by piece. Its event thread
/// handles one change after the other, and appends of the raft thread in between end none of its work. So it is
/// examined as a whole, because few CPU samples fall into a piece.
pub(super) fn busy(window: &Window, span: TimeSpan, free: &mut TimeBudget) -> Vec<CauseCandidate> {
    let mut found = Vec::new();
    for piece in free.pieces(span).collect::<Vec<_>>() {
        let candidates = pool_busy(window, ThreadPool::Raft, None, piece);
        if !candidates.is_empty() {
            free.take(piece);
        }
        for candidate in candidates {
            merge_into(&mut found, candidate);
        }
    }
    let left = free.within(span).left();
    let of_events =
        if left > Nanos::ZERO { pool_busy(window, ThreadPool::Controller, None, span) } else { Vec::new() };
    for candidate in lock_chain::limit_time(of_events, left) {
        merge_into(&mut found, candidate);
    }
    found
}

/// What kept the controller from answering a request after its append, and when.
/// Also for a request for which no append was found.
pub(crate) fn of_request(breakdown: &Breakdown<'_>) -> Option<(TimeSpan, Vec<CauseCandidate>)> {
    let (window, request) = (breakdown.window, breakdown.request);
    if !is_of_controller(request.api_key) {
        return None;
    }
    let answer = breakdown.answer?.start;
    if breakdown.coordinators_append().is_some() {
        let span = TimeSpan::new(breakdown.local_end?, answer);
        return (span.length() >= MIN_WAIT).then(|| (span, all_busy(window, span)));
    }
    let span = TimeSpan::new(breakdown.read?.end, answer);
    let raft = window.threads_of(ThreadPool::Raft);
    let last = raft.iter().find_map(|tid| window.file_ops.of(tid).ended_by(span.end).next());
    let follows = |end| end <= span.start || is_handed_over(span.end - end, span.length());
    last.is_none_or(|op| follows(op.end)).then(|| (span, all_busy(window, span)))
}

fn all_busy(window: &Window, span: TimeSpan) -> Vec<CauseCandidate> {
    busy(window, span, &mut TimeBudget::new(span))
}
