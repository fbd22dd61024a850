//! One view of a whole input instead of its rows: how long requests took, by API, topic, client and
//! connection, and how full producers' batches are. Holds a bounded number of groups. Does not print.

mod batch_fill;
mod csv;
mod group;
mod json;
mod kinds;
mod table;
mod view;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use model::api_key::PRODUCE;
use model::{IntendedWait, Nanos, Partition, Request, TopicId};

pub use batch_fill::BatchFill;
pub use csv::OverviewCsv;
pub use group::Group;
pub use json::OverviewJson;
pub use kinds::{GroupBy, GroupKey, Kind, Producer};
pub use table::OverviewTable;

use crate::bounded_map::BoundedMap;
pub use crate::distribution::Distribution;
use group::Share;
use kinds::Client;

/// Groups held of one API's topics, clients and connections each, and of producers; of all APIs together twice
/// as many. What comes after them is counted with the others. A busy group takes about 10 KiB.
const MOST_GROUPS: usize = 500;

/// Counts requests into groups.
pub struct Overview {
    apis: BoundedMap<(), Kind, Group>,
    topics: BoundedMap<Topic, Kind, Group>,
    clients: BoundedMap<Client, Kind, Group>,
    connections: BoundedMap<(Client, u16, SocketAddr), Kind, Group>,
    producers: BoundedMap<(Client, Option<i64>), (), BatchFill>,
    /// Of one request; kept for its room.
    shares: HashMap<Topic, Share>,
    span: Option<(Nanos, Nanos)>,
    most: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Topic {
    Name(Arc<str>),
    Id(TopicId),
    Unknown,
}

impl From<&Partition> for Topic {
    fn from(partition: &Partition) -> Self {
        match (&partition.topic, partition.topic_id) {
            (Some(name), _) => Self::Name(Arc::clone(name)),
            (None, Some(id)) => Self::Id(id),
            (None, None) => Self::Unknown,
        }
    }
}

/// The groups of an input.
#[derive(Clone, Debug, Default)]
pub struct Groups {
    /// From the first request's first byte to the last byte of any; also of those that were not counted.
    pub span: Option<Nanos>,
    /// Every group: by API, then topic, client and connection; of each those first that clients waited for
    /// longest in total, and the waits that were asked for last.
    pub groups: Vec<(Kind, GroupKey, Group)>,
    /// How many groups of one sort and API there was room for.
    pub most: usize,
    /// Every producer, that with the most batches first.
    pub producers: Vec<(Producer, BatchFill)>,
}

impl Default for Overview {
    fn default() -> Self {
        Self::new(MOST_GROUPS)
    }
}

impl Overview {
    /// At most so many groups of each sort and API, and twice as many of each sort.
    pub fn new(most: usize) -> Self {
        Self {
            apis: BoundedMap::new(usize::MAX),
            topics: BoundedMap::new(most),
            clients: BoundedMap::new(most),
            connections: BoundedMap::new(most),
            producers: BoundedMap::new(most),
            shares: HashMap::new(),
            span: None,
            most,
        }
    }

    /// Notes when there were requests, whether they are counted or not: what rates are of.
    pub fn saw(&mut self, request: &Request) {
        let (first, last) = self.span.unwrap_or((request.arrival, request.last_seen()));
        self.span = Some((first.min(request.arrival), last.max(request.last_seen())));
    }

    /// Counts a request. `hold` is why the broker kept it, told from all of its partitions.
    pub fn request(&mut self, request: &Request, hold: Option<IntendedWait>) {
        let kind = Kind { api: request.api, hold };
        let share = Share::from(request);
        self.apis.of((), kind).add(request, share);
        let client = Client { id: request.client_id.clone(), host: request.client.ip() };
        self.clients.of(client.clone(), kind).add(request, share);
        let connection = (client.clone(), request.client.port(), request.broker);
        self.connections.of(connection, kind).add(request, share);
        self.topics_of(request, kind);
        if request.api_key == PRODUCE && share.record_bytes > 0 {
            let producer_id = batch_fill::producer_id(&request.partitions);
            self.producers.of((client, producer_id), ()).add(request);
        }
    }

    /// A request counts for the topics whose records it carried, or that it failed for: a fetch asks for many
    /// and what it brings of one says nothing of the others.
    fn topics_of(&mut self, request: &Request, kind: Kind) {
        let code = request.error_code.is_some_and(|code| code != 0);
        let whole = code || request.error.is_some() || request.is_unanswered();
        for partition in &request.partitions {
            let refused = partition.error_code.is_some_and(|code| code != 0);
            if partition.bytes == 0 && !refused && request.api_key != PRODUCE {
                continue;
            }
            let share = self.shares.entry(Topic::from(partition)).or_default();
            share.failed |= refused || whole;
            share.record_bytes += u64::from(partition.bytes);
            share.partitions += 1;
        }
        for (topic, share) in self.shares.drain() {
            self.topics.of(topic, kind).add(request, share);
        }
    }

    /// The groups, in order.
    pub fn finish(self) -> Groups {
        let apis = self.apis.into_groups().map(|(_, kind, group)| (kind, GroupKey::All, group));
        let topics =
            self.topics.into_groups().map(|(topic, kind, group)| (kind, GroupKey::topic(topic), group));
        let clients =
            self.clients.into_groups().map(|(who, kind, group)| (kind, GroupKey::client(who), group));
        let connections =
            self.connections.into_groups().map(|(who, kind, group)| (kind, GroupKey::connection(who), group));
        let groups = [in_order(apis), in_order(topics), in_order(clients), in_order(connections)];
        let producers = self.producers.into_groups();
        let mut producers =
            producers.map(|(producer, (), fill)| (Producer::new(producer), fill)).collect::<Vec<_>>();
        producers.sort_by(|(a, x), (b, y)| y.bytes.count().cmp(&x.bytes.count()).then_with(|| a.cmp(b)));
        let span = self.span.map(|(first, last)| last - first);
        Groups { span, groups: groups.concat(), most: self.most, producers }
    }
}

fn in_order(groups: impl Iterator<Item = (Kind, GroupKey, Group)>) -> Vec<(Kind, GroupKey, Group)> {
    let mut groups = groups.collect::<Vec<_>>();
    groups.sort_by(|(kind, who, group), (other_kind, other_who, other)| {
        let time = |group: &Group| group.less_head_of_line().sum();
        let held = kind.hold.is_some().cmp(&other_kind.hold.is_some());
        let longest = time(other).cmp(&time(group));
        held.then(longest).then_with(|| (kind, who).cmp(&(other_kind, other_who)))
    });
    groups
}

impl Groups {
    /// Groups of this sort.
    pub fn by(&self, by: GroupBy) -> impl Iterator<Item = &(Kind, GroupKey, Group)> {
        self.groups.iter().filter(move |(_, who, _)| who.by() == by)
    }

    /// So many a second, over the whole input; none where it has no length.
    pub fn per_second(&self, count: u64) -> Option<f64> {
        let span = self.span.filter(|span| *span > Nanos::ZERO)?;
        Some(count as f64 / (span.0 as f64 / 1e9))
    }
}

impl GroupKey {
    fn topic(topic: Option<Topic>) -> Self {
        match topic {
            Some(Topic::Name(name)) => Self::Topic(Some(name), None),
            Some(Topic::Id(id)) => Self::Topic(None, Some(id)),
            Some(Topic::Unknown) => Self::Topic(None, None),
            None => Self::Others(GroupBy::Topic),
        }
    }
}
