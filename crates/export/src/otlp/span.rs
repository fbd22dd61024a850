//! A span in OTLP's JSON.
//! Sources: opentelemetry-proto 1.x, "JSON Protobuf Encoding" of the OTLP specification (ids in hexadecimal, kinds as
//! numbers, 64-bit numbers as text). Does not know what spans mean.

use model::Nanos;
use serde::{Serialize, Serializer};
use serde_json::{Value as Json, json};

use super::Resource;

/// `SpanKind` of opentelemetry-proto's trace.proto.
pub(super) const INTERNAL: u8 = 1;
/// See [`INTERNAL`].
pub(super) const SERVER: u8 = 2;
/// `STATUS_CODE_ERROR`.
const ERROR: u8 = 2;

/// OpenTelemetry's trace id, 16 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct TraceId(pub(super) u128);

/// OpenTelemetry's span id, 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SpanId(pub(super) u64);

impl Serialize for TraceId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:032x}", self.0))
    }
}

impl Serialize for SpanId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

/// A link to a span of another trace.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Link {
    pub(super) trace_id: TraceId,
    pub(super) span_id: SpanId,
}

/// One span.
#[expect(clippy::struct_field_names, reason = "the protocol's names")]
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Span {
    pub(super) trace_id: TraceId,
    pub(super) span_id: SpanId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) parent_span_id: Option<SpanId>,
    name: String,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) links: Vec<Link>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Json>,
}

impl Span {
    /// Creates a span.
    /// One that would end before it starts has no duration, because collectors reject negative ones.
    pub(super) fn new(id: Link, name: String, kind: u8, (start, end): (Nanos, Nanos)) -> Self {
        let start = start.at_least_zero();
        Self {
            trace_id: id.trace_id,
            span_id: id.span_id,
            parent_span_id: None,
            name,
            kind,
            start_time_unix_nano: start.0.to_string(),
            end_time_unix_nano: end.max(start).0.to_string(),
            attributes: Vec::new(),
            links: Vec::new(),
            status: None,
        }
    }

    /// Adds a text, if there is one.
    pub(super) fn text(&mut self, key: &str, text: Option<impl AsRef<str>>) {
        self.attributes.extend(text.map(|text| text_attribute(key, text.as_ref())));
    }

    /// Adds a number, if there is one.
    pub(super) fn number(&mut self, key: &str, number: Option<impl Into<i64>>) {
        let value = |number: i64| json!({"key": key, "value": {"intValue": number.to_string()}});
        self.attributes.extend(number.map(|number| value(number.into())));
    }

    /// Marks the span's operation as failed.
    pub(super) fn fail(&mut self) {
        self.status = Some(json!({"code": ERROR}));
    }
}

/// The body of a request to a collector: `ExportTraceServiceRequest`.
pub(super) fn encode(source: &Resource, spans: &[Span]) -> Vec<u8> {
    let mut attributes =
        vec![text_attribute("service.name", "kafka"), text_attribute("host.name", &source.host)];
    attributes.extend(source.broker_id.as_deref().map(|id| text_attribute("service.instance.id", id)));
    let scope = json!({"name": "brokerscope", "version": source.version});
    let body = json!({"resourceSpans": [{
        "resource": {"attributes": attributes},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]});
    body.to_string().into_bytes()
}

fn text_attribute(key: &str, text: &str) -> Json {
    json!({"key": key, "value": {"stringValue": text}})
}
