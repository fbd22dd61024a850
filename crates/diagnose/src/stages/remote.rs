//! What a request waited for that others do: followers that fetch what it wrote. And what is left until its response
//! begins. Does not say why they took long.
//!
//! With acks=all the broker answers when the high watermark has passed what was written
//! (`ReplicaManager.appendRecords`, `DelayedProduce`), which is when the last follower in sync has asked for what comes after it.

use std::sync::Arc;

use model::{Nanos, Partition, Request, Stage, TopicPartition};

use super::{Course, Parts};
use crate::followers::Reached;
use crate::join::{self, AppendJoin};
use crate::window::{CLOCK_SLACK, Window};

/// What a handler computes after an append until its response is queued, and the network thread until it is written,
/// takes less on a machine that is not overloaded. Where not all of a request was seen, more may be something else.
const WORK: Nanos = Nanos::from_millis(3);

/// A wait for a follower.
#[derive(Clone, Debug)]
pub(crate) struct Remote {
    pub(crate) start: Nanos,
    /// When the follower's fetch was complete at the broker.
    pub(crate) end: Nanos,
    /// The fetch that ended it.
    pub(crate) fetch: Arc<Request>,
    pub(crate) partition: TopicPartition,
}

impl Course<'_> {
    /// From the last append to the response.
    pub(super) fn after_local(
        &mut self,
        window: &Window,
        request: &Request,
        appends: &[AppendJoin],
        parts: &mut Parts,
    ) {
        let Some(local_end) = self.local_end else { return };
        let written = || request.partitions.iter().filter(|of| join::is_written(of.error_code, of.bytes));
        let for_all = request.acks == Some(-1);
        if for_all {
            let waits =
                written().filter_map(|partition| replicated(window, partition, local_end, self.answered));
            self.remote = waits.max_by_key(|remote| remote.end);
        }
        if let Some(remote) = &self.remote {
            let end = remote.end;
            parts.take(Stage::Remote, local_end, end);
            self.respond(parts, end);
            return;
        }
        // An append that was not seen may have come later; so may a follower's fetch.
        let whole = written().count() == appends.len();
        let alone = !for_all || !written().filter_map(named).any(|name| window.followers().any(&name));
        if (whole && alone) || self.answered - local_end <= WORK {
            self.respond(parts, local_end);
        }
    }
}

fn named(partition: &Partition) -> Option<TopicPartition> {
    Some(TopicPartition { topic: Arc::clone(partition.topic.as_ref()?), partition: partition.partition })
}

/// Until when followers had to fetch a partition of a request, if any did.
fn replicated(window: &Window, partition: &Partition, from: Nanos, until: Nanos) -> Option<Remote> {
    let name = named(partition)?;
    let records = i64::from(partition.records.or_else(|| records_of(partition))?);
    let next = partition.base_offset.filter(|offset| *offset >= 0)? + records;
    let Reached { at, fetch } = window.followers().last_to_reach(&name, next, until + CLOCK_SLACK)?;
    let end = (*at).clamp(from, until.max(from));
    Some(Remote { start: from, end, fetch: Arc::clone(fetch), partition: name })
}

fn records_of(partition: &Partition) -> Option<u32> {
    (!partition.batches.is_empty()).then(|| partition.batches.iter().map(|batch| batch.records).sum())
}
