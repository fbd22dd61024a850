//! Requests by the keys that verdicts use: followers' fetches by partition, slow produce requests by base offset.
//!
//! A follower's fetch for offset N confirms everything before N (`Partition.updateFollowerFetchState`). Followers are
//! recognized by the name of their fetchers, `broker-ID-fetcher-N` (`ReplicaFetcherManager.createFetcherThread`).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ahash::RandomState;
use model::api_key::{FETCH, PRODUCE};
use model::{Nanos, Request, TopicPartition};

use crate::logged::is_logged;
use crate::window::timeline::{forget_first, insert_sorted};

/// A fetch with which a follower confirmed a partition up to some offset.
#[derive(Clone, Debug)]
pub(crate) struct FollowerFetch {
    /// When the fetch had arrived at the broker.
    pub(crate) at: Nanos,
    pub(crate) fetch: Arc<Request>,
}

/// One follower's fetches of one partition, in the order of their arrival.
type Fetches = VecDeque<(i64, FollowerFetch)>;

/// The fetches of all followers.
#[derive(Debug, Default)]
pub(crate) struct Followers(HashMap<TopicPartition, HashMap<Arc<str>, Fetches>>);

impl Followers {
    /// Takes a request; ignores it unless it is a follower's fetch.
    /// The arrival of requests of the request log is too uncertain.
    pub(crate) fn request(&mut self, request: &Arc<Request>) {
        let Some(follower) = follower(request).filter(|_| !is_logged(request)) else { return };
        for partition in &request.partitions {
            let (Some(topic), Some(offset)) = (&partition.topic, partition.fetch_offset) else { continue };
            let key = TopicPartition { topic: Arc::clone(topic), partition: partition.partition };
            let fetches = self.0.entry(key).or_default().entry(Arc::clone(follower)).or_default();
            let at = request.arrival_end;
            let fetch = FollowerFetch { at, fetch: Arc::clone(request) };
            insert_sorted(fetches, (offset, fetch), |(_, fetch)| fetch.at);
        }
    }

    /// Whether a partition has followers.
    pub(crate) fn any(&self, partition: &TopicPartition) -> bool {
        self.0.contains_key(partition)
    }

    /// The fetch with which the last of the followers first confirmed `offset`; only fetches until `by` count.
    pub(crate) fn last_to_reach(
        &self,
        partition: &TopicPartition,
        offset: i64,
        by: Nanos,
    ) -> Option<&FollowerFetch> {
        let followers = self.0.get(partition)?.values();
        followers
            .filter_map(|fetches| {
                let first = fetches.partition_point(|(fetched, _)| *fetched < offset);
                fetches.get(first).map(|(_, reached)| reached).filter(|reached| reached.at <= by)
            })
            .max_by_key(|reached| reached.at)
    }

    pub(crate) fn forget(&mut self, horizon: Nanos) {
        self.0.retain(|_, followers| {
            followers.retain(|_, fetches| {
                forget_first(fetches, |(_, reached)| reached.at < horizon);
                !fetches.is_empty()
            });
            !followers.is_empty()
        });
    }
}

/// The name of the follower that sent a request, if it was one.
pub(crate) fn follower(request: &Request) -> Option<&Arc<str>> {
    let name = request.client_id.as_ref();
    name.filter(|_| is_follower(request.api_key, name))
}

/// Whether a follower sent a request.
pub(crate) fn is_follower(api_key: i16, client_id: Option<&Arc<str>>) -> bool {
    let name = client_id.filter(|_| api_key == FETCH).and_then(|name| name.strip_prefix("broker-"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.and_then(|name| name.split_once("-fetcher-"))
        .is_some_and(|(id, fetcher)| is_number(id) && is_number(fetcher))
}

/// Quicker requests kept no handler from others for long.
const MIN_LATENCY: Nanos = Nanos::from_millis(5);

/// Recent slow produce requests.
#[derive(Debug, Default)]
pub(crate) struct ProduceIndex {
    by_base_offset: HashMap<i64, Vec<Arc<Request>>, RandomState>,
    /// The end of each, nearly in order, with the offset under which it is stored.
    by_end: VecDeque<(Nanos, i64)>,
}

impl ProduceIndex {
    /// Takes a request; ignores it if it was quick or produced nothing.
    pub(crate) fn request(&mut self, request: &Arc<Request>) {
        if request.api_key != PRODUCE || request.latency().is_none_or(|latency| latency < MIN_LATENCY) {
            return;
        }
        for offset in request.partitions.iter().filter_map(|partition| partition.base_offset) {
            self.by_base_offset.entry(offset).or_default().push(Arc::clone(request));
            self.by_end.push_back((request.last_seen(), offset));
        }
    }

    /// Requests whose response named that base offset, the latest first. Of any partition.
    pub(crate) fn by_base_offset(&self, offset: i64) -> impl Iterator<Item = &Arc<Request>> {
        self.by_base_offset.get(&offset).into_iter().flat_map(|requests| requests.iter().rev())
    }

    /// Drops requests that ended before `horizon`.
    pub(crate) fn forget(&mut self, horizon: Nanos) {
        while let Some((_, offset)) = self.by_end.front().copied().filter(|(end, _)| *end < horizon) {
            self.by_end.pop_front();
            if let Some(requests) = self.by_base_offset.get_mut(&offset) {
                requests.retain(|request| request.last_seen() >= horizon);
                if requests.is_empty() {
                    self.by_base_offset.remove(&offset);
                }
            }
        }
    }
}
