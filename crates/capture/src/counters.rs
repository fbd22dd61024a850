//! The counters of an analysis: what was captured and, above all, what was not. Does not print them.

pub use model::CaptureCounters as Counters;
use wire::stream::StreamCounts;

/// Adds the growth of a stream's counts.
/// Skipped bytes can decrease: a frame may still be found in bytes already searched.
pub(crate) fn add_growth(counters: &mut Counters, before: StreamCounts, now: StreamCounts) {
    let add = |counter: &mut u64, before: u64, now: u64| {
        *counter = counter.wrapping_add(now.wrapping_sub(before));
    };
    add(&mut counters.undecodable_frames, before.undecodable, now.undecodable);
    add(&mut counters.resyncs, before.resyncs, now.resyncs);
    add(&mut counters.sasl_tokens, before.sasl_tokens, now.sasl_tokens);
    add(&mut counters.skipped_bytes, before.skipped_bytes, now.skipped_bytes);
}
