//! Pauses of the JVM, merged from Flight Recorder's events. The events come one by one and in no order. Does not find
//! the events in the file.
//!
//! A collector's pause is `jdk.GCPhasePause`; the collection and its cause are in the `jdk.GarbageCollection` of the
//! same `gcId`, which for a concurrent collection comes only when it ends, long after its pauses. A safepoint is
//! `jdk.SafepointBegin` (from asking threads to stop to all having stopped), `jdk.ExecuteVMOperation` with the same
//! `safepointId` (what ran) and `jdk.SafepointEnd`, which begins when threads continue and lasts while the JVM writes
//! its own log of it (`SafepointSynchronize::end`, HotSpot's safepoint.cpp): that part is not a pause, no matter how
//! long disk or memory delay it. If a threshold suppressed one of these events, the pause is at least as long as the
//! others say. A collection that stops threads is therefore reported twice: as the collector's pause, and as the
//! safepoint that contains it, which is longer by the time to stop and to resume the threads.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{JvmPause, JvmPauseKind, Nanos, Pid};

use super::bytes::Bytes;
use super::constants::Constants;
use super::error::Error;
use super::header::Clock;
use super::metadata::{Selection, Types};

/// Limit of unfinished pauses and collections; a JVM has one of each at a time.
const MAX_PENDING: usize = 4096;

/// Flushes to wait for all events of a pause.
/// The buffers of all its threads are written by the second flush.
const MAX_FLUSHES: u32 = 2;

/// An event about pauses, and the positions of its fields.
pub(super) enum PauseEvent {
    /// `jdk.GCPhasePause`.
    Pause(Selection<4>),
    /// `jdk.GarbageCollection`.
    Collection(Selection<3>),
    /// `jdk.SafepointBegin`.
    Begin(Selection<3>),
    /// `jdk.ExecuteVMOperation`.
    Operation(Selection<5>),
    /// `jdk.SafepointEnd`.
    End(Selection<3>),
}

impl PauseEvent {
    /// The events that a chunk describes.
    pub(super) fn all(types: &Types) -> impl Iterator<Item = (u64, Self)> {
        fn find<const N: usize>(
            types: &Types,
            name: &str,
            fields: [&str; N],
            of: fn(Selection<N>) -> PauseEvent,
        ) -> Option<(u64, PauseEvent)> {
            types.named(name).map(|class| (class.id, of(Selection::of(class, fields))))
        }
        const SPAN: [&str; 3] = ["startTime", "duration", "safepointId"];
        const OPERATION: [&str; 5] = ["startTime", "duration", "safepointId", "safepoint", "operation"];
        let all = [
            find(types, "jdk.GCPhasePause", ["startTime", "duration", "gcId", "name"], Self::Pause),
            find(types, "jdk.GarbageCollection", ["gcId", "name", "cause"], Self::Collection),
            find(types, "jdk.SafepointBegin", SPAN, Self::Begin),
            find(types, "jdk.ExecuteVMOperation", OPERATION, Self::Operation),
            find(types, "jdk.SafepointEnd", SPAN, Self::End),
        ];
        all.into_iter().flatten()
    }
}

/// Pauses of which not all events have been read.
#[derive(Default)]
pub(super) struct Pauses {
    pid: Pid,
    /// By `gcId`: the collections of this and the last flushes.
    collections: BTreeMap<i64, Collection>,
    unnamed: Vec<Pause>,
    /// By `safepointId`.
    safepoints: BTreeMap<i64, Safepoint>,
    flush: u32,
    /// Pauses dropped at the limit.
    pub(super) lost: u64,
}

struct Collection {
    name: Arc<str>,
    cause: Arc<str>,
    flush: u32,
}

struct Pause {
    span: Span,
    gc_id: i64,
    phase: Arc<str>,
    flush: u32,
}

#[derive(Default)]
struct Safepoint {
    begin: Option<Span>,
    operation: Option<(Span, Arc<str>)>,
    end: Option<Span>,
    flush: u32,
}

#[derive(Clone, Copy)]
struct Span {
    start: Nanos,
    end: Nanos,
}

impl Span {
    fn of(clock: &Clock, start: i64, duration: i64) -> Self {
        let start = clock.at(start as u64);
        Self { start, end: start + clock.length(duration).at_least_zero() }
    }
}

impl Pauses {
    pub(super) fn new(pid: Pid) -> Self {
        Self { pid, ..Self::default() }
    }

    /// Adds an event.
    pub(super) fn read(
        &mut self,
        what: &PauseEvent,
        mut event: Bytes<'_>,
        constants: &mut Constants,
        clock: &Clock,
    ) -> Result<(), Error> {
        let flush = self.flush;
        let types = &constants.types;
        match what {
            PauseEvent::Pause(fields) => {
                let [start, duration, gc_id, name] = fields.read(types, &mut event)?;
                let span = Span::of(clock, start.integer(), duration.integer());
                let phase = constants.name(name);
                self.hold_pause(Pause { span, gc_id: gc_id.integer(), phase, flush });
            }
            PauseEvent::Collection(fields) => {
                let [gc_id, name, cause] = fields.read(types, &mut event)?;
                let collection =
                    Collection { name: constants.name(name), cause: constants.name(cause), flush };
                self.collections.insert(gc_id.integer(), collection);
                if self.collections.len() > MAX_PENDING {
                    self.collections.pop_first();
                }
            }
            PauseEvent::Begin(fields) | PauseEvent::End(fields) => {
                let [start, duration, id] = fields.read(types, &mut event)?;
                let span = Some(Span::of(clock, start.integer(), duration.integer()));
                let safepoint = self.safepoint(id.integer());
                *(if matches!(what, PauseEvent::Begin(_)) {
                    &mut safepoint.begin
                } else {
                    &mut safepoint.end
                }) = span;
            }
            PauseEvent::Operation(fields) => {
                let [start, duration, id, stops, operation] = fields.read(types, &mut event)?;
                // Other operations run while threads run: handshakes.
                if stops.integer() != 0 {
                    let span = Span::of(clock, start.integer(), duration.integer());
                    let operation = constants.name(operation);
                    self.safepoint(id.integer()).operation = Some((span, operation));
                }
            }
        }
        Ok(())
    }

