//! Requests by topic: of the busiest, so many as were asked for; all others together.
//!
//! A topic has series of its own from when it becomes one of the busiest: they begin at zero, and what came before stays with
//! the others. Once a minute, one that moves twice as much as the least busy of those may take its place, whose series
//! end. So no counter ever goes back, and their number is bounded at every moment.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ahash::RandomState;
use model::{Nanos, Request};

use crate::catalog;
use crate::encoding::Encoder;
use crate::histogram::Histogram;
use crate::label::{self, OTHER};
use crate::stages::APIS;

/// How often the places are given anew.
const PERIOD: Nanos = Nanos::from_millis(60_000);
/// More that have no place are not told apart until then.
const MOST_WAITING: usize = 10_000;
/// How much more one has to move than whose place it takes.
const MUCH_MORE: u64 = 2;

/// Topics.
#[derive(Debug)]
pub(crate) struct Topics {
    most: usize,
    named: BTreeMap<Arc<str>, Topic>,
    other: Topic,
    /// What those without a place have moved since places were given last.
    waiting: HashMap<Arc<str>, u64, RandomState>,
    given: Option<Nanos>,
    /// Tells requests apart, so that each counts once for a topic however many of its partitions it names.
    number: u64,
}

#[derive(Debug, Default)]
struct Topic {
    requests: [u64; APIS.len()],
    bytes: [u64; APIS.len()],
    produce: Histogram,
    /// The last request that named it.
    number: u64,
    /// Moved since places were given last.
    lately: u64,
}

impl Topics {
    /// So many have a place.
    pub(crate) fn of_at_most(most: usize) -> Self {
        Self {
            most,
            named: BTreeMap::new(),
            other: Topic::default(),
            waiting: HashMap::default(),
            given: None,
            number: 0,
        }
    }

    pub(crate) fn request(&mut self, request: &Request) {
        let Some(api) = APIS.iter().position(|api| *api == request.api) else { return };
        self.give_places(request.last_seen());
        self.number += 1;
        for partition in &request.partitions {
            let bytes = u64::from(partition.bytes);
            let number = self.number;
            self.at(partition.topic.as_ref(), bytes).add(request, api, bytes, number);
        }
    }

    /// The topic's own place, or that of all others.
    fn at(&mut self, topic: Option<&Arc<str>>, bytes: u64) -> &mut Topic {
        let Some(topic) = topic else { return &mut self.other };
        // What is a label already need not be made one.
        let label = if self.named.contains_key(topic) { Arc::clone(topic) } else { label::clean(topic) };
        let is_named = self.named.contains_key(&label);
        if *label == *OTHER || (!is_named && self.named.len() >= self.most) {
            self.wait(label, bytes);
            return &mut self.other;
        }
        self.named.entry(label).or_default()
    }

    /// Counts for one without a place.
    fn wait(&mut self, label: Arc<str>, bytes: u64) {
        let is_new = !self.waiting.contains_key(&label);
        if *label == *OTHER || (is_new && self.waiting.len() >= MOST_WAITING) {
            return;
        }
        *self.waiting.entry(label).or_default() += bytes + 1;
    }

    /// Where a minute is over, gives those that moved most the places of those that moved least.
    fn give_places(&mut self, now: Nanos) {
        let given = *self.given.get_or_insert(now);
        if now - given < PERIOD {
            return;
        }
        self.given = Some(now);
        let mut waiting: Vec<_> = self.waiting.drain().collect();
        waiting.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        let mut named: Vec<_> =
            self.named.iter().map(|(name, topic)| (topic.lately, Arc::clone(name))).collect();
        named.sort_unstable();
        for ((next, moved), (lately, last)) in waiting.into_iter().zip(named) {
            if moved <= lately.saturating_mul(MUCH_MORE) {
                break;
            }
            self.named.remove(&last);
            self.named.entry(next).or_default();
        }
        self.named.values_mut().for_each(|topic| topic.lately = 0);
    }

    pub(crate) fn encode(&self, out: &mut dyn Encoder) {
        let by_api = |out: &mut dyn Encoder, family, count: fn(&Topic) -> &[u64; APIS.len()]| {
            out.family(family);
            for (name, topic) in self.all() {
                for (api, count) in APIS.iter().zip(count(topic)) {
                    out.number(&[name, api], *count as f64, None);
                }
            }
        };
        by_api(out, &catalog::TOPIC_REQUESTS, |topic| &topic.requests);
        by_api(out, &catalog::TOPIC_BYTES, |topic| &topic.bytes);
        out.family(&catalog::TOPIC_PRODUCE);
        for (name, topic) in self.all() {
            out.histogram(&[name], &topic.produce);
        }
    }

    fn all(&self) -> impl Iterator<Item = (&str, &Topic)> {
        self.named.iter().map(|(name, topic)| (&**name, topic)).chain([(OTHER, &self.other)])
    }
}

impl Topic {
    fn add(&mut self, request: &Request, api: usize, bytes: u64, number: u64) {
        if let Some(sum) = self.bytes.get_mut(api) {
            *sum += bytes;
        }
        self.lately += bytes + 1;
        if std::mem::replace(&mut self.number, number) == number {
            return;
        }
        if let Some(count) = self.requests.get_mut(api) {
            *count += 1;
        }
        if let (0, Some(latency)) = (api, request.latency()) {
            self.produce.observe_time(latency);
        }
    }
}
