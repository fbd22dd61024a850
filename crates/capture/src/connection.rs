//! One TCP connection: both directions put back in order, and what is made of them. Does not decode.

use std::net::SocketAddr;

use model::Nanos;
use wire::stream::{Nature, StreamCounts};

use crate::books::{Books, Rows};
use crate::dialogue::Dialogue;
use crate::exchange::{Exchange, Unanswered};
use crate::link::{Flags, Segment};
use crate::listening::{Heard, Listening};
use crate::reassembly::{Chunk, Pool, Reassembly};

/// Which end of a connection: an index into its pair of ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    First,
    Second,
}

impl Side {
    pub(crate) fn other(self) -> Self {
        if self == Self::First { Self::Second } else { Self::First }
    }

    /// The pair's own and other member, seen from this side.
    pub(crate) fn split<T>(self, (first, second): (T, T)) -> (T, T) {
        if self == Self::First { (first, second) } else { (second, first) }
    }
}

pub(crate) struct Connection {
    ends: (SocketAddr, SocketAddr),
    directions: (Reassembly, Reassembly),
    speech: Speech,
    last: Nanos,
}

/// What a connection's bytes are taken for.
enum Speech {
    /// Nothing shows yet who the client is.
    Undecided(Box<Listening>),
    /// The client is on this side.
    Kafka(Side, Box<Dialogue>),
    /// Not Kafka, or over: its bytes are not looked at any more.
    Done,
}

impl Connection {
    /// A connection between two ends, the client's where it is known already.
    pub(crate) fn new(ends: (SocketAddr, SocketAddr), client: Option<Side>) -> Self {
        let speech = match client {
            None => Speech::Undecided(Box::default()),
            Some(side) => Speech::Kafka(side, Box::new(Dialogue::new(exchange(ends, side)))),
        };
        Self { ends, directions: Default::default(), speech, last: Nanos::ZERO }
    }

    /// Whether a segment opens another connection between the same ends.
    pub(crate) fn is_reused_by(&self, side: Side, segment: &Segment<'_>) -> bool {
        if !segment.flags.has(Flags::SYN) {
            return false;
        }
        let (mine, theirs) = side.split((&self.directions.0, &self.directions.1));
        let is_repeated = mine.starts_at(segment.seq.wrapping_add(1));
        let is_answer = segment.flags.has(Flags::ACK) && !mine.is_synchronized() && theirs.is_from_start();
        !is_repeated && !is_answer && (mine.is_synchronized() || theirs.is_synchronized())
    }

    /// A segment sent by the end on `side`.
    pub(crate) fn segment(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        at: Nanos,
        pool: &mut Pool,
        books: &mut Books,
        out: &mut Rows<'_>,
    ) {
        self.last = at;
        self.synchronize(side, segment);
        if matches!(self.speech, Speech::Done) {
            return;
        }
        if !segment.flags.has(Flags::RST) {
            self.acknowledge(side, segment, at, pool, books, out);
            self.deliver(side, segment, at, pool, books, out);
        }
        if self.is_over(side, segment) || matches!(self.speech, Speech::Done) {
            self.end(Unanswered::ConnectionEnded, pool, books, out);
        } else {
            self.give_up_late(at, books, out);
        }
    }

    /// What a segment says about the bytes its sender has received.
    fn acknowledge(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        at: Nanos,
        pool: &mut Pool,
        books: &mut Books,
        out: &mut Rows<'_>,
    ) {
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        let Self { ends, directions, speech, .. } = self;
        let (_, theirs) = side.split((&mut directions.0, &mut directions.1));
        let from_start = theirs.is_from_start();
        let mut hear = |chunk: Chunk<'_>| speech.hear(side.other(), chunk, from_start, *ends, books, out);
        theirs.acknowledge(segment.ack, at, pool, &mut hear);
        // The broker answers what was not wholly seen: the rest of the request will not come any more.
        if !segment.payload.is_empty() && speech.speaks_unprompted(side) {
            let mut hear = |chunk: Chunk<'_>| speech.hear(side.other(), chunk, from_start, *ends, books, out);
            theirs.give_up_unseen(at, pool, &mut hear);
        }
    }

