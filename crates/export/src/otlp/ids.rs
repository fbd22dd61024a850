//! Ids of traces and spans. Those of requests are new each time; those of root events and of what happened around them follow
//! from what they are, so that every request that links to a commit means the same span. Nothing outside this process can
//! foresee them.

use std::hash::{BuildHasher as _, Hash, RandomState};

use super::span::{SpanId, TraceId};

/// Makes ids.
#[derive(Debug, Default)]
pub(super) struct Ids {
    keys: RandomState,
    made: u64,
}

/// Keeps apart what ids are of.
#[derive(Hash)]
enum Of<T> {
    High(T),
    Low(T),
    Span(T),
    New(T),
}

impl Ids {
    /// A trace of a request: another one each time.
    pub(super) fn new_trace(&mut self) -> TraceId {
        let number = self.next();
        self.trace_of(&Of::New(number))
    }

    /// A span that nothing but its own trace names.
    pub(super) fn new_span(&mut self) -> SpanId {
        let number = self.next();
        self.span_of(&Of::New(number))
    }

    /// The trace of what is called so.
    pub(super) fn trace_of(&self, name: &impl Hash) -> TraceId {
        let half = |of| u128::from(self.keys.hash_one(of));
        // Zero is no id.
        TraceId((half(Of::High(name)) << 64 | half(Of::Low(name))).max(1))
    }

    /// The span of what is described so.
    pub(super) fn span_of(&self, what: &impl Hash) -> SpanId {
        SpanId(self.keys.hash_one(Of::Span(what)).max(1))
    }

    fn next(&mut self) -> u64 {
        self.made += 1;
        self.made
    }
}

#[cfg(test)]
mod tests {
    use super::Ids;

    #[test]
    fn requests_have_ids_of_their_own_and_roots_the_same_again() {
        let mut ids = Ids::default();
        assert_ne!(ids.new_trace(), ids.new_trace());
        assert_ne!(ids.new_span(), ids.new_span());
        assert_eq!(ids.trace_of(&"journal-commit:loop0:24"), ids.trace_of(&"journal-commit:loop0:24"));
        assert_ne!(ids.trace_of(&"journal-commit:loop0:24"), ids.trace_of(&"journal-commit:loop0:25"));
        assert_ne!(ids.trace_of(&"a"), Ids::default().trace_of(&"a"), "nobody can foresee them");
    }
}
