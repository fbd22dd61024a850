//! Appends by what identifies their batch, bounded by what the window keeps. Does not judge whether one fits.
//!
//! Every append of a broker goes through here, so neither taking nor finding one allocates: an index leads to the latest
//! append with a key, and each append to the one before it with the same.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::sync::Arc;

use ahash::RandomState;
use model::{FileOp, Nanos};

/// Appends with a batch head, oldest first, numbered in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Appends {
    kept: VecDeque<Append>,
    /// The number of the first one kept.
    forgotten: u64,
    by_crc: HashMap<u32, u64, RandomState>,
    by_base_offset: HashMap<i64, u64, RandomState>,
}

#[derive(Debug)]
struct Append {
    op: Arc<FileOp>,
    /// The one before it with the same CRC.
    same_crc: Option<u64>,
    /// The one before it with the same base offset.
    same_offset: Option<u64>,
}

impl Appends {
    /// Takes an append; without a batch head there is nothing to find it by.
    pub(crate) fn insert(&mut self, op: Arc<FileOp>) {
        let Some(batch) = op.batch else { return };
        let number = self.forgotten + self.kept.len() as u64;
        let same_crc = self.by_crc.insert(batch.crc, number);
        let same_offset = self.by_base_offset.insert(batch.base_offset, number);
        self.kept.push_back(Append { op, same_crc, same_offset });
    }

    /// Those with a batch of this CRC, the latest first.
    pub(crate) fn by_crc(&self, crc: u32) -> impl Iterator<Item = &Arc<FileOp>> {
        let first = self.by_crc.get(&crc).and_then(|&number| self.at(number));
        std::iter::successors(first, |later| self.at(later.same_crc?)).map(|append| &append.op)
    }

    /// Those with a batch of this base offset, the latest first.
    pub(crate) fn by_base_offset(&self, offset: i64) -> impl Iterator<Item = &Arc<FileOp>> {
        let first = self.by_base_offset.get(&offset).and_then(|&number| self.at(number));
        std::iter::successors(first, |later| self.at(later.same_offset?)).map(|append| &append.op)
    }

    /// Forgets what ended before that.
    pub(crate) fn forget(&mut self, horizon: Nanos) {
        while let Some(first) = self.kept.front().filter(|first| first.op.end < horizon) {
            if let Some(batch) = first.op.batch {
                forget(&mut self.by_crc, &batch.crc, self.forgotten);
                forget(&mut self.by_base_offset, &batch.base_offset, self.forgotten);
            }
            self.kept.pop_front();
            self.forgotten += 1;
        }
    }

    fn at(&self, number: u64) -> Option<&Append> {
        self.kept.get(usize::try_from(number.checked_sub(self.forgotten)?).ok()?)
    }
}

/// Where a later one has the same key, the index leads to that.
fn forget<K: Hash + Eq>(index: &mut HashMap<K, u64, RandomState>, key: &K, number: u64) {
    if index.get(key) == Some(&number) {
        index.remove(key);
    }
}
