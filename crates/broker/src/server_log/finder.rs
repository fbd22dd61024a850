//! Finds the first of a few texts in a block, many bytes at a time. Does not know what they mean.

use aho_corasick::packed::{self, Searcher};
use aho_corasick::{AhoCorasick, Input, MatchKind, Span as Range};

/// Looks for all texts at once: by vector instructions where the processor has them, else by an automaton.
#[derive(Clone, Debug)]
pub(super) struct Finder {
    vectors: Option<Searcher>,
    automaton: Option<AhoCorasick>,
}

/// Where a text was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Its place in the list of texts.
    pub(super) nth: usize,
    pub(super) start: usize,
    pub(super) end: usize,
}

impl Finder {
    /// Of several texts at the same place the first in the list is found.
    pub(super) fn new(texts: impl Iterator<Item = &'static str> + Clone) -> Self {
        let vectors = packed::Config::new().builder().extend(texts.clone()).build();
        // A few hundred states: this cannot fail for want of room.
        let automaton = || AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(texts).ok();
        let automaton = if vectors.is_none() { automaton() } else { None };
        Self { vectors, automaton }
    }

    /// The first text that begins at `from` or later.
    pub(super) fn find(&self, block: &[u8], from: usize) -> Option<Found> {
        let range = Range { start: from.min(block.len()), end: block.len() };
        let found = match (&self.vectors, &self.automaton) {
            (Some(vectors), _) => vectors.find_in(block, range),
            (None, Some(automaton)) => automaton.find(Input::new(block).span(range)),
            (None, None) => None,
        }?;
        Some(Found { nth: found.pattern().as_usize(), start: found.start(), end: found.end() })
    }
}
