//! A span as it will be sent. Does not encode it.

use std::sync::Arc;

use model::Nanos;

use super::ids::{SpanId, TraceId};

/// What kind of work a span is (`SpanKind` of opentelemetry-proto's trace.proto).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Internal = 1,
    Server = 2,
}

/// A value of an attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Text(Arc<str>),
    Number(i64),
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Number(number)
    }
}

impl From<&'static str> for Value {
    fn from(text: &'static str) -> Self {
        Self::Text(text.into())
    }
}

impl From<Arc<str>> for Value {
    fn from(text: Arc<str>) -> Self {
        Self::Text(text)
    }
}

/// A span of another trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
}

/// One span.
#[derive(Clone, Debug)]
pub(super) struct Span {
    pub(super) trace: TraceId,
    pub(super) id: SpanId,
    pub(super) parent: Option<SpanId>,
    pub(super) name: Arc<str>,
    pub(super) kind: Kind,
    pub(super) start: Nanos,
    pub(super) end: Nanos,
    pub(super) attributes: Vec<(&'static str, Value)>,
    pub(super) links: Vec<Link>,
    /// The request failed, whatever else it was.
    pub(super) failed: bool,
}

impl Span {
    /// Adds an attribute, where there is one.
    pub(super) fn with(&mut self, key: &'static str, value: Option<impl Into<Value>>) {
        self.attributes.extend(value.map(|value| (key, value.into())));
    }
}
