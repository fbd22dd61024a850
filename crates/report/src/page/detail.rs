//! One slow request with everything that its waterfall shows: its stages and evidence, what the threads of its story and
//! others did meanwhile, the journal's commits and the device's requests. Does not choose which requests are told.

mod spans;

use std::collections::BTreeMap;

use model::{Event, EvidenceKind, Nanos, Tid, Verdict};
use serde::Serialize;

use super::devices::CommitData;
use super::grid::Grid;
use super::recent::Recent;
pub(super) use spans::Span;

/// Threads told, spans of each, and block requests: the longest.
const MOST_THREADS: usize = 24;
const MOST_SPANS: usize = 80;
const MOST_BLOCK_IOS: usize = 200;
const MOST_COMMITS: usize = 20;
/// How much before and after the request is shown, as a share of its latency.
const MARGIN: i64 = 20;

/// A slow request. Times are nanoseconds after the page's origin.
#[derive(Clone, Debug, Serialize)]
pub struct Detail {
    /// What a link names it by.
    pub id: String,
    /// First byte of the request.
    pub arrival_ns: i64,
    /// Its last byte.
    pub arrival_end_ns: i64,
    /// First byte of the response.
    pub response_ns: Option<i64>,
    /// Its last byte.
    pub end_ns: i64,
    /// Kafka's name of the API.
    pub api: &'static str,
    /// Its version.
    pub api_version: i16,
    /// The client's number for it.
    pub correlation_id: i32,
    /// What the client calls itself.
    pub client_id: Option<String>,
    /// The client's end of the connection.
    pub client: String,
    /// The broker's.
    pub broker: String,
    /// Bytes of its frame.
    pub request_bytes: u32,
    /// Produce: 0, 1 or -1.
    pub acks: Option<i16>,
    /// Its partitions, as the broker names their directories, with the bytes of each.
    pub partitions: Vec<(String, u32)>,
    /// Nanoseconds in each stage, in their order.
    pub stages: Vec<i64>,
    /// The cause.
    pub cause: &'static str,
    /// The way to it, nearest first.
    pub chain: Vec<&'static str>,
    /// The root's id.
    pub root: String,
    /// `exact`, `strong` or `weak`.
    pub confidence: &'static str,
    /// The partition that the time was lost on.
    pub partition: Option<String>,
    /// What was seen that supports the verdict, in the order in which it is told.
    pub evidence: Vec<Proof>,
    /// What to change.
    pub advice: Vec<&'static str>,
    /// What was lost near it.
    pub losses: Vec<String>,
    /// What threads did meanwhile: those of the evidence first, in its order.
    pub threads: Vec<Lane>,
    /// Commits of journals.
    pub commits: Vec<CommitData>,
    /// Requests to devices.
    pub block_ios: Vec<Span>,
    /// Stops of the JVM, and calls of kernel functions by threads that are not the broker's.
    pub others: Vec<Span>,
    /// Whether something of its surroundings had been given up for want of room.
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
    /// The thread.
    pub tid: Option<Tid>,
    /// Its name.
    pub thread: Option<String>,
    /// A sentence.
    pub text: String,
}

/// What one thread did.
#[derive(Clone, Debug, Serialize)]
pub struct Lane {
    /// The thread.
    pub tid: Tid,
    /// Its name.
    pub thread: String,
    /// Whether the evidence names it.
    pub in_evidence: bool,
    /// What it did, by start.
    pub spans: Vec<Span>,
}

