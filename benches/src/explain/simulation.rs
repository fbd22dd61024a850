//! A broker under a steady load of produce requests, simulated: who serves which request when. Every so often a
//! journal's commit holds up one append, and by it whoever waits for that partition's log, for a handler, or for an
//! answer on the same connection; now and then the collector stops everybody. Writes nothing.
//!
//! The rules are Kafka's: one request of a connection at a time, one append of a partition at a time, as many requests
//! as there are handlers.

use crate::random::Random;

/// Requests a second.
pub(crate) const RATE: u64 = 5_000;
pub(super) const CONNECTIONS: usize = 64;
pub(super) const PARTITIONS: usize = 48;
pub(super) const HANDLERS: usize = 8;
pub(super) const NETWORK_THREADS: usize = 3;
/// So many requests have two partitions: one in this number.
const TWO_PARTITIONS: u64 = 16;

pub(super) const MICRO: i64 = 1_000;
pub(super) const MILLI: i64 = 1_000 * MICRO;
pub(super) const SECOND: i64 = 1_000 * MILLI;

/// A stretch of time, nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stretch {
    pub(super) start: i64,
    pub(super) end: i64,
}

/// The append of one partition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Append {
    pub(super) partition: usize,
    pub(super) time: Stretch,
    /// The number of the commit that it waited for.
    pub(super) held_by: Option<u32>,
}

/// One request as it was served.
#[derive(Clone, Debug)]
pub(super) struct Served {
    pub(super) number: u64,
    pub(super) connection: usize,
    pub(super) network_thread: usize,
    pub(super) handler: usize,
    pub(super) arrival: Stretch,
    pub(super) head_of_line: i64,
    pub(super) read: Stretch,
    /// From when on the handler had nothing to do, and when it took this.
    pub(super) idle: Stretch,
    pub(super) appends: Vec<Append>,
    pub(super) write: Stretch,
    pub(super) end: i64,
}

/// What happens to the broker as a whole.
#[derive(Clone, Copy, Debug)]
pub(super) enum Incident {
    /// A commit of the journal, with its number.
    Commit(u32, Stretch),
    /// The collector stopped everybody, for the so-many-th time.
    Collection(u32, Stretch),
}

/// How often that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Incidents {
    /// Never.
    None,
    /// One request in a thousand is slow.
    Seldom,
    /// A minute has several.
    Often,
}

impl Incidents {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::None => "nothing slow",
            Self::Seldom => "one in a thousand slow",
            Self::Often => "much slow",
        }
    }

    /// From one to the next of a kind, at least and at most.
    fn apart(self) -> (i64, i64) {
        match self {
            // Longer than any recording.
            Self::None => (1_000_000 * SECOND, 1_000_001 * SECOND),
            Self::Seldom => (100 * SECOND, 104 * SECOND),
            Self::Often => (10 * SECOND, 14 * SECOND),
        }
    }
}

pub(super) struct Simulation {
    incidents: Incidents,
    random: Random,
    now: i64,
    served: u64,
    connections_free: [i64; CONNECTIONS],
    partitions_free: [i64; PARTITIONS],
    handlers_free: [i64; HANDLERS],
    commit: Stretch,
    commits: u32,
    /// Whether the commit has found the append that it holds up.
    holds: bool,
    collection: Stretch,
    collections: u32,
}

impl Simulation {
    pub(super) fn new(seed: u64, now: i64, incidents: Incidents) -> Self {
        let mut simulation = Self {
            incidents,
            random: Random::new(seed),
            now,
            served: 0,
            connections_free: [now; CONNECTIONS],
            partitions_free: [now; PARTITIONS],
            handlers_free: [now; HANDLERS],
            commit: Stretch { start: now, end: now },
            commits: 0,
            holds: true,
            collection: Stretch { start: now, end: now },
            collections: 0,
        };
        simulation.next_commit();
        simulation.next_collection();
        simulation
    }

    /// Until when nothing more will begin.
    pub(super) fn now(&self) -> i64 {
        self.now
    }

