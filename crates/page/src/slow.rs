//! Slow requests: where their time went and what caused it, over time, by root, and one by one. Keeps a bounded number
//! of them; the totals of all come from the engine.

use std::collections::HashMap;
use std::sync::Arc;

use diagnose::Summary;
use model::{Cause, Nanos, Stage, Verdict};
use serde::Serialize;

use super::grid::{Cells, Grid, Merge, Sums};
use super::names::Names;
use report::slowest::Slowest;

/// Limit on rows: the slowest are shown.
const MAX_ROWS: usize = 20_000;
/// Limits on the roots whose times are known, and on those shown.
const MAX_ROOTS: usize = 10_000;
const MAX_SHOWN_ROOTS: usize = 500;

/// The slow requests.
pub(super) struct Slow {
    stages: Cells<Sums<{ Stage::ALL.len() }>>,
    causes: Cells<Sums<{ Cause::ALL.len() }>>,
    rows: Slowest<Row>,
    roots: HashMap<Arc<str>, (Nanos, Nanos)>,
    advice: HashMap<Cause, Vec<&'static str>>,
}

/// The part of a slow request that a row shows.
struct Row {
    arrival: Nanos,
    latency: Nanos,
    correlation_id: i32,
    api: &'static str,
    client: Arc<str>,
    partition: Option<String>,
    cause: Cause,
    root: Arc<str>,
    confidence: &'static str,
}

