//! Requests by topic: of the busiest, as many as were asked for; all others together.
//!
//! A topic has its own series from when it becomes one of the busiest: they begin at zero, and what came before stays with
//! the others. Once a minute, one that moves twice as much as the least busy of those may take its place, whose series
//! end. So no counter ever goes back, and their number is bounded at every moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ahash::RandomState;
use model::{Nanos, Request};

use crate::catalog::{APIS, Metric};
use crate::label::{self, OTHER};
use crate::registry::Registry;

/// How often topics without a place are compared with those that have one.
const PERIOD: Nanos = Nanos::from_millis(60_000);
/// More that have no place are not told apart until then.
const MAX_WAITING: usize = 10_000;
/// How much more a topic has to move than the one whose place it takes.
const MUCH_MORE: u64 = 2;

/// Topics.
#[derive(Debug)]
pub(crate) struct Topics {
    max: usize,
    named: BTreeMap<Arc<str>, Place>,
    other: Place,
    /// The label of all others, made once.
    other_label: Arc<str>,
    /// What those without a place have moved since places were given last.
    waiting: HashMap<Arc<str>, u64, RandomState>,
    given: Option<Nanos>,
    /// Tells requests apart, so that each counts once for a topic however many of its partitions it names.
    number: u64,
}

#[derive(Debug, Default)]
struct Place {
    /// The last request that named it.
    number: u64,
    /// Moved since places were given last.
    moved: u64,
}

impl Topics {
    /// As many have a place.
    pub(crate) fn of_at_most(max: usize) -> Self {
        Self {
            max,
            named: BTreeMap::new(),
            other: Place::default(),
            other_label: OTHER.into(),
            waiting: HashMap::default(),
            given: None,
            number: 0,
        }
    }

    pub(crate) fn request(&mut self, registry: &mut Registry, request: &Request) {
        let Some(api) = APIS.into_iter().find(|api| *api == request.api) else { return };
        self.give_places(registry, request.last_seen());
        self.number += 1;
        let number = self.number;
        for partition in &request.partitions {
            let bytes = u64::from(partition.bytes);
            let (label, place) = self.at(partition.topic.as_ref(), bytes);
            place.moved += bytes + 1;
            registry.count(Metric::TopicBytes, &[&label, api], bytes);
            if std::mem::replace(&mut place.number, number) == number {
                continue;
            }
            registry.count(Metric::TopicRequests, &[&label, api], 1);
            if let (true, Some(latency)) = (request.api_key == model::api_key::PRODUCE, request.latency()) {
                registry.observe_time(Metric::TopicProduce, &[&label], latency);
            }
        }
    }

    /// The topic's own place, or that of all others, with its label.
    fn at(&mut self, topic: Option<&Arc<str>>, bytes: u64) -> (Arc<str>, &mut Place) {
        let Some(topic) = topic else { return (Arc::clone(&self.other_label), &mut self.other) };
        // What is a label already need not be made one.
        let label = if self.named.contains_key(topic) { Arc::clone(topic) } else { label::clean(topic) };
        let is_named = self.named.contains_key(&label);
        if *label == *OTHER || (!is_named && self.named.len() >= self.max) {
            self.wait(label, bytes);
            return (Arc::clone(&self.other_label), &mut self.other);
        }
        (Arc::clone(&label), self.named.entry(label).or_default())
    }

    /// Counts for one without a place.
    fn wait(&mut self, label: Arc<str>, bytes: u64) {
        let is_new = !self.waiting.contains_key(&label);
        if *label == *OTHER || (is_new && self.waiting.len() >= MAX_WAITING) {
            return;
        }
        *self.waiting.entry(label).or_default() += bytes + 1;
    }

    /// Gives those that moved most the places of those that moved least, once a minute.
    fn give_places(&mut self, registry: &mut Registry, now: Nanos) {
        let given = *self.given.get_or_insert(now);
        if now - given < PERIOD {
            return;
        }
        self.given = Some(now);
        let mut waiting: Vec<_> = self.waiting.drain().collect();
        waiting.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let mut named: Vec<_> =
            self.named.iter().map(|(name, place)| (place.moved, Arc::clone(name))).collect();
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
        self.named.values_mut().for_each(|place| place.moved = 0);
    }
}
