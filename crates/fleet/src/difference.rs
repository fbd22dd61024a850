//! Brokers that differ from the others of their cluster, and the reasons. Does not compute the figures.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::parts::{FigureValue, Item, Part, PartKind};
use crate::spread::median;
use crate::{Broker, BrokerName, Figure, Spread};

/// Fewer brokers have no odd one: with three, any of the others may be it.
pub const MIN_BROKERS: usize = 4;
/// Deviations from the median above which a broker differs. Iglewicz and Hoaglin, 1993.
const DEVIATIONS: f64 = 3.5;
/// Factor from a median absolute deviation to a standard deviation. For normally distributed numbers.
const LIKE_STANDARD: f64 = 1.4826;
/// The smallest deviation that counts, as a share of the median.
const MIN_SHARE: f64 = 0.1;
/// The smallest share of a difference for which a part is reported. At most `MAX_REASONS` parts are reported.
const MIN_REASON: f64 = 0.1;
const MAX_REASONS: usize = 3;

/// A broker that differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The broker.
    pub name: BrokerName,
    /// The figure in which it differs.
    pub figure: Figure,
    /// Its value.
    pub value: f64,
    /// The spread over the brokers of the cluster, this one included.
    pub spread: Spread,
    /// How many brokers of the cluster have this figure.
    pub brokers: usize,
    /// Its distance from the median, in deviations.
    pub score: f64,
    /// What makes the difference, largest share first.
    pub because: Vec<Reason>,
}

/// A part of a figure that makes the difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Reason {
    /// The kind of part.
    pub kind: PartKind,
    /// Its name.
    pub part: Arc<str>,
    /// Its amount at this broker.
    pub value: f64,
    /// The median of its amounts at all brokers of the cluster; a broker without it counts as 0.
    pub median: f64,
    /// Its share of the difference.
    pub share: f64,
    /// Its largest items at this broker; empty if there is less of it than at others.
    pub items: Vec<Item>,
}

/// Brokers, and how they differ.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// The brokers, by cluster and name.
    pub brokers: Vec<Broker>,
    /// Their differences: the oddest broker first, and its largest difference first.
    pub differences: Vec<Difference>,
    /// Clusters with too few brokers to compare, and how many they have.
    pub too_small: BTreeMap<String, usize>,
}

impl Fleet {
    /// Compares brokers, each with the others of its cluster.
    pub fn of(mut brokers: Vec<Broker>) -> Self {
        brokers.sort_by(|a, b| a.name.cmp(&b.name));
        let clusters = brokers.iter().map(|broker| broker.name.cluster.clone()).collect::<BTreeSet<_>>();
        let (mut differences, mut too_small) = (Vec::new(), BTreeMap::new());
        for cluster in clusters {
            let of = brokers.iter().filter(|broker| broker.name.cluster == cluster).collect::<Vec<_>>();
            if of.len() < MIN_BROKERS {
                too_small.insert(cluster, of.len());
            } else {
                differences.extend(Figure::ALL.into_iter().flat_map(|figure| find_differences(figure, &of)));
            }
        }
        put_in_order(&mut differences);
        Self { brokers, differences, too_small }
    }
}

impl Difference {
    /// The multiple of the median, unless that is zero.
    pub fn times(&self) -> Option<f64> {
        (self.spread.median > 0.0).then(|| self.value / self.spread.median)
    }
}

/// The brokers of one cluster that differ in a figure.
fn find_differences(figure: Figure, brokers: &[&Broker]) -> Vec<Difference> {
    let values_by_broker =
        brokers.iter().filter_map(|broker| Some((&broker.name, broker.figures.get(&figure)?)));
    let values_by_broker = values_by_broker.collect::<Vec<_>>();
    let values = values_by_broker.iter().map(|(_, value)| value.value).collect::<Vec<_>>();
    let Some(spread) = Spread::of(&values).filter(|_| values_by_broker.len() >= MIN_BROKERS) else {
        return Vec::new();
    };
    let deviation = deviation(figure, spread);
    let odd =
        values_by_broker.iter().filter(|(_, own)| (own.value - spread.median).abs() > DEVIATIONS * deviation);
    let difference = |(name, own): &(&BrokerName, &FigureValue)| Difference {
        name: (*name).clone(),
        figure,
        value: own.value,
        spread,
        brokers: values_by_broker.len(),
        score: (own.value - spread.median).abs() / deviation,
        because: reasons(own, own.value - spread.median, &values_by_broker),
    };
    odd.map(difference).collect()
}

/// What counts as one deviation.
fn deviation(figure: Figure, spread: Spread) -> f64 {
    (LIKE_STANDARD * spread.mad).max(MIN_SHARE * spread.median.abs()).max(figure.floor())
}

/// The parts that make most of a difference.
fn reasons(own: &FigureValue, difference: f64, all: &[(&BrokerName, &FigureValue)]) -> Vec<Reason> {
    let parts = all.iter().flat_map(|(_, value)| value.parts.keys()).collect::<BTreeSet<_>>();
    let none = Part::default();
    let of = |part: &Arc<str>, value: &FigureValue| value.parts.get(part).map_or(0.0, |part| part.value);
    let reason = |part: &Arc<str>| {
        let median = median(all.iter().map(|(_, value)| of(part, value)).collect())?;
        let here = own.parts.get(part).unwrap_or(&none);
        let share = (here.value - median) / difference;
        let items = if here.value > median { here.items.clone() } else { Vec::new() };
        (share >= MIN_REASON).then(|| Reason {
            kind: own.kind,
            part: Arc::clone(part),
            value: here.value,
            median,
            share,
            items,
        })
    };
    let mut reasons = parts.into_iter().filter_map(reason).collect::<Vec<_>>();
    reasons.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.part.cmp(&b.part)));
    reasons.truncate(MAX_REASONS);
    reasons
}

