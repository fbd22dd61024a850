//! `down-conversion`: the broker converted records for a client that knows only an older format.
//!
//! Needs: a fetch of a version that cannot carry what the partition's batches are written in (message format 2 came
//! with fetch version 4, format 1 with version 2; KIP-98, KIP-32), and that brought records. That its time was spent on
//! converting is concluded from nothing else having been seen of it: weak.

use std::sync::Arc;

use model::api_key::FETCH;
use model::{Cause, Confidence, Evidence, EvidenceKind, Nanos, Request, TopicPartition};

use super::Finding;
use crate::window::Window;

/// What a fetch's time was spent on between two moments.
pub(crate) fn within(
    window: &Window,
    request: &Request,
    (start, end): (Nanos, Nanos),
    mut take: impl FnMut(Nanos, Nanos) -> Nanos,
) -> Option<Finding> {
    let known = newest_format(request)?;
    let brought = request.partitions.iter().filter(|partition| partition.bytes > 0);
    let named = brought.filter_map(|partition| {
        let topic = Arc::clone(partition.topic.as_ref()?);
        Some(TopicPartition { topic, partition: partition.partition })
    });
    let (partition, written) = named
        .filter_map(|name| {
            let magic = window.partition(&name)?.ended_by(end).find_map(|append| append.batch)?.magic;
            Some((name, magic))
        })
        .find(|(_, magic)| *magic > known)?;
    let time = take(start, end);
    (time > Nanos::ZERO).then(|| Finding {
        cause: Cause::DownConversion,
        chain: vec![Cause::DownConversion],
        root: Arc::from(format!(
            "down-conversion:{}",
            request.client_id.as_deref().unwrap_or("unnamed clients")
        )),
        confidence: Confidence::Weak,
        evidence: vec![Evidence {
            kind: EvidenceKind::Request,
            start,
            end,
            tid: None,
            thread: None,
            waiter: None,
            text: format!(
                "the client fetches {partition} by version {}, which knows message format {known} at most; it is \
                 written in format {written}",
                request.api_version
            ),
        }],
        time,
        partition: Some(partition),
    })
}

/// The newest message format that a fetch can carry; none where it can carry all.
fn newest_format(request: &Request) -> Option<i8> {
    match (request.api_key, request.api_version) {
        (FETCH, 0..=1) => Some(0),
        (FETCH, 2..=3) => Some(1),
        _ => None,
    }
}
