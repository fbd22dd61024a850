//! An overview of a whole input instead of its rows: latencies by API, topic, client and connection, and how full
//! producers' batches are. Holds a bounded number of groups.

mod output;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use model::api_key::PRODUCE;
use model::{IntendedWait, Nanos, Partition, Request, TopicId};

use crate::bounded_map::BoundedMap;
pub use crate::distribution::Distribution;
pub use output::write;

/// Limit on the groups of one API, and on producers. It holds for topics, clients and connections each. Twice as many
/// for all APIs together. Further groups are counted as others. A busy group takes about 10 KiB.
const MAX_GROUPS: usize = 500;

/// Counts requests into groups.
pub struct Overview {
    /// In the order of [`GroupBy::ALL`].
    groups: [BoundedMap<GroupKey, Kind, Group>; GroupBy::ALL.len()],
    producers: BoundedMap<Producer, (), BatchFill>,
    /// Shares of one request; kept to reuse its memory.
    shares: HashMap<GroupKey, Share>,
    span: Option<(Nanos, Nanos)>,
    most: usize,
}

/// The groups of an input.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// Time from the first request's first byte to the last byte of any request. Includes requests that are not
    /// counted.
    pub span: Option<Nanos>,
    /// Every group: by API, then topic, client and connection; within these the longest total latency first and
    /// intended waits last.
    pub groups: Vec<(Kind, GroupKey, Group)>,
    /// Limit on the groups of one sort and API.
    pub most: usize,
    /// Every producer, the one with the most batches first.
    pub producers: Vec<(Producer, BatchFill)>,
}

impl Default for Overview {
    fn default() -> Self {
        Self::new(MAX_GROUPS)
    }
}

impl Overview {
    /// Creates an overview of at most `most` groups of each sort and API. It holds twice as many of each sort.
    pub fn new(most: usize) -> Self {
        let max = |by| if by == GroupBy::Api { usize::MAX } else { most };
        Self {
            groups: GroupBy::ALL.map(|by| BoundedMap::new(max(by))),
            producers: BoundedMap::new(most),
            shares: HashMap::new(),
            span: None,
            most,
        }
    }

    /// Extends the time span, the basis of rates, by a request. The request may or may not be counted.
    pub fn extend_span(&mut self, request: &Request) {
        let (first, last) = self.span.unwrap_or((request.arrival, request.last_seen()));
        self.span = Some((first.min(request.arrival), last.max(request.last_seen())));
    }

    /// Counts a request. `hold` is why the broker kept it, as all of its partitions show.
    pub fn request(&mut self, request: &Request, hold: Option<IntendedWait>) {
        let kind = Kind { api: request.api, hold };
        let share = Share::from(request);
        let client = Client { id: request.client_id.clone(), host: request.client.ip() };
        self.count(GroupKey::All, kind, request, share);
        self.count(GroupKey::Client(client.clone()), kind, request, share);
        let connection = GroupKey::Connection(client.clone(), request.client.port(), request.broker);
        self.count(connection, kind, request, share);
        self.topics_of(request, kind);
        if request.api_key == PRODUCE && share.record_bytes > 0 {
            let producer_id = producer_id(&request.partitions);
            self.producers.of(Producer { client: Some(client), producer_id }, ()).add(request);
        }
    }

    fn count(&mut self, key: GroupKey, kind: Kind, request: &Request, share: Share) {
        if let Some(groups) = self.groups.get_mut(key.by() as usize) {
            groups.of(key, kind).add(request, share);
        }
    }

    /// Counts a request for the topics whose records it carried or for which it failed.
    /// A fetch requests many topics, and what it returns of one says nothing about the others.
    fn topics_of(&mut self, request: &Request, kind: Kind) {
        let code = request.error_code.is_some_and(|code| code != 0);
        let whole = code || request.error.is_some() || request.is_unanswered();
        for partition in &request.partitions {
            let refused = partition.error_code.is_some_and(|code| code != 0);
            if partition.bytes == 0 && !refused && request.api_key != PRODUCE {
                continue;
            }
            let share = self.shares.entry(GroupKey::topic(partition)).or_default();
            share.failed |= refused || whole;
            share.record_bytes += u64::from(partition.bytes);
            share.partitions += 1;
        }
        let mut shares = std::mem::take(&mut self.shares);
        for (topic, share) in shares.drain() {
            self.count(topic, kind, request, share);
        }
        self.shares = shares;
    }

