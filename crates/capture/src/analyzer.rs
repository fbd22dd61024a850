//! Packets in, requests out: finds each segment's connection and keeps the counters. Does not decode.

use std::collections::VecDeque;
use std::sync::Arc;

use model::{Nanos, Request, TlsTotals, TopicId};

use crate::config::Config;
use crate::connection::Connection;
use crate::connections::Connections;
use crate::context::Context;
use crate::counters::Counters;
use crate::early::MAX_WAIT;
use crate::exchange::NoResponse;
use crate::link::{self, Flags, NoSegment, Segment, Side};
use crate::packet::Packet;
#[cfg(feature = "live")]
use crate::plaintext::{Piece, PlaintextConnections};
use crate::streams::Ends;

/// Interval between checks of silent connections, in packet time. A check looks for requests that have waited too long.
const ROUND: Nanos = Nanos::from_millis(60_000);

/// Turns packets into requests.
///
/// Pass it every packet in capture order, then call [`Self::finish`]. Each row is emitted as soon as it is complete: at
/// the end of the response, or of an acks=0 request.
pub struct Analyzer {
    ports: Vec<u16>,
    connections: Connections,
    cx: Context,
    next_round: Nanos,
    /// Connections with waiting segments, and the time to check each. The check is for connections that stay silent
    /// until then.
    waiting: VecDeque<(Nanos, Ends)>,
    #[cfg(feature = "live")]
    plaintext: PlaintextConnections,
}

impl Analyzer {
    /// An analysis before its first packet.
    pub fn new(config: Config) -> Self {
        let limits = config.limits;
        Self {
            ports: config.ports.clone(),
            connections: Connections::new(
                limits.connections,
                limits.connection_bytes,
                limits.unacknowledged_bytes,
            ),
            cx: Context::new(config),
            next_round: Nanos::MIN,
            waiting: VecDeque::new(),
            #[cfg(feature = "live")]
            plaintext: PlaintextConnections::new(limits.connections),
        }
    }

    /// Processes bytes of a TLS connection that the broker read or wrote. The broker's call began and ended at these
    /// times. Passes the requests they complete to `out`.
    #[cfg(feature = "live")]
    pub fn piece(
        &mut self,
        piece: &Piece<'_>,
        (start, end): (Nanos, Nanos),
        out: &mut impl FnMut(Box<Request>),
    ) {
        let is_broker = self.ports.is_empty() || self.ports.contains(&piece.local.port());
        let segments = self.plaintext.segments(piece, is_broker);
        for segment in segments.opening.iter().flatten().chain(&segments.at_start) {
            self.segment(segment, start);
        }
        if let Some(rest) = &segments.at_end {
            self.segment(rest, end);
        }
        self.cx.drain(out);
    }

    /// Processes one packet; passes the requests it completes to `out`.
    pub fn packet(&mut self, packet: &Packet<'_>, out: &mut impl FnMut(Box<Request>)) {
        let counters = &mut self.cx.counters;
        counters.packets += 1;
        counters.bytes += u64::from(packet.original_len);
        counters.truncated_packets += u64::from((packet.bytes.len() as u64) < u64::from(packet.original_len));
        match link::segment(packet) {
            // Both ends are the same: the direction is unknown (a socket connected to itself, or a forged packet).
            Ok(segment) if segment.src == segment.dst => counters.malformed_packets += 1,
            Ok(segment) => self.segment(&segment, Nanos(packet.time_ns)),
            Err(NoSegment::NotTcp) => counters.not_tcp += 1,
            Err(NoSegment::Fragment) => counters.fragments += 1,
            Err(NoSegment::Malformed) => counters.malformed_packets += 1,
        }
        self.cx.drain(out);
    }

    /// Ends the capture: every request still without a response gets its row.
    pub fn finish(&mut self, out: &mut impl FnMut(Box<Request>)) {
        self.connections.visit(|connection| {
            connection.end(NoResponse::CaptureEnded, &mut self.cx);
            self.cx.drain(out);
        });
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        let mut counters = self.cx.counters.clone();
        let met = self.cx.pool.counts;
        counters.gaps = met.gaps;
        counters.gap_bytes = met.gap_bytes;
        counters.retransmitted_bytes = met.repeated_bytes;
        counters.keep_alives = met.keep_alives;
        counters.out_of_order_segments = met.out_of_order;
        counters.reassembly_overflows = met.overflows;
        counters
    }

    /// Whether a connection turned out to be TLS since the last [`Self::take_tls`].
    pub fn has_new_tls(&self) -> bool {
        self.cx.tls.iter().any(|(_, count)| count.connections > 0)
    }

