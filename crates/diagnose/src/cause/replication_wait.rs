//! `replication-wait`: a produce request with acks=all waited for a follower.
//!
//! Needs: the fetch by which the last follower said that it has the records, by partition and offset. It had them from the
//! answer to its fetch before: a fetcher has one request under way at a time (`AbstractFetcherThread.doWork`). Where most of
//! the wait was for this broker's own answer, what held that up is the root, if it is known.

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Request};

use super::Finding;
use crate::followers::follower;
use crate::stages::remote::Remote;
use crate::window::Window;

/// Why others took so long; `cause_of` says why this broker's answer to a follower did.
pub(crate) fn find(
    window: &Window,
    remote: &Remote,
    cause_of: impl FnOnce(&Request) -> Option<Finding>,
) -> Option<Finding> {
    let name = follower(&remote.fetch)?;
    let before = window.before_on_connection(&remote.fetch, remote.fetch.arrival_end);
    let brought = before.and_then(|before| before.end).map(|end| end.clamp(remote.start, remote.end));
    let time = remote.end - remote.start;
    let own = remote.end - brought.unwrap_or(remote.start);
    let is_its_own = own.0.saturating_mul(2) > time.0;
    let finding = Finding {
        cause: Cause::ReplicationWait,
        chain: vec![Cause::ReplicationWait],
        root: Arc::from(format!("{}:{}", Cause::ReplicationWait, broker(name))),
        confidence: if brought.is_some() && is_its_own { Confidence::Exact } else { Confidence::Strong },
        evidence: vec![evidence(remote, name, (time - own).at_least_zero())],
        time,
        partition: Some(remote.partition.clone()),
    };
    let deeper = before.filter(|_| !is_its_own).and_then(|before| cause_of(before));
    (time > Nanos::ZERO).then(|| match deeper {
        Some(deeper) => finding.behind(deeper),
        None => finding,
    })
}

/// `broker-2` of `broker-2-fetcher-0`.
fn broker(name: &str) -> &str {
    name.split("-fetcher").next().unwrap_or(name)
}

fn evidence(remote: &Remote, name: &str, until_answered: Nanos) -> Evidence {
    let answered = match until_answered {
        Nanos::ZERO => String::new(),
        time => format!(", {time} of it until its fetch before was answered"),
    };
    Evidence {
        kind: EvidenceKind::Request,
        start: remote.start,
        end: remote.end,
        tid: None,
        thread: None,
        text: format!(
            "waited {} until {} ({}) had the records of {} and fetched on{answered}",
            remote.end - remote.start,
            broker(name),
            remote.fetch.client.ip(),
            remote.partition
        ),
    }
}