    fn hold_pause(&mut self, pause: Pause) {
        if self.unnamed.len() < MAX_PENDING {
            self.unnamed.push(pause);
        } else {
            self.lost += 1;
        }
    }

    fn safepoint(&mut self, id: i64) -> &mut Safepoint {
        if self.safepoints.len() >= MAX_PENDING && !self.safepoints.contains_key(&id) {
            self.safepoints.pop_first();
            self.lost += 1;
        }
        self.safepoints.entry(id).or_insert(Safepoint { flush: self.flush, ..Safepoint::default() })
    }

    /// After the events of a flush: emits the pauses that are complete, and those that have waited long enough.
    pub(super) fn settle(&mut self, emit: &mut dyn FnMut(JvmPause)) {
        self.flush += 1;
        self.emit(MAX_FLUSHES, emit);
    }

    /// After the last event: emits the rest.
    pub(super) fn finish(&mut self, emit: &mut dyn FnMut(JvmPause)) {
        self.emit(0, emit);
    }

    fn emit(&mut self, flushes: u32, emit: &mut dyn FnMut(JvmPause)) {
        let (flush, pid) = (self.flush, self.pid);
        let waited = |since: u32| flush.saturating_sub(since) >= flushes;
        let collections = &self.collections;
        self.unnamed.retain(|pause| {
            let collection = collections.get(&pause.gc_id);
            let ready = collection.is_some() || waited(pause.flush);
            if ready {
                emit(pause.to_jvm_pause(collection, pid));
            }
            !ready
        });
        self.safepoints.retain(|_, safepoint| {
            let ready = safepoint.is_whole() || waited(safepoint.flush);
            if ready {
                safepoint.to_jvm_pause(pid).into_iter().for_each(&mut *emit);
            }
            !ready
        });
        self.collections.retain(|_, collection| !waited(collection.flush));
    }
}

impl Pause {
    /// The pause, named by its collection or by its phase. The phase names it if it says more than that it is a pause
    /// (`Pause Mark Start` of ZGC).
    fn to_jvm_pause(&self, collection: Option<&Collection>, pid: Pid) -> JvmPause {
        let plain = matches!(&*self.phase, "" | "GC Pause");
        let operation = collection.filter(|_| plain).map_or(&self.phase, |collection| &collection.name);
        JvmPause {
            start: self.span.start,
            end: self.span.end,
            pid,
            kind: JvmPauseKind::Gc,
            operation: Arc::clone(operation),
            cause: collection.map(|collection| Arc::clone(&collection.cause)).unwrap_or_default(),
            gc_id: u32::try_from(self.gc_id).ok(),
            time_to_safepoint: None,
        }
    }
}

impl Safepoint {
    fn is_whole(&self) -> bool {
        self.begin.is_some() && self.operation.is_some() && self.end.is_some()
    }

    fn to_jvm_pause(&self, pid: Pid) -> Option<JvmPause> {
        let operation = self.operation.as_ref().map(|(span, _)| *span);
        let resumed = self.end.map(|Span { start, .. }| Span { start, end: start });
        let spans = || [self.begin, operation, resumed].into_iter().flatten();
        Some(JvmPause {
            start: spans().map(|span| span.start).min()?,
            end: spans().map(|span| span.end).max()?,
            pid,
            kind: JvmPauseKind::Safepoint,
            operation: self.operation.as_ref().map(|(_, name)| Arc::clone(name)).unwrap_or_default(),
            cause: Arc::default(),
            gc_id: None,
            time_to_safepoint: self.begin.map(|begin| begin.end - begin.start),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span((start, end): (i64, i64)) -> Span {
        Span { start: Nanos(start), end: Nanos(end) }
    }

    #[test]
    fn safepoint_ends_when_threads_continue() {
        let merge = |begin: Option<_>, operation: Option<_>, end: Option<_>| {
            let operation = operation.map(|times| (span(times), Arc::from("Cleanup")));
            let (begin, end) = (begin.map(span), end.map(span));
            let stop = Safepoint { begin, operation, end, flush: 0 }.to_jvm_pause(7).unwrap();
            (stop.start.0, stop.end.0, stop.time_to_safepoint.map(|reach| reach.0))
        };
        assert_eq!(merge(Some((10, 12)), Some((13, 20)), Some((21, 900))), (10, 21, Some(2)));
        assert_eq!(merge(Some((10, 12)), Some((13, 20)), None), (10, 20, Some(2)));
        assert_eq!(merge(Some((10, 12)), None, Some((15, 16))), (10, 15, Some(2)));
        assert_eq!(merge(None, None, Some((15, 16))), (15, 15, None));
    }
}
