//! The numbers an analysis keeps: what was seen and, above all, what was not. Does not print them.

pub use model::CaptureCounters as Counters;
use wire::stream::StreamCounts;

/// Adds what a stream's counts have grown by: bytes that were passed over in a search are fewer once a frame is found in them.
pub(crate) fn add_growth(counters: &mut Counters, before: StreamCounts, now: StreamCounts) {
    let add = |counter: &mut u64, before: u64, now: u64| {
        *counter = counter.wrapping_add(now.wrapping_sub(before));
    };
    add(&mut counters.undecodable_frames, before.undecodable, now.undecodable);
    add(&mut counters.resyncs, before.resyncs, now.resyncs);
    add(&mut counters.sasl_tokens, before.sasl_tokens, now.sasl_tokens);
    add(&mut counters.skipped_bytes, before.skipped_bytes, now.skipped_bytes);
}
