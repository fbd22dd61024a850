//! A page's slow requests as a trace that ui.perfetto.dev and Chrome open: the JSON of the Trace Event Format. Requests, threads,
//! journals, devices and JVM pauses are tracks; arrows lead from a request to its evidence: the waits, writes, commits and
//! device requests that explain it. Contains only what the page shows in detail.

mod tracks;

use std::collections::BTreeMap;
use std::io::{self, Write};

use model::Tid;
use serde_json::json;

use super::detail::{Detail, Proof};
use super::devices::CommitData;
use super::{Page, RecordingData};
use report::json;
use tracks::{Slice, Trace, Track};

/// Tracks are threads of these "processes": the format has no other way to group them.
const REQUESTS: u32 = 1;
const THREADS: u32 = 2;
const BENEATH: u32 = 3;
const GROUPS: [(u32, &str); 3] =
    [(REQUESTS, "slow requests"), (THREADS, "threads"), (BENEATH, "journals, devices, JVM")];
/// Process ids reserved per recording.
const EACH: u32 = 10;

/// Writes the trace: one object, times in microseconds after the recording's origin.
///
/// # Errors
/// Those of `out`.
pub fn write(mut out: &mut dyn Write, page: &Page) -> io::Result<()> {
    let mut trace = Trace::default();
    for (at, recording) in (0..).zip(&page.recordings) {
        write_recording(&mut trace, at * EACH, recording);
    }
    let object = json!({
        "traceEvents": trace.into_events(),
        "displayTimeUnit": "ms",
        "otherData": { "written_by": page.written_by, "origins_ns": origins(page) },
    });
    json::write_line(&mut out, &object)
}

fn origins(page: &Page) -> BTreeMap<&str, &str> {
    page.recordings.iter().map(|one| (one.about.name.as_str(), one.origin_ns.as_str())).collect()
}

fn write_recording(trace: &mut Trace, base: u32, recording: &RecordingData) {
    for (group, what) in GROUPS {
        trace.process(base + group, &format!("{}: {what}", recording.about.name));
    }
    let requests = requests(trace, base, recording);
    let mut slices = spans(trace, base, recording);
    slices.extend(commits(trace, base, recording));
    for (detail, from) in recording.requests.iter().zip(requests) {
        for proof in &detail.evidence {
            if let Some(to) = evidence(detail, proof, recording).and_then(|source| slices.get(&source)) {
                trace.flow(&from, to);
            }
        }
    }
}

/// Source of a slice below requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    /// The span with this number.
    Span(u32),
    /// The commit with this start and end.
    Commit(i64, i64),
}

/// Adds the requests in rows without overlap, each with its stages below.
fn requests(trace: &mut Trace, base: u32, recording: &RecordingData) -> Vec<Slice> {
    let of = |detail: &Detail| {
        let stages = &recording.slow.stages;
        let lengths: BTreeMap<_, _> =
            stages.iter().zip(&detail.stages).filter(|(_, length)| **length > 0).collect();
        let args = json!({
            "client_id": detail.client_id, "client": detail.client, "partitions": detail.partitions, "cause": detail.cause,
            "chain": detail.chain, "root": detail.root, "confidence": detail.confidence, "stages_ns": lengths,
        });
        let name = format!("{} {}", detail.api, detail.correlation_id);
        ((detail.arrival_ns, detail.end_ns), name, args)
    };
    let row = Track { pid: base + REQUESTS, name: "requests".to_owned() };
    let slices = trace.slices(&row, recording.requests.iter().map(of).collect());
    for (detail, request) in recording.requests.iter().zip(&slices) {
        for &(stage, start, end) in &detail.stage_spans {
            let name = recording.slow.stages.get(stage).copied().unwrap_or("stage");
            trace.within(request, (start, end), name);
        }
    }
    slices
}

