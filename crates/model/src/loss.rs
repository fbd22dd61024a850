//! Something that was not seen, counted. Does not guess what it was.

use std::sync::Arc;

use crate::Nanos;

row! {
    loss_row =>
    /// A number of things lost by one source in a stretch of time.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Loss {
        /// The last time at which the count was known to be unchanged.
        start: Nanos as "start_ns",
        /// When the change was noticed.
        end: Nanos as "end_ns",
        /// What was lost.
        kind: LossKind,
        /// How many (packets, events, bytes: see the kind).
        count: u64,
        /// More about it, for people.
        detail: Arc<str>,
    }
}

named! {
    /// Where something was lost.
    pub enum LossKind {
        /// Packets the kernel dropped before they were read.
        PacketsDropped = "packets-dropped",
        /// Bytes of a stream that were in no packet.
        StreamGapBytes = "stream-gap-bytes",
        /// Frames that could not be decoded.
        FramesUndecodable = "frames-undecodable",
        /// Probe events for which the ring buffer had no room.
        ProbeEventsDropped = "probe-events-dropped",
        /// Operations a probe could not follow: a full map.
        ProbeMapFull = "probe-map-full",
        /// Events dropped between a source and the recorder.
        EventsDropped = "events-dropped",
    }
}
