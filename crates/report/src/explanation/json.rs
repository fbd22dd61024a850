//! Verdicts as JSON lines, the last one a summary, with the field names of the command line's contract.

use std::collections::BTreeMap;
use std::io::{self, Write};

use diagnose::request_log_check::{Agreement, Differences, TimesComparison};
use model::{Evidence, StageSpan, Stages, Verdict};
use serde::{Serialize, Serializer};

use super::why_not::DoubtView;
use super::{Conclusion, ExplanationReport, Lag, Unobservable};
use crate::json;
use crate::requests::RequestView;

/// Verdicts as JSON lines.
pub struct ExplanationJson<W>(pub W);

impl<W: Write> ExplanationReport for ExplanationJson<W> {
    fn verdict(&mut self, verdict: Verdict) -> io::Result<()> {
        json::write_line(&mut self.0, &VerdictView::from(&verdict))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    fn finish(&mut self, conclusion: &Conclusion) -> io::Result<()> {
        json::write_line(&mut self.0, &SummaryView::from(conclusion))?;
        self.0.flush()
    }
}

/// One verdict; times are UTC nanoseconds, stages nanoseconds.
#[derive(Serialize)]
#[serde(tag = "type", rename = "verdict")]
struct VerdictView<'a> {
    request: RequestView<'a>,
    stages: StagesView<'a>,
    /// The same in the order of time.
    course: Vec<SpanView<'a>>,
    cause: &'a str,
    chain: Vec<&'a str>,
    root: &'a str,
    confidence: &'a str,
    /// The partition the time was lost on, as the broker names its directory.
    partition: Option<String>,
    evidence: Vec<EvidenceView<'a>>,
    advice: &'a [&'static str],
    losses: Vec<&'a str>,
    /// What Kafka's own request log says of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    kafka: Option<KafkaView>,
    /// What could not be decided, where that was asked for and anything could not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    why_not: Vec<DoubtView<'a>>,
}

/// Kafka's own times, by the names of its request log, in nanoseconds.
#[derive(Serialize)]
struct KafkaView {
    queue_ns: i64,
    local_ns: i64,
    remote_ns: i64,
    throttle_ns: i64,
    response_queue_ns: i64,
    send_ns: i64,
    total_ns: i64,
    /// Whether it disagrees with the stages by more than is tolerated.
    disagrees: bool,
}

#[derive(Serialize)]
struct SpanView<'a> {
    stage: &'a str,
    start_ns: i64,
    end_ns: i64,
}

#[derive(Serialize)]
struct EvidenceView<'a> {
    kind: &'a str,
    start_ns: i64,
    end_ns: i64,
    tid: Option<u32>,
    thread: Option<&'a str>,
    text: &'a str,
    /// Of a wait for a lock: who waited; `tid` and `thread` are then of who held it.
    waiter_tid: Option<u32>,
    waiter: Option<&'a str>,
}

/// An object with one field a stage, in their order.
struct StagesView<'a>(&'a Stages);

impl Serialize for StagesView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(stage, length)| (stage.as_str(), length.0)))
    }
}

impl<'a> From<&'a Verdict> for VerdictView<'a> {
    fn from(verdict: &'a Verdict) -> Self {
        Self {
            request: RequestView::from(&verdict.request),
            stages: StagesView(&verdict.stages),
            course: verdict.stage_spans.iter().map(SpanView::from).collect(),
            cause: verdict.cause.as_str(),
            chain: verdict.chain.iter().map(|cause| cause.as_str()).collect(),
            root: &verdict.root,
            confidence: verdict.confidence.as_str(),
            partition: verdict.partition.as_ref().map(ToString::to_string),
            evidence: verdict.evidence.iter().map(EvidenceView::from).collect(),
            advice: &verdict.advice,
            losses: verdict.losses.iter().map(AsRef::as_ref).collect(),
            kafka: verdict.kafka.map(|kafka| KafkaView {
                queue_ns: kafka.queue.0,
                local_ns: kafka.local.0,
                remote_ns: kafka.remote.0,
                throttle_ns: kafka.throttle.0,
                response_queue_ns: kafka.response_queue.0,
                send_ns: kafka.send.0,
                total_ns: kafka.total.0,
                disagrees: TimesComparison::of(verdict).is_some_and(|beside| beside.disagrees()),
            }),
            why_not: verdict.doubts.iter().map(DoubtView::from).collect(),
        }
    }
}

impl<'a> From<&'a StageSpan> for SpanView<'a> {
    fn from(span: &'a StageSpan) -> Self {
        Self { stage: span.stage.as_str(), start_ns: span.start.0, end_ns: span.end.0 }
    }
}

