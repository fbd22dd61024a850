//! Spans as `ExportTraceServiceRequest` in JSON (opentelemetry-proto 1.x, "JSON Protobuf Encoding" of the OTLP specification: ids
//! in hexadecimal, kinds as numbers, 64-bit numbers as text).

use serde::Serialize;
use serde_json::{Value as Json, json};

use super::Resource;
use super::span::{Link, Span, Value};
use super::traces::in_order;

/// `STATUS_CODE_ERROR`.
const ERROR: u8 = 2;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Encoded<'s> {
    trace_id: String,
    span_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_span_id: Option<String>,
    name: &'s str,
    kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    links: Vec<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Json>,
}

/// The body of a request to a collector.
pub(super) fn encode(source: &Resource, spans: &[Span]) -> Vec<u8> {
    let spans: Vec<Encoded<'_>> = spans.iter().map(encoded).collect();
    let scope = json!({"name": "brokerscope", "version": source.version});
    let body = json!({"resourceSpans": [{
        "resource": {"attributes": resource(source)},
        "scopeSpans": [{"scope": scope, "spans": spans}],
    }]});
    body.to_string().into_bytes()
}

fn resource(source: &Resource) -> Vec<Json> {
    let text = |key, text: &str| attribute(key, &Value::Text(text.into()));
    let mut attributes = vec![text("service.name", "kafka"), text("host.name", &source.host)];
    attributes.extend(source.broker_id.as_deref().map(|id| text("service.instance.id", id)));
    attributes
}

fn encoded(span: &Span) -> Encoded<'_> {
    let (start, end) = in_order(span.start, span.end);
    Encoded {
        trace_id: format!("{:032x}", span.trace),
        span_id: format!("{:016x}", span.id),
        parent_span_id: span.parent.map(|id| format!("{id:016x}")),
        name: &span.name,
        kind: span.kind as u8,
        start_time_unix_nano: start.0.to_string(),
        end_time_unix_nano: end.0.to_string(),
        attributes: span.attributes.iter().map(|(key, value)| attribute(key, value)).collect(),
        links: span.links.iter().map(link).collect(),
        status: span.failed.then(|| json!({"code": ERROR})),
    }
}

fn attribute(key: &str, value: &Value) -> Json {
    match value {
        Value::Text(text) => json!({"key": key, "value": {"stringValue": &**text}}),
        Value::Number(number) => json!({"key": key, "value": {"intValue": number.to_string()}}),
    }
}

fn link(link: &Link) -> Json {
    json!({"traceId": format!("{:032x}", link.trace), "spanId": format!("{:016x}", link.span)})
}
