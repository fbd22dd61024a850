//! Something that was not seen, counted. Does not guess what it was.

use std::sync::Arc;

use crate::Nanos;

/// A number of things lost by one source in a stretch of time.
#[derive(Clone, Debug, PartialEq)]
pub struct Loss {
    /// The last time at which the count was known to be unchanged.
    pub start: Nanos,
    /// When the change was noticed.
    pub end: Nanos,
    /// What was lost.
    pub kind: LossKind,
    /// How many (packets, events, bytes: see the kind).
    pub count: u64,
    /// More about it, for people.
    pub detail: Arc<str>,
}

/// Where something was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LossKind {
    /// Packets the kernel dropped before they were read.
    PacketsDropped,
    /// Bytes of a stream that were in no packet.
    StreamGapBytes,
    /// Frames that could not be decoded.
    FramesUndecodable,
    /// Probe events for which the ring buffer had no room.
    ProbeEventsDropped,
    /// Operations a probe could not follow: a full map.
    ProbeMapFull,
    /// Events dropped between a source and the recorder.
    EventsDropped,
}

impl LossKind {
    /// Every kind.
    pub const ALL: [Self; 6] = [
        Self::PacketsDropped,
        Self::StreamGapBytes,
        Self::FramesUndecodable,
        Self::ProbeEventsDropped,
        Self::ProbeMapFull,
        Self::EventsDropped,
    ];

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PacketsDropped => "packets-dropped",
            Self::StreamGapBytes => "stream-gap-bytes",
            Self::FramesUndecodable => "frames-undecodable",
            Self::ProbeEventsDropped => "probe-events-dropped",
            Self::ProbeMapFull => "probe-map-full",
            Self::EventsDropped => "events-dropped",
        }
    }

    /// The kind of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == name)
    }
}