    /// TLS connections and their bytes since the last call.
    pub fn take_tls(&mut self) -> TlsTotals {
        std::mem::take(&mut self.cx.tls)
    }

    /// New or changed replica counts from Metadata responses since the last call: topic, partition, replicas.
    pub fn take_replicas(&mut self) -> Vec<(Arc<str>, i32, u32)> {
        self.cx.replicas.take()
    }

    /// Adds names of topic ids, such as those from the broker's own log directories.
    pub fn learn_topics(&mut self, topics: impl IntoIterator<Item = (TopicId, Arc<str>)>) {
        for (id, name) in topics {
            self.cx.topics.add(id, &name);
        }
    }

    /// Sets the ports of a broker that restarted with other ones.
    pub fn set_ports(&mut self, ports: Vec<u16>) {
        self.ports = ports;
    }

    /// Counts packets that the kernel dropped before they could be read.
    pub fn count_kernel_drops(&mut self, packets: u64) {
        self.cx.counters.kernel_drops += packets;
    }

    fn segment(&mut self, segment: &Segment<'_>, at: Nanos) {
        if !self.is_on_port(segment) {
            self.cx.counters.other_ports += 1;
            return;
        }
        let side = if segment.src <= segment.dst { Side::First } else { Side::Second };
        let ends = side.split((segment.src, segment.dst));
        self.open(ends, side, segment);
        if let Some(connection) = self.connections.touch(&ends) {
            connection.segment(side, segment, at, &mut self.cx);
            if connection.take_started_waiting() {
                self.waiting.push_back((at + MAX_WAIT, ends));
            }
            self.connections.settle(&ends, &mut self.cx);
        }
        self.check_waiting(at);
        // The second condition handles a clock that was ahead once.
        if at >= self.next_round || self.next_round - at > ROUND {
            self.next_round = at + ROUND;
            self.connections.visit(|connection| connection.give_up_late(at, &mut self.cx));
        }
    }

    /// Checks the connections whose segments have waited long enough.
    fn check_waiting(&mut self, now: Nanos) {
        let limit = self.cx.limits.connections;
        for _ in 0..self.waiting.len() {
            let is_due = |&(due, _): &(Nanos, Ends)| due <= now || self.waiting.len() > limit;
            let Some((_, ends)) = self.waiting.front().copied().filter(is_due) else { return };
            self.waiting.pop_front();
            let Some(connection) = self.connections.peek(&ends) else { continue };
            connection.give_up_waiting(now, &mut self.cx);
            if connection.take_started_waiting() {
                self.waiting.push_back((now + MAX_WAIT, ends));
            }
            self.connections.settle(&ends, &mut self.cx);
        }
    }

    fn is_on_port(&self, segment: &Segment<'_>) -> bool {
        self.ports.is_empty()
            || self.ports.contains(&segment.dst.port())
            || self.ports.contains(&segment.src.port())
    }

    /// Ensures that the segment's connection is in the table. Skips segments that are not worth an entry, such as a
    /// bare acknowledgement: alone, it says nothing about the connection.
    fn open(&mut self, ends: Ends, side: Side, segment: &Segment<'_>) {
        let client = self.client(side, segment);
        let Self { connections, cx, .. } = self;
        if let Some(connection) = connections.touch(&ends) {
            if !connection.is_reused_by(side, segment) {
                return;
            }
            connection.end(NoResponse::ConnectionEnded, cx);
            connections.remove(&ends);
        }
        if segment.flags.has(Flags::RST) || !(segment.flags.has(Flags::SYN) || segment.has_payload()) {
            return;
        }
        let connection = if let Some(idle) = cx.idle.take(&ends, side, segment) {
            Connection::resumed(ends, idle, cx)
        } else {
            cx.counters.connections += 1;
            Box::new(Connection::new(ends, client))
        };
        connections.insert(ends, connection, cx);
    }

    /// Which side is the client, if the ports or the direction of the SYN show it.
    fn client(&self, side: Side, segment: &Segment<'_>) -> Option<Side> {
        let to_broker = self.ports.contains(&segment.dst.port());
        let from_broker = self.ports.contains(&segment.src.port());
        let is_syn = segment.flags.has(Flags::SYN);
        match (to_broker, from_broker) {
            (true, false) => Some(side),
            (false, true) => Some(side.other()),
            _ if is_syn && segment.flags.has(Flags::ACK) => Some(side.other()),
            _ if is_syn => Some(side),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
