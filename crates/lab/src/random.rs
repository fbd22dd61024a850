//! Seeded chance: the same numbers from the same seed on every machine. Not for secrets.

use std::fs;

/// `SplitMix64` (Steele, Lea, Flood 2014): small, seedable and good enough to scatter what is planted.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The numbers that follow from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number of `least..=most`; `least` where that is empty.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        let span = most.saturating_sub(least).saturating_add(1);
        least.saturating_add(self.number().checked_rem(span).unwrap_or(0))
    }

    /// Fills `bytes`.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let drawn = self.number().to_le_bytes();
            chunk.iter_mut().zip(drawn).for_each(|(byte, drawn)| *byte = drawn);
        }
    }
}

/// A seed that nobody chose: from the kernel's random UUID; the clock where there is none.
#[must_use]
pub fn draw_seed() -> u64 {
    let uuid = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let drawn = uuid.split('-').next().and_then(|digits| u64::from_str_radix(digits, 16).ok());
    drawn.unwrap_or_else(|| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(1, |time| time.as_secs())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stay_within_bounds_and_follow_from_the_seed() {
        let draw = |seed| {
            let mut random = Random::new(seed);
            (0..500).map(|_| random.between(3, 9)).collect::<Vec<_>>()
        };
        assert!((3..=9).all(|number| draw(7).contains(&number)));
        assert!(draw(7).iter().all(|number| (3..=9).contains(number)));
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_eq!(Random::new(1).between(9, 3), 9);
        Random::new(1).between(0, u64::MAX);
    }

    #[test]
    fn bytes_are_filled_to_the_last() {
        let mut bytes = [0; 4096 + 3];
        Random::new(1).fill(&mut bytes);
        assert!(bytes.iter().rev().take(3).any(|byte| *byte != 0));
    }
}
