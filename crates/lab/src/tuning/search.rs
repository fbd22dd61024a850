//! A search over the settings that advice may change, to hold against where advice leads: some configurations drawn by chance
//! first, then one setting after the other from the best so far. Knows nothing of advice.

use fastrand::Rng;

use super::setting::{Configuration, Setting};
use super::tuning_loop::Bench;
use crate::error::Error;

/// Of the configurations that a search tries, one in so many is drawn by chance: one setting at a time does not find what only
/// two together make better.
const ONE_DRAWN_IN: u32 = 3;

/// What a search has found so far.
struct Search<'b, B: Bench> {
    bench: &'b mut B,
    seen: Vec<Configuration>,
    best: (Configuration, f64),
    left: u32,
}

/// Tries so many configurations beside `known`, which have been measured; returns the best of all.
pub(super) fn search(
    bench: &mut impl Bench,
    known: Vec<Configuration>,
    first: Configuration,
    (most, seed): (u32, u64),
) -> Result<Configuration, Error> {
    let start = known.first().cloned().unwrap_or_else(Configuration::out_of_the_box);
    let mut search = Search { bench, seen: Vec::new(), best: (start, 0.0), left: most };
    for tuned in known {
        search.count(tuned);
    }
    search.see(first)?;
    let mut rng = Rng::with_seed(seed);
    for _ in 0..most / ONE_DRAWN_IN {
        search.see(drawn(&mut rng))?;
    }
    while search.one_by_one()? {}
    Ok(search.best.0)
}

fn drawn(rng: &mut Rng) -> Configuration {
    Setting::ALL.into_iter().fold(Configuration::out_of_the_box(), |tuned, setting| {
        let value = rng.choice(setting.about().searched);
        tuned.with(setting, value.copied().unwrap_or(setting.about().default))
    })
}

impl<B: Bench> Search<'_, B> {
    /// Each setting's other values, from the best so far; whether it found a better one.
    fn one_by_one(&mut self) -> Result<bool, Error> {
        let before = self.best.1;
        for setting in Setting::ALL {
            for &value in setting.about().searched {
                self.see(self.best.0.clone().with(setting, value))?;
            }
        }
        Ok(self.best.1 > before && self.left > 0)
    }

    /// Measures one that has not been seen, while any may be.
    fn see(&mut self, tuned: Configuration) -> Result<(), Error> {
        if self.left == 0 || self.seen.contains(&tuned) {
            return Ok(());
        }
        self.left -= 1;
        self.bench.measure(&tuned, &format!("search, {}", tuned.described()), 1)?;
        self.count(tuned);
        Ok(())
    }

    fn count(&mut self, tuned: Configuration) {
        let rate = middle(self.bench.records_per_s(&tuned));
        if rate > self.best.1 {
            self.best = (tuned.clone(), rate);
        }
        self.seen.push(tuned);
    }
}

/// The median; 0 of nothing.
pub(super) fn middle(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    crate::experiment::median(&rates)
}

#[cfg(test)]
mod tests {
    use super::super::tuning_loop::tests::{MadeUp, advised, rate};
    use super::*;

    #[test]
    fn the_best_is_found_and_no_more_is_tried_than_allowed() {
        let mut bench = MadeUp::new(rate, advised);
        let start = Configuration::out_of_the_box();
        bench.measure(&start, "", 3).unwrap();
        let first = start.clone().with(Setting::Partitions, 16);
        let best = search(&mut bench, vec![start.clone()], first.clone(), (40, 1)).unwrap();
        assert_eq!((rate(&best), best.of(Setting::Devices)), (350.0, 4));
        assert!(bench.runs.len() <= 41 && bench.runs.contains_key(&first.id()), "{:?}", bench.runs);

        let mut few = MadeUp::new(rate, advised);
        few.measure(&start, "", 3).unwrap();
        search(&mut few, vec![start.clone()], first, (5, 1)).unwrap();
        assert_eq!(few.runs.len(), 6);
        assert_eq!(few.runs[&start.id()], 3, "what was known is not run again");
    }

    #[test]
    fn without_a_search_the_best_is_the_best_that_is_known() {
        let mut bench = MadeUp::new(rate, advised);
        let (start, other) =
            (Configuration::out_of_the_box(), Configuration::out_of_the_box().with(Setting::Mtu, 9_000));
        for tuned in [&start, &other] {
            bench.measure(tuned, "", 1).unwrap();
        }
        let best = search(&mut bench, vec![other, start.clone()], start.clone(), (0, 1)).unwrap();
        assert_eq!(best, start);
    }

    #[test]
    fn draws_follow_from_the_seed() {
        let of = |seed| drawn(&mut Rng::with_seed(seed)).id();
        assert_eq!(of(3), of(3));
        assert!((1..9).map(of).collect::<std::collections::BTreeSet<_>>().len() > 4);
    }
}