impl Detail {
    /// A request and its surroundings.
    pub(super) fn of(grid: &Grid, verdict: &Verdict, recent: &Recent) -> Self {
        let request = &verdict.request;
        let around = Around::of(grid, verdict, recent);
        let partitions = request.partitions.iter().map(|partition| {
            let topic = partition.topic.as_deref().unwrap_or("?");
            (format!("{topic}-{}", partition.partition), partition.bytes)
        });
        Self {
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
            partitions: partitions.take(100).collect(),
            stages: verdict.stages.iter().map(|(_, length)| length.0).collect(),
            cause: verdict.cause.as_str(),
            chain: verdict.chain.iter().map(|cause| cause.as_str()).collect(),
            root: verdict.root.to_string(),
            confidence: verdict.confidence.as_str(),
            partition: verdict.partition.as_ref().map(ToString::to_string),
            evidence: verdict.evidence.iter().map(|seen| Proof::of(grid, seen)).collect(),
            advice: verdict.advice.clone(),
            losses: verdict.losses.iter().map(ToString::to_string).collect(),
            threads: around.lanes(verdict),
            commits: around.commits,
            block_ios: longest(around.block_ios, MOST_BLOCK_IOS),
            others: longest(around.others, MOST_SPANS),
            cut: !recent.is_whole_from(request.arrival),
        }
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
        }
    }
}

/// What shared time with a request.
#[derive(Default)]
struct Around {
    threads: BTreeMap<Tid, (String, Vec<Span>)>,
    commits: Vec<CommitData>,
    block_ios: Vec<Span>,
    others: Vec<Span>,
}

impl Around {
    fn of(grid: &Grid, verdict: &Verdict, recent: &Recent) -> Self {
        let request = &verdict.request;
        let (start, end) = bounds(verdict);
        let margin = Nanos((request.last_seen() - request.arrival).0 / MARGIN);
        let mut around = Self::default();
        for event in recent.within(start - margin, end + margin) {
            match event {
                Event::JournalCommit(commit) => around.commits.push(CommitData::of(grid, commit)),
                Event::BlockIo(_) => around.block_ios.extend(spans::of(grid, event)),
                _ => match spans::thread(event) {
                    Some((tid, name)) => {
                        let lane = around.threads.entry(tid).or_default();
                        if name.len() > lane.0.len() {
                            name.clone_into(&mut lane.0);
                        }
                        lane.1.extend(spans::of(grid, event));
                    }
                    None => around.others.extend(spans::of(grid, event)),
                },
            }
        }
        around
            .commits
            .sort_by_key(|commit| (std::cmp::Reverse(commit.end_ns - commit.start_ns), commit.start_ns));
        around.commits.truncate(MOST_COMMITS);
        around
    }

    /// The threads of the evidence in its order, then those that were busy longest.
    fn lanes(&self, verdict: &Verdict) -> Vec<Lane> {
        let mut told: Vec<Tid> = Vec::new();
        for tid in verdict
            .evidence
            .iter()
            .filter(|seen| seen.kind != EvidenceKind::BlockIo)
            .filter_map(|seen| seen.tid)
        {
            if self.threads.contains_key(&tid) && !told.contains(&tid) {
                told.push(tid);
            }
        }
        let named = told.len();
        let busy = |tid: &Tid| {
            self.threads.get(tid).map_or(0, |(_, spans)| spans.iter().map(Span::length).sum::<i64>())
        };
        let mut rest: Vec<Tid> = self.threads.keys().copied().filter(|tid| !told.contains(tid)).collect();
        rest.sort_by_key(|tid| (std::cmp::Reverse(busy(tid)), *tid));
        told.extend(rest);
        let lanes = told.into_iter().take(MOST_THREADS.max(named)).enumerate().filter_map(|(at, tid)| {
            let (thread, spans) = self.threads.get(&tid)?;
            let spans = longest(spans.clone(), MOST_SPANS);
            Some(Lane { tid, thread: thread.clone(), in_evidence: at < named, spans })
        });
        lanes.collect()
    }
}

/// The request, and what of its evidence began before it.
fn bounds(verdict: &Verdict) -> (Nanos, Nanos) {
    let request = &verdict.request;
    let starts = verdict.evidence.iter().map(|seen| seen.start);
    (starts.min().map_or(request.arrival, |first| first.min(request.arrival)), request.last_seen())
}

/// The longest, in the order of their starts.
fn longest(mut spans: Vec<Span>, most: usize) -> Vec<Span> {
    spans.sort_by_key(|span| std::cmp::Reverse(span.length()));
    spans.truncate(most);
    spans.sort_by_key(|span| span.start_ns);
    spans
}
