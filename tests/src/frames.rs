//! The frames of a whole capture, read in the simplest way that can be right: every stream put together
//! in memory, then cut by its length words. Says of a frame what the request log does not: its size.
//!
//! Only for captures that lack nothing.

use std::collections::{BTreeMap, HashMap};

use crate::capture_file::CaptureFile;
use crate::row::{Key, Numbering};

/// The sizes of a request's and its response's frame, without the four bytes of their length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The request's.
    pub request: u64,
    /// The response's; none where none was sent.
    pub response: Option<u64>,
    /// Whether the response is there to its end: a client may go in the middle of it.
    pub whole: bool,
}

/// The sizes of every request that was sent to `broker` (`address:port`).
///
/// # Panics
/// Where the capture lacks bytes.
pub fn sizes(capture: &CaptureFile, broker: &str) -> BTreeMap<Key, Sizes> {
    let mut sizes = BTreeMap::new();
    let streams = streams(capture);
    let mut numbers = Numbering::default();
    for ((source, destination, nth), requests) in &streams {
        if destination != broker {
            continue;
        }
        let responses = streams.get(&(destination.clone(), source.clone(), *nth));
        let mut responses: HashMap<i64, (u64, bool)> =
            responses.map(|bytes| responses_of(bytes)).unwrap_or_default();
        for frame in frames(requests) {
            // Request headers of every version begin with api key, api version, correlation id.
            let id = correlation(frame, 4);
            let response = responses.remove(&id);
            let (response, whole) = response.map_or((None, false), |(size, whole)| (Some(size), whole));
            sizes.insert(numbers.key(source, id), Sizes { request: frame.len() as u64, response, whole });
        }
        assert!(responses.is_empty(), "responses to nothing from {source}: {responses:?}");
    }
    sizes
}

/// Sender, receiver, the how-manieth connection of these two.
type StreamKey = (String, String, usize);

/// Every direction of every connection, put together. tcpdump may write packets of two processors in another
/// order than they were sent in, so all are collected before any is looked at.
fn streams(capture: &CaptureFile) -> BTreeMap<StreamKey, Vec<u8>> {
    let mut opened: HashMap<(String, String), (usize, u32)> = HashMap::new();
    let mut pieces: BTreeMap<StreamKey, Vec<(usize, &[u8])>> = BTreeMap::new();
    for packet in &capture.packets {
        let Some(tcp) = packet.tcp() else { continue };
        let ends = (tcp.source, tcp.destination);
        if tcp.syn {
            let nth = opened.get(&ends).map_or(0, |(nth, _)| nth + 1);
            opened.insert(ends, (nth, tcp.sequence.wrapping_add(1)));
            continue;
        }
        let data = &packet.bytes[tcp.data];
        let Some(&(nth, first)) = opened.get(&ends) else {
            assert!(data.is_empty(), "data of a connection that was open before: {ends:?}");
            continue;
        };
        if !data.is_empty() {
            let at = tcp.sequence.wrapping_sub(first) as usize;
            pieces.entry((ends.0, ends.1, nth)).or_default().push((at, data));
        }
    }
    pieces.into_iter().map(|(key, pieces)| (key.clone(), assembled(&key, pieces))).collect()
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

/// Correlation id → size and whether all of it is there.
fn responses_of(stream: &[u8]) -> HashMap<i64, (u64, bool)> {
    let whole = frames(stream).map(|frame| (correlation(frame, 0), (frame.len() as u64, true)));
    let mut responses: HashMap<i64, (u64, bool)> = whole.collect();
    let rest = &stream[frames(stream).map(|frame| frame.len() + 4).sum()..];
    if let (Some(length), Some(id)) = (rest.first_chunk(), rest.get(4..8)) {
        let length = u64::from(u32::from_be_bytes(*length));
        responses.insert(i64::from(i32::from_be_bytes(id.try_into().unwrap())), (length, false));
    }
    responses
}

fn frames(mut stream: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (length, rest) = stream.split_first_chunk()?;
        let length = u32::from_be_bytes(*length) as usize;
        let (frame, rest) = rest.split_at_checked(length)?;
        stream = rest;
        Some(frame)
    })
}

fn correlation(frame: &[u8], at: usize) -> i64 {
    i64::from(i32::from_be_bytes(frame[at..at + 4].try_into().unwrap()))
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