    /// The groups, in order.
    pub fn finish(self) -> Groups {
        let groups = GroupBy::ALL.into_iter().zip(self.groups).flat_map(|(by, groups)| {
            let groups = groups.into_groups();
            in_order(groups.map(|(key, kind, group)| (kind, key.unwrap_or(GroupKey::Others(by)), group)))
        });
        let producers = self.producers.into_groups();
        let mut producers =
            producers.map(|(producer, (), fill)| (producer.unwrap_or_default(), fill)).collect::<Vec<_>>();
        producers.sort_by(|(a, x), (b, y)| y.bytes.count().cmp(&x.bytes.count()).then_with(|| a.cmp(b)));
        let span = self.span.map(|(first, last)| last - first);
        Groups { span, groups: groups.collect(), most: self.most, producers }
    }
}

fn in_order(groups: impl Iterator<Item = (Kind, GroupKey, Group)>) -> Vec<(Kind, GroupKey, Group)> {
    let mut groups = groups.collect::<Vec<_>>();
    groups.sort_by(|(kind, who, group), (other_kind, other_who, other)| {
        let time = |group: &Group| group.less_head_of_line().sum();
        let intended = kind.hold.is_some().cmp(&other_kind.hold.is_some());
        let longest = time(other).cmp(&time(group));
        intended.then(longest).then_with(|| (kind, who).cmp(&(other_kind, other_who)))
    });
    groups
}

impl Groups {
    /// Groups of this sort.
    pub fn by(&self, by: GroupBy) -> impl Iterator<Item = &(Kind, GroupKey, Group)> {
        self.groups.iter().filter(move |(_, who, _)| who.by() == by)
    }

    /// Rate per second over the whole input; `None` if the input has no length.
    pub fn per_second(&self, count: u64) -> Option<f64> {
        let span = self.span.filter(|span| *span > Nanos::ZERO)?;
        Some(count as f64 / (span.0 as f64 / 1e9))
    }
}

model::named! {
    /// Key by which groups are formed.
    pub enum GroupBy {
        /// The API alone.
        Api = "api",
        /// Topic and API.
        Topic = "topic",
        /// Client id, host and API.
        Client = "client",
        /// Connection and API.
        Connection = "connection",
    }
}

/// An API, and whether the broker kept its requests on purpose: those are separate everywhere, because their
/// latency says nothing about the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// Kafka's name for the API.
    pub api: &'static str,
    /// Why the broker kept them, if it did.
    pub hold: Option<IntendedWait>,
}

/// A client: its id and its host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client {
    /// Its client id, which may contain anything.
    pub id: Option<Arc<str>>,
    /// Its address.
    pub host: IpAddr,
}

/// The owner of a group's requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKey {
    /// All requests.
    All,
    /// A topic's, by its name or by an unresolved id.
    Topic(Option<Arc<str>>, Option<TopicId>),
    /// A client's.
    Client(Client),
    /// A connection's: the client, its port, and the broker's end.
    Connection(Client, u16, SocketAddr),
    /// Requests of groups beyond the limit.
    Others(GroupBy),
}

impl GroupKey {
    /// The key by which the group was formed.
    pub fn by(&self) -> GroupBy {
        match self {
            Self::All => GroupBy::Api,
            Self::Topic(..) => GroupBy::Topic,
            Self::Client(_) => GroupBy::Client,
            Self::Connection(..) => GroupBy::Connection,
            Self::Others(by) => *by,
        }
    }

    /// The partition's topic.
    fn topic(partition: &Partition) -> Self {
        match &partition.topic {
            Some(name) => Self::Topic(Some(Arc::clone(name)), None),
            None => Self::Topic(None, partition.topic_id),
        }
    }
}

