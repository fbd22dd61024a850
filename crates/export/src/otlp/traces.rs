//! The spans of a verdict. Its request and stages are a trace; what held it up is in the trace of the root event, and told once.
//!
//! Attributes follow OpenTelemetry's conventions where there are some (`messaging.*`, `client.*`, `server.*`, `thread.*`,
//! semantic conventions 1.27); ours begin with `brokerscope.` and `kafka.`.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use ahash::RandomState;
use model::{Evidence, Nanos, Request, StageSpan, Verdict};

use super::ids::{Ids, SpanId, TraceId};
use super::span::{Kind, Link, Span};
use crate::label::clean_to;

/// Of a request's stages and of its evidence, so many spans each.
const MOST_SPANS: usize = 64;
/// So many spans of root events are remembered as told.
const TOLD: usize = 4_096;
/// An attribute's text is cut after so many characters.
const MOST_CHARS: usize = 256;

/// Makes spans of verdicts.
#[derive(Debug, Default)]
pub(super) struct Traces {
    ids: Ids,
    told: RecentIds,
}

impl Traces {
    /// The request, its stages, and what of its evidence was not told yet.
    pub(super) fn spans(&mut self, verdict: &Verdict) -> Vec<Span> {
        let root = self.ids.trace_of(&verdict.root);
        let evidence: Vec<(&Evidence, Link)> = verdict
            .evidence
            .iter()
            .take(MOST_SPANS)
            .map(|evidence| (evidence, Link { trace: root, span: self.evidence_id(root, evidence) }))
            .collect();
        let request = request(verdict, &mut self.ids, evidence.iter().map(|(_, link)| *link).collect());
        let stages = verdict.stage_spans.iter().take(MOST_SPANS);
        let mut spans: Vec<Span> = stages.map(|stage| self.stage(&request, *stage, &evidence)).collect();
        spans.insert(0, request);
        for (evidence, link) in evidence {
            if self.told.is_new(link.span) {
                spans.push(happened(verdict, evidence, link));
            }
        }
        spans
    }

    fn stage(&mut self, request: &Span, stage: StageSpan, evidence: &[(&Evidence, Link)]) -> Span {
        let meanwhile = |evidence: &Evidence| evidence.start < stage.end && stage.start < evidence.end;
        let links = evidence.iter().filter(|(evidence, _)| meanwhile(evidence)).map(|(_, link)| *link);
        Span {
            trace: request.trace,
            id: self.ids.new_span(),
            parent: Some(request.id),
            name: stage.stage.as_str().into(),
            kind: Kind::Internal,
            start: stage.start,
            end: stage.end,
            attributes: Vec::new(),
            links: links.collect(),
            failed: false,
        }
    }

    /// The same for the same thing, whichever request tells of it.
    fn evidence_id(&self, root: TraceId, evidence: &Evidence) -> SpanId {
        let Evidence { kind, start, end, tid, waiter, .. } = evidence;
        self.ids.span_of(&(root, kind, start, end, tid, waiter.as_ref().map(|waiter| waiter.tid)))
    }
}

fn request(verdict: &Verdict, ids: &mut Ids, links: Vec<Link>) -> Span {
    let request = &verdict.request;
    let topic = topic(verdict);
    let name = topic
        .as_ref()
        .map_or_else(|| request.api.into(), |(topic, _)| format!("{} {topic}", request.api).into());
    let mut span = Span {
        trace: ids.new_trace(),
        id: ids.new_span(),
        parent: None,
        name,
        kind: Kind::Server,
        start: request.arrival,
        end: request.last_seen(),
        attributes: Vec::new(),
        links,
        failed: request.failed(),
    };
    span.with("messaging.system", Some("kafka"));
    span.with("messaging.client.id", request.client_id.as_deref().map(text));
    span.with(
        "messaging.destination.partition.id",
        topic.as_ref().map(|(_, partition)| text(&partition.to_string())),
    );
    span.with("messaging.destination.name", topic.map(|(topic, _)| topic));
    addresses(&mut span, request);
    span.with("kafka.api", Some(request.api));
    span.with("kafka.api_version", Some(i64::from(request.api_version)));
    span.with("kafka.correlation_id", Some(i64::from(request.correlation_id)));
    span.with("brokerscope.cause", Some(verdict.cause.as_str()));
    let chain = verdict.chain.iter().map(|cause| cause.as_str()).collect::<Vec<_>>().join(" < ");
    span.with("brokerscope.chain", Some(text(&chain)));
    span.with("brokerscope.root", Some(text(&verdict.root)));
    span.with("brokerscope.confidence", Some(verdict.confidence.as_str()));
    span.with("brokerscope.losses", (!verdict.losses.is_empty()).then(|| text(&verdict.losses.join("; "))));
    span
}

fn addresses(span: &mut Span, request: &Request) {
    span.with("client.address", Some(text(&request.client.ip().to_string())));
    span.with("client.port", Some(i64::from(request.client.port())));
    span.with("server.address", Some(text(&request.broker.ip().to_string())));
    span.with("server.port", Some(i64::from(request.broker.port())));
}

/// The partition that the time was lost on, else the only one.
fn topic(verdict: &Verdict) -> Option<(Arc<str>, i32)> {
    if let Some(lost) = &verdict.partition {
        return Some((text(&lost.topic), lost.partition));
    }
    let [only] = verdict.request.partitions.as_slice() else { return None };
    only.topic.as_deref().map(|topic| (text(topic), only.partition))
}

fn happened(verdict: &Verdict, evidence: &Evidence, link: Link) -> Span {
    let mut span = Span {
        trace: link.trace,
        id: link.span,
        parent: None,
        name: evidence.kind.as_str().into(),
        kind: Kind::Internal,
        start: evidence.start,
        end: evidence.end,
        attributes: Vec::new(),
        links: Vec::new(),
        failed: false,
    };
    span.with("brokerscope.evidence", Some(text(&evidence.text)));
    span.with("brokerscope.root", Some(text(&verdict.root)));
    span.with("thread.id", evidence.tid.map(i64::from));
    span.with("thread.name", evidence.thread.as_deref().map(text));
    let waiter = evidence.waiter.as_ref();
    span.with("brokerscope.waiter.id", waiter.map(|waiter| i64::from(waiter.tid)));
    span.with("brokerscope.waiter.name", waiter.map(|waiter| text(&waiter.thread)));
    span
}

fn text(text: &str) -> Arc<str> {
    clean_to(text, MOST_CHARS)
}

/// The last spans of root events that were told.
#[derive(Debug, Default)]
struct RecentIds {
    ids: HashSet<SpanId, RandomState>,
    order: VecDeque<SpanId>,
}

impl RecentIds {
    fn is_new(&mut self, id: SpanId) -> bool {
        if !self.ids.insert(id) {
            return false;
        }
        self.order.push_back(id);
        if self.order.len() > TOLD {
            if let Some(oldest) = self.order.pop_front() {
                self.ids.remove(&oldest);
            }
        }
        true
    }
}

/// A span that ends before it begins is none that a collector takes.
pub(super) fn in_order(start: Nanos, end: Nanos) -> (Nanos, Nanos) {
    let start = start.at_least_zero();
    (start, end.max(start))
}
