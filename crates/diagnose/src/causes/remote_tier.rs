//! Tiered storage (KIP-405): `remote-tier-read`.
//!
//! A fetch of records that only remote storage has is handed to a thread of the pool `remote-log-reader`. The thread
//! reads them over connections that the broker opened, or from files if the storage is a mounted file system; then
//! the fetch is answered (`RemoteLogReader`, `DelayedRemoteFetch`). Nothing on the wire says which fetch a thread
//! reads for. So exactly one reader must fit: it read at least as many bytes as the fetch returned, all after the
//! fetch had arrived, and the response followed at once. If several fit, those that were already reading when the
//! fetch arrived are excluded: they read for another fetch, which the broker may have timed out.
//!
//! The broker waits `remote.fetch.max.wait.ms` for a reader and then answers without the records, while the reader
//! continues: then readers must have been reading for most of the time.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use model::api_key::FETCH;
use model::{Cause, Confidence, EvidenceKind, FileOp, Nanos, SocketOp, SocketOpKind, Tid};

use crate::causes::blocked::behind_each;
use crate::causes::candidate::{CauseCandidate, evidence};
use crate::causes::lock_chain;
use crate::causes::spec::causes;
use crate::stages::Breakdown;
use crate::stages::response::is_read;
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::window::Window;
use crate::window::timeline::Timeline;

causes! {
    RemoteTierRead: Link in Reads {
        event: "slow read{s} of tiered storage",
        needs: "a fetch whose data was there when it came, and one remote-log-reader thread that read at least as many bytes from a peer or from files after that, the last right before the answer; for an answer without records, such threads that read for most of the time; never exact",
        root_evidence: &[EvidenceKind::Network, EvidenceKind::FileOp],
        advice: &[
            "the fetch waited for the remote storage of tiered segments: look at the peer or the file that is named, its latency and the way to it",
            "keep what consumers lag behind on the broker: local.retention.ms and local.retention.bytes of the topic; remote.log.reader.threads if reads queue for a thread",
        ],
        source: "KIP-405; Kafka's documentation, broker configuration: remote.log.reader.threads, remote.fetch.max.wait.ms",
    }
}

/// The remote log readers' thread name, truncated by the kernel to 15 characters.
/// In full `remote-log-reader-N` (`RemoteStorageThreadPool`).
const READERS: &str = "remote-log-read";
/// Maximum time from the last read to the response. A fraction of the fetch's own time is added: a fiftieth.
const RIGHT_AFTER: Nanos = Nanos::from_millis(1);
const RIGHT_AFTER_SHARE: i64 = 50;

/// Where a reader reads from.
#[derive(Debug)]
enum TierSource {
    Peer(SocketAddr),
    File(Arc<str>),
}

impl TierSource {
    /// Whether both are the same storage; all files are one.
    fn is_with(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Peer(one), Self::Peer(other)) => one == other,
            (one, other) => one.is_files() && other.is_files(),
        }
    }

    fn is_files(&self) -> bool {
        matches!(self, Self::File(_))
    }

    fn evidence_kind(&self) -> EvidenceKind {
        if self.is_files() { EvidenceKind::FileOp } else { EvidenceKind::Network }
    }
}

impl fmt::Display for TierSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer(peer) => peer.fmt(f),
            Self::File(file) => file.fmt(f),
        }
    }
}

/// A remote-log reader's call on one of its connections, or its read of a file.
#[derive(Debug)]
pub(crate) struct TierCall {
    span: TimeSpan,
    tid: Tid,
    thread: Arc<str>,
    source: TierSource,
    /// 0 for a write.
    read_bytes: u64,
}

impl TierCall {
    /// From a socket operation, if a remote-log reader made it.
    pub(crate) fn of_socket(op: &SocketOp) -> Option<Self> {
        let read_bytes = op.bytes.filter(|_| op.op == SocketOpKind::Read).unwrap_or_default();
        op.thread.starts_with(READERS).then(|| Self {
            span: TimeSpan::new(op.start, op.end),
            tid: op.tid,
            thread: Arc::clone(&op.thread),
            source: TierSource::Peer(op.remote),
            read_bytes,
        })
    }

    /// From a file operation, if a remote-log reader read with it.
    pub(crate) fn of_file(op: &FileOp) -> Option<Self> {
        (is_read(op.op) && op.thread.starts_with(READERS)).then(|| Self {
            span: op.span(),
            tid: op.tid,
            thread: Arc::clone(&op.thread),
            source: TierSource::File(Arc::clone(&op.file)),
            read_bytes: op.bytes.unwrap_or_default(),
        })
    }
}

impl Span for TierCall {
    fn span(&self) -> TimeSpan {
        self.span
    }
}

/// A reader's work for a fetch: from its first call on a source to its last read from it.
struct TierRead<'w> {
    last: &'w TierCall,
    span: TimeSpan,
    bytes: u64,
    /// Whether the thread was already in a call when the fetch arrived.
    was_busy: bool,
}

