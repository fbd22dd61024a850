//! One TCP connection: puts both directions back in order and feeds them to the decoders.
//! Does not decode.

use model::{Nanos, TlsCount};

use crate::acknowledgement::Acknowledgement;
use crate::context::Context;
use crate::early::{CapturedSides, EarlySegments};
use crate::exchange::NoResponse;
use crate::idle::IdleConnection;
use crate::link::{Flags, Segment, Side};
use crate::reassembly::{Chunk, Pool, Reassembly, Sink};
use crate::streams::{Ends, State};
use crate::table::Table;

/// Memory of a connection in the table, without buffers.
const ENTRY_BYTES: usize = Table::<Ends, Box<Connection>>::ENTRY_BYTES + size_of::<Connection>();

/// Maximum size of a connection whose buffers are kept for another one.
const MAX_SPARE_BYTES: usize = 64 << 10;

pub(crate) struct Connection {
    ends: Ends,
    directions: (Reassembly, Reassembly),
    state: State,
    early: EarlySegments,
    captured_sides: CapturedSides,
    acknowledgement: Acknowledgement,
    /// Memory in use when last counted.
    counted_bytes: usize,
    is_known_to_wait: bool,
    last: Nanos,
    /// Payload not yet counted as TLS.
    payload_bytes: u64,
}

impl Connection {
    /// A connection between two ends; `client` is the client's side, if known already.
    pub(crate) fn new(ends: Ends, client: Option<Side>) -> Self {
        Self::of(ends, State::new(ends, client))
    }

    fn of(ends: Ends, state: State) -> Self {
        Self {
            ends,
            directions: Default::default(),
            state,
            early: EarlySegments::default(),
            captured_sides: CapturedSides::default(),
            acknowledgement: Acknowledgement::default(),
            counted_bytes: ENTRY_BYTES,
            is_known_to_wait: false,
            last: Nanos::ZERO,
            payload_bytes: 0,
        }
    }

    /// Resumes an idle connection, in the buffers of the one that became idle last.
    pub(crate) fn resumed(ends: Ends, idle: IdleConnection, cx: &mut Context) -> Box<Self> {
        let (first, second) = idle.next;
        let spare = cx.spare_connection.take();
        let mut connection = spare.unwrap_or_else(|| Box::new(Self::new(ends, Some(idle.client))));
        let state = std::mem::replace(&mut connection.state, State::Done);
        *connection = Self {
            directions: (Reassembly::starting_at(first), Reassembly::starting_at(second)),
            captured_sides: CapturedSides::Both,
            acknowledgement: Acknowledgement::known(),
            ..Self::of(ends, state.resumed(ends, idle))
        };
        connection
    }

    /// Where its streams will resume, if nothing is in progress on it.
    fn idle(&self) -> Option<IdleConnection> {
        let (first, second) = (&self.directions.0, &self.directions.1);
        let client = self.state.idle_client((first.is_at_start(), second.is_at_start()))?;
        let next = (first.next_seq_if_idle()?, second.next_seq_if_idle()?);
        let is_idle = self.is_acknowledged() && self.early.is_empty();
        is_idle.then_some(IdleConnection { client, next })
    }

    /// Sets it aside as idle if nothing is in progress on it; returns whether it did. The next one to resume may reuse
    /// its buffers.
    pub(crate) fn suspend(&self, cx: &mut Context) -> bool {
        let Some(idle) = self.idle() else { return false };
        let is_other_forgotten = cx.idle.insert(&self.ends, idle);
        cx.counters.evicted_connections += u64::from(is_other_forgotten);
        true
    }

    /// Whether one side has acknowledged what the other sent.
    pub(crate) fn is_acknowledged(&self) -> bool {
        self.acknowledgement.is_seen()
    }

    /// Whether both sides have acknowledged everything, so that neither retransmits.
    pub(crate) fn has_acknowledged_all(&self) -> bool {
        self.directions.0.is_acknowledged() && self.directions.1.is_acknowledged()
    }

