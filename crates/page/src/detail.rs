//! One slow request with everything that its waterfall shows: its stages and evidence, what the threads of its evidence and
//! others did meanwhile, the journal's commits and the device's requests. Does not choose the requests.

mod around;
mod pool;
mod spans;

use std::sync::Arc;

use model::{Event, Evidence, Tid, Verdict};
use serde::Serialize;

use super::devices::CommitData;
use super::grid::Grid;
use super::recent::{Recent, RecentEvent};
use around::Around;
pub(super) use pool::Pool;
pub(super) use spans::Span;

/// Limits on the partitions shown, and on the spans of stages.
const MAX_PARTITIONS: usize = 100;
const MAX_STAGE_SPANS: usize = 200;

/// A slow request.
/// Times are nanoseconds after the page's origin; spans are numbers of the recording's spans.
#[derive(Clone, Debug, Serialize)]
pub struct Detail {
    /// Id in links.
    pub id: String,
    /// First byte of the request.
    pub arrival_ns: i64,
    /// Its last byte.
    pub arrival_end_ns: i64,
    /// First byte of the response.
    pub response_ns: Option<i64>,
    /// Its last byte.
    pub end_ns: i64,
    /// Kafka's name for the API.
    pub api: &'static str,
    /// Its version.
    pub api_version: i16,
    /// The client's correlation id.
    pub correlation_id: i32,
    /// The client's id.
    pub client_id: Option<String>,
    /// The client's end of the connection.
    pub client: String,
    /// The broker's end.
    pub broker: String,
    /// Bytes of its frame.
    pub request_bytes: u32,
    /// Produce: 0, 1 or -1.
    pub acks: Option<i16>,
    /// Its partitions, named like the broker's directories, with the bytes of each.
    pub partitions: Vec<(String, u32)>,
    /// Nanoseconds in each stage, in their order.
    pub stages: Vec<i64>,
    /// The stages in order of time: the number of the stage, its start and its end.
    pub stage_spans: Vec<(usize, i64, i64)>,
    /// The cause.
    pub cause: &'static str,
    /// The chain to it, nearest first.
    pub chain: Vec<&'static str>,
    /// The root's id.
    pub root: String,
    /// `exact`, `strong` or `weak`.
    pub confidence: &'static str,
    /// The partition on which the time was lost.
    pub partition: Option<String>,
    /// The evidence of the verdict, in the order of the chain.
    pub evidence: Vec<Proof>,
    /// What to change.
    pub advice: Vec<&'static str>,
    /// Losses near it.
    pub losses: Vec<String>,
    /// What could not be decided, and what would have shown it.
    pub doubts: Vec<Open>,
    /// Threads and what they did meanwhile: those of the evidence first, in its order.
    pub threads: Vec<Lane>,
    /// Commits of journals.
    pub commits: Vec<CommitData>,
    /// Requests to devices.
    pub block_ios: Vec<u32>,
    /// JVM pauses, and calls of kernel functions by threads that are not the broker's.
    pub others: Vec<u32>,
    /// Whether some surrounding events were dropped, or are not shown, because of a limit.
    pub cut: bool,
}

/// A piece of evidence.
#[derive(Clone, Debug, Serialize)]
pub struct Proof {
    /// Its kind, as `explain` names it.
    pub kind: &'static str,
    /// Its start.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// The thread; for a wait for a lock, its holder.
    pub tid: Option<Tid>,
    /// Its name.
    pub thread: Option<String>,
    /// A sentence.
    pub text: String,
    /// For a wait for a lock: the thread that waited.
    pub waiter_tid: Option<Tid>,
    /// Its name.
    pub waiter: Option<String>,
}

/// One thread and what it did.
#[derive(Clone, Debug, Serialize)]
pub struct Lane {
    /// The thread.
    pub tid: Tid,
    /// Its name.
    pub thread: String,
    /// Whether the evidence names it.
    pub in_evidence: bool,
    /// What it did, by start.
    pub spans: Vec<u32>,
}

/// Something that could not be decided.
#[derive(Clone, Debug, Serialize)]
pub struct Open {
    /// The stage that it is about.
    pub stage: &'static str,
    /// What is open.
    pub what: String,
    /// What would have shown it.
    pub tells: String,
}

/// A slow request that may be shown in detail, with its surroundings; its detail is built once it is sure to be shown.
pub(super) struct Draft {
    verdict: Verdict,
    around: Around,
    cut: bool,
}

