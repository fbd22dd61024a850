//! One TCP connection: both directions put back in order, and what is made of them. Does not decode.

use std::net::SocketAddr;

use model::Nanos;
use wire::stream::StreamCounts;

use crate::books::{Books, Rows};
use crate::early::Early;
use crate::exchange::Unanswered;
use crate::link::{Flags, Segment};
use crate::lone_side::LoneSide;
use crate::reassembly::{Chunk, Pool, Reassembly};
use crate::speech::Speech;

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
    early: Early,
    lone_side: LoneSide,
    is_known_to_wait: bool,
    last: Nanos,
}

impl Connection {
    /// A connection between two ends, the client's where it is known already.
    pub(crate) fn new(ends: (SocketAddr, SocketAddr), client: Option<Side>) -> Self {
        Self {
            ends,
            directions: Default::default(),
            speech: Speech::new(ends, client),
            early: Early::default(),
            lone_side: LoneSide::default(),
            is_known_to_wait: false,
            last: Nanos::ZERO,
        }
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
        if self.is_stray(side, segment) {
            books.counters.stray_segments += 1;
            return;
        }
        self.lone_side.see(side, segment);
        self.early.count_packet();
        if self.speech.is_done() {
            self.synchronize(side, segment);
            return;
        }
        if !(self.is_early(side, segment) && self.early.push(side, segment, at, pool)) {
            self.take_in(side, segment, at, pool, books, out);
        }
        self.take_in_early(at, pool, books, out);
        self.give_up_late(at, books, out);
    }

    /// Whether a segment is of an earlier connection between the same ends: none of its numbers fits this one.
    fn is_stray(&self, side: Side, segment: &Segment<'_>) -> bool {
        let (mine, theirs) = side.split((&self.directions.0, &self.directions.1));
        let is_syn = segment.flags.has(Flags::SYN);
        let acknowledges = segment.flags.has(Flags::ACK);
        !is_syn && acknowledges && !mine.is_plausible(segment.seq) && !theirs.is_plausible(segment.ack)
    }

    /// Whether a segment tells of bytes that were not seen, so that they may be in the next packets: what
    /// it acknowledges, what its sender sent before it, or what a reset answers.
    fn is_early(&self, side: Side, segment: &Segment<'_>) -> bool {
        let (mine, theirs) = side.split((&self.directions.0, &self.directions.1));
        if segment.flags.has(Flags::SYN) {
            return false;
        }
        // Often it answers data, and nothing in it says which.
        let resets = segment.flags.has(Flags::RST);
        let speaks = segment.has_payload() || segment.flags.has(Flags::FIN);
        let is_out_of_nowhere = speaks && !mine.is_synchronized();
        let acknowledges_news = segment.flags.has(Flags::ACK)
            && (theirs.is_news(segment.ack) || self.acknowledges_waiting(side, segment));
        resets || is_out_of_nowhere || acknowledges_news
    }

    /// Whether a segment acknowledges what waits because nobody knows where its stream began.
    fn acknowledges_waiting(&self, side: Side, segment: &Segment<'_>) -> bool {
        let (_, theirs) = side.split((&self.directions.0, &self.directions.1));
        let is_after = |first: u32| segment.ack.wrapping_sub(first) as i32 > 0;
        !theirs.is_synchronized() && self.early.first_seq(side.other()).is_some_and(is_after)
    }

    /// Takes in those segments that need not wait any longer.
    fn take_in_early(&mut self, now: Nanos, pool: &mut Pool, books: &mut Books, out: &mut Rows<'_>) {
        while !self.early.is_empty() {
            let mut next = self.early.position(|side, segment| !self.is_early(side, segment));
            if next.is_none() {
                let Some(first) = self.early.first().filter(|first| self.early.is_over(first, now)) else {
                    return;
                };
                let (side, acknowledges) =
                    (first.side, self.acknowledges_waiting(first.side, &first.segment()));
                let has_joined = self.join(side) | (acknowledges && self.join(side.other()));
                next = (!has_joined).then_some(0);
            }
            let Some(next) = next.and_then(|place| self.early.take(place, pool)) else { continue };
            self.take_in(next.side, &next.segment(), next.at, pool, books, out);
        }
    }

    /// Begins a direction in its middle if its beginning has not shown up.
    fn join(&mut self, side: Side) -> bool {
        let (mine, _) = side.split((&mut self.directions.0, &mut self.directions.1));
        let first = self.early.first_seq(side).filter(|_| !mine.is_synchronized());
        if let Some(seq) = first {
            mine.join(seq);
        }
        first.is_some()
    }

    /// Whether segments wait, and nobody was told so since the last [`Self::give_up_waiting`].
    pub(crate) fn begins_to_wait(&mut self) -> bool {
        let begins = !self.is_known_to_wait && !self.early.is_empty();
        self.is_known_to_wait |= begins;
        begins
    }

    /// Takes in what has waited enough, on a connection that may have fallen silent.
    pub(crate) fn give_up_waiting(
        &mut self,
        now: Nanos,
        pool: &mut Pool,
        books: &mut Books,
        out: &mut Rows<'_>,
    ) {
        self.is_known_to_wait = false;
        self.take_in_early(now, pool, books, out);
    }

    fn take_in(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        at: Nanos,
        pool: &mut Pool,
        books: &mut Books,
        out: &mut Rows<'_>,
    ) {
        self.hear(side, segment, at, pool, books, out);
        if self.is_over(side, segment) || self.speech.is_done() {
            self.end(Unanswered::ConnectionEnded, pool, books, out);
        }
    }

    /// Acknowledgement first: it tells what the other side had received when this was sent.
    fn hear(
        &mut self,
        side: Side,
        segment: &Segment<'_>,
        at: Nanos,
        pool: &mut Pool,
        books: &mut Books,
        out: &mut Rows<'_>,
    ) {
        self.synchronize(side, segment);
        if !segment.flags.has(Flags::RST) {
            self.acknowledge(side, segment, at, pool, books, out);
            self.deliver(side, segment, at, pool, books, out);
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
        if !segment.has_payload() && !fin {
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
        self.speech.give_up_late(now, books, out);
    }

    /// The connection is over, or nobody follows it any more: delivers what is held, then every request
    /// without a response gets its row.
    pub(crate) fn end(&mut self, why: Unanswered, pool: &mut Pool, books: &mut Books, out: &mut Rows<'_>) {
        self.join(Side::First);
        self.join(Side::Second);
        while let Some(place) = self.next_at_the_end() {
            let Some(next) = self.early.take(place, pool) else { break };
            self.hear(next.side, &next.segment(), next.at, pool, books, out);
        }
        let (ends, at) = (self.ends, self.last);
        for side in [Side::First, Side::Second] {
            let (direction, _) = side.split((&mut self.directions.0, &mut self.directions.1));
            if self.speech.is_done() {
                direction.discard(pool);
                continue;
            }
            let from_start = direction.is_from_start();
            let speech = &mut self.speech;
            direction.finish(at, pool, &mut |chunk| speech.hear(side, chunk, from_start, ends, books, out));
        }
        self.speech.end(why, self.lone_side.is_proven(), books, out);
    }

    /// Which waiting segment comes next when no more packets will.
    fn next_at_the_end(&self) -> Option<usize> {
        let place = self.early.position(|side, segment| !self.is_early(side, segment));
        place.or_else(|| self.early.first().map(|_| 0))
    }

    /// What the streams counted that are still being read.
    pub(crate) fn counts(&self) -> StreamCounts {
        self.speech.counts()
    }
}
