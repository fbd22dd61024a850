//! `quota`: the connection was muted because its client had used more than its quota.
//!
//! Needs: a throttle time in the response before on the same connection, and a request that lay unread in that time. Since
//! KIP-219 (Kafka 2.0) the broker answers at once and then reads nothing from the connection for so long.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Request};

use super::Finding;
use crate::window::{CLOCK_SLACK, Window};

/// The part of a stretch, in which a request lay unread, that the connection was muted; and why.
pub(crate) fn find(
    window: &Window,
    request: &Request,
    start: Nanos,
    end: Nanos,
) -> Option<(Nanos, Nanos, Finding)> {
    let before = window.before_on_connection(request, start + CLOCK_SLACK)?;
    let throttled = Nanos::from_millis(before.throttle_ms.filter(|ms| *ms > 0)?.into());
    let muted_from = before.response?;
    let (from, until) = (muted_from.max(start), (muted_from + throttled).min(end));
    let client = request.client_id.as_deref().unwrap_or_default();
    (from < until).then(|| {
        let finding = Finding {
            cause: Cause::Quota,
            chain: vec![Cause::Quota],
            root: Arc::from(format!("{}:{client}:{}", Cause::Quota, request.client.ip())),
            confidence: Confidence::Exact,
            evidence: vec![Evidence {
                kind: EvidenceKind::Request,
                start: muted_from,
                end: muted_from + throttled,
                tid: None,
                thread: None,
                waiter: None,
                text: format!(
                    "the response to request {} ({}) said that its client is throttled for {throttled}",
                    before.correlation_id, before.api
                ),
            }],
            time: until - from,
            partition: None,
        };
        (from, until, finding)
    })
}