impl Draft {
    /// Drafts a request with its surroundings.
    pub(super) fn of(verdict: &Verdict, recent: &Recent) -> Self {
        let cut = !recent.is_whole_from(verdict.request.arrival);
        Self { verdict: verdict.clone(), around: Around::of(verdict, recent), cut }
    }

    /// Builds the detail. Spans beyond the limit are left out, and the request is marked as cut.
    pub(super) fn into_detail(self, grid: &Grid, pool: &mut Pool) -> Detail {
        let Self { verdict, around, mut cut } = self;
        let mut spans = |events: &[Arc<RecentEvent>], inferred: (Tid, &[Evidence])| {
            let (waiter, waits) = inferred;
            let mut numbers: Vec<_> = waits.iter().filter_map(|wait| pool.wait(grid, waiter, wait)).collect();
            let event = |seen: &Arc<RecentEvent>| pool.event(grid, seen, around::is_evidence(&verdict, seen));
            numbers.extend(events.iter().filter_map(event));
            cut |= numbers.len() < events.len() + waits.len();
            numbers
        };
        let lanes = around.threads.iter().map(|thread| Lane {
            tid: thread.tid,
            thread: thread.name.to_string(),
            in_evidence: thread.in_evidence,
            spans: spans(&thread.events, (thread.tid, &thread.inferred)),
        });
        let threads = lanes.collect();
        let mut spans = |events| spans(events, (0, &[]));
        let (block_ios, others) = (spans(&around.block_ios), spans(&around.others));
        let commits = around.commits.iter().filter_map(|seen| match &seen.event {
            Event::JournalCommit(commit) => Some(CommitData::of(grid, commit)),
            _ => None,
        });
        let commits = commits.collect();
        let request = &verdict.request;
        let partitions = request.partitions.iter().map(|partition| {
            let topic = partition.topic.as_deref().unwrap_or("?");
            (format!("{topic}-{}", partition.partition), partition.bytes)
        });
        let stage_spans = verdict.stage_spans.iter().take(MAX_STAGE_SPANS);
        Detail {
            id: format!("{}-{}", request.correlation_id, grid.since(request.arrival)),
            arrival_ns: grid.since(request.arrival),
            arrival_end_ns: grid.since(request.arrival_end),
            response_ns: request.response.map(|at| grid.since(at)),
            end_ns: grid.since(request.last_seen()),
            api: request.api,
            api_version: request.api_version,
            correlation_id: request.correlation_id,
            client_id: request.client_id.as_ref().map(ToString::to_string),
            client: request.client.to_string(),
            broker: request.broker.to_string(),
            request_bytes: request.request_bytes,
            acks: request.acks,
            partitions: partitions.take(MAX_PARTITIONS).collect(),
            stages: verdict.stages.iter().map(|(_, length)| length.0).collect(),
            stage_spans: stage_spans
                .map(|span| (span.stage as usize, grid.since(span.start), grid.since(span.end)))
                .collect(),
            cause: verdict.cause.as_str(),
            chain: verdict.chain.iter().map(|cause| cause.as_str()).collect(),
            root: verdict.root.to_string(),
            confidence: verdict.confidence.as_str(),
            partition: verdict.partition.as_ref().map(ToString::to_string),
            evidence: verdict.evidence.iter().map(|seen| Proof::of(grid, seen)).collect(),
            advice: verdict.advice.clone(),
            losses: verdict.losses.iter().map(ToString::to_string).collect(),
            doubts: verdict.doubts.iter().map(Open::from).collect(),
            threads,
            commits,
            block_ios,
            others,
            cut,
        }
    }
}

impl From<&model::Doubt> for Open {
    fn from(doubt: &model::Doubt) -> Self {
        Self { stage: doubt.stage.as_str(), what: doubt.what.clone(), tells: doubt.tells.clone() }
    }
}

impl Proof {
    fn of(grid: &Grid, seen: &model::Evidence) -> Self {
        Self {
            kind: seen.kind.as_str(),
            start_ns: grid.since(seen.start),
            end_ns: grid.since(seen.end),
            tid: seen.tid,
            thread: seen.thread.as_ref().map(ToString::to_string),
            text: seen.text.clone(),
            waiter_tid: seen.waiter.as_ref().map(|waiter| waiter.tid),
            waiter: seen.waiter.as_ref().map(|waiter| waiter.thread.to_string()),
        }
    }
}
