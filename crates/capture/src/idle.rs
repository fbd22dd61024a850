//! Stream positions of connections that were evicted while idle.
//! Each takes 24 bytes, so a broker may have far more connections than fit in memory, as long as most of them are idle.

use ahash::RandomState;

use crate::link::{Flags, Segment, Side};
use crate::streams::Ends;

/// Entries per set: few to search, and enough that hardly any set is full before the others are.
const WAYS: usize = 16;

/// Where an idle connection's streams resume.
#[derive(Clone, Copy)]
pub(crate) struct IdleConnection {
    pub(crate) client: Side,
    /// Sequence numbers of the next bytes of both ends.
    pub(crate) next: (u32, u32),
}

/// Idle connections by a hash of their ends; each set keeps the most recent ones.
pub(crate) struct IdleConnections {
    places: Vec<Place>,
    /// Their total size in bytes, allocated with the first idle connection.
    bytes: usize,
    hasher: RandomState,
    inserted: u32,
}

#[derive(Clone, Copy, Default)]
struct Place {
    key: u64,
    /// How many had been inserted before it.
    number: u32,
    idle: Option<IdleConnection>,
}

impl IdleConnections {
    /// Holds this many bytes of idle connections.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { places: Vec::new(), bytes, hasher: RandomState::new(), inserted: 0 }
    }

    /// Adds a connection; returns whether another one was displaced.
    pub(crate) fn insert(&mut self, ends: &Ends, idle: IdleConnection) -> bool {
        if self.places.is_empty() {
            let sets = self.bytes / size_of::<[Place; WAYS]>();
            self.places = vec![Place::default(); sets.max(1) * WAYS];
        }
        let (key, number) = (self.hasher.hash_one(ends), self.inserted);
        self.inserted = number.wrapping_add(1);
        let rank = |place: &&mut Place| match place.idle {
            Some(_) if place.key == key => (2, 0),
            None => (1, 0),
            Some(_) => (0, number.wrapping_sub(place.number)),
        };
        let Some(place) = self.set(key).iter_mut().max_by_key(rank) else { return true };
        let is_displaced = place.idle.is_some() && place.key != key;
        *place = Place { key, number, idle: Some(idle) };
        is_displaced
    }

    /// Removes the connection that a segment continues. The segment must continue exactly where both streams stopped.
    pub(crate) fn take(&mut self, ends: &Ends, side: Side, segment: &Segment<'_>) -> Option<IdleConnection> {
        if self.places.is_empty() || segment.flags.has(Flags::SYN) || !segment.flags.has(Flags::ACK) {
            return None;
        }
        let key = self.hasher.hash_one(ends);
        let next = side.split((segment.seq, segment.ack));
        let mut places = self.set(key).iter_mut().filter(|place| place.key == key);
        places.find_map(|place| place.idle.take_if(|idle| idle.next == next))
    }

    fn set(&mut self, key: u64) -> &mut [Place] {
        let sets = (self.places.len() / WAYS) as u64;
        let start = key.checked_rem(sets).map_or(0, |set| set as usize * WAYS);
        self.places.get_mut(start..start + WAYS).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Ends, Flags, IdleConnection, IdleConnections, Place, Segment, Side, WAYS};

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
        assert_eq!(size_of::<Place>(), 24);
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
        assert_eq!(left.collect::<Vec<_>>(), (24..40).collect::<Vec<_>>());
    }
}