/// The slow requests, over time and one by one.
#[derive(Clone, Debug, Serialize)]
pub struct SlowData {
    /// Latency from which a request counts as slow.
    pub slower_than_ns: i64,
    /// Requests seen.
    pub requests: u64,
    /// Slow requests with a verdict.
    pub slow: u64,
    /// Slow requests of APIs without verdicts.
    pub not_judged: Vec<(&'static str, u64)>,
    /// The stages' names, in order.
    pub stages: Vec<&'static str>,
    /// The causes' names.
    pub causes: Vec<&'static str>,
    /// Totals by cause, the most time first.
    pub by_cause: Vec<CauseData>,
    /// Roots, the most time first.
    pub by_root: Vec<RootData>,
    /// Number of roots that are not shown.
    pub more_roots: u64,
    /// Time of slow requests by the bucket of their arrival: the bucket, then microseconds by stage.
    pub stage_cells: Vec<Vec<i64>>,
    /// Like `stage_cells`, by cause.
    pub cause_cells: Vec<Vec<i64>>,
    /// Texts that the rows refer to by number.
    pub names: Vec<String>,
    /// The rows, slowest first; see [`ROW`].
    pub rows: Vec<[i64; 9]>,
    /// Names of a row's numbers.
    pub row: [&'static str; 9],
}

/// Names of a row's numbers, in order. A name is an index into `names`, -1 for none.
pub(super) const ROW: [&str; 9] = [
    "arrival_ns",
    "latency_ns",
    "correlation_id",
    "api_name",
    "client_name",
    "partition_name",
    "cause_index",
    "root_name",
    "confidence_name",
];

/// The requests of one cause.
#[derive(Clone, Debug, Serialize)]
pub struct CauseData {
    /// Its name.
    pub cause: &'static str,
    /// Number of requests.
    pub requests: u64,
    /// Their total latency.
    pub time_ns: i64,
    /// What to change.
    pub advice: Vec<&'static str>,
}

/// One root event.
#[derive(Clone, Debug, Serialize)]
pub struct RootData {
    /// Its id.
    pub root: String,
    /// Its cause.
    pub cause: &'static str,
    /// Description.
    pub text: String,
    /// Number of requests that it slowed.
    pub requests: u64,
    /// Their total latency.
    pub time_ns: i64,
    /// The slowest of them.
    pub slowest_ns: i64,
    /// Their first arrival, if known.
    pub start_ns: Option<i64>,
    /// Their last end.
    pub end_ns: Option<i64>,
}

impl Slow {
    pub(super) fn new() -> Self {
        Self {
            stages: Cells::default(),
            causes: Cells::default(),
            rows: Slowest::new(MAX_ROWS),
            roots: HashMap::new(),
            advice: HashMap::new(),
        }
    }

    pub(super) fn verdict(&mut self, grid: &Grid, verdict: &Verdict) {
        let request = &verdict.request;
        let latency = verdict.latency();
        let stages = &mut self.stages.at(grid, request.arrival).sums;
        stages.iter_mut().zip(verdict.stages.iter()).for_each(|(sum, (_, length))| sum.merge(length.0));
        let causes = &mut self.causes.at(grid, request.arrival).sums;
        causes.iter_mut().skip(cause_index(verdict.cause)).take(1).for_each(|sum| sum.merge(latency.0));
        self.advice.entry(verdict.cause).or_insert_with(|| verdict.advice.clone());
        self.root(verdict);
        self.rows.offer(latency, || Row::of(verdict, latency));
    }

    fn root(&mut self, verdict: &Verdict) {
        let request = &verdict.request;
        let (start, end) = (request.arrival, request.last_seen());
        if let Some(known) = self.roots.get_mut(&verdict.root) {
            *known = (known.0.min(start), known.1.max(end));
        } else if self.roots.len() < MAX_ROOTS {
            self.roots.insert(Arc::clone(&verdict.root), (start, end));
        }
    }

    pub(super) fn finish(self, grid: &Grid, summary: &Summary, slower_than: Nanos) -> SlowData {
        let Self { stages, causes, mut rows, roots, advice } = self;
        let mut names = Names::default();
        let rows = rows.take().map(|row| row.numbers(grid, &mut names)).collect();
        SlowData {
            slower_than_ns: slower_than.0,
            requests: summary.requests,
            slow: summary.slow,
            not_judged: summary.not_judged.clone(),
            stages: Stage::ALL.iter().map(|stage| stage.as_str()).collect(),
            causes: Cause::ALL.iter().map(|cause| cause.as_str()).collect(),
            by_cause: by_cause(summary, &advice),
            by_root: by_root(grid, summary, &roots),
            more_roots: summary.by_root.len().saturating_sub(MAX_SHOWN_ROOTS) as u64,
            stage_cells: stages.finish(grid, 1).iter().map(|(&at, sums)| sums.numbers(at, 0)).collect(),
            cause_cells: causes.finish(grid, 1).iter().map(|(&at, sums)| sums.numbers(at, 0)).collect(),
            rows,
            names: names.into_texts(),
            row: ROW,
        }
    }
}

impl Row {
    fn of(verdict: &Verdict, latency: Nanos) -> Self {
        let request = &verdict.request;
        let named = request.client_id.as_ref().map(|id| format!("{id} {}", request.client));
        Self {
            arrival: request.arrival,
            latency,
            correlation_id: request.correlation_id,
            api: request.api,
            client: named.unwrap_or_else(|| request.client.to_string()).into(),
            partition: verdict.partition.as_ref().map(ToString::to_string),
            cause: verdict.cause,
            root: Arc::clone(&verdict.root),
            confidence: verdict.confidence.as_str(),
        }
    }

    fn numbers(&self, grid: &Grid, names: &mut Names) -> [i64; ROW.len()] {
        [
            grid.since(self.arrival),
            self.latency.0,
            self.correlation_id.into(),
            names.number(self.api).into(),
            names.number(&self.client).into(),
            self.partition.as_deref().map_or(-1, |text| names.number(text).into()),
            cause_index(self.cause) as i64,
            names.number(&self.root).into(),
            names.number(self.confidence).into(),
        ]
    }
}

fn cause_index(cause: Cause) -> usize {
    Cause::ALL.into_iter().position(|one| one == cause).unwrap_or(Cause::ALL.len() - 1)
}

fn by_cause(summary: &Summary, advice: &HashMap<Cause, Vec<&'static str>>) -> Vec<CauseData> {
    let causes = summary.by_cause.iter().map(|total| CauseData {
        cause: total.cause.as_str(),
        requests: total.requests,
        time_ns: total.time.0,
        advice: advice.get(&total.cause).cloned().unwrap_or_default(),
    });
    causes.collect()
}

fn by_root(grid: &Grid, summary: &Summary, times: &HashMap<Arc<str>, (Nanos, Nanos)>) -> Vec<RootData> {
    let roots = summary.by_root.iter().take(MAX_SHOWN_ROOTS).map(|total| {
        let times = times.get(&total.root);
        RootData {
            root: total.root.to_string(),
            cause: total.cause.as_str(),
            text: total.text.clone(),
            requests: total.requests,
            time_ns: total.time.0,
            slowest_ns: total.slowest.0,
            start_ns: times.map(|(start, _)| grid.since(*start)),
            end_ns: times.map(|(_, end)| grid.since(*end)),
        }
    });
    roots.collect()
}
