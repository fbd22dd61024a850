//! Totals over all judged requests, and requests with their stages, slow or not.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use model::{Cause, Loss, LossKind, Nanos, Request, Stages, TlsTotals, Verdict};

use crate::causes;
use crate::joins::JoinStats;

/// Roots that are counted separately; the rest are counted together, as the root [`MORE_ROOTS`].
const MAX_ROOTS: usize = 10_000;
/// Descriptions of losses that are counted separately; the rest are in the totals only.
const MAX_LOSS_DETAILS: usize = 32;
/// The root that stands for all roots beyond the bound.
pub const MORE_ROOTS: &str = "more";

/// Totals over everything that was fed.
#[derive(Clone, Debug, Default)]
pub struct Summary {
    /// Requests seen, of every API.
    pub requests: u64,
    /// Requests that got a verdict.
    pub slow: u64,
    /// Slow requests of APIs that get no verdicts, by Kafka's name.
    pub not_judged: Vec<(&'static str, u64)>,
    /// Requests by cause, most time first.
    pub by_cause: Vec<CauseTotal>,
    /// Requests by root event, most time first.
    pub by_root: Vec<RootTotal>,
    /// How produce partitions were joined with their appends.
    pub joins: JoinStats,
    /// What was lost, by kind.
    pub losses: Vec<(LossKind, u64)>,
    /// The parts of `losses`, with descriptions.
    pub loss_details: Vec<LossDetail>,
    /// TLS connections that were not read.
    pub tls: TlsTotals,
}

/// What was lost for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LossDetail {
    /// Its kind.
    pub kind: LossKind,
    /// What was lost and why, or which source saw nothing.
    pub detail: Arc<str>,
    /// How much; seconds for [`LossKind::SourceDown`] and [`LossKind::SourceShed`].
    pub count: u64,
}

/// The requests of one cause.
#[derive(Clone, Debug, PartialEq)]
pub struct CauseTotal {
    /// The cause.
    pub cause: Cause,
    /// How many requests.
    pub requests: u64,
    /// The sum of their latencies.
    pub time: Nanos,
    /// The latency of the slowest.
    pub slowest: Nanos,
    /// Kafka's name of their API; `None` for several APIs.
    pub api: Option<&'static str>,
}

/// The requests of one root event.
#[derive(Clone, Debug, PartialEq)]
pub struct RootTotal {
    /// The root's id.
    pub root: Arc<str>,
    /// Its cause.
    pub cause: Cause,
    /// Its description: the deepest evidence of its slowest request.
    pub text: String,
    /// How many requests.
    pub requests: u64,
    /// The sum of their latencies.
    pub time: Nanos,
    /// The latency of the slowest.
    pub slowest: Nanos,
}

impl Summary {
    /// Sources that saw nothing, with the reason and the seconds: the parts of [`LossKind::SourceDown`].
    pub fn outages(&self) -> impl Iterator<Item = (&str, u64)> {
        let down = self.loss_details.iter().filter(|loss| loss.kind == LossKind::SourceDown);
        down.map(|loss| (&*loss.detail, loss.count))
    }
}

impl LossDetail {
    fn of(((kind, detail), count): (&(LossKind, Arc<str>), &u64)) -> Self {
        Self { kind: *kind, detail: Arc::clone(detail), count: *count }
    }
}

/// Collects a [`Summary`].
#[derive(Debug, Default)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    pub(crate) joins: JoinStats,
    pub(crate) tls: TlsTotals,
    slow: u64,
    not_judged: BTreeMap<&'static str, u64>,
    by_cause: BTreeMap<Cause, CauseTotal>,
    by_root: BTreeMap<Arc<str>, RootTotal>,
    losses: BTreeMap<LossKind, u64>,
    loss_details: BTreeMap<(LossKind, Arc<str>), u64>,
}

impl Totals {
    pub(crate) fn verdict(&mut self, verdict: &Verdict) {
        let latency = verdict.latency();
        self.slow += 1;
        let (cause, api) = (verdict.cause, Some(verdict.request.api));
        let total = self.by_cause.entry(cause).or_insert(CauseTotal {
            cause,
            requests: 0,
            time: Nanos::ZERO,
            slowest: Nanos::MIN,
            api,
        });
        total.requests += 1;
        total.time += latency;
        total.slowest = total.slowest.max(latency);
        total.api = total.api.filter(|_| total.api == api);
        self.root(verdict, latency);
    }

    fn root(&mut self, verdict: &Verdict, latency: Nanos) {
        let full = self.by_root.len() >= MAX_ROOTS && !self.by_root.contains_key(&verdict.root);
        let root = if full { Arc::from(MORE_ROOTS) } else { Arc::clone(&verdict.root) };
        let total = self.by_root.entry(Arc::clone(&root)).or_insert_with(|| RootTotal {
            root,
            cause: verdict.cause,
            text: String::new(),
            requests: 0,
            time: Nanos::ZERO,
            slowest: Nanos::MIN,
        });
        total.requests += 1;
        total.time += latency;
        if latency > total.slowest {
            total.slowest = latency;
            total.text = root_text(verdict);
        }
    }

    pub(crate) fn not_judged(&mut self, api: &'static str) {
        *self.not_judged.entry(api).or_default() += 1;
    }

    pub(crate) fn loss(&mut self, loss: &Loss) {
        *self.losses.entry(loss.kind).or_default() += loss.count;
        let detail = (loss.kind, Arc::clone(&loss.detail));
        if self.loss_details.len() < MAX_LOSS_DETAILS || self.loss_details.contains_key(&detail) {
            *self.loss_details.entry(detail).or_default() += loss.count;
        }
    }

    pub(crate) fn summary(&self) -> Summary {
        // Stable: entries with the same time keep their order.
        let mut by_cause: Vec<CauseTotal> = self.by_cause.values().cloned().collect();
        by_cause.sort_by_key(|total| Reverse(total.time));
        let mut by_root: Vec<RootTotal> = self.by_root.values().cloned().collect();
        by_root.sort_by_key(|total| Reverse(total.time));
        Summary {
            requests: self.requests,
            slow: self.slow,
            not_judged: self.not_judged.iter().map(|(&api, &count)| (api, count)).collect(),
            by_cause,
            by_root,
            joins: self.joins,
            losses: self.losses.iter().map(|(&kind, &count)| (kind, count)).collect(),
            loss_details: self.loss_details.iter().map(LossDetail::of).collect(),
            tls: self.tls.clone(),
        }
    }
}

/// Describes the root event: the last evidence of a kind that names the cause. Empty if nothing explains the request.
pub fn root_text(verdict: &Verdict) -> String {
    let kinds = causes::spec(verdict.cause).root_evidence;
    kinds
        .iter()
        .find_map(|kind| verdict.evidence.iter().rev().find(|evidence| evidence.kind == *kind))
        .map(|evidence| evidence.text.clone())
        .unwrap_or_default()
}

/// An answered request and where its time went.
#[derive(Clone, Debug)]
pub struct RequestStages {
    /// The request.
    pub request: Arc<Request>,
    /// Adds up to its latency; what no source saw is `unobserved`.
    pub stages: Stages,
}