/// A producer: a client and, if it is idempotent, the id that the broker gave it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Producer {
    /// The client; `None` for producers beyond the limit.
    pub client: Option<Client>,
    /// The idempotent producer's id.
    pub producer_id: Option<i64>,
}

/// The requests of one group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Requests.
    pub requests: u64,
    /// Failed requests: an error code, something unreadable, or no response.
    pub errors: u64,
    /// Requests without a response although one was due; among `errors`.
    pub unanswered: u64,
    /// Bytes of the requests' frames.
    pub request_bytes: u64,
    /// Bytes of the responses' frames.
    pub response_bytes: u64,
    /// Bytes of records, produced or fetched.
    pub record_bytes: u64,
    /// Partitions named, over all requests.
    pub partitions: u64,
    /// Latencies on the wire, in nanoseconds: first byte of the request to last byte of the response, without the
    /// time for which a fetch waited for the data it returned.
    pub latency: Distribution,
    /// Created when a request first waits behind another: until then both distributions are the same.
    less_head_of_line: Option<Distribution>,
}

/// What one request adds besides its latency, in total or for one topic.
#[derive(Clone, Copy, Debug, Default)]
struct Share {
    failed: bool,
    record_bytes: u64,
    partitions: u64,
}

impl Group {
    /// Its latencies without the time behind an earlier request of the connection.
    pub fn less_head_of_line(&self) -> &Distribution {
        self.less_head_of_line.as_ref().unwrap_or(&self.latency)
    }

    /// Whether any request waited behind another.
    pub fn waited_in_line(&self) -> bool {
        self.less_head_of_line.is_some()
    }

    fn add(&mut self, request: &Request, share: Share) {
        self.requests += 1;
        self.errors += u64::from(share.failed);
        self.unanswered += u64::from(request.is_unanswered());
        self.request_bytes += u64::from(request.request_bytes);
        self.response_bytes += u64::from(request.response_bytes.unwrap_or(0));
        self.record_bytes += share.record_bytes;
        self.partitions += share.partitions;
        let (Some(latency), Some(less)) = (request.latency_less_wait(), request.latency_less_head_of_line())
        else {
            return;
        };
        let less = less - request.data_wait();
        if less != latency && self.less_head_of_line.is_none() {
            self.less_head_of_line = Some(self.latency.clone());
        }
        self.latency.add_length(latency);
        if let Some(spread) = &mut self.less_head_of_line {
            spread.add_length(less);
        }
    }
}

impl From<&Request> for Share {
    fn from(request: &Request) -> Self {
        Self {
            failed: request.failed(),
            record_bytes: request.partitions.iter().map(|partition| u64::from(partition.bytes)).sum(),
            partitions: request.partitions.len() as u64,
        }
    }
}

/// Batches of one producer.
/// A batch here is what one partition got in one request: one record batch with magic 2 (the broker refuses more), one
/// message set before.
#[derive(Clone, Debug)]
pub struct BatchFill {
    /// Produce requests with at least one record.
    pub requests: u64,
    /// Records per batch, if the headers could be read.
    pub records: Distribution,
    /// Bytes per batch.
    pub bytes: Distribution,
    /// Partitions per request.
    pub partitions: Distribution,
}

impl Default for BatchFill {
    fn default() -> Self {
        Self {
            requests: 0,
            records: Distribution::of_sizes(),
            bytes: Distribution::of_sizes(),
            partitions: Distribution::of_sizes(),
        }
    }
}

impl BatchFill {
    fn add(&mut self, request: &Request) {
        self.requests += 1;
        self.partitions.add(request.partitions.len() as u64);
        for batch in request.partitions.iter().filter(|batch| batch.bytes > 0) {
            self.bytes.add(u64::from(batch.bytes));
            if let Some(records) = batch.records {
                self.records.add(u64::from(records));
            }
        }
    }
}

/// The idempotent producer's id (KIP-98); `None` if no batch carries one.
fn producer_id(partitions: &[Partition]) -> Option<i64> {
    let mut batches = partitions.iter().flat_map(|partition| &partition.batches);
    batches.next().map(|batch| batch.producer_id).filter(|&id| id >= 0)
}
