//! The log dirs that are meant, and the topic names found in them. Finding brokers is `broker`'s business.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use broker::Broker;
use model::TopicId;

use crate::options::Target;

/// Names of the topic ids that this machine's log dirs know.
pub(crate) fn names(target: &Target) -> anyhow::Result<HashMap<TopicId, Arc<str>>> {
    Ok(broker::topic_ids::scan(&log_dirs(target)?))
}

/// The log dirs the user named; else those of the named process; else of all brokers that run here, if any.
fn log_dirs(target: &Target) -> anyhow::Result<Vec<PathBuf>> {
    if !target.log_dirs.is_empty() {
        return Ok(target.log_dirs.clone());
    }
    if let Some(pid) = target.pid {
        return Ok(Broker::of_pid(pid)?.log_dirs);
    }
    Ok(broker::find().into_iter().flat_map(|broker| broker.log_dirs).collect())
}
