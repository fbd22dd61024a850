//! Requests by what verdicts look for: followers' fetches by partition, slow produce requests by base offset.
//!
//! A follower's fetch for offset N says that it has everything before N (`Partition.updateFollowerFetchState`). Followers
//! are known by what brokers call their fetchers, `broker-ID-fetcher-N` (`ReplicaFetcherManager.createFetcherThread`).

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ahash::RandomState;
use model::api_key::{FETCH, PRODUCE};
use model::{Nanos, Request, TopicPartition};

use crate::logged::is_logged;
use crate::window::timeline::{forget_first, insert_sorted};

/// A follower had told the leader that it has a partition up to some offset.
#[derive(Clone, Debug)]
pub(crate) struct FollowerFetch {
    /// When its fetch was complete at the broker.
    pub(crate) at: Nanos,
    pub(crate) fetch: Arc<Request>,
}

/// One follower's fetches of one partition, in the order of their arrival.
type Fetches = VecDeque<(i64, FollowerFetch)>;

/// What all followers have told.
#[derive(Debug, Default)]
pub(crate) struct Followers(HashMap<TopicPartition, HashMap<Arc<str>, Fetches>>);

impl Followers {
    /// Takes a request, which is a follower's fetch or of no interest; of the request log it is not known well enough when it came.
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

    /// Whether anybody follows a partition.
    pub(crate) fn any(&self, partition: &TopicPartition) -> bool {
        self.0.contains_key(partition)
    }

    /// Of the followers that had a partition up to `offset` by a moment, when the last of them said so first.
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

/// The name of the follower that sent a request, if one did.
pub(crate) fn follower(request: &Request) -> Option<&Arc<str>> {
    let name = request.client_id.as_ref();
    name.filter(|_| is_follower(request.api_key, name))
}

/// Whether it was a follower that sent a request.
pub(crate) fn is_follower(api_key: i16, client_id: Option<&Arc<str>>) -> bool {
    let name = client_id.filter(|_| api_key == FETCH).and_then(|name| name.strip_prefix("broker-"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    name.and_then(|name| name.split_once("-fetcher-"))
        .is_some_and(|(id, fetcher)| is_number(id) && is_number(fetcher))
}

/// Who was served sooner kept no handler from others for long.
const MIN_LATENCY: Nanos = Nanos::from_millis(5);

/// Those of late.
#[derive(Debug, Default)]
pub(crate) struct ProduceIndex {
    by_base_offset: HashMap<i64, Vec<Arc<Request>>, RandomState>,
    /// When each ended, nearly in that order, with the offsets under which it is kept.
    kept: VecDeque<(Nanos, i64)>,
}

impl ProduceIndex {
    /// Takes a request, which is of no interest where it was quick or produced nothing.
    pub(crate) fn request(&mut self, request: &Arc<Request>) {
        if request.api_key != PRODUCE || request.latency().is_none_or(|latency| latency < MIN_LATENCY) {
            return;
        }
        for offset in request.partitions.iter().filter_map(|partition| partition.base_offset) {
            self.by_base_offset.entry(offset).or_default().push(Arc::clone(request));
            self.kept.push_back((request.last_seen(), offset));
        }
    }

    /// Those of which a response named that base offset, of whichever partition, the latest first.
    pub(crate) fn by_base_offset(&self, offset: i64) -> impl Iterator<Item = &Arc<Request>> {
        self.by_base_offset.get(&offset).into_iter().flat_map(|requests| requests.iter().rev())
    }

    /// Forgets those that ended before that.
    pub(crate) fn forget(&mut self, horizon: Nanos) {
        while let Some((_, offset)) = self.kept.front().copied().filter(|(end, _)| *end < horizon) {
            self.kept.pop_front();
            if let Some(requests) = self.by_base_offset.get_mut(&offset) {
                requests.retain(|request| request.last_seen() >= horizon);
                if requests.is_empty() {
                    self.by_base_offset.remove(&offset);
                }
            }
        }
    }
}
