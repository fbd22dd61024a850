//! What happens to the simulated broker as a whole, and when: a commit of the journal, which holds up one append, and a
//! collection, which stops everybody. Does not know who is served.

use super::{MILLI, SECOND, Stretch};
use crate::random::Random;

/// What happens to the broker as a whole.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Incident {
    /// A commit of the journal, with its number.
    Commit(u32, Stretch),
    /// The collector stopped everybody, for the so-many-th time.
    Collection(u32, Stretch),
}

/// How often that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Incidents {
    /// Never.
    None,
    /// One request in a thousand is slow.
    Seldom,
    /// A minute has several.
    Often,
}

impl Incidents {
    pub(in super::super) fn as_str(self) -> &'static str {
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

/// The commit and the collection that are under way, or come next.
pub(super) struct Trouble {
    incidents: Incidents,
    commit: Stretch,
    commits: u32,
    /// Whether the commit has found the append that it holds up.
    holds: bool,
    collection: Stretch,
    collections: u32,
}

impl Trouble {
    pub(super) fn new(incidents: Incidents, now: i64, random: &mut Random) -> Self {
        let none = Stretch { start: now, end: now };
        let mut trouble =
            Self { incidents, commit: none, commits: 0, holds: true, collection: none, collections: 0 };
        trouble.next_commit(now, random);
        trouble.next_collection(now, random);
        trouble
    }

    /// A commit or a collection that is over; the next of its kind is some way off.
    pub(super) fn over(&mut self, now: i64, random: &mut Random) -> Option<Incident> {
        if now > self.commit.end {
            let over = Incident::Commit(self.commits, self.commit);
            self.next_commit(now, random);
            return Some(over);
        }
        if now > self.collection.end {
            let over = Incident::Collection(self.collections, self.collection);
            self.next_collection(now, random);
            return Some(over);
        }
        None
    }

    /// Whether an append that begins now is held up: by which commit, and until when.
    pub(super) fn hold_up(&mut self, now: i64) -> Option<(u32, i64)> {
        let Stretch { start, end } = self.commit;
        let is_held = !self.holds && now > start && now < end - 10 * MILLI;
        self.holds |= is_held;
        is_held.then_some((self.commits, end - MILLI))
    }

    /// That instant, or the end of the collection around it.
    pub(super) fn awake(&self, at: i64) -> i64 {
        let Stretch { start, end } = self.collection;
        if (start..end).contains(&at) { end } else { at }
    }

    fn next_commit(&mut self, now: i64, random: &mut Random) {
        let start = self.apart(now, random);
        self.commit = Stretch { start, end: start + 120 * MILLI + below(random, 300 * MILLI) };
        self.commits += 1;
        self.holds = false;
    }

    fn next_collection(&mut self, now: i64, random: &mut Random) {
        let start = self.apart(now, random);
        self.collection = Stretch { start, end: start + 20 * MILLI + below(random, 180 * MILLI) };
        self.collections += 1;
    }

    /// When the next of a kind begins.
    fn apart(&self, now: i64, random: &mut Random) -> i64 {
        let (least, most) = self.incidents.apart();
        now + least + below(random, most - least)
    }
}

fn below(random: &mut Random, limit: i64) -> i64 {
    random.below(limit.unsigned_abs()) as i64
}
