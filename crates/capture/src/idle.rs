//! Stream positions of connections that were evicted while idle.
//! Each takes 13 bytes, so a broker may have far more connections than fit in memory, as long as most of them are idle.

use ahash::RandomState;

use crate::link::{Flags, Segment, Side};
use crate::streams::Ends;

/// Entries per set: what fits two cache lines, and enough that hardly any set is full before the others are.
const WAYS: usize = 10;

/// Where an idle connection's streams resume.
#[derive(Clone, Copy)]
pub(crate) struct IdleConnection {
    pub(crate) client: Side,
    /// Sequence numbers of the next bytes of both ends.
    pub(crate) next: (u32, u32),
}

/// Idle connections by a hash of their ends; each set keeps the most recent ones.
pub(crate) struct IdleConnections {
    sets: Vec<Set>,
    /// Their total size in bytes, allocated with the first idle connection.
    bytes: usize,
    hasher: RandomState,
}

/// The idle connections of some hashes, the most recent first.
#[derive(Clone, Copy, Default)]
#[repr(align(128))]
struct Set {
    /// A part of the hash, whose lowest bit is the client's side; 0 is a free place.
    tags: [u32; WAYS],
    next: [(u32, u32); WAYS],
}

impl IdleConnections {
    /// Holds this many bytes of idle connections.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { sets: Vec::new(), bytes, hasher: RandomState::new() }
    }

    /// Adds a connection; returns whether another one was displaced.
    pub(crate) fn insert(&mut self, ends: &Ends, idle: IdleConnection) -> bool {
        if self.sets.is_empty() {
            self.sets = vec![Set::default(); (self.bytes / size_of::<Set>()).max(1)];
        }
        let hash = self.hasher.hash_one(ends);
        let tag = tag_of(hash, idle.client);
        self.set(hash).is_some_and(|set| set.insert(tag, idle.next))
    }

    /// Removes the connection that a segment continues. The segment must continue exactly where both streams stopped.
    pub(crate) fn take(&mut self, ends: &Ends, side: Side, segment: &Segment<'_>) -> Option<IdleConnection> {
        if self.sets.is_empty() || segment.flags.has(Flags::SYN) || !segment.flags.has(Flags::ACK) {
            return None;
        }
        let hash = self.hasher.hash_one(ends);
        let next = side.split((segment.seq, segment.ack));
        let client = self.set(hash)?.take(tag_of(hash, Side::First), next)?;
        Some(IdleConnection { client, next })
    }

    fn set(&mut self, hash: u64) -> Option<&mut Set> {
        let index = (u128::from(hash) * self.sets.len() as u128) >> 64;
        self.sets.get_mut(index as usize)
    }
}

/// The tag of a connection in its set, which the upper bits of the hash select. Never 0.
fn tag_of(hash: u64, client: Side) -> u32 {
    (hash as u32 | 2) & !1 | u32::from(client == Side::Second)
}

impl Set {
    /// Adds a connection in place of an earlier entry of the same one, a free place or the oldest. Returns whether it
    /// displaced another connection.
    fn insert(&mut self, tag: u32, next: (u32, u32)) -> bool {
        let is_own = |of: &u32| of | 1 == tag | 1;
        let place = self.tags.iter().position(is_own).or_else(|| self.tags.iter().position(|of| *of == 0));
        let end = place.map_or(WAYS, |place| place + 1);
        if let (Some(tags), Some(positions)) = (self.tags.get_mut(..end), self.next.get_mut(..end)) {
            tags.rotate_right(1);
            positions.rotate_right(1);
        }
        (self.tags[0], self.next[0]) = (tag, next);
        place.is_none()
    }

    /// Removes the connection whose streams stopped there; returns its client's side.
    fn take(&mut self, tag: u32, next: (u32, u32)) -> Option<Side> {
        let mut places = self.tags.iter_mut().zip(&self.next);
        let (found, _) = places.find(|(of, at)| **of | 1 == tag | 1 && **at == next)?;
        let client = if *found & 1 == 1 { Side::Second } else { Side::First };
        *found = 0;
        Some(client)
    }
}

#[cfg(test)]
mod tests {
    use super::{Ends, Flags, IdleConnection, IdleConnections, Segment, Set, Side, WAYS};

    fn ends(port: u16) -> Ends {
        ("10.0.0.1:9092".parse().unwrap(), ([10, 0, 0, 7], port).into())
    }

    fn idle(number: u32) -> IdleConnection {
        IdleConnection { client: Side::Second, next: (number, 1_000 + number) }
    }

    /// The next segment of a connection's client.
    fn segment(port: u16, seq: u32, ack: u32) -> Segment<'static> {
        let (dst, src) = ends(port);
        Segment { src, dst, seq, ack, flags: Flags::ACK, payload: b"asked", missing: 0 }
    }

    #[test]
    fn takes_an_idle_connection_only_at_its_exact_sequence_numbers() {
        assert_eq!(size_of::<Set>(), 128, "two cache lines");
        let mut connections = IdleConnections::new(1 << 16);
        let mut take = |seq, ack, flags| {
            let segment = Segment { flags, ..segment(5, seq, ack) };
            connections.insert(&ends(5), idle(1));
            connections.insert(&ends(5), idle(3));
            connections.take(&ends(5), Side::Second, &segment).is_some()
        };
        assert!(!take(1_004, 3, Flags::ACK) && !take(1_003, 2, Flags::ACK) && !take(3, 1_003, Flags::ACK));
        assert!(!take(1_001, 1, Flags::ACK), "what came later counts");
        assert!(!take(1_003, 3, Flags::SYN | Flags::ACK) && take(1_003, 3, Flags::ACK));
        assert!(connections.take(&ends(5), Side::Second, &segment(5, 1_003, 3)).is_none(), "it is taken");
    }

    #[test]
    fn evicts_the_longest_idle_connections() {
        let mut connections = IdleConnections::new(1);
        let displaced = (0..40).filter(|&port| connections.insert(&ends(port), idle(port.into()))).count();
        assert_eq!(displaced, 40 - WAYS);
        let left = (0..40).filter(|&port| {
            let next = idle(port.into()).next;
            connections.take(&ends(port), Side::Second, &segment(port, next.1, next.0)).is_some()
        });
        assert_eq!(left.collect::<Vec<_>>(), (40 - WAYS as u16..40).collect::<Vec<_>>());
    }
}