    /// Whether nothing more will be decoded on it.
    pub(crate) fn is_over_already(&self) -> bool {
        self.state.is_done()
    }

    /// Whether evicting it loses nothing: it is closed, or neither Kafka nor TLS, whose traffic is counted.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, State::Done)
    }

    /// Its memory in bytes, when last counted.
    pub(crate) fn counted_bytes(&self) -> usize {
        self.counted_bytes
    }

    /// Counts its memory, except for what [`Pool`] counts.
    pub(crate) fn recount(&mut self) {
        let bytes = self.early.list_bytes() + self.state.kept_bytes();
        self.counted_bytes = ENTRY_BYTES + bytes;
    }

    /// Whether its buffers are small enough for another connection.
    pub(crate) fn is_spare(&self) -> bool {
        self.counted_bytes <= MAX_SPARE_BYTES
    }

    /// Frees the buffers of frames that have been read.
    pub(crate) fn release_buffers(&mut self) {
        self.state.release_buffers();
    }

    /// Whether a segment opens another connection between the same ends.
    pub(crate) fn is_reused_by(&self, side: Side, segment: &Segment<'_>) -> bool {
        if !segment.flags.has(Flags::SYN) {
            return false;
        }
        let (mine, theirs) = side.split((&self.directions.0, &self.directions.1));
        let is_repeated = mine.starts_at(segment.seq.wrapping_add(1));
        let is_answer = segment.flags.has(Flags::ACK) && !mine.is_synchronized && theirs.is_from_start;
        !is_repeated && !is_answer && (mine.is_synchronized || theirs.is_synchronized)
    }

    /// A segment sent by the end on `side`.
    pub(crate) fn segment(&mut self, side: Side, segment: &Segment<'_>, at: Nanos, cx: &mut Context) {
        self.payload_bytes += segment.payload.len() as u64 + u64::from(segment.missing);
        self.follow(side, segment, at, cx);
        if let Some(listener) = self.state.tls_listener().filter(|_| self.payload_bytes > 0) {
            let bytes = std::mem::take(&mut self.payload_bytes);
            cx.tls.add(listener, TlsCount { connections: 0, bytes });
        }
    }

    fn follow(&mut self, side: Side, segment: &Segment<'_>, at: Nanos, cx: &mut Context) {
        self.last = at;
        if self.is_stray(side, segment) {
            cx.counters.stray_segments += 1;
            return;
        }
        self.captured_sides.add(side, segment);
        self.acknowledgement.add(side, segment);
        self.set_pool_acknowledged(cx);
        self.early.count_packet();
        if self.state.is_done() {
            self.synchronize(side, segment);
            return;
        }
        if !(self.is_early(side, segment) && self.early.push(side, segment, at, &mut cx.pool)) {
            self.take_in(side, segment, at, cx);
        }
        self.take_in_early(at, cx);
        self.give_up_late(at, cx);
    }

    /// Whether a segment belongs to an earlier connection between the same ends: neither of its numbers fits this one.
    fn is_stray(&self, side: Side, segment: &Segment<'_>) -> bool {
        let (mine, theirs) = side.split((&self.directions.0, &self.directions.1));
        let is_syn = segment.flags.has(Flags::SYN);
        let acknowledges = segment.flags.has(Flags::ACK);
        !is_syn && acknowledges && !mine.is_plausible(segment.seq) && !theirs.is_plausible(segment.ack)
    }

    /// Whether a segment implies uncaptured bytes that may be in the next packets. These are bytes that it
    /// acknowledges, that its sender sent before it, or that a reset answers.
    fn is_early(&self, side: Side, segment: &Segment<'_>) -> bool {
        let (mine, theirs) = side.split((&self.directions.0, &self.directions.1));
        if segment.flags.has(Flags::SYN) {
            return false;
        }
        // A reset often answers data, but nothing in it says which.
        let resets = segment.flags.has(Flags::RST);
        let sends = segment.has_payload() || segment.flags.has(Flags::FIN);
        let is_out_of_nowhere = sends && !mine.is_synchronized;
        let acknowledges_news = segment.flags.has(Flags::ACK)
            && (theirs.is_news(segment.ack) || self.acknowledges_waiting(side, segment));
        resets || is_out_of_nowhere || acknowledges_news
    }

    /// Whether a segment acknowledges waiting bytes. They wait because the start of their stream is unknown.
    fn acknowledges_waiting(&self, side: Side, segment: &Segment<'_>) -> bool {
        let (_, theirs) = side.split((&self.directions.0, &self.directions.1));
        let is_after = |first: u32| segment.ack.wrapping_sub(first) as i32 > 0;
        !theirs.is_synchronized && self.early.first_seq(side.other()).is_some_and(is_after)
    }

    /// Processes those segments that need not wait any longer.
    fn take_in_early(&mut self, now: Nanos, cx: &mut Context) {
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
            let Some(next) = next.and_then(|place| self.early.take(place, &mut cx.pool)) else { continue };
            self.take_in(next.side, &next.segment(), next.at, cx);
        }
    }

    /// Joins a direction in its middle if its start has not appeared.
    fn join(&mut self, side: Side) -> bool {
        let (mine, _) = side.split((&mut self.directions.0, &mut self.directions.1));
        let first = self.early.first_seq(side).filter(|_| !mine.is_synchronized);
        if let Some(seq) = first {
            mine.join(seq);
        }
        first.is_some()
    }

    /// Whether segments have started to wait since the last [`Self::give_up_waiting`].
    pub(crate) fn take_started_waiting(&mut self) -> bool {
        let begins = !self.is_known_to_wait && !self.early.is_empty();
        self.is_known_to_wait |= begins;
        begins
    }

    /// Processes segments that have waited long enough. For a connection that may have gone silent.
    pub(crate) fn give_up_waiting(&mut self, now: Nanos, cx: &mut Context) {
        self.is_known_to_wait = false;
        self.take_in_early(now, cx);
    }

    fn take_in(&mut self, side: Side, segment: &Segment<'_>, at: Nanos, cx: &mut Context) {
        self.take_in_order(side, segment, at, cx);
        if self.is_over(side, segment) || self.state.is_done() {
            self.end(NoResponse::ConnectionEnded, cx);
        }
    }

    /// Handles the acknowledgement first: it says what the other side had received when this was sent.
    fn take_in_order(&mut self, side: Side, segment: &Segment<'_>, at: Nanos, cx: &mut Context) {
        self.synchronize(side, segment);
        if !segment.flags.has(Flags::RST) {
            self.acknowledge(side, segment, at, cx);
            self.deliver(side, segment, at, cx);
        }
    }

    /// Handles what a segment says about the bytes its sender has received.
    fn acknowledge(&mut self, side: Side, segment: &Segment<'_>, at: Nanos, cx: &mut Context) {
        if !segment.flags.has(Flags::ACK) {
            return;
        }
        self.with_stream(side.other(), cx, |theirs, sink| {
            theirs.acknowledge(segment.ack, at, sink);
            // The broker answers a request that was captured only in part: the rest of it will not come any more.
            if !segment.payload.is_empty() && sink.state.sends_unprompted(side) {
                theirs.give_up_unseen(at, sink);
            }
        });
    }

    /// Handles a segment's payload.
    fn deliver(&mut self, side: Side, segment: &Segment<'_>, at: Nanos, cx: &mut Context) {
        let fin = segment.flags.has(Flags::FIN);
        if !segment.has_payload() && !fin {
            return;
        }
        // A SYN takes up one sequence number, before the payload that TCP Fast Open sends with it.
        let seq = segment.seq.wrapping_add(u32::from(segment.flags.has(Flags::SYN)));
        self.with_stream(side, cx, |mine, sink| {
            mine.segment((seq, fin), (segment.payload, segment.missing), at, sink);
        });
    }

    /// Runs `work` on the stream that `side` sends, together with its decoder.
    fn with_stream(
        &mut self,
        side: Side,
        cx: &mut Context,
        work: impl FnOnce(&mut Reassembly, &mut StreamSink<'_>),
    ) {
        let Self { ends, directions, state, .. } = self;
        let (stream, _) = side.split((&mut directions.0, &mut directions.1));
        let is_from_start = stream.is_from_start;
        work(stream, &mut StreamSink { side, is_from_start, ends: *ends, state, cx });
    }

    fn is_over(&self, side: Side, segment: &Segment<'_>) -> bool {
        let (mine, theirs) = side.split((&self.directions.0, &self.directions.1));
        let is_reset = segment.flags.has(Flags::RST) && mine.is_plausible(segment.seq);
        is_reset || (mine.is_finished() && theirs.is_finished())
    }

    /// Learns where the directions start.
    /// A SYN shows its sender's start and, if it acknowledges one, the other's too; a client's first segment shows that
    /// the broker has not sent anything yet.
    fn synchronize(&mut self, side: Side, segment: &Segment<'_>) {
        let (mine, theirs) = side.split((&mut self.directions.0, &mut self.directions.1));
        let is_syn = segment.flags.has(Flags::SYN);
        if is_syn && !mine.is_synchronized {
            *mine = Reassembly::starting_at(segment.seq.wrapping_add(1));
        }
        let begins = is_syn || mine.starts_at(segment.seq);
        if begins && segment.flags.has(Flags::ACK) && !theirs.is_synchronized && mine.next_offset() == 0 {
            *theirs = Reassembly::starting_at(segment.ack);
        }
    }

    /// Emits the rows of requests that have waited too long. For a connection that went silent.
    pub(crate) fn give_up_late(&mut self, now: Nanos, cx: &mut Context) {
        self.set_pool_acknowledged(cx);
        self.state.give_up_late(now, cx);
    }

    fn set_pool_acknowledged(&self, cx: &mut Context) {
        cx.pool.is_acknowledged = self.acknowledgement.is_seen();
    }

    /// Ends the connection, because it is over or is no longer followed.
    /// Delivers held bytes, then emits a row for every request without a response.
    pub(crate) fn end(&mut self, why: NoResponse, cx: &mut Context) {
        self.set_pool_acknowledged(cx);
        self.join(Side::First);
        self.join(Side::Second);
        while let Some(place) = self.next_at_the_end() {
            let Some(next) = self.early.take(place, &mut cx.pool) else { break };
            self.take_in_order(next.side, &next.segment(), next.at, cx);
        }
        let at = self.last;
        for side in [Side::First, Side::Second] {
            self.with_stream(side, cx, |stream, sink| {
                if sink.state.is_done() {
                    stream.discard(&mut sink.cx.pool);
                } else {
                    stream.finish(at, sink);
                }
            });
        }
        self.state.end(why, self.captured_sides.is_one(), cx);
    }

    /// The waiting segment to process next when no more packets will come.
    fn next_at_the_end(&self) -> Option<usize> {
        let place = self.early.position(|side, segment| !self.is_early(side, segment));
        place.or_else(|| self.early.first().map(|_| 0))
    }
}

/// Feeds one direction to its decoder.
struct StreamSink<'c> {
    side: Side,
    is_from_start: bool,
    ends: Ends,
    state: &'c mut State,
    cx: &'c mut Context,
}

impl Sink for StreamSink<'_> {
    fn pool(&mut self) -> &mut Pool {
        &mut self.cx.pool
    }

    fn take(&mut self, chunk: Chunk<'_>) {
        self.state.on_data(self.side, chunk, self.is_from_start, self.ends, self.cx);
    }
}
