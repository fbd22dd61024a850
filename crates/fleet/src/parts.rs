//! Parts that add up to a figure, and the largest items in each. Does not compare brokers.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::named;

/// Items retained per part; query the broker alone to get all of them.
const MAX_ITEMS: usize = 5;

named! {
    /// Kinds of parts.
    pub enum PartKind {
        /// Kinds of file; their items are files.
        FileKind = "file-kind",
        /// Topics; their items are partitions.
        Topic = "topic",
        /// Causes of slow requests.
        Cause = "cause",
        /// No parts.
        None = "none",
    }
}

/// A file or a partition, and its amount.
#[derive(Clone, Debug, PartialEq)]
pub struct Item {
    /// Its name.
    pub name: Arc<str>,
    /// Its amount, in the figure's unit.
    pub value: f64,
}

/// A figure of one broker.
#[derive(Clone, Debug, PartialEq)]
pub struct FigureValue {
    /// The figure.
    pub value: f64,
    /// The kind of its parts.
    pub kind: PartKind,
    /// Each part's amount, in the figure's unit.
    pub parts: BTreeMap<Arc<str>, Part>,
}

/// A part of a figure.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Part {
    /// Its amount.
    pub value: f64,
    /// Its largest items, largest first.
    pub items: Vec<Item>,
}

impl FigureValue {
    /// Makes a figure without parts.
    pub(crate) fn plain(value: f64) -> Self {
        Self { value, kind: PartKind::None, parts: BTreeMap::new() }
    }

    /// Makes a figure with these parts; `scale` converts amounts to the figure's unit.
    pub(crate) fn of(value: f64, kind: PartKind, amounts: Amounts, scale: f64) -> Self {
        Self { value, kind, parts: amounts.into_parts(scale) }
    }
}

/// Amounts by part, and within each by item.
#[derive(Clone, Debug, Default)]
pub(crate) struct Amounts(BTreeMap<Arc<str>, Amount>);

#[derive(Clone, Debug, Default)]
struct Amount {
    sum: u64,
    /// The largest items, largest first.
    items: Vec<(Arc<str>, u64)>,
}

impl Amounts {
    /// Counts a part.
    pub(crate) fn part(&mut self, name: &Arc<str>, amount: u64) {
        if amount > 0 {
            let part = self.0.entry(Arc::clone(name)).or_default();
            part.sum = part.sum.saturating_add(amount);
        }
    }

    /// Adds an item of a part, without counting it into the part's sum.
    pub(crate) fn item(&mut self, part: &Arc<str>, name: impl FnOnce() -> Arc<str>, amount: u64) {
        if amount == 0 {
            return;
        }
        let items = &mut self.0.entry(Arc::clone(part)).or_default().items;
        let at = items.partition_point(|(_, other)| *other >= amount);
        if at < MAX_ITEMS {
            items.insert(at, (name(), amount));
            items.truncate(MAX_ITEMS);
        }
    }

    fn into_parts(self, scale: f64) -> BTreeMap<Arc<str>, Part> {
        self.0.into_iter().map(|(name, amount)| (name, amount.into_part(scale))).collect()
    }
}

impl Amount {
    fn into_part(self, scale: f64) -> Part {
        let item = |(name, amount): (_, u64)| Item { name, value: amount as f64 * scale };
        Part { value: self.sum as f64 * scale, items: self.items.into_iter().map(item).collect() }
    }
}