impl<'a> From<&'a Evidence> for EvidenceView<'a> {
    fn from(evidence: &'a Evidence) -> Self {
        Self {
            kind: evidence.kind.as_str(),
            start_ns: evidence.start.0,
            end_ns: evidence.end.0,
            tid: evidence.tid,
            thread: evidence.thread.as_deref(),
            text: &evidence.text,
            waiter_tid: evidence.waiter.as_ref().map(|waiter| waiter.tid),
            waiter: evidence.waiter.as_ref().map(|waiter| &*waiter.thread),
        }
    }
}

#[derive(Serialize)]
#[serde(tag = "type", rename = "summary")]
struct SummaryView<'a> {
    requests: u64,
    slow: u64,
    slower_than_ns: i64,
    by_cause: BTreeMap<&'a str, TotalView>,
    by_root: Vec<RootView<'a>>,
    joins: JoinsView,
    losses: BTreeMap<&'a str, u64>,
    not_judged: BTreeMap<&'a str, u64>,
    unobservable: &'a [Unobservable],
    notes: &'a [String],
    /// How far Kafka's own request log agrees, where one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_log: Option<AgreementView>,
    /// How long after their requests' ends verdicts were told, of a live run.
    #[serde(skip_serializing_if = "Option::is_none")]
    lag: Option<LagView>,
}

#[derive(Serialize)]
#[expect(clippy::struct_field_names, reason = "the fields' names in JSON, with their unit")]
struct LagView {
    median_ns: i64,
    p99_ns: i64,
    max_ns: i64,
}

impl From<Lag> for LagView {
    fn from(lag: Lag) -> Self {
        Self { median_ns: lag.median.0, p99_ns: lag.p99.0, max_ns: lag.longest.0 }
    }
}

/// Verdicts on produce requests beside Kafka's request log.
#[derive(Serialize)]
struct AgreementView {
    compared: u64,
    not_in_log: u64,
    partly_seen: u64,
    disagreeing: u64,
    /// Queue, handler, lock and append less its queue and local time.
    local: DifferencesView,
    /// Remote and respond less its remote, response-queue and send time.
    after: DifferencesView,
}

#[derive(Serialize)]
struct DifferencesView {
    /// The share within 1 ms, 0 to 1.
    within: f64,
    median_ns: Option<i64>,
    p01_ns: Option<i64>,
    p99_ns: Option<i64>,
}

impl From<&Agreement> for AgreementView {
    fn from(agreement: &Agreement) -> Self {
        Self {
            compared: agreement.compared,
            not_in_log: agreement.not_in_log,
            partly_seen: agreement.partly_seen,
            disagreeing: agreement.disagreeing,
            local: DifferencesView::from(&agreement.local),
            after: DifferencesView::from(&agreement.after),
        }
    }
}

impl From<&Differences> for DifferencesView {
    fn from(differences: &Differences) -> Self {
        let [p01_ns, median_ns, p99_ns] =
            [0.01, 0.5, 0.99].map(|share| differences.quantile(share).map(|difference| difference.0));
        Self { within: differences.within(), median_ns, p01_ns, p99_ns }
    }
}

#[derive(Serialize)]
struct TotalView {
    requests: u64,
    time_ns: i64,
}

#[derive(Serialize)]
struct RootView<'a> {
    root: &'a str,
    cause: &'a str,
    text: &'a str,
    requests: u64,
    time_ns: i64,
    slowest_ns: i64,
}

#[derive(Serialize)]
struct JoinsView {
    by_crc: u64,
    by_base_offset: u64,
    unjoined: u64,
    not_written: u64,
}

impl<'a> From<&'a Conclusion> for SummaryView<'a> {
    fn from(conclusion: &'a Conclusion) -> Self {
        let summary = &conclusion.summary;
        let by_cause = summary.by_cause.iter().map(|total| {
            (total.cause.as_str(), TotalView { requests: total.requests, time_ns: total.time.0 })
        });
        let by_root = summary.by_root.iter().map(|total| RootView {
            root: &total.root,
            cause: total.cause.as_str(),
            text: &total.text,
            requests: total.requests,
            time_ns: total.time.0,
            slowest_ns: total.slowest.0,
        });
        Self {
            requests: summary.requests,
            slow: summary.slow,
            slower_than_ns: conclusion.slower_than.0,
            by_cause: by_cause.collect(),
            by_root: by_root.collect(),
            joins: JoinsView {
                by_crc: summary.joins.by_crc,
                by_base_offset: summary.joins.by_base_offset,
                unjoined: summary.joins.unjoined,
                not_written: summary.joins.not_written,
            },
            losses: summary.losses.iter().map(|&(kind, count)| (kind.as_str(), count)).collect(),
            not_judged: summary.not_judged.iter().copied().collect(),
            unobservable: &conclusion.unobservable,
            notes: &conclusion.notes,
            request_log: conclusion.agreement.as_ref().map(AgreementView::from),
            lag: conclusion.lag.map(LagView::from),
        }
    }
}