impl<'w> TierRead<'w> {
    /// What a thread read within a stretch from the source that it read last.
    fn of(calls: &'w Timeline<TierCall>, within: TimeSpan) -> Option<Self> {
        let whole = |call: &&TierCall| call.span.start >= within.start && call.span.end <= within.end;
        let last = calls.overlapping(within).filter(whole).filter(|call| call.read_bytes > 0).last()?;
        let same =
            || calls.overlapping(within).filter(whole).filter(|call| call.source.is_with(&last.source));
        let start = same().map(|call| call.span.start).min()?;
        let bytes = same().map(|call| call.read_bytes).sum();
        let was_busy = calls.overlapping(within).any(|call| call.span.start < within.start);
        Some(Self { last, span: TimeSpan::new(start, last.span.end), bytes, was_busy })
    }

    /// Whether a fetch that returned `bytes` can have waited for it. The fetch was served in `within`.
    fn fits(&self, bytes: u64, within: TimeSpan) -> bool {
        let right_after = RIGHT_AFTER + Nanos(within.length().0 / RIGHT_AFTER_SHARE);
        self.bytes >= bytes && within.end - self.span.end <= right_after
    }
}

/// The read of remote storage that a fetch waited for.
/// Includes what delayed a read of files. Counts only time that nothing else has taken.
pub(crate) fn of_request(breakdown: &Breakdown<'_>, free: &mut TimeBudget) -> Vec<CauseCandidate> {
    let request = breakdown.request;
    let was_there = request.data.is_some_and(|data| data <= request.arrival_end);
    let (Some(read), Some(answer)) = (breakdown.read, breakdown.answer) else { return Vec::new() };
    if request.api_key != FETCH || !was_there {
        return Vec::new();
    }
    let within = TimeSpan::new(read.end, answer.start);
    let fetched_bytes = request.partitions.iter().map(|partition| u64::from(partition.bytes)).sum();
    let found = match fetched_bytes {
        0 => unfinished_read(breakdown.window, within, free),
        _ => finished_read(breakdown.window, within, fetched_bytes, free),
    };
    found.unwrap_or_default()
}

/// The reads of the only reader that fits.
fn finished_read(
    window: &Window,
    within: TimeSpan,
    fetched_bytes: u64,
    free: &mut TimeBudget,
) -> Option<Vec<CauseCandidate>> {
    let reads = window.tier_calls.all().filter_map(|calls| TierRead::of(calls, within));
    let mut fitting: Vec<TierRead<'_>> = reads.filter(|read| read.fits(fetched_bytes, within)).collect();
    if fitting.len() > 1 {
        fitting.retain(|read| !read.was_busy);
    }
    let [TierRead { last, span, bytes, .. }] = fitting.as_slice() else { return None };
    let text = format!(
        "read {bytes} bytes from {} in {}, the last of them {} before the response",
        last.source,
        span.length(),
        within.end - span.end
    );
    let time = free.take_any(*span)?;
    Some(attribute(window, last, (*span, time), Confidence::Strong, &text))
}

/// Reads in progress for most of the time, whose end the broker did not wait for.
/// Which of several was for the fetch is unknown.
fn unfinished_read(window: &Window, within: TimeSpan, free: &mut TimeBudget) -> Option<Vec<CauseCandidate>> {
    let readers: Vec<(Nanos, &TierCall)> =
        window.tier_calls.all().filter_map(|calls| longest_at_it(calls, within)).collect();
    let (_, last) = readers.iter().max_by_key(|(time, call)| (*time, call.tid))?;
    let spans = || window.tier_calls.all().flat_map(|calls| calls.overlapping(within)).map(|call| call.span);
    let all = TimeBudget::new(within).take_all(spans());
    if !within.is_most(all) {
        return None;
    }
    let confidence = if readers.len() == 1 { Confidence::Strong } else { Confidence::Weak };
    let text = format!("was reading {} when the broker answered without records", last.source);
    let time = free.take_all(spans());
    (time > Nanos::ZERO).then(|| attribute(window, last, (within, time), confidence, &text))
}

/// How long a reader was reading in a stretch, and its last call there.
fn longest_at_it(calls: &Timeline<TierCall>, within: TimeSpan) -> Option<(Nanos, &TierCall)> {
    let last = calls.overlapping(within).last()?;
    Some((TimeBudget::new(within).take_all(calls.overlapping(within).map(Span::span)), last))
}

/// The cause of a reader's work in a stretch, for `time` of the fetch.
fn attribute(
    window: &Window,
    last: &TierCall,
    (span, time): (TimeSpan, Nanos),
    confidence: Confidence,
    text: &str,
) -> Vec<CauseCandidate> {
    let thread = window.name(last.tid, &last.thread);
    let seen = evidence(last.source.evidence_kind(), &span, format!("{thread} {text}"));
    let seen = seen.of_thread(last.tid, &thread);
    let own = CauseCandidate::new(Cause::RemoteTierRead, &last.source, confidence, time).with([seen]);
    if last.source.is_files() {
        behind_each(&own, lock_chain::of_thread(window, last.tid, span, &mut vec![last.tid]))
    } else {
        vec![own]
    }
}
