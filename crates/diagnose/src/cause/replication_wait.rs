//! `replication-wait`: a produce request with acks=all waited for a follower.
//!
//! Needs: the fetch by which the last follower said that it has the records, by partition and offset. It had them from the
//! answer to its fetch before: a fetcher has one request under way at a time (`AbstractFetcherThread.doWork`). Until that
//! fetch was there, and from the answer on, the follower or its link took the time. Where most of the wait passed while this
//! broker had the fetch, what held its answer up for most of the wait is the root, if it is known.

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
    let time = remote.end - remote.start;
    let here = before.and_then(|before| Some((before.arrival_end, before.response?)));
    let within = |at: Nanos| at.clamp(remote.start, remote.end);
    let ours = here.map(|(asked, answered)| (within(answered) - within(asked)).at_least_zero());
    let is_most = |part: Nanos| part.0.saturating_mul(2) > time.0;
    let finding = Finding {
        cause: Cause::ReplicationWait,
        chain: vec![Cause::ReplicationWait],
        root: Arc::from(format!("{}:{}", Cause::ReplicationWait, broker(name))),
        confidence: if ours.is_some_and(|ours| !is_most(ours)) {
            Confidence::Exact
        } else {
            Confidence::Strong
        },
        evidence: vec![evidence(remote, name, ours.unwrap_or_default())],
        time,
        partition: Some(remote.partition.clone()),
    };
    let deeper = before.filter(|_| ours.is_some_and(is_most)).and_then(|before| cause_of(before));
    let deeper = deeper.filter(|deeper| is_most(deeper.time));
    (time > Nanos::ZERO).then(|| match deeper {
        Some(deeper) => finding.behind(deeper),
        None => finding,
    })
}

/// `broker-2` of `broker-2-fetcher-0`.
fn broker(name: &str) -> &str {
    name.split("-fetcher").next().unwrap_or(name)
}

fn evidence(remote: &Remote, name: &str, ours: Nanos) -> Evidence {
    let answered = match ours {
        Nanos::ZERO => String::new(),
        time => format!(", {time} of it from when its fetch before was here until it was answered"),
    };
    Evidence {
        kind: EvidenceKind::Request,
        start: remote.start,
        end: remote.end,
        tid: None,
        thread: None,
        waiter: None,
        text: format!(
            "waited {} until {} ({}) had the records of {} and fetched on{answered}",
            remote.end - remote.start,
            broker(name),
            remote.fetch.client.ip(),
            remote.partition
        ),
    }
}
