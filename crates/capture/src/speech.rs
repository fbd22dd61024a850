//! What one connection's bytes are taken for, and who hears them. Does not know TCP.

use std::net::SocketAddr;

use model::Nanos;
use wire::stream::{Protocol, StreamCounts};

use crate::books::{Books, Rows};
use crate::connection::Side;
use crate::dialogue::Dialogue;
use crate::exchange::{Exchange, Unanswered};
use crate::listening::{Heard, Listening};
use crate::reassembly::Chunk;

/// What a connection's bytes are taken for.
pub(crate) enum Speech {
    /// Nothing shows yet who the client is.
    Undecided(Box<Listening>),
    /// The client is on this side.
    Kafka(Side, Box<Dialogue>),
    /// Not Kafka, or over: its bytes are not looked at any more.
    Done,
}

impl Speech {
    /// Before the first byte; the client is on `client` where that is known already.
    pub(crate) fn new(ends: (SocketAddr, SocketAddr), client: Option<Side>) -> Self {
        match client {
            None => Self::Undecided(Box::default()),
            Some(side) => Self::Kafka(side, Box::new(Dialogue::new(exchange(ends, side)))),
        }
    }

    /// Whether nothing more can be heard.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self, Self::Done)
    }

    /// Gives their rows to requests that have waited too long.
    pub(crate) fn give_up_late(&mut self, now: Nanos, books: &mut Books, out: &mut Rows<'_>) {
        if let Self::Kafka(_, dialogue) = self {
            dialogue.exchange.give_up_late(now, books, out);
        }
    }

    pub(crate) fn hear(
        &mut self,
        side: Side,
        chunk: Chunk<'_>,
        is_from_start: bool,
        ends: (SocketAddr, SocketAddr),
        books: &mut Books,
        out: &mut Rows<'_>,
    ) {
        match self {
            Self::Done => {}
            Self::Undecided(listening) => match listening.hear(side, chunk, is_from_start, books) {
                Heard::Nothing => {}
                Heard::Other(protocol) => self.dismiss(protocol, books, out),
                Heard::Request { stream, frame, rest } => {
                    let dialogue = Dialogue::found(exchange(ends, side), *stream, &frame, books, out);
                    *self = Self::Kafka(side, Box::new(dialogue));
                    if let Some(rest) = rest {
                        self.hear(side, rest, is_from_start, ends, books, out);
                    }
                }
            },
            Self::Kafka(client, dialogue) => {
                if *client == side {
                    dialogue.hear_client(chunk, is_from_start, books, out);
                } else {
                    dialogue.hear_broker(chunk, is_from_start, books, out);
                }
                let protocol = dialogue.protocol();
                if matches!(protocol, Protocol::Tls | Protocol::Other) {
                    self.dismiss(protocol, books, out);
                }
            }
        }
    }

    /// Whether the broker is on `side` and no request that was wholly seen waits for its answer.
    pub(crate) fn speaks_unprompted(&self, side: Side) -> bool {
        matches!(self, Self::Kafka(client, dialogue) if *client != side && !dialogue.exchange.is_waiting())
    }

    /// From here on the connection costs nothing.
    fn dismiss(&mut self, protocol: Protocol, books: &mut Books, out: &mut Rows<'_>) {
        match protocol {
            Protocol::Tls => books.counters.tls_connections += 1,
            _ => books.counters.other_connections += 1,
        }
        books.counters.add_stream(self.counts());
        if let Self::Kafka(_, dialogue) = self {
            dialogue.exchange.give_up_all(Unanswered::ConnectionEnded, books, out);
        }
        *self = Self::Done;
    }

    /// No more bytes will come. A connection of which only one side was captured is that, whatever it speaks:
    /// responses alone cannot be told from something else.
    pub(crate) fn end(&mut self, why: Unanswered, is_one_sided: bool, books: &mut Books, out: &mut Rows<'_>) {
        let (has_data, is_unrecognized) = match self {
            Self::Done => return,
            Self::Undecided(listening) => (listening.has_data(), listening.has_data()),
            Self::Kafka(_, dialogue) => (dialogue.has_data(), dialogue.is_unrecognized()),
        };
        if is_one_sided && has_data {
            books.counters.one_sided_connections += 1;
        } else {
            books.counters.other_connections += u64::from(is_unrecognized);
        }
        books.counters.add_stream(self.counts());
        if let Self::Kafka(_, dialogue) = self {
            dialogue.end(why, books, out);
        }
        *self = Self::Done;
    }

    pub(crate) fn counts(&self) -> StreamCounts {
        match self {
            Self::Done | Self::Undecided(_) => StreamCounts::default(),
            Self::Kafka(_, dialogue) => dialogue.counts(),
        }
    }
}

fn exchange(ends: (SocketAddr, SocketAddr), client: Side) -> Exchange {
    let (client, broker) = client.split(ends);
    Exchange::new(client, broker)
}
