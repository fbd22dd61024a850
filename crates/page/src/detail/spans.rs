//! Events as spans of a waterfall. Does not place them.

use std::sync::Arc;

use model::{BlockIo, Event, Evidence, FileOp, OffCpu, Tid};
use serde::Serialize;

use crate::grid::Grid;
use crate::recent::span;
use report::quantity::{format_bytes, format_count};

/// Kind of a thread's off-CPU time.
pub(super) const OFF_CPU: &str = "off-cpu";

/// A span of time.
#[derive(Clone, Debug, Serialize)]
pub struct Span {
    /// The name of a kind of evidence, or `throttle`, `reclaim`, `call`, or `idle`: a wait for work.
    pub kind: &'static str,
    /// Its start, nanoseconds after the page's origin.
    pub start_ns: i64,
    /// Its end.
    pub end_ns: i64,
    /// End of a part that is shown separately, such as the wait of a block request before the driver had it.
    pub parted_ns: Option<i64>,
    /// A word or two.
    pub label: String,
    /// Details.
    pub text: String,
}

impl Span {
    /// Turns the span into a wait for work.
    pub(super) fn idle(self) -> Self {
        Self { kind: "idle", ..self }
    }
}

/// The thread whose lane the event is in, if any.
pub(super) fn thread(event: &Event) -> Option<(Tid, Option<&Arc<str>>)> {
    match event {
        Event::FileOp(op) => Some((op.tid, Some(&op.thread))),
        Event::OffCpu(interval) => Some((interval.tid, Some(&interval.thread))),
        Event::LockWait(wait) => Some((wait.tid, Some(&wait.thread))),
        Event::Reclaim(reclaim) => Some((reclaim.tid, Some(&reclaim.thread))),
        Event::DirtyThrottle(pause) => Some((pause.tid, None)),
        _ => None,
    }
}

/// An event as a span.
pub(super) fn of(grid: &Grid, event: &Event) -> Option<Span> {
    let (start, end) = span(event)?;
    let (kind, label, text) = describe(event)?;
    let parted = match event {
        Event::BlockIo(io) => io.queued.map(|_| io.start),
        // From then on it waited for a CPU.
        Event::OffCpu(interval) => interval.woken,
        _ => None,
    };
    let (start_ns, end_ns) = (grid.since(start), grid.since(end));
    Some(Span { kind, start_ns, end_ns, parted_ns: parted.map(|at| grid.since(at)), label, text })
}

/// An inferred wait for a lock, from its evidence.
pub(super) fn of_wait(grid: &Grid, wait: &Evidence) -> Span {
    Span {
        kind: wait.kind.as_str(),
        start_ns: grid.since(wait.start),
        end_ns: grid.since(wait.end),
        parted_ns: None,
        label: "lock, inferred".to_owned(),
        text: wait.text.clone(),
    }
}

fn describe(event: &Event) -> Option<(&'static str, String, String)> {
    match event {
        Event::FileOp(op) => Some(("file-op", op.op.as_str().to_owned(), file_op(op))),
        Event::OffCpu(interval) => {
            let (label, text) = off_cpu(interval);
            Some((OFF_CPU, label, text))
        }
        Event::LockWait(wait) => {
            let holder =
                wait.holder.as_ref().map_or(String::new(), |holder| format!(", held by {}", holder.thread));
            let class = &*wait.lock.class;
            let label = format!("lock {}", class.rsplit_once('.').map_or(class, |(_, name)| name));
            Some(("lock-wait", label, format!("{} ({}){holder}", wait.lock.class, wait.source)))
        }
        Event::BlockIo(io) => Some(("block-io", io.direction.as_str().to_owned(), block_io(io))),
        Event::JvmPause(pause) => {
            let label = if pause.operation.is_empty() { pause.kind.as_str() } else { &pause.operation };
            let reach = pause
                .time_to_safepoint
                .map_or(String::new(), |reach| format!(", {reach} to reach the safepoint"));
            Some(("gc", label.to_owned(), format!("{} {}{reach}", pause.kind, pause.cause)))
        }
        Event::DirtyThrottle(pause) => {
            let (dirty, limit) = (format_count(pause.dirty_pages), format_count(pause.limit_pages));
            Some(("throttle", "paused".to_owned(), format!("paused for dirty pages: {dirty} of {limit}")))
        }
        Event::Reclaim(reclaim) => {
            let whose = if reclaim.memcg { "its cgroup" } else { "the host" };
            let text = format!("freed {} pages for {whose}", format_count(reclaim.pages));
            Some(("reclaim", "reclaim".to_owned(), text))
        }
        Event::KernelSpan(call) => {
            let device = call.device.as_ref().map_or(String::new(), |device| format!(" on {device}"));
            Some((
                "call",
                call.function.to_string(),
                format!("{}{device} in {} {}", call.function, call.thread, call.tid),
            ))
        }
        _ => None,
    }
}

fn file_op(op: &FileOp) -> String {
    let bytes = op.bytes.map_or(String::new(), |bytes| format!(" {} B", format_count(bytes)));
    format!(
        "{}{bytes} at {} of {} on {} ({})",
        op.op.as_str(),
        format_count(op.offset),
        op.file,
        op.device,
        op.fs
    )
}

fn block_io(io: &BlockIo) -> String {
    let file = io.file.as_ref().map_or(String::new(), |file| format!(" of {file}"));
    let (flags, bytes) = (&io.flags, format_bytes(io.bytes.into()));
    let (device, service) = (&io.device, io.latency());
    let queued = io.queue_time().map_or(String::new(), |time| format!(", {time} queued before the driver"));
    format!(
        "{device} {flags} {bytes}{file} at sector {}: {service} in the device{queued}; by {} {}",
        io.sector, io.thread, io.tid
    )
}

/// The innermost function outside the scheduler, and the call path to it.
fn off_cpu(interval: &OffCpu) -> (String, String) {
    if interval.preempted {
        return ("preempted".to_owned(), "preempted while runnable".to_owned());
    }
    let own = |frame: &&str| !frame.contains("schedule") && !frame.is_empty();
    let mut frames: Vec<&str> = interval.stack.split(';').rev().filter(own).collect();
    let label = frames.first().map_or_else(|| "off CPU".to_owned(), |frame| (*frame).to_owned());
    frames.truncate(12);
    let waker = interval
        .waker
        .as_ref()
        .map_or(String::new(), |waker| format!("; woken by {} {}", waker.thread, waker.tid));
    (label, format!("{}{waker}", frames.join(" ← ")))
}