    /// What a segment carries.
    fn deliver(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        at: Nanos,
        pool: &mut Pool,
        books: &mut Books,
        out: &mut Rows<'_>,
    ) {
        let fin = segment.flags.has(Flags::FIN);
        if segment.payload.is_empty() && segment.missing == 0 && !fin {
            return;
        }
        let Self { ends, directions, speech, .. } = self;
        let (mine, _) = side.split((&mut directions.0, &mut directions.1));
        let from_start = mine.is_from_start();
        // A SYN takes up one sequence number, before the payload that TCP Fast Open sends with it.
        let seq = segment.seq.wrapping_add(u32::from(segment.flags.has(Flags::SYN)));
        let mut hear = |chunk: Chunk<'_>| speech.hear(side, chunk, from_start, *ends, books, out);
        mine.segment((seq, fin), (segment.payload, segment.missing), at, pool, &mut hear);
    }

    fn is_over(&self, side: Side, segment: &Segment<'_>) -> bool {
        let (mine, theirs) = side.split((&self.directions.0, &self.directions.1));
        let is_reset = segment.flags.has(Flags::RST) && mine.is_plausible(segment.seq);
        is_reset || (mine.is_finished() && theirs.is_finished())
    }

    /// Learns where the directions begin: from a SYN its sender's and, if it acknowledges one, the
    /// other's too; and from a client's first segment that the broker has not spoken yet.
    fn synchronize(&mut self, side: Side, segment: &Segment<'_>) {
        let (mine, theirs) = side.split((&mut self.directions.0, &mut self.directions.1));
        let is_syn = segment.flags.has(Flags::SYN);
        if is_syn && !mine.is_synchronized() {
            *mine = Reassembly::starting_at(segment.seq.wrapping_add(1));
        }
        let begins = is_syn || mine.starts_at(segment.seq);
        if begins && segment.flags.has(Flags::ACK) && !theirs.is_synchronized() && mine.next_offset() == 0 {
            *theirs = Reassembly::starting_at(segment.ack);
        }
    }

    /// Gives their rows to requests that have waited too long on a connection that fell silent.
    pub(crate) fn give_up_late(&mut self, now: Nanos, books: &mut Books, out: &mut Rows<'_>) {
        if let Speech::Kafka(_, dialogue) = &mut self.speech {
            dialogue.exchange.give_up_late(now, books, out);
        }
    }

    /// The connection is over, or nobody follows it any more: delivers what is held, then every request
    /// without a response gets its row.
    pub(crate) fn end(&mut self, why: Unanswered, pool: &mut Pool, books: &mut Books, out: &mut Rows<'_>) {
        let (ends, at) = (self.ends, self.last);
        for side in [Side::First, Side::Second] {
            let (direction, _) = side.split((&mut self.directions.0, &mut self.directions.1));
            if matches!(self.speech, Speech::Done) {
                direction.discard(pool);
                continue;
            }
            let from_start = direction.is_from_start();
            let speech = &mut self.speech;
            direction.finish(at, pool, &mut |chunk| speech.hear(side, chunk, from_start, ends, books, out));
        }
        self.speech.end(why, books, out);
    }

    /// What the streams counted that are still being read.
    pub(crate) fn counts(&self) -> StreamCounts {
        self.speech.counts()
    }
}

impl Speech {
    fn hear(
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
                Heard::Other(nature) => self.dismiss(nature, books, out),
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
                let nature = dialogue.nature();
                if matches!(nature, Nature::Tls | Nature::Other) {
                    self.dismiss(nature, books, out);
                }
            }
        }
    }

    /// Whether the broker is on `side` and no request that was wholly seen waits for its answer.
    fn speaks_unprompted(&self, side: Side) -> bool {
        matches!(self, Self::Kafka(client, dialogue) if *client != side && !dialogue.exchange.is_waiting())
    }

    /// From here on the connection costs nothing.
    fn dismiss(&mut self, nature: Nature, books: &mut Books, out: &mut Rows<'_>) {
        match nature {
            Nature::Tls => books.counters.tls_connections += 1,
            _ => books.counters.other_connections += 1,
        }
        books.counters.add_stream(self.counts());
        if let Self::Kafka(_, dialogue) = self {
            dialogue.exchange.give_up_all(Unanswered::ConnectionEnded, books, out);
        }
        *self = Self::Done;
    }

    fn end(&mut self, why: Unanswered, books: &mut Books, out: &mut Rows<'_>) {
        let is_unrecognized = match self {
            Self::Done => return,
            Self::Undecided(listening) => listening.has_data(),
            Self::Kafka(_, dialogue) => dialogue.is_unrecognized(),
        };
        books.counters.other_connections += u64::from(is_unrecognized);
        books.counters.add_stream(self.counts());
        if let Self::Kafka(_, dialogue) = self {
            dialogue.end(why, books, out);
        }
        *self = Self::Done;
    }

    fn counts(&self) -> StreamCounts {
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
