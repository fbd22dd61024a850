//! The spans of a verdict. Its request and stages are a trace; its evidence is in the trace of the root event, and sent
//! once.
//!
//! Attributes follow OpenTelemetry's conventions where there are some (`messaging.*`, `client.*`, `server.*`, `thread.*`,
//! semantic conventions 1.27); ours begin with `brokerscope.` and `kafka.`.

use std::hash::{BuildHasher as _, Hash, RandomState};
use std::sync::Arc;

use model::{Evidence, Request, StageSpan, Verdict};

use super::span::{INTERNAL, Link, SERVER, Span, SpanId, TraceId};
use crate::label::clean_to;
use crate::recent::Recent;

/// Maximum number of spans for a request's stages, and for its evidence.
const MAX_SPANS: usize = 64;
/// Number of recently sent evidence spans to remember.
const MAX_SENT_EVIDENCE: usize = 4_096;
/// Maximum length of an attribute's text in characters.
const MAX_CHARS: usize = 256;

/// Creates spans from verdicts.
#[derive(Debug)]
pub(super) struct Traces {
    ids: Ids,
    sent_evidence: Recent<SpanId>,
}

impl Default for Traces {
    fn default() -> Self {
        Self { ids: Ids::default(), sent_evidence: Recent::of_at_most(MAX_SENT_EVIDENCE) }
    }
}

impl Traces {
    /// The spans of the request, its stages, and its evidence that was not yet sent.
    pub(super) fn spans(&mut self, verdict: &Verdict) -> Vec<Span> {
        let root = self.ids.trace_of(&verdict.root);
        let evidence: Vec<(&Evidence, Link)> = verdict
            .evidence
            .iter()
            .take(MAX_SPANS)
            .map(|evidence| (evidence, Link { trace_id: root, span_id: self.evidence_id(root, evidence) }))
            .collect();
        let request = request(verdict, &mut self.ids, evidence.iter().map(|(_, link)| *link).collect());
        let stages = verdict.stage_spans.iter().take(MAX_SPANS);
        let mut spans: Vec<Span> = stages.map(|stage| self.stage(&request, *stage, &evidence)).collect();
        spans.insert(0, request);
        for (evidence, link) in evidence {
            if self.sent_evidence.is_new(&link.span_id) {
                spans.push(evidence_span(verdict, evidence, link));
            }
        }
        spans
    }

    fn stage(&mut self, request: &Span, stage: StageSpan, evidence: &[(&Evidence, Link)]) -> Span {
        let meanwhile = |evidence: &Evidence| evidence.start < stage.end && stage.start < evidence.end;
        let links = evidence.iter().filter(|(evidence, _)| meanwhile(evidence)).map(|(_, link)| *link);
        let id = Link { trace_id: request.trace_id, span_id: self.ids.new_span() };
        let mut span = Span::new(id, stage.stage.as_str().into(), INTERNAL, (stage.start, stage.end));
        span.parent_span_id = Some(request.span_id);
        span.links = links.collect();
        span
    }

    /// An id for evidence: the same for all requests that link to it.
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
        .map_or_else(|| request.api.to_owned(), |(topic, _)| format!("{} {topic}", request.api));
    let id = Link { trace_id: ids.new_trace(), span_id: ids.new_span() };
    let mut span = Span::new(id, name, SERVER, (request.arrival, request.last_seen()));
    span.links = links;
    if request.failed() {
        span.fail();
    }
    span.text("messaging.system", Some("kafka"));
    span.text("messaging.client.id", request.client_id.as_deref().map(text));
    span.text(
        "messaging.destination.partition.id",
        topic.as_ref().map(|(_, partition)| text(&partition.to_string())),
    );
    span.text("messaging.destination.name", topic.map(|(topic, _)| topic));
    addresses(&mut span, request);
    span.text("kafka.api", Some(request.api));
    span.number("kafka.api_version", Some(request.api_version));
    span.number("kafka.correlation_id", Some(request.correlation_id));
    span.text("brokerscope.cause", Some(verdict.cause.as_str()));
    let chain = verdict.chain.iter().map(|cause| cause.as_str()).collect::<Vec<_>>().join(" < ");
    span.text("brokerscope.chain", Some(text(&chain)));
    span.text("brokerscope.root", Some(text(&verdict.root)));
    span.text("brokerscope.confidence", Some(verdict.confidence.as_str()));
    span.text("brokerscope.losses", (!verdict.losses.is_empty()).then(|| text(&verdict.losses.join("; "))));
    span
}

