//! `txn-verification`: the append of a transaction's records waited until the transaction's coordinator had confirmed the
//! partition (KIP-890).
//!
//! Needs: an `AddPartitionsToTxn` request of the same transactional id that was under way between the produce request
//! and its append. A transactional producer has one transaction at a time; which partitions were verified is not read,
//! so that it is never exact.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Request};

use super::Finding;
use crate::window::Window;

/// What a produce request waited for between two moments.
pub(crate) fn within(
    window: &Window,
    request: &Request,
    (start, end): (Nanos, Nanos),
    mut take: impl FnMut(Nanos, Nanos) -> Nanos,
) -> Option<Finding> {
    let id = request.transactional_id.as_ref()?;
    let asked = window.trouble.verification(id, start, end)?;
    let time = take(asked.arrival, asked.last_seen());
    (time > Nanos::ZERO).then(|| Finding {
        cause: Cause::TxnVerification,
        chain: vec![Cause::TxnVerification],
        root: Arc::from(format!("txn-verification:{}", asked.broker)),
        confidence: Confidence::Strong,
        evidence: vec![Evidence {
            kind: EvidenceKind::Request,
            start: asked.arrival,
            end: asked.last_seen(),
            tid: None,
            thread: None,
            waiter: None,
            text: format!(
                "the coordinator at {} took {} to confirm the transaction's partition",
                asked.broker,
                asked.last_seen() - asked.arrival
            ),
        }],
        time,
        partition: None,
    })
}
