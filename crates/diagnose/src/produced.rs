//! Produce requests that took long, by the base offsets that their responses named: from what a handler wrote to whom it
//! may have served, where `join` goes from a request to what was written for it. Judges nothing.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ahash::RandomState;
use model::api_key::PRODUCE;
use model::{Nanos, Request};

/// Who was served sooner kept no handler from others for long.
const LONG: Nanos = Nanos::from_millis(5);

/// Those of late.
#[derive(Debug, Default)]
pub(crate) struct Produced {
    by_base_offset: HashMap<i64, Vec<Arc<Request>>, RandomState>,
    /// When each ended, nearly in that order, with the offsets under which it is kept.
    kept: VecDeque<(Nanos, i64)>,
}

impl Produced {
    /// Takes a request, which is of no interest where it was quick or produced nothing.
    pub(crate) fn request(&mut self, request: &Arc<Request>) {
        if request.api_key != PRODUCE || request.latency().is_none_or(|latency| latency < LONG) {
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
