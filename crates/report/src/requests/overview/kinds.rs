//! What groups are about: an API, a topic, a client, a connection, a producer. Does not count.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use model::{IntendedWait, TopicId};

/// What groups are formed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupBy {
    /// The API alone.
    Api,
    /// Topic and API.
    Topic,
    /// Client id, host and API.
    Client,
    /// Connection and API.
    Connection,
}

impl GroupBy {
    /// As in the `by` of JSON and CSV.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Api => "api",
            Self::Topic => "topic",
            Self::Client => "client",
            Self::Connection => "connection",
        }
    }
}

/// An API, and whether the broker kept its requests on purpose: those are told apart everywhere, because
/// how long they took says nothing of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind {
    /// Kafka's name of the API.
    pub api: &'static str,
    /// Why the broker kept them, if it did.
    pub hold: Option<IntendedWait>,
}

/// A client: what it calls itself, and its host.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client {
    /// What it calls itself; may hold anything.
    pub id: Option<Arc<str>>,
    /// Its address.
    pub host: IpAddr,
}

/// Whose requests a group holds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupKey {
    /// Everybody's.
    All,
    /// A topic's, by name or by the id that nothing resolved.
    Topic(Option<Arc<str>>, Option<TopicId>),
    /// A client's.
    Client(Client),
    /// A connection's: the client, its port, and the broker's end.
    Connection(Client, u16, SocketAddr),
    /// Of those for whom there was no room.
    Others(GroupBy),
}

impl GroupKey {
    /// What the group was formed by.
    pub fn by(&self) -> GroupBy {
        match self {
            Self::All => GroupBy::Api,
            Self::Topic(..) => GroupBy::Topic,
            Self::Client(_) => GroupBy::Client,
            Self::Connection(..) => GroupBy::Connection,
            Self::Others(by) => *by,
        }
    }

    pub(super) fn client(client: Option<Client>) -> Self {
        client.map_or(Self::Others(GroupBy::Client), Self::Client)
    }

    pub(super) fn connection(connection: Option<(Client, u16, SocketAddr)>) -> Self {
        connection.map_or(Self::Others(GroupBy::Connection), |(client, port, broker)| {
            Self::Connection(client, port, broker)
        })
    }
}

/// A producer: a client and the id that the broker gave it, if it is idempotent; none for the others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Producer {
    /// The client; none for those for whom there was no room.
    pub client: Option<Client>,
    /// The idempotent producer's id.
    pub producer_id: Option<i64>,
}

impl Producer {
    pub(super) fn new(producer: Option<(Client, Option<i64>)>) -> Self {
        let (client, producer_id) = producer.unzip();
        Self { client, producer_id: producer_id.flatten() }
    }
}
