//! One request that a bucket or a counter can show as an example: enough to find it in a recording. Holds nothing that
//! grows; text is shared with the request it came with.

use std::sync::Arc;

use model::{Nanos, Request, Verdict};

use crate::label;

/// The most that both texts together may have, with their names, is 128 characters (`OpenMetrics` 1.0).
const CLIENT_CHARS: usize = 32;
const ROOT_CHARS: usize = 48;
/// Another example of the same is taken after so long.
pub(crate) const STALE: Nanos = Nanos::from_millis(1_000);

/// An example.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Exemplar {
    client_id: Option<Arc<str>>,
    correlation_id: i32,
    root: Option<Arc<str>>,
    /// What was observed of it.
    pub(crate) value: f64,
    /// When it was.
    pub(crate) at: Nanos,
}

impl Exemplar {
    /// A request.
    pub(crate) fn of(request: &Request, value: f64) -> Self {
        Self {
            client_id: request.client_id.clone(),
            correlation_id: request.correlation_id,
            root: None,
            value,
            at: request.last_seen(),
        }
    }

    /// A slow request, with what was at its root.
    pub(crate) fn of_slow(verdict: &Verdict, value: f64) -> Self {
        Self { root: Some(Arc::clone(&verdict.root)), ..Self::of(&verdict.request, value) }
    }

    /// Its labels.
    pub(crate) fn labels(&self) -> Vec<(&'static str, Arc<str>)> {
        let client = self.client_id.as_deref().map(|id| ("client_id", label::clean_to(id, CLIENT_CHARS)));
        let number = ("correlation_id", Arc::from(self.correlation_id.to_string()));
        let root = self.root.as_deref().map(|root| ("root", label::clean_to(root, ROOT_CHARS)));
        client.into_iter().chain([number]).chain(root).collect()
    }
}
