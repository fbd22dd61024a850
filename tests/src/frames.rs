//! The frames of a complete capture, read in the simplest correct way: every stream is assembled in memory, then split
//! by its length words. Reports what the request log lacks: a frame's size, and the packets that carry it.
//!
//! Only for captures without missing packets.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::capture_file::{CaptureFile, Packet};
use crate::row::{Key, Numbering};

/// Frame sizes of a request and its response. The four bytes of their length do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The request's.
    pub request: u64,
    /// The response's; `None` if none was sent.
    pub response: Option<u64>,
    /// Whether the response is complete: a client may disconnect in the middle of it.
    pub whole: bool,
}

/// One request of a capture, and the position of its bytes.
#[derive(Clone, Debug)]
pub struct CapturedRequest {
    /// Its key.
    pub key: Key,
    /// Sender, receiver, and the number of the connection between them.
    pub stream: StreamKey,
    /// Its frame in that stream, including the length word.
    pub request: Range<usize>,
    /// The response's frame in the opposite stream, up to its expected end; `None` if none was sent.
    pub response: Option<Range<usize>>,
    /// Whether the response is complete.
    pub whole: bool,
}

impl CapturedRequest {
    /// The stream of its response.
    pub fn stream_back(&self) -> StreamKey {
        let (client, broker, nth) = &self.stream;
        (broker.clone(), client.clone(), *nth)
    }
}

/// The sizes of every request that was sent to `broker` (`address:port`).
///
/// # Panics
/// If the capture lacks bytes.
pub fn sizes(capture: &CaptureFile, broker: &str) -> BTreeMap<Key, Sizes> {
    let sizes = |request: CapturedRequest| Sizes {
        request: request.request.len() as u64 - 4,
        response: request.response.map(|response| response.len() as u64 - 4),
        whole: request.whole,
    };
    requests(capture, broker).into_iter().map(|request| (request.key.clone(), sizes(request))).collect()
}

/// Every request that was sent to `broker` (`address:port`).
///
/// # Panics
/// If the capture lacks bytes.
pub fn requests(capture: &CaptureFile, broker: &str) -> Vec<CapturedRequest> {
    let mut requests = Vec::new();
    let streams = streams(capture);
    let mut numbers = Numbering::default();
    for (stream, bytes) in &streams {
        let (source, destination, nth) = stream;
        if destination != broker {
            continue;
        }
        let responses = streams.get(&(destination.clone(), source.clone(), *nth));
        let mut responses = responses.map(|bytes| responses_of(bytes)).unwrap_or_default();
        for request in frames(bytes) {
            // Request headers of every version start with api key, api version, correlation id.
            let id = correlation(bytes, request.start + 8);
            let response = responses.remove(&id);
            let (response, whole) = response.map_or((None, false), |(range, whole)| (Some(range), whole));
            let key = numbers.key(source, id);
            requests.push(CapturedRequest { key, stream: stream.clone(), request, response, whole });
        }
        assert!(responses.is_empty(), "responses to nothing from {source}: {responses:?}");
    }
    requests
}

/// Sender, receiver, and the number of the connection between them.
pub type StreamKey = (String, String, usize);

/// A packet's place in its stream: offset and bytes.
type Piece<'a> = (StreamKey, usize, &'a [u8]);

/// Assembles every direction of every connection. tcpdump may write packets of two CPUs in another order than they were
/// sent in, so all are collected first.
fn streams(capture: &CaptureFile) -> BTreeMap<StreamKey, Vec<u8>> {
    let mut pieces: BTreeMap<StreamKey, Vec<(usize, &[u8])>> = BTreeMap::new();
    for (key, at, data) in places(capture).into_iter().flatten() {
        pieces.entry(key).or_default().push((at, data));
    }
    pieces.into_iter().map(|(key, pieces)| (key.clone(), assembled(&key, pieces))).collect()
}

/// The place of every packet's data in its stream; `None` for a packet without data.
///
/// # Panics
/// If the capture lacks a connection's beginning.
pub fn places<'a>(capture: &'a CaptureFile) -> Vec<Option<Piece<'a>>> {
    let mut opened: HashMap<(String, String), (usize, u32)> = HashMap::new();
    let place = |packet: &'a Packet| {
        let tcp = packet.tcp()?;
        let ends = (tcp.source, tcp.destination);
        if tcp.syn {
            let nth = opened.get(&ends).map_or(0, |(nth, _)| nth + 1);
            opened.insert(ends, (nth, tcp.sequence.wrapping_add(1)));
            return None;
        }
        let data = &packet.bytes[tcp.data];
        let Some(&(nth, first)) = opened.get(&ends) else {
            assert!(data.is_empty(), "data of a connection that was open before: {ends:?}");
            return None;
        };
        let at = tcp.sequence.wrapping_sub(first) as usize;
        (!data.is_empty()).then_some(((ends.0, ends.1, nth), at, data))
    };
    capture.packets.iter().map(place).collect()
}

fn assembled(key: &StreamKey, mut pieces: Vec<(usize, &[u8])>) -> Vec<u8> {
    pieces.sort_by_key(|(at, _)| *at);
    let mut stream = Vec::new();
    for (at, data) in pieces {
        assert!(at <= stream.len(), "the capture lacks bytes {}..{at} of {key:?}", stream.len());
        stream.extend(data.get(stream.len() - at..).unwrap_or_default());
    }
    stream
}

/// Correlation id → the range of the response, and whether it is complete.
fn responses_of(stream: &[u8]) -> HashMap<i64, (Range<usize>, bool)> {
    let mut responses = HashMap::new();
    let mut end = 0;
    for frame in frames(stream) {
        end = frame.end;
        responses.insert(correlation(stream, frame.start + 4), (frame, true));
    }
    if let (Some(length), true) = (length(stream, end), stream.len() >= end + 8) {
        responses.insert(correlation(stream, end + 4), (end..end + 4 + length, false));
    }
    responses
}

/// The ranges of the complete frames, including their length words.
fn frames(stream: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let end = start + 4 + length(stream, start)?;
        let frame = start..end;
        start = end;
        (end <= stream.len()).then_some(frame)
    })
}

fn length(stream: &[u8], at: usize) -> Option<usize> {
    stream.get(at..)?.first_chunk().map(|length| u32::from_be_bytes(*length) as usize)
}

fn correlation(stream: &[u8], at: usize) -> i64 {
    i64::from(i32::from_be_bytes(stream[at..at + 4].try_into().unwrap()))
}

#[cfg(test)]
mod tests {
    use super::sizes;
    use crate::capture_file::CaptureFile;
    use crate::kafka_log;
    use std::path::Path;

    #[test]
    fn the_sample_holds_as_many_frames_as_kafka_logged() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
        let sizes = sizes(&CaptureFile::read(&data.join("sample.pcap")), "127.0.0.1:29092");
        let log = kafka_log::read(&data.join("sample-request.log"));
        assert_eq!(sizes.len(), log.len());
        let unanswered = sizes.values().filter(|sizes| sizes.response.is_none()).count();
        let acks_0 = log.iter().filter(|r| r.produce.as_ref().is_some_and(|p| p.acks == 0)).count();
        assert_eq!(unanswered, acks_0);
    }
}
