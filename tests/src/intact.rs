//! Finds the requests of a damaged capture that lack nothing. Checks that each of them came out as in the intact
//! capture. Knows only the intact capture's frames and the remaining packets; not how a reader resynchronizes.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::Value;

use crate::capture_file::CaptureFile;
use crate::comparison::{Same, says_no_other};
use crate::frames::{self, CapturedRequest, StreamKey};
use crate::row::{self, Key, Output};

/// A capture from which packets can be removed.
#[derive(Debug)]
pub struct Whole {
    capture: CaptureFile,
    requests: Vec<CapturedRequest>,
    rows: BTreeMap<Key, Value>,
}

/// Results for the requests that lack nothing.
#[derive(Clone, Debug, Default)]
pub struct Share {
    /// Number of requests that lack nothing.
    pub intact: usize,
    /// Those without a row, or with one that has fewer or other values, with the row.
    pub missed: Vec<String>,
}

impl Share {
    /// The percentage that came out right.
    pub fn percent(&self) -> f64 {
        (self.intact - self.missed.len()) as f64 * 100.0 / self.intact as f64
    }
}

/// Bytes of the streams in packets: disjoint ranges, by stream.
type CapturedRanges = BTreeMap<StreamKey, Vec<Range<usize>>>;

impl Whole {
    /// Creates it from an intact capture and the output of `requests` for it.
    pub fn new(capture: CaptureFile, broker: &str, output: &Output) -> Self {
        let rows = output.by_key().into_iter().map(|(key, row)| (key, row.clone())).collect();
        Self { requests: frames::requests(&capture, broker), rows, capture }
    }

    /// The number of its packets.
    pub fn packets(&self) -> usize {
        self.capture.packets.len()
    }

    /// The capture with only these packets.
    pub fn filter_packets(&self, is_left: &[bool]) -> CaptureFile {
        let left = self.capture.packets.iter().zip(is_left).filter(|(_, is_left)| **is_left);
        self.capture.with(left.map(|(packet, _)| packet.clone()).collect())
    }

    /// Judges the output of `requests` for [`Self::filter_packets`]. A request lacks nothing if each byte of it and of its
    /// response is in a remaining packet, including retransmissions. Excludes requests whose row in the intact capture
    /// has an error, such as a missing answer.
    pub fn judge(&self, is_left: &[bool], output: &Output) -> Share {
        let carried = self.carried(is_left);
        let by_number = by_number(output);
        let mut share = Share::default();
        for request in self.requests.iter().filter(|request| is_intact(request, &carried)) {
            let Some(whole) = self.rows.get(&request.key).filter(|row| row["error"].is_null()) else {
                continue;
            };
            share.intact += 1;
            let (client, id, _) = &request.key;
            let rows = by_number.get(&(client.clone(), *id)).map_or(&[][..], Vec::as_slice);
            if !rows.iter().any(|row| is_as_complete(row, whole)) {
                let request = format!("{:?} {:?} {:?}", request.key, request.request, request.response);
                share.missed.push(format!("{request}\n  left: {rows:?}\n  whole: {whole}"));
            }
        }
        share
    }

    fn carried(&self, is_left: &[bool]) -> CapturedRanges {
        let mut pieces: BTreeMap<StreamKey, Vec<Range<usize>>> = BTreeMap::new();
        let places = frames::places(&self.capture).into_iter().zip(is_left);
        for (key, at, data) in places.filter(|(_, is_left)| **is_left).filter_map(|(place, _)| place) {
            pieces.entry(key).or_default().push(at..at + data.len());
        }
        pieces.into_iter().map(|(key, pieces)| (key, joined(pieces))).collect()
    }
}

/// Merges ranges into disjoint ones, in order.
fn joined(mut pieces: Vec<Range<usize>>) -> Vec<Range<usize>> {
    pieces.sort_by_key(|piece| piece.start);
    let mut joined: Vec<Range<usize>> = Vec::new();
    for piece in pieces {
        match joined.last_mut() {
            Some(last) if piece.start <= last.end => last.end = last.end.max(piece.end),
            _ => joined.push(piece),
        }
    }
    joined
}

