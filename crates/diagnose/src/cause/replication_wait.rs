//! `replication-wait`: a produce request with acks=all waited for a follower.
//!
//! Needs: the fetch by which the last follower said that it has the records, by partition and offset. The follower's own
//! part is from the answer to its fetch before, which brought them, until that fetch; what the leader took to answer is
//! not the follower's. A fetcher has one request under way at a time (`AbstractFetcherThread.doWork`).

use std::sync::Arc;

use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos};

use super::Finding;
use crate::followers::follower;
use crate::stages::remote::Remote;
use crate::window::Window;

/// What the follower itself took, and when it began.
pub(crate) fn find(window: &Window, remote: &Remote) -> Option<(Nanos, Finding)> {
    let name = follower(&remote.fetch)?;
    let brought =
        window.before_on_connection(&remote.fetch, remote.fetch.arrival_end).and_then(|before| before.end);
    let from = brought.unwrap_or(remote.start).clamp(remote.start, remote.end);
    let time = remote.end - from;
    let broker = name.split("-fetcher").next().unwrap_or(name);
    let finding = Finding {
        cause: Cause::ReplicationWait,
        chain: vec![Cause::ReplicationWait],
        root: Arc::from(format!("{}:{broker}", Cause::ReplicationWait)),
        confidence: if brought.is_some() { Confidence::Exact } else { Confidence::Strong },
        evidence: vec![Evidence {
            kind: EvidenceKind::Request,
            start: from,
            end: remote.end,
            tid: None,
            thread: None,
            text: format!(
                "waited {time} until {broker} ({}) had the records of {} and fetched on",
                remote.fetch.client.ip(),
                remote.partition
            ),
        }],
        time,
        partition: Some(remote.partition.clone()),
    };
    (time > Nanos::ZERO).then_some((from, finding))
}