/// Adds the spans of threads, devices and the JVM.
fn spans(trace: &mut Trace, base: u32, recording: &RecordingData) -> BTreeMap<Source, Slice> {
    let mut by_track = BTreeMap::<Track, Vec<u32>>::new();
    for (number, (group, owner)) in owners(recording) {
        let Some(span) = recording.spans.get(number as usize) else { continue };
        // Reasons lie within operations, so each kind has a track.
        let name = if owner == DEVICE { owner } else { format!("{owner} {}", span.kind) };
        by_track.entry(Track { pid: base + group, name }).or_default().push(number);
    }
    let mut slices = BTreeMap::new();
    for (track, numbers) in by_track {
        let of_track = numbers.iter().filter_map(|&number| recording.spans.get(number as usize));
        let data = of_track.map(|span| {
            let args = json!({ "kind": span.kind, "text": span.text });
            ((span.start_ns, span.end_ns), span.label.clone(), args)
        });
        let placed = trace.slices(&track, data.collect());
        slices.extend(numbers.into_iter().map(Source::Span).zip(placed));
    }
    slices
}

/// The track of requests to devices.
const DEVICE: &str = "block requests";

/// The group of tracks and the owner of each span: many requests show the same span.
#[expect(clippy::indexing_slicing, reason = "every lane's thread has been named")]
fn owners(recording: &RecordingData) -> BTreeMap<u32, (u32, String)> {
    let mut owners = BTreeMap::new();
    // A thread has one name, the longest that any request knows.
    let mut names = BTreeMap::<Tid, &str>::new();
    for lane in recording.requests.iter().flat_map(|detail| &detail.threads) {
        let name = names.entry(lane.tid).or_default();
        if lane.thread.len() > name.len() {
            *name = &lane.thread;
        }
    }
    for detail in &recording.requests {
        for lane in &detail.threads {
            let owner = (THREADS, format!("{} {}", names[&lane.tid], lane.tid));
            owners.extend(lane.spans.iter().map(|&number| (number, owner.clone())));
        }
        let beneath = |owner: &'static str| move |&number: &u32| (number, (BENEATH, owner.to_owned()));
        owners.extend(detail.block_ios.iter().map(beneath(DEVICE)));
        owners.extend(detail.others.iter().map(beneath("JVM and kernel:")));
    }
    owners
}

/// Adds every journal's commits, by their times.
fn commits(trace: &mut Trace, base: u32, recording: &RecordingData) -> BTreeMap<Source, Slice> {
    let mut by_device = BTreeMap::<&str, BTreeMap<(i64, i64), &CommitData>>::new();
    let of_requests = recording.requests.iter().flat_map(|detail| &detail.commits);
    for commit in recording.commits.iter().chain(of_requests) {
        by_device.entry(&commit.device).or_default().insert((commit.start_ns, commit.end_ns), commit);
    }
    let mut slices = BTreeMap::new();
    for (device, commits) in by_device {
        let data = commits.values().map(|commit| {
            let args = json!({ "transaction": commit.transaction, "phases_ms": commit.phases });
            ((commit.start_ns, commit.end_ns), format!("commit {}", commit.transaction), args)
        });
        let journal = Track { pid: base + BENEATH, name: format!("journal commits of {device}") };
        let placed = trace.slices(&journal, data.collect());
        slices.extend(commits.into_keys().map(|(start, end)| Source::Commit(start, end)).zip(placed));
    }
    slices
}

/// The slice of a piece of evidence: one of its kind and thread (for a wait, the waiter) that overlaps most.
fn evidence(detail: &Detail, proof: &Proof, recording: &RecordingData) -> Option<Source> {
    let (start, end) = (proof.start_ns, proof.end_ns);
    let mut commits = detail.commits.iter().map(|commit| (commit.start_ns, commit.end_ns));
    if proof.kind == "kernel" && commits.any(|commit| commit == (start, end)) {
        return Some(Source::Commit(start, end));
    }
    let whose = proof.waiter_tid.or(proof.tid);
    let lanes = detail.threads.iter().filter(|lane| Some(lane.tid) == whose).flat_map(|lane| &lane.spans);
    let in_common = |number: &&u32| {
        let span = recording.spans.get(**number as usize).filter(|span| span.kind == proof.kind)?;
        let time = span.end_ns.min(end) - span.start_ns.max(start);
        (time > 0).then_some(time)
    };
    let all = lanes.chain(&detail.block_ios).chain(&detail.others);
    all.filter(|number| in_common(number).is_some()).max_by_key(in_common).map(|&number| Source::Span(number))
}
