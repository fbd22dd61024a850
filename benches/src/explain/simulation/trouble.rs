//! Incidents of the simulated broker: journal commits, each of which blocks one append, and garbage collections, which
//! stop all threads. Does not know which requests are served.

use super::{MILLI, SECOND, Stretch};
use fastrand::Rng;

/// An incident that affects the whole broker.
#[derive(Clone, Copy, Debug)]
pub(in super::super) enum Incident {
    /// A commit of the journal, with its number.
    Commit(u32, Stretch),
    /// A garbage collection, with its number.
    Collection(u32, Stretch),
}

/// Frequency of incidents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Incidents {
    /// Never.
    None,
    /// One or two requests in a thousand are slow, equally many in every million. So only the recording's size grows
    /// with its length.
    Seldom,
    /// Several per minute.
    Often,
}

impl Incidents {
    pub(in super::super) fn as_str(self) -> &'static str {
        match self {
            Self::None => "nothing slow",
            Self::Seldom => "one or two in a thousand slow",
            Self::Often => "much slow",
        }
    }

    /// The next incident of a kind after `now`. There were `before` earlier ones since `begun`. If incidents are
    /// seldom, nothing about it is random.
    fn next(self, kind: &Kind, before: u32, begun: i64, now: i64, rng: &mut Rng) -> Stretch {
        let (start, length) = match self {
            // Longer than any recording.
            Self::None => (now + 1_000_000 * SECOND, kind.least),
            Self::Seldom => (begun + kind.first + i64::from(before) * APART, kind.of_two(before)),
            Self::Often => {
                let start = now + 10 * SECOND + below(rng, 4 * SECOND);
                (start, kind.least + below(rng, kind.more))
            }
        };
        Stretch { start, end: start + length }
    }
}

/// Interval between incidents of a kind if they are seldom: half a million requests, so that each million has both
/// lengths.
const APART: i64 = 100 * SECOND;

/// A kind of incident.
struct Kind {
    /// Minimum length, and maximum extra length.
    least: i64,
    more: i64,
    /// Start of the first one if they are seldom.
    first: i64,
}

const COMMITS: Kind = Kind { least: 120 * MILLI, more: 300 * MILLI, first: 50 * SECOND };
const COLLECTIONS: Kind = Kind { least: 20 * MILLI, more: 180 * MILLI, first: 25 * SECOND };

impl Kind {
    /// Alternates a short and a long one: with the median lengths of the shorter and of the longer half.
    fn of_two(&self, before: u32) -> i64 {
        let quarters = if before % 2 == 0 { 1 } else { 3 };
        self.least + self.more * quarters / 4
    }
}

/// The current or next commit and collection.
pub(super) struct Trouble {
    incidents: Incidents,
    begun: i64,
    commit: Stretch,
    commits: u32,
    /// Whether the commit has blocked its append.
    holds: bool,
    collection: Stretch,
    collections: u32,
}

impl Trouble {
    pub(super) fn new(incidents: Incidents, now: i64, rng: &mut Rng) -> Self {
        let none = Stretch { start: now, end: now };
        let mut trouble = Self {
            incidents,
            begun: now,
            commit: none,
            commits: 0,
            holds: true,
            collection: none,
            collections: 0,
        };
        trouble.next_commit(now, rng);
        trouble.next_collection(now, rng);
        trouble
    }

    /// A finished commit or collection; schedules the next one of its kind.
    pub(super) fn over(&mut self, now: i64, rng: &mut Rng) -> Option<Incident> {
        if now > self.commit.end {
            let over = Incident::Commit(self.commits, self.commit);
            self.next_commit(now, rng);
            return Some(over);
        }
        if now > self.collection.end {
            let over = Incident::Collection(self.collections, self.collection);
            self.next_collection(now, rng);
            return Some(over);
        }
        None
    }

    /// Whether an append that starts now is blocked: by which commit, and until when.
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

    fn next_commit(&mut self, now: i64, rng: &mut Rng) {
        self.commit = self.incidents.next(&COMMITS, self.commits, self.begun, now, rng);
        self.commits += 1;
        self.holds = false;
    }

    fn next_collection(&mut self, now: i64, rng: &mut Rng) {
        self.collection = self.incidents.next(&COLLECTIONS, self.collections, self.begun, now, rng);
        self.collections += 1;
    }
}

fn below(rng: &mut Rng, limit: i64) -> i64 {
    rng.u64(..limit.unsigned_abs()) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Duration of a million requests.
    const MILLION_SECONDS: i64 = 1_000_000 / super::super::RATE as i64;

    /// The incidents within `seconds`, with their starts and lengths.
    fn of(incidents: Incidents, seconds: i64) -> Vec<(bool, i64, i64)> {
        let mut rng = Rng::with_seed(6);
        let mut trouble = Trouble::new(incidents, 0, &mut rng);
        let at = (0..seconds * SECOND).step_by((5 * MILLI) as usize);
        let all = at.filter_map(|now| trouble.over(now, &mut rng));
        all.map(|incident| match incident {
            Incident::Commit(_, Stretch { start, end }) => (true, start, end - start),
            Incident::Collection(_, Stretch { start, end }) => (false, start, end - start),
        })
        .collect()
    }

    #[test]
    fn seldom_incidents_repeat_every_million_requests() {
        let of_two = of(Incidents::Seldom, 2 * MILLION_SECONDS);
        let (first, second) = of_two.split_at(of_two.len() / 2);
        assert_eq!(first.len(), 4);
        assert_eq!(first, of(Incidents::Seldom, MILLION_SECONDS));
        let later =
            |&(kind, start, length): &(bool, i64, i64)| (kind, start + MILLION_SECONDS * SECOND, length);
        assert_eq!(first.iter().map(later).collect::<Vec<_>>(), second);
    }

    #[test]
    fn often_yields_several_incidents_a_minute_and_none_yields_none() {
        assert!((8..=12).contains(&of(Incidents::Often, 60).len()));
        assert_eq!(of(Incidents::None, 600), []);
    }
}