    /// The next request, and what happened to the broker since the one before it.
    pub(super) fn next(&mut self) -> (Served, Option<Incident>) {
        self.now += self.below(2 * SECOND / RATE as i64);
        let incident = self.incident();
        let connection = self.below(CONNECTIONS as i64) as usize;
        let arrival = Stretch { start: self.now, end: self.now + 10 * MICRO + self.below(20 * MICRO) };
        let muted = self.connections_free.get(connection).copied().unwrap_or(0);
        let from = arrival.end.max(muted);
        let noticed = from + 10 * MICRO + self.below(20 * MICRO);
        let read_start = self.awake(noticed);
        let read = Stretch { start: read_start, end: read_start + 4 * MICRO };
        let (handler, idle) = self.handler(read.end + 10 * MICRO);
        let appends = self.appends(idle.end);
        let done = appends.last().map_or(idle.end, |append| append.time.end);
        let answered = done + 40 * MICRO + self.below(40 * MICRO);
        let write_start = self.awake(answered);
        let write = Stretch { start: write_start, end: write_start + 8 * MICRO };
        let end = write.end + 2 * MICRO;
        set(&mut self.handlers_free, handler, done + 15 * MICRO);
        set(&mut self.connections_free, connection, end);
        self.served += 1;
        let served = Served {
            number: self.served,
            connection,
            network_thread: connection % NETWORK_THREADS,
            handler,
            arrival,
            head_of_line: from - arrival.end,
            read,
            idle,
            appends,
            write,
            end,
        };
        (served, incident)
    }

    /// A commit or a collection that is over; the next of its kind is some way off.
    fn incident(&mut self) -> Option<Incident> {
        if self.now > self.commit.end {
            let over = Incident::Commit(self.commits, self.commit);
            self.next_commit();
            return Some(over);
        }
        if self.now > self.collection.end {
            let over = Incident::Collection(self.collections, self.collection);
            self.next_collection();
            return Some(over);
        }
        None
    }

    /// When the next of a kind begins.
    fn apart(&mut self) -> i64 {
        let (least, most) = self.incidents.apart();
        self.now + least + self.below(most - least)
    }

    fn next_commit(&mut self) {
        let start = self.apart();
        self.commit = Stretch { start, end: start + 120 * MILLI + self.below(300 * MILLI) };
        self.commits += 1;
        self.holds = false;
    }

    fn next_collection(&mut self) {
        let start = self.apart();
        self.collection = Stretch { start, end: start + 20 * MILLI + self.below(180 * MILLI) };
        self.collections += 1;
    }

    /// Takes the handler that is free first.
    fn handler(&self, ready: i64) -> (usize, Stretch) {
        let first = self.handlers_free.iter().enumerate().min_by_key(|(_, free)| **free);
        let (handler, free) = first.map_or((0, ready), |(handler, free)| (handler, *free));
        (handler, Stretch { start: free, end: self.awake(ready.max(free) + 5 * MICRO) })
    }

    fn appends(&mut self, taken: i64) -> Vec<Append> {
        let count = if self.below(TWO_PARTITIONS as i64) == 0 { 2 } else { 1 };
        let first = self.below(PARTITIONS as i64) as usize;
        let mut appends = Vec::with_capacity(count);
        let mut from = taken;
        for partition in (0..count).map(|more| (first + more) % PARTITIONS) {
            let append = self.append(partition, from);
            from = append.time.end;
            appends.push(append);
        }
        appends
    }

    fn append(&mut self, partition: usize, from: i64) -> Append {
        let free = self.partitions_free.get(partition).copied().unwrap_or(0);
        let ready = from + 15 * MICRO + self.below(20 * MICRO);
        let start = self.awake(ready.max(free));
        let mut end = start + 15 * MICRO + self.below(30 * MICRO);
        let is_held = !self.holds && start > self.commit.start && start < self.commit.end - 10 * MILLI;
        if is_held {
            self.holds = true;
            end = self.commit.end - MILLI;
        }
        // Whoever waited for the log is woken this much later.
        set(&mut self.partitions_free, partition, end + 20 * MICRO);
        Append { partition, time: Stretch { start, end }, held_by: is_held.then_some(self.commits) }
    }

    /// That instant, or the end of the collection around it.
    fn awake(&self, at: i64) -> i64 {
        let Stretch { start, end } = self.collection;
        if (start..end).contains(&at) { end } else { at }
    }

    fn below(&mut self, limit: i64) -> i64 {
        self.random.below(limit.unsigned_abs()) as i64
    }
}

fn set(slots: &mut [i64], at: usize, value: i64) {
    if let Some(slot) = slots.get_mut(at) {
        *slot = value;
    }
}