/// Sorts differences, the broker with the largest one first.
fn put_in_order(differences: &mut [Difference]) {
    let mut oddest: BTreeMap<BrokerName, f64> = BTreeMap::new();
    for difference in differences.iter() {
        let most = oddest.entry(difference.name.clone()).or_default();
        *most = most.max(difference.score);
    }
    let of = |difference: &Difference| oddest.get(&difference.name).copied().unwrap_or(0.0);
    differences.sort_by(|a, b| {
        let brokers = of(b).total_cmp(&of(a)).then_with(|| a.name.cmp(&b.name));
        brokers.then_with(|| b.score.total_cmp(&a.score)).then_with(|| a.figure.cmp(&b.figure))
    });
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use super::Fleet;
    use crate::parts::{Amounts, FigureValue, PartKind};
    use crate::{Broker, BrokerName, Figure};

    /// A broker with this many reads per second of segments and of state files.
    fn broker(number: usize, segments: u64, states: u64) -> Broker {
        let (log, state) = (Arc::from("log"), Arc::from("tierstate"));
        let mut amounts = Amounts::default();
        amounts.part(&log, segments);
        amounts.part(&state, states);
        amounts.item(&log, || "a-0/0.log".into(), segments);
        for (file, share) in [("m-53/0.tierstate.mutable", 5), ("m-7/0.tierstate.mutable", 8)] {
            amounts.item(&state, || file.into(), states / share);
        }
        let reads = FigureValue::of((segments + states) as f64, PartKind::FileKind, amounts, 1.0);
        let name = BrokerName { cluster: "c".to_owned(), broker: number.to_string() };
        Broker { name, seconds: 60.0, figures: BTreeMap::from([(Figure::DeviceReads, reads)]) }
    }

    fn fleet(of: &[(u64, u64)]) -> Fleet {
        let brokers = of.iter().enumerate();
        Fleet::of(brokers.map(|(at, (segments, states))| broker(at + 1, *segments, *states)).collect())
    }

    #[test]
    fn names_the_odd_broker_with_its_files() {
        let fleet = fleet(&[(900, 0), (1_000, 0), (1_100, 5), (1_000, 7_000), (950, 0)]);
        let [difference] = &fleet.differences[..] else { panic!("{:?}", fleet.differences) };
        assert_eq!((&*difference.name.broker, difference.figure), ("4", Figure::DeviceReads));
        assert_eq!((difference.value, difference.spread.median, difference.brokers), (8_000.0, 1_000.0, 5));
        assert_eq!(difference.times(), Some(8.0));
        let [reason] = &difference.because[..] else { panic!("{:?}", difference.because) };
        assert_eq!((&*reason.part, reason.share, reason.median), ("tierstate", 1.0, 0.0));
        let files = reason.items.iter().map(|item| (&*item.name, item.value)).collect::<Vec<_>>();
        assert_eq!(files, [("m-53/0.tierstate.mutable", 1_400.0), ("m-7/0.tierstate.mutable", 875.0)]);
    }

    #[test]
    fn similar_brokers_are_not_odd() {
        // No deviation at all except for one, which is a third more; and next to nothing, however often.
        assert!(fleet(&[(1_000, 0), (1_000, 0), (1_000, 0), (1_000, 0), (1_300, 0)]).differences.is_empty());
        assert!(fleet(&[(1, 0), (1, 0), (1, 0), (1, 0), (60, 0)]).differences.is_empty());
        // As far from each other as any.
        assert!(fleet(&[(100, 0), (500, 0), (1_000, 0), (2_000, 0), (3_000, 0)]).differences.is_empty());
    }

    #[test]
    fn missing_reads_are_a_difference() {
        let fleet = fleet(&[(0, 0), (1_000, 0), (1_000, 0), (1_000, 0)]);
        let [difference] = &fleet.differences[..] else { panic!("{:?}", fleet.differences) };
        assert_eq!((&*difference.name.broker, difference.value), ("1", 0.0));
        assert_eq!((&*difference.because[0].part, difference.because[0].items.len()), ("log", 0));
    }

    #[test]
    fn three_brokers_are_too_few_to_compare() {
        let fleet = fleet(&[(1_000, 0), (1_000, 0), (9_000, 0)]);
        assert!(fleet.differences.is_empty());
        assert_eq!(fleet.too_small, BTreeMap::from([("c".to_owned(), 3)]));
    }

    #[test]
    fn oddest_broker_comes_first_with_all_its_differences() {
        let mut brokers = (1..=6).map(|number| broker(number, 1_000, 0)).collect::<Vec<_>>();
        for broker in &mut brokers {
            broker.figures.insert(Figure::PartitionsLed, FigureValue::plain(100.0));
        }
        brokers[1].figures.insert(Figure::PartitionsLed, FigureValue::plain(200.0));
        brokers[4].figures.insert(Figure::DeviceReads, FigureValue::plain(9_000.0));
        brokers[4].figures.insert(Figure::PartitionsLed, FigureValue::plain(40.0));
        let fleet = Fleet::of(brokers);
        let order = fleet.differences.iter().map(|one| (&*one.name.broker, one.figure));
        let expected =
            [("5", Figure::DeviceReads), ("5", Figure::PartitionsLed), ("2", Figure::PartitionsLed)];
        assert_eq!(order.collect::<Vec<_>>(), expected);
    }
}
