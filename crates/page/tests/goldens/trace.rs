//! Checks that readers of the Trace Event Format accept a trace: by the rules of the format's document ("Trace Event Format",
//! Google) and of Perfetto's reader (`src/trace_processor/plugins/json`), which drops slices that cross others of their
//! track and arrows whose ends lie in no slice.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

type Track = (u64, u64);

/// The slices of each track, and both ends of each arrow: `s` and `f`, with their tracks and times.
#[derive(Default)]
struct Read {
    named: BTreeSet<Track>,
    slices: BTreeMap<Track, Vec<(i64, i64)>>,
    flows: BTreeMap<u64, Vec<(String, Track, i64)>>,
}

/// Panics if the trace breaks a rule. Returns the numbers of slices and arrows.
pub(crate) fn check(trace: &Value) -> (usize, usize) {
    assert!(["ms", "ns"].contains(&trace["displayTimeUnit"].as_str().unwrap()), "{trace}");
    let mut read = Read::default();
    for event in trace["traceEvents"].as_array().unwrap() {
        read.event(event);
    }
    for (track, slices) in &mut read.slices {
        assert!(read.named.contains(track), "{track:?} has no name");
        slices.sort_by_key(|&(start, end)| (start, -end));
        nest(slices);
    }
    for (id, ends) in &read.flows {
        let [(s, from, left), (f, to, right)] = &ends[..] else { panic!("arrow {id}: {ends:?}") };
        assert!((s.as_str(), f.as_str()) == ("s", "f") && left <= right, "arrow {id}: {ends:?}");
        for (track, at) in [(from, left), (to, right)] {
            let inside = read.slices[track].iter().any(|(start, end)| start <= at && at <= end);
            assert!(inside, "arrow {id} ends in no slice of {track:?} at {at}");
        }
    }
    (read.slices.values().map(Vec::len).sum(), read.flows.len())
}

impl Read {
    fn event(&mut self, event: &Value) {
        let field = |name: &str| event[name].as_u64().unwrap_or_else(|| panic!("{name} of {event}"));
        let text =
            |name: &str| event[name].as_str().unwrap_or_else(|| panic!("{name} of {event}")).to_owned();
        let track = (field("pid"), field("tid"));
        let known = |fields: &[&str]| {
            for (name, _) in event.as_object().unwrap() {
                assert!(fields.contains(&name.as_str()), "{name} of {event}");
            }
        };
        assert!(!text("name").is_empty(), "{event}");
        match text("ph").as_str() {
            "M" => {
                known(&["ph", "pid", "tid", "name", "args"]);
                match text("name").as_str() {
                    "thread_name" => {
                        assert!(self.named.insert(track), "{track:?} has two names");
                        assert!(event["args"]["name"].is_string(), "{event}");
                    }
                    "process_name" => assert!(event["args"]["name"].is_string(), "{event}"),
                    "thread_sort_index" | "process_sort_index" => {
                        assert!(event["args"]["sort_index"].is_u64(), "{event}");
                    }
                    _ => panic!("{event}"),
                }
            }
            "X" => {
                known(&["ph", "pid", "tid", "name", "args", "ts", "dur", "cat"]);
                assert!(event["args"].is_object(), "{event}");
                text("cat");
                let (start, length) = (event["ts"].as_i64().unwrap(), field("dur") as i64);
                self.slices.entry(track).or_default().push((start, start + length));
            }
            ph @ ("s" | "f") => {
                known(&["ph", "pid", "tid", "name", "ts", "id", "cat", "bp"]);
                let end = (ph.to_owned(), track, event["ts"].as_i64().unwrap());
                self.flows.entry(field("id")).or_default().push(end);
            }
            _ => panic!("{event}"),
        }
    }
}

/// Checks slices sorted by start, the longest first among equals: each lies within those around it or follows them.
fn nest(slices: &[(i64, i64)]) {
    let mut open: Vec<(i64, i64)> = Vec::new();
    for &(start, end) in slices {
        open.retain(|around| around.1 > start);
        for around in &open {
            assert!(end <= around.1, "{start}..{end} crosses {around:?}");
        }
        open.push((start, end));
    }
}
