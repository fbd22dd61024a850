//! A page's slow requests as a trace that ui.perfetto.dev and Chrome open: the JSON of the Trace Event Format. Requests, threads,
//! journals and devices are tracks; an arrow leads from a request to each piece of its evidence. Only what the page tells in
//! detail is in it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde_json::{Value, json};

use super::detail::{Detail, Span};
use super::{Page, RecordingData};
use crate::json;

/// Tracks are threads of these "processes": the format has no other way to group them.
const REQUESTS: u32 = 1;
const THREADS: u32 = 2;
const BENEATH: u32 = 3;

/// Writes the trace: one object, times in microseconds after the recording's origin.
///
/// # Errors
/// Those of `out`.
pub fn write(mut out: &mut dyn Write, page: &Page) -> io::Result<()> {
    let mut trace = Trace::default();
    for (at, recording) in (0..).zip(&page.recordings) {
        trace.recording(at * 10, recording);
    }
    let object = json!({
        "traceEvents": trace.events,
        "displayTimeUnit": "ms",
        "otherData": { "written_by": page.written_by, "origins_ns": origins(page) },
    });
    json::write_line(&mut out, &object)
}

fn origins(page: &Page) -> BTreeMap<&str, &str> {
    page.recordings.iter().map(|one| (one.about.name.as_str(), one.origin_ns.as_str())).collect()
}

#[derive(Default)]
struct Trace {
    events: Vec<Value>,
    tracks: BTreeSet<(u32, u64)>,
    /// Spans that several requests tell of are told once.
    told: BTreeSet<(u32, u64, i64, i64, String)>,
    flows: u64,
}

impl Trace {
    fn recording(&mut self, base: u32, recording: &RecordingData) {
        let name = &recording.about.name;
        for (group, what) in
            [(REQUESTS, "slow requests"), (THREADS, "threads"), (BENEATH, "journals, devices, JVM")]
        {
            self.named("process_name", base + group, 0, &format!("{name}: {what}"));
        }
        for (row, detail) in rows(&recording.requests) {
            self.request(base, row, detail, &recording.slow.stages);
        }
        for commit in &recording.commits {
            let args = json!({ "transaction": commit.transaction, "phases_ms": commit.phases });
            self.span(
                (base + BENEATH, 1),
                "journal commits",
                (commit.start_ns, commit.end_ns),
                &commit.device,
                &args,
            );
        }
    }

    fn request(&mut self, base: u32, row: u64, detail: &Detail, stages: &[&str]) {
        let track = (base + REQUESTS, row);
        let lengths: BTreeMap<_, _> =
            stages.iter().zip(&detail.stages).filter(|(_, length)| **length > 0).collect();
        let args = json!({
            "client_id": detail.client_id, "client": detail.client, "partitions": detail.partitions, "cause": detail.cause,
            "chain": detail.chain, "root": detail.root, "confidence": detail.confidence, "stages_ns": lengths,
        });
        let name = format!("{} {}", detail.api, detail.correlation_id);
        self.span(track, "requests", (detail.arrival_ns, detail.end_ns), &name, &args);
        for lane in &detail.threads {
            for span in &lane.spans {
                // Reasons lie within operations: each kind has a track, since spans of one must nest.
                let track = (base + THREADS, u64::from(lane.tid) * 8 + kind_number(span.kind));
                self.of(track, &format!("{} {} {}", lane.thread, lane.tid, span.kind), span);
            }
        }
        for (kind, spans) in [("block requests", &detail.block_ios), ("JVM and kernel", &detail.others)] {
            for (row, span) in apart(spans) {
                let first = if kind == "block requests" { 100 } else { 1_000 };
                self.of((base + BENEATH, first + row), kind, span);
            }
        }
        for proof in detail.evidence.iter().filter(|proof| proof.tid.is_some()) {
            let kind = if proof.kind == "block-io" { "file-op" } else { proof.kind };
            let tid = u64::from(proof.tid.unwrap_or_default()) * 8 + kind_number(kind);
            if self.tracks.contains(&(base + THREADS, tid)) {
                self.flow(
                    track,
                    detail.arrival_ns.max(proof.start_ns),
                    (base + THREADS, tid),
                    proof.start_ns.max(detail.arrival_ns),
                );
            }
        }
    }

    fn of(&mut self, track: (u32, u64), name: &str, span: &Span) {
        self.span(
            track,
            name,
            (span.start_ns, span.end_ns),
            &span.label,
            &json!({ "kind": span.kind, "text": span.text }),
        );
    }

    fn span(
        &mut self,
        (pid, tid): (u32, u64),
        track: &str,
        (start, end): (i64, i64),
        name: &str,
        args: &Value,
    ) {
        if !self.told.insert((pid, tid, start, end, name.to_owned())) {
            return;
        }
        if self.tracks.insert((pid, tid)) {
            self.named("thread_name", pid, tid, track);
        }
        self.events.push(json!({
            "ph": "X", "pid": pid, "tid": tid, "ts": micros(start), "dur": micros(end - start), "name": name, "cat": track,
            "args": args,
        }));
    }

    fn flow(&mut self, from: (u32, u64), left: i64, to: (u32, u64), right: i64) {
        self.flows += 1;
        let end = |ph: &str, (pid, tid): (u32, u64), at: i64| json!({ "ph": ph, "pid": pid, "tid": tid, "ts": micros(at), "id": self.flows, "name": "evidence", "cat": "evidence", "bp": "e" });
        let both = [end("s", from, left), end("f", to, right)];
        self.events.extend(both);
    }

    fn named(&mut self, what: &str, pid: u32, tid: u64, name: &str) {
        self.events
            .push(json!({ "ph": "M", "pid": pid, "tid": tid, "name": what, "args": { "name": name } }));
    }
}

fn micros(ns: i64) -> f64 {
    ns as f64 / 1_000.0
}

fn kind_number(kind: &str) -> u64 {
    ["file-op", "off-cpu", "lock-wait", "throttle", "reclaim"]
        .iter()
        .position(|one| *one == kind)
        .unwrap_or(7) as u64
}

/// Requests in rows in which none shares time with another.
fn rows(requests: &[Detail]) -> Vec<(u64, &Detail)> {
    place(requests.iter().collect(), |one| (one.arrival_ns, one.end_ns))
}

fn apart(spans: &[Span]) -> Vec<(u64, &Span)> {
    place(spans.iter().collect(), |one| (one.start_ns, one.end_ns))
}

fn place<T>(mut all: Vec<&T>, time: impl Fn(&T) -> (i64, i64)) -> Vec<(u64, &T)> {
    all.sort_by_key(|one| time(one));
    let mut ends: Vec<i64> = Vec::new();
    let placed = all.into_iter().map(|one| {
        let (start, end) = time(one);
        let row = ends.iter().position(|free| *free <= start).unwrap_or(ends.len());
        match ends.get_mut(row) {
            Some(free) => *free = end,
            None => ends.push(end),
        }
        (row as u64 + 1, one)
    });
    placed.collect()
}