fn addresses(span: &mut Span, request: &Request) {
    span.text("client.address", Some(text(&request.client.ip().to_string())));
    span.number("client.port", Some(request.client.port()));
    span.text("server.address", Some(text(&request.broker.ip().to_string())));
    span.number("server.port", Some(request.broker.port()));
}

/// The partition on which the time was lost, else the only one.
fn topic(verdict: &Verdict) -> Option<(Arc<str>, i32)> {
    if let Some(lost) = &verdict.partition {
        return Some((text(&lost.topic), lost.partition));
    }
    let [only] = verdict.request.partitions.as_slice() else { return None };
    only.topic.as_deref().map(|topic| (text(topic), only.partition))
}

fn evidence_span(verdict: &Verdict, evidence: &Evidence, link: Link) -> Span {
    let mut span = Span::new(link, evidence.kind.as_str().into(), INTERNAL, (evidence.start, evidence.end));
    span.text("brokerscope.evidence", Some(text(&evidence.text)));
    span.text("brokerscope.root", Some(text(&verdict.root)));
    span.number("thread.id", evidence.tid);
    span.text("thread.name", evidence.thread.as_deref().map(text));
    let waiter = evidence.waiter.as_ref();
    span.number("brokerscope.waiter.id", waiter.map(|waiter| waiter.tid));
    span.text("brokerscope.waiter.name", waiter.map(|waiter| text(&waiter.thread)));
    span
}

fn text(text: &str) -> Arc<str> {
    clean_to(text, MAX_CHARS)
}

/// Creates ids.
#[derive(Debug, Default)]
pub(super) struct Ids {
    keys: RandomState,
    count: u64,
}

/// Separates the hashes of different kinds of ids.
#[derive(Hash)]
enum Of<T> {
    High(T),
    Low(T),
    Span(T),
    New(T),
}

impl Ids {
    /// A new trace id for a request.
    pub(super) fn new_trace(&mut self) -> TraceId {
        let number = self.next();
        self.trace_of(&Of::New(number))
    }

    /// A new span id, referenced only in its trace.
    pub(super) fn new_span(&mut self) -> SpanId {
        let number = self.next();
        self.span_of(&Of::New(number))
    }

    /// The trace id for a name.
    pub(super) fn trace_of(&self, name: &impl Hash) -> TraceId {
        let half = |of| u128::from(self.keys.hash_one(of));
        // Zero is not a valid id.
        TraceId((half(Of::High(name)) << 64 | half(Of::Low(name))).max(1))
    }

    /// The span id for a description.
    pub(super) fn span_of(&self, what: &impl Hash) -> SpanId {
        SpanId(self.keys.hash_one(Of::Span(what)).max(1))
    }

    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::Ids;

    #[test]
    fn ids_are_unique_and_stable_per_root() {
        let mut ids = Ids::default();
        assert_ne!(ids.new_trace(), ids.new_trace());
        assert_ne!(ids.new_span(), ids.new_span());
        assert_eq!(ids.trace_of(&"journal-commit:loop0:24"), ids.trace_of(&"journal-commit:loop0:24"));
        assert_ne!(ids.trace_of(&"journal-commit:loop0:24"), ids.trace_of(&"journal-commit:loop0:25"));
        assert_ne!(ids.trace_of(&"a"), Ids::default().trace_of(&"a"), "nobody can foresee them");
    }
}
