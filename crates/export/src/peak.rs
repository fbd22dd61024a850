//! The greatest of the last minute: a scrape that comes once a minute or more often misses none. Knows no clock but the
//! times it is given.

use model::Nanos;

/// A minute, in parts: what is told is of the last 50 to 60 seconds.
const PARTS: i64 = 6;
const PART: Nanos = Nanos::from_millis(10_000);

/// The greatest of each part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Peak {
    /// Which stretch of ten seconds it is of, and its greatest.
    parts: [(i64, Nanos); PARTS as usize],
}

impl Peak {
    /// Something so long ended then.
    pub(crate) fn add(&mut self, length: Nanos, at: Nanos) {
        let part = part(at);
        let Some(slot) = self.parts.get_mut(part.rem_euclid(PARTS) as usize) else { return };
        if slot.0 < part {
            *slot = (part, Nanos::ZERO);
        }
        // What comes later than a minute has no slot any more.
        if slot.0 == part {
            slot.1 = slot.1.max(length);
        }
    }

    /// The greatest of the minute before.
    pub(crate) fn within_a_minute(&self, now: Nanos) -> Nanos {
        let now = part(now);
        let recent = self.parts.iter().filter(|(part, _)| now - part < PARTS);
        recent.map(|(_, length)| *length).max().unwrap_or_default()
    }
}

fn part(at: Nanos) -> i64 {
    at.0.div_euclid(PART.0)
}

#[cfg(test)]
mod tests {
    use model::Nanos;

    use super::Peak;

    fn s(n: i64) -> Nanos {
        Nanos::from_millis(n * 1_000)
    }

    #[test]
    fn the_greatest_is_told_for_a_minute_and_no_longer() {
        let mut peak = Peak::default();
        assert_eq!(peak.within_a_minute(s(1_000)), Nanos::ZERO);
        peak.add(s(2), s(1_000));
        peak.add(s(1), s(1_009));
        peak.add(s(1), s(1_030));
        assert_eq!(peak.within_a_minute(s(1_031)), s(2));
        assert_eq!(peak.within_a_minute(s(1_059)), s(2));
        assert_eq!(peak.within_a_minute(s(1_061)), s(1));
        assert_eq!(peak.within_a_minute(s(1_100)), Nanos::ZERO);
        // A slot that is used again forgets what was in it.
        peak.add(Nanos(7), s(1_121));
        assert_eq!(peak.within_a_minute(s(1_122)), Nanos(7));
        peak.add(s(9), s(1_000));
        assert_eq!(peak.within_a_minute(s(1_122)), Nanos(7), "too late to be of the last minute");
    }
}