fn is_intact(request: &CapturedRequest, carried: &CapturedRanges) -> bool {
    let has = |stream: &StreamKey, needed: &Range<usize>| {
        let ranges = carried.get(stream).map_or(&[][..], Vec::as_slice);
        let before = ranges.partition_point(|range| range.start <= needed.start);
        before > 0 && ranges[before - 1].end >= needed.end
    };
    has(&request.stream, &request.request)
        && request.response.as_ref().is_none_or(|response| has(&request.stream_back(), response))
}

fn by_number(output: &Output) -> BTreeMap<(String, i64), Vec<&Value>> {
    let mut rows: BTreeMap<(String, i64), Vec<&Value>> = BTreeMap::new();
    for row in &output.rows {
        rows.entry((row::client(row), row::correlation_id(row))).or_default().push(row);
    }
    rows
}

/// Whether a row has all values of the intact capture's row, without an error. Its times may be later: if a packet is
/// missing whose bytes were retransmitted, the retransmission counts. A topic's name comes from another request's
/// answer, which may be missing.
fn is_as_complete(row: &Value, whole: &Value) -> bool {
    says_no_other(row, whole, Same::ButLater) && knows_as_much(row, whole)
}

fn knows_as_much(row: &Value, whole: &Value) -> bool {
    match (row, whole) {
        (Value::Object(row), Value::Object(whole)) => whole.iter().all(|(name, value)| {
            let named_by_id = name == "topic" && whole.get("topic_id").is_some_and(Value::is_string);
            named_by_id || row.get(name).is_some_and(|row| knows_as_much(row, value))
        }),
        (Value::Array(row), Value::Array(whole)) => {
            row.len() == whole.len() && row.iter().zip(whole).all(|(row, whole)| knows_as_much(row, whole))
        }
        (row, whole) => row.is_null() == whole.is_null(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Whole, joined};
    use crate::capture_file::CaptureFile;
    use crate::frames;
    use crate::row::Output;
    use serde_json::{Value, json};
    use std::path::Path;

    const BROKER: &str = "127.0.0.1:29092";

    fn sample() -> CaptureFile {
        CaptureFile::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample.pcap"))
    }

    fn output(of: impl Iterator<Item = frames::CapturedRequest>) -> Output {
        let rows = of.enumerate().map(|(i, request)| {
            let (client, id, _) = request.key;
            json!({"type": "request", "client": client, "correlation_id": id, "arrival_ns": i, "error": null,
                   "response_bytes": request.response.map(|range| range.len())})
        });
        Output { rows: rows.collect(), summary: Value::Null }
    }

    #[test]
    fn every_packet_with_data_belongs_to_a_request() {
        let requests = frames::requests(&sample(), BROKER);
        let all = output(requests.iter().cloned());
        let whole = Whole::new(sample(), BROKER, &all);
        let mut left = vec![true; whole.packets()];
        let share = whole.judge(&left, &all);
        assert_eq!((share.intact, share.missed.len()), (requests.len(), 0));
        for (i, place) in frames::places(&sample()).into_iter().enumerate() {
            left[i] = false;
            let share = whole.judge(&left, &all);
            left[i] = true;
            assert_eq!(share.intact < requests.len(), place.is_some(), "packet {i}");
        }
    }

    #[test]
    fn missing_incomplete_and_changed_rows_count_as_missed() {
        let requests = frames::requests(&sample(), BROKER);
        let all = output(requests.iter().cloned());
        let whole = Whole::new(sample(), BROKER, &all);
        let left = vec![true; whole.packets()];
        let missed = |change: &dyn Fn(&mut Vec<Value>)| {
            let mut output = all.clone();
            change(&mut output.rows);
            whole.judge(&left, &output).missed.len()
        };
        assert_eq!(missed(&|rows| drop(rows.remove(2))), 1);
        assert_eq!(missed(&|rows| rows[2]["response_bytes"] = Value::Null), 1);
        assert_eq!(missed(&|rows| rows[2]["response_bytes"] = json!(1)), 1);
        assert_eq!(missed(&|rows| rows[2]["error"] = json!("bytes are missing")), 1);
        assert_eq!(missed(&|rows| rows[2]["arrival_ns"] = json!(99)), 0, "its first packet was sent again");
    }

    #[test]
    fn ranges_are_joined() {
        assert_eq!(joined(vec![5..9, 0..3, 3..5, 12..14, 1..2]), [0..9, 12..14]);
    }
}
