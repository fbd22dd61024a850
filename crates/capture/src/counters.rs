//! The numbers an analysis keeps: what was seen and, above all, what was not. Does not print them.

pub use model::CaptureCounters as Counters;
use wire::stream::StreamCounts;

pub(crate) fn add_stream(counters: &mut Counters, counts: StreamCounts) {
    counters.undecodable_frames += counts.undecodable;
    counters.resyncs += counts.resyncs;
    counters.sasl_tokens += counts.sasl_tokens;
    counters.skipped_bytes += counts.skipped_bytes;
}
