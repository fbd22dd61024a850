//! Requests by topic: up to a given number of the busiest one by one, all others together.
//!
//! A topic has its own series from when it becomes one of the busiest: they start at zero, and what came before stays
//! with the others. Once a minute, a topic that moves twice as much as the least busy of them may take its slot, and
//! the series of that one end. So no counter ever decreases, and their number is always bounded.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ahash::RandomState;
use model::{Nanos, Request};

use crate::catalog::{APIS, Metric};
use crate::label::{self, OTHER};
use crate::registry::Registry;

/// Interval at which topics without a slot are compared with those that have one.
const PERIOD: Nanos = Nanos::from_millis(60_000);
/// Maximum number of topics without a slot that are counted until then.
const MAX_WAITING: usize = 10_000;
/// Factor by which a topic must move more than the one whose slot it takes.
const MUCH_MORE: u64 = 2;

/// Topics.
#[derive(Debug)]
pub(crate) struct Topics {
    max: usize,
    named: BTreeMap<Arc<str>, Slot>,
    other: Slot,
    /// The label of all others, created once.
    other_label: Arc<str>,
    /// Bytes moved by topics without a slot since the last comparison.
    waiting: HashMap<Arc<str>, u64, RandomState>,
    last_comparison: Option<Nanos>,
    /// Number of the request. With it, a request counts once for a topic, even if it names several partitions of it.
    number: u64,
}

#[derive(Debug, Default)]
struct Slot {
    /// The last request that named it.
    number: u64,
    /// Bytes moved since the last comparison.
    moved: u64,
}

impl Topics {
    /// Creates `max` slots.
    pub(crate) fn of_at_most(max: usize) -> Self {
        Self {
            max,
            named: BTreeMap::new(),
            other: Slot::default(),
            other_label: OTHER.into(),
            waiting: HashMap::default(),
            last_comparison: None,
            number: 0,
        }
    }

    pub(crate) fn request(&mut self, registry: &mut Registry, request: &Request) {
        let Some(api) = APIS.into_iter().find(|api| *api == request.api) else { return };
        self.reassign_slots(registry, request.last_seen());
        self.number += 1;
        let number = self.number;
        for partition in &request.partitions {
            let bytes = u64::from(partition.bytes);
            let (label, slot) = self.at(partition.topic.as_ref(), bytes);
            slot.moved += bytes + 1;
            registry.count(Metric::TopicBytes, &[&label, api], bytes);
            if std::mem::replace(&mut slot.number, number) == number {
                continue;
            }
            registry.count(Metric::TopicRequests, &[&label, api], 1);
            if let (true, Some(latency)) = (request.api_key == model::api_key::PRODUCE, request.latency()) {
                registry.observe_time(Metric::TopicProduce, &[&label], latency);
            }
        }
    }

    /// The topic's own slot, or that of all others, with its label.
    fn at(&mut self, topic: Option<&Arc<str>>, bytes: u64) -> (Arc<str>, &mut Slot) {
        let Some(topic) = topic else { return (Arc::clone(&self.other_label), &mut self.other) };
        // A name that is already a label needs no cleaning.
        let label = if self.named.contains_key(topic) { Arc::clone(topic) } else { label::clean(topic) };
        let is_named = self.named.contains_key(&label);
        if *label == *OTHER || (!is_named && self.named.len() >= self.max) {
            self.count_waiting(label, bytes);
            return (Arc::clone(&self.other_label), &mut self.other);
        }
        (Arc::clone(&label), self.named.entry(label).or_default())
    }

    /// Counts bytes for a topic without a slot.
    fn count_waiting(&mut self, label: Arc<str>, bytes: u64) {
        let is_new = !self.waiting.contains_key(&label);
        if *label == *OTHER || (is_new && self.waiting.len() >= MAX_WAITING) {
            return;
        }
        *self.waiting.entry(label).or_default() += bytes + 1;
    }

    /// Gives the slots of the least busy topics to busier ones, once a minute.
    fn reassign_slots(&mut self, registry: &mut Registry, now: Nanos) {
        let last_comparison = *self.last_comparison.get_or_insert(now);
        if now - last_comparison < PERIOD {
            return;
        }
        self.last_comparison = Some(now);
        let mut waiting: Vec<_> = self.waiting.drain().collect();
        waiting.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let mut named: Vec<_> =
            self.named.iter().map(|(name, slot)| (slot.moved, Arc::clone(name))).collect();
        named.sort_unstable();
        for ((next, moved), (lately, last)) in waiting.into_iter().zip(named) {
            if moved <= lately.saturating_mul(MUCH_MORE) {
                break;
            }
            self.named.remove(&last);
            for metric in [Metric::TopicRequests, Metric::TopicBytes, Metric::TopicProduce] {
                registry.remove(metric, &last);
            }
            for api in APIS {
                registry.start(Metric::TopicRequests, &[&next, api]);
                registry.start(Metric::TopicBytes, &[&next, api]);
            }
            registry.start(Metric::TopicProduce, &[&next]);
            self.named.entry(next).or_default();
        }
        self.named.values_mut().for_each(|slot| slot.moved = 0);
    }
}
