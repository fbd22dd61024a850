//! Tiered storage (KIP-405): `remote-tier-read`.
//!
//! A fetch of records that are in remote storage only is handed to a thread of the pool `remote-log-reader`, which reads
//! them over connections of the broker's own; when it has them, the fetch is answered (`RemoteLogReader`,
//! `DelayedRemoteFetch`). Nothing on the wire says which fetch a thread reads for. So one reader must fit alone: it read
//! at least as many bytes as the fetch brought, all after the fetch had come, and the answer followed at once.

use std::net::SocketAddr;
use std::sync::Arc;

use model::api_key::FETCH;
use model::{Cause, Confidence, EvidenceKind, Nanos, SocketOp, SocketOpKind, Tid};

use crate::causes::candidate::{CauseCandidate, evidence};
use crate::causes::spec::causes;
use crate::stages::Breakdown;
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::window::timeline::Timeline;

causes! {
    RemoteTierRead: Root in Reads {
        event: "slow read{s} of tiered storage",
        needs: "a fetch whose data was there when it came, and one remote-log-reader thread that read at least as many bytes from a peer after that, the last right before the answer; never exact",
        root_evidence: &[EvidenceKind::Network],
        advice: &[
            "the fetch waited for the remote storage of tiered segments: look at the peer that is named, its latency and the network to it",
            "keep what consumers lag behind on the broker: local.retention.ms and local.retention.bytes of the topic; remote.log.reader.threads if reads queue for a thread",
        ],
        source: "KIP-405; Kafka's documentation, broker configuration: remote.log.reader.threads",
    }
}

/// `remote-log-reader-N` (`RemoteStorageThreadPool`), of which the kernel keeps 15 characters.
const READERS: &str = "remote-log-read";
/// An answer follows the last read within this time and a part of the time that all of it took: a fiftieth.
const RIGHT_AFTER: Nanos = Nanos::from_millis(1);
const RIGHT_AFTER_SHARE: i64 = 50;

/// A call of a remote-log reader on one of its connections.
#[derive(Debug)]
pub(crate) struct TierCall {
    span: TimeSpan,
    tid: Tid,
    thread: Arc<str>,
    peer: SocketAddr,
    /// None were read by a write.
    read_bytes: u64,
}

impl TierCall {
    /// Of a socket operation, if a remote-log reader made it.
    pub(crate) fn of(op: &SocketOp) -> Option<Self> {
        let read_bytes = op.bytes.filter(|_| op.op == SocketOpKind::Read).unwrap_or_default();
        op.thread.starts_with(READERS).then(|| Self {
            span: TimeSpan::new(op.start, op.end),
            tid: op.tid,
            thread: Arc::clone(&op.thread),
            peer: op.remote,
            read_bytes,
        })
    }
}

impl Span for TierCall {
    fn span(&self) -> TimeSpan {
        self.span
    }
}

/// What a reader did for a fetch: from its first call on the peer's connections to its last read.
struct TierRead<'w> {
    last: &'w TierCall,
    span: TimeSpan,
    bytes: u64,
}

impl<'w> TierRead<'w> {
    /// What a thread read within a stretch, from the peer from which it read last.
    fn of(calls: &'w Timeline<TierCall>, within: TimeSpan) -> Option<Self> {
        let whole = |call: &&TierCall| call.span.start >= within.start && call.span.end <= within.end;
        let last = calls.overlapping(within).filter(whole).filter(|call| call.read_bytes > 0).last()?;
        let same = || calls.overlapping(within).filter(whole).filter(|call| call.peer == last.peer);
        let start = same().map(|call| call.span.start).min()?;
        let bytes = same().map(|call| call.read_bytes).sum();
        Some(Self { last, span: TimeSpan::new(start, last.span.end), bytes })
    }

    /// Whether it is what a fetch waited for that brought so much, and was under way for so long.
    fn fits(&self, bytes: u64, within: TimeSpan) -> bool {
        let right_after = RIGHT_AFTER + Nanos(within.length().0 / RIGHT_AFTER_SHARE);
        self.bytes >= bytes && within.end - self.span.end <= right_after
    }
}

/// The read of remote storage that a fetch waited for, as far as nothing else has taken the time.
pub(crate) fn of_request(course: &Breakdown<'_>, free: &mut TimeBudget) -> Option<CauseCandidate> {
    let (window, request) = (course.window, course.request);
    let was_there = request.data.is_some_and(|data| data <= request.arrival_end);
    if request.api_key != FETCH || !was_there {
        return None;
    }
    let within = TimeSpan::new(course.read?.end, course.answer?.start);
    let brought = request.partitions.iter().map(|partition| u64::from(partition.bytes)).sum();
    let reads = window.tier_calls.all().filter_map(|calls| TierRead::of(calls, within));
    let mut fitting = reads.filter(|read| read.fits(brought, within));
    let read = fitting.next().filter(|_| fitting.next().is_none())?;
    let time = free.take_any(read.span)?;
    let TierRead { last, span, bytes } = read;
    let thread = window.name(last.tid, &last.thread);
    let text = format!(
        "{thread} read {bytes} bytes from {} in {}, the last of them {} before the response",
        last.peer,
        span.length(),
        within.end - span.end
    );
    let seen = evidence(EvidenceKind::Network, &span, text).of_thread(last.tid, &thread);
    Some(CauseCandidate::new(Cause::RemoteTierRead, last.peer, Confidence::Strong, time).with([seen]))
}
