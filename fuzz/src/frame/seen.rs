//! A frame of either direction. Does not check it.

use std::ops::Range;

use wire::ApiKey;
use wire::stream::{FrameError, RequestBody, RequestFrame, ResponseBody, ResponseFrame};

/// A frame from a stream whose stamps are offsets.
#[derive(Clone, Debug, PartialEq)]
pub enum Frame {
    /// A request.
    Request(Box<RequestFrame<u64>>),
    /// A response.
    Response(Box<ResponseFrame<u64>>),
}

impl From<RequestFrame<u64>> for Frame {
    fn from(frame: RequestFrame<u64>) -> Self {
        Self::Request(Box::new(frame))
    }
}

impl From<ResponseFrame<u64>> for Frame {
    fn from(frame: ResponseFrame<u64>) -> Self {
        Self::Response(Box::new(frame))
    }
}

impl Frame {
    pub(super) fn first(&self) -> u64 {
        match self {
            Self::Request(frame) => frame.first,
            Self::Response(frame) => frame.first,
        }
    }

    pub(super) fn last(&self) -> u64 {
        match self {
            Self::Request(frame) => frame.last,
            Self::Response(frame) => frame.last,
        }
    }

    pub(super) fn span(&self) -> Range<u64> {
        match self {
            Self::Request(frame) => frame.stream_start..frame.stream_end,
            Self::Response(frame) => frame.stream_start..frame.stream_end,
        }
    }

    pub(super) fn size(&self) -> u32 {
        match self {
            Self::Request(frame) => frame.size,
            Self::Response(frame) => frame.size,
        }
    }

    /// The number of partitions, batches, topics and ids in it.
    pub(super) fn elements(&self) -> usize {
        match self {
            Self::Request(frame) => match &frame.body {
                RequestBody::Produce(body) => {
                    body.partitions.iter().map(|partition| 1 + partition.batches.len()).sum()
                }
                RequestBody::Fetch(body) => body.partitions.len(),
                RequestBody::Ids(_) | RequestBody::Other => 0,
            },
            Self::Response(frame) => match &frame.body {
                ResponseBody::Produce(partitions) => partitions.len(),
                ResponseBody::Metadata { topics, replicas } => topics.len() + replicas.len(),
                ResponseBody::Fetch(body) => {
                    body.partitions.iter().map(|partition| 1 + partition.batches.len()).sum()
                }
                ResponseBody::Other => 0,
            },
        }
    }

    fn error(&self) -> Option<FrameError> {
        match self {
            Self::Request(frame) => frame.error,
            Self::Response(frame) => frame.error,
        }
    }

    /// Whether a part of it could not be read.
    pub(crate) fn is_damaged(&self) -> bool {
        let in_a_partition = match self {
            Self::Request(frame) => match &frame.body {
                RequestBody::Produce(body) => body.partitions.iter().any(|p| p.error.is_some()),
                _ => false,
            },
            Self::Response(frame) => match &frame.body {
                ResponseBody::Fetch(body) => body.partitions.iter().any(|p| p.error.is_some()),
                _ => false,
            },
        };
        in_a_partition || (self.error().is_some() && !self.asks_for_newer_versions())
    }

    /// Whether it is an `ApiVersions` request of a version that nobody here knows. A client's first request may be one,
    /// and nothing is lost with it.
    fn asks_for_newer_versions(&self) -> bool {
        let api = ApiKey::API_VERSIONS;
        matches!(self, Self::Request(frame) if frame.api_key == api && api.is_newer(frame.api_version))
    }

    pub(super) fn without_stamps(&self) -> Self {
        let mut bare = self.clone();
        match &mut bare {
            Self::Request(frame) => (frame.first, frame.last) = (0, 0),
            Self::Response(frame) => (frame.first, frame.last) = (0, 0),
        }
        bare
    }
}
