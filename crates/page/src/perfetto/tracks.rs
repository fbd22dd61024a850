//! Tracks, slices and arrows of a trace in the Trace Event Format. Its readers require that slices of one track never
//! cross, an arrow's ends lie in slices, and it does not lead back in time. Does not know what they represent.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// A track, or several with one name if its slices would cross.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Track {
    pub(super) pid: u32,
    pub(super) name: String,
}

/// A slice on a track.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pid: u32,
    tid: u64,
    time: (i64, i64),
}

/// The times of a slice, its name and further arguments.
pub(super) type SliceData = ((i64, i64), String, Value);

/// The trace.
#[derive(Default)]
pub(super) struct Trace {
    events: Vec<Value>,
    /// Thread ids by track and row.
    tids: BTreeMap<(Track, usize), u64>,
    flows: u64,
}

impl Trace {
    /// All events.
    pub(super) fn into_events(self) -> Vec<Value> {
        self.events
    }

    /// Names a group of tracks.
    pub(super) fn process(&mut self, pid: u32, name: &str) {
        self.metadata("process_name", pid, 0, &json!({ "name": name }));
        self.metadata("process_sort_index", pid, 0, &json!({ "sort_index": pid }));
    }

    /// Adds slices and returns them in the order given. Overlapping slices go to several rows.
    pub(super) fn slices(&mut self, track: &Track, data: Vec<SliceData>) -> Vec<Slice> {
        let rows = rows(&data.iter().map(|(time, ..)| *time).collect::<Vec<_>>());
        let placed = data.into_iter().zip(rows).map(|((time, name, args), row)| {
            let slice = Slice { pid: track.pid, tid: self.tid(track, row), time };
            self.slice(&slice, &name, &track.name, &args);
            slice
        });
        placed.collect()
    }

    /// Adds a slice within another one, clipped to it.
    pub(super) fn within(&mut self, outer: &Slice, (start, end): (i64, i64), name: &str) {
        let time = (start.max(outer.time.0), end.min(outer.time.1));
        if time.0 < time.1 {
            self.slice(&Slice { time, ..outer.clone() }, name, "stages", &json!({}));
        }
    }

    /// Adds an arrow if both slices overlap or the second one follows.
    pub(super) fn flow(&mut self, from: &Slice, to: &Slice) {
        let at = to.time.0.max(from.time.0);
        if at > to.time.1 || at > from.time.1 {
            return;
        }
        self.flows += 1;
        let id = self.flows;
        let end = |ph: &str, of: &Slice| {
            json!({
                "ph": ph, "pid": of.pid, "tid": of.tid, "ts": micros(at), "id": id, "name": "evidence", "cat": "evidence",
                "bp": "e",
            })
        };
        let both = [end("s", from), end("f", to)];
        self.events.extend(both);
    }

    fn slice(&mut self, slice: &Slice, name: &str, category: &str, args: &Value) {
        let (start, end) = slice.time;
        let name = if name.is_empty() { "?" } else { name };
        self.events.push(json!({
            "ph": "X", "pid": slice.pid, "tid": slice.tid, "ts": micros(start), "dur": micros(end.max(start)) - micros(start),
            "name": name, "cat": category, "args": args,
        }));
    }

    fn tid(&mut self, track: &Track, row: usize) -> u64 {
        let next = self.tids.len() as u64 + 1;
        let tid = *self.tids.entry((track.clone(), row)).or_insert(next);
        if tid == next {
            self.metadata("thread_name", track.pid, tid, &json!({ "name": track.name }));
            self.metadata("thread_sort_index", track.pid, tid, &json!({ "sort_index": tid }));
        }
        tid
    }

    fn metadata(&mut self, what: &str, pid: u32, tid: u64, args: &Value) {
        self.events.push(json!({ "ph": "M", "pid": pid, "tid": tid, "name": what, "args": args }));
    }
}

/// Whole microseconds: not all readers keep fractions exactly, and slices that touch would cross by a nanosecond.
fn micros(ns: i64) -> i64 {
    ns.div_euclid(1_000)
}

/// Assigns each span a row, so that no two spans in a row overlap.
fn rows(times: &[(i64, i64)]) -> Vec<usize> {
    let mut order: Vec<_> = times.iter().copied().enumerate().collect();
    order.sort_by_key(|&(at, time)| (time, at));
    let mut ends: Vec<i64> = Vec::new();
    let mut rows = vec![0; times.len()];
    for (at, (start, end)) in order {
        let row = ends.iter().position(|free| *free <= start).unwrap_or(ends.len());
        match ends.get_mut(row) {
            Some(free) => *free = end.max(start),
            None => ends.push(end.max(start)),
        }
        if let Some(place) = rows.get_mut(at) {
            *place = row;
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::rows;

    #[test]
    fn overlapping_slices_go_to_separate_rows() {
        let times = [(0, 10), (5, 8), (10, 12), (7, 9), (8, 11)];
        assert_eq!(rows(&times), [0, 1, 0, 2, 1]);
    }
}
