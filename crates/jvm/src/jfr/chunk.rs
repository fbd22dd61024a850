//! One chunk of a recording: decodes the events that this project needs.
//! Does not know whether the chunk is finished: reads what was completely written since the last call.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Event, HandlerCall, JvmPause, Lock, LockHolder, LockKind, LockSource, LockWait, Pid, Tid};

use super::bytes::{Bytes, MAX_EVENT_BYTES, Source, Window};
use super::constants::{Constants, Thread};
use super::error::{Error, ErrorKind};
use super::handler_calls::Calls;
use super::header::{self, Clock, Header};
use super::metadata::{Selection, Types};
use super::pauses::{PauseEvent, Pauses};

/// The number of the event that describes the others.
const METADATA: u64 = 0;

/// The number of the event that holds pools.
const CHECKPOINT: u64 = 1;

/// A JVM's description of its events takes about 100 kB.
const MAX_METADATA_BYTES: usize = 4 << 20;

/// An event in a recording.
#[derive(Clone, Debug, PartialEq)]
pub enum JfrEvent {
    /// A thread waited for a lock.
    LockWait(LockWait),
    /// The JVM stopped its threads.
    Pause(JvmPause),
    /// A request handler worked on one request for a long time.
    HandlerCall(HandlerCall),
}

impl From<JfrEvent> for Event {
    fn from(observed: JfrEvent) -> Self {
        match observed {
            JfrEvent::LockWait(wait) => Self::LockWait(Box::new(wait)),
            JfrEvent::Pause(pause) => Self::JvmPause(Box::new(pause)),
            JfrEvent::HandlerCall(call) => Self::HandlerCall(Box::new(call)),
        }
    }
}

/// How much of recordings was read, and how much could not be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Chunks begun.
    pub chunks: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Events of any kind, except checkpoints and descriptions.
    pub events: u64,
    /// Events and checkpoints that were skipped because they could not be read.
    pub damaged: u64,
    /// The reason of the first of these.
    pub first_damage: Option<Error>,
    /// Threads, names, stacks and pauses dropped at a memory limit; the events that refer to them lack them.
    pub lost: u64,
}

impl Summary {
    fn damage(&mut self, error: Error) {
        self.damaged += 1;
        self.first_damage = self.first_damage.or(Some(error));
    }
}

/// The state that lasts from chunk to chunk.
pub(super) struct Interpreter {
    pub(super) pid: Pid,
    pub(super) pauses: Pauses,
    pub(super) summary: Summary,
    window: Window,
}

impl Interpreter {
    pub(super) fn new(pid: Pid) -> Self {
        Self { pid, pauses: Pauses::new(pid), summary: Summary::default(), window: Window::default() }
    }
}

/// A chunk that has been partly read.
pub(super) struct Chunk {
    /// Its offset in its file.
    at: u64,
    /// The offset in the file up to which it has been read.
    done: u64,
    metadata_at: u64,
    constants: Constants,
    decoders: HashMap<u64, Decoder>,
    lost: u64,
    /// When the newest checkpoint was written.
    flushed_ticks: u64,
}

enum Decoder {
    Wait(Waits),
    Stop(PauseEvent),
    Call(Calls),
}

impl Chunk {
    /// A chunk of which nothing has been read yet.
    pub(super) fn new(at: u64, reading: &mut Interpreter) -> Self {
        reading.summary.chunks += 1;
        reading.summary.bytes += header::SIZE_BYTES;
        let done = at + header::SIZE_BYTES;
        Self {
            at,
            done,
            metadata_at: 0,
            constants: Constants::default(),
            decoders: HashMap::new(),
            lost: 0,
            flushed_ticks: 0,
        }
    }

    /// All threads named so far.
    pub(super) fn threads(&mut self) -> Vec<Thread> {
        self.constants.threads()
    }

    /// Reads the events up to the size in the header.
    pub(super) fn advance<S: Source + ?Sized>(
        &mut self,
        source: &S,
        header: &Header,
        clock: &mut Clock,
        reading: &mut Interpreter,
        emit: &mut dyn FnMut(JfrEvent),
    ) -> Result<(), Error> {
        let whole = source.size_bytes().map_err(|error| Error::io(&error, self.at))?;
        let end = self.at.saturating_add(header.size_bytes);
        let held = end.min(whole);
        reading.window.clear();
        self.describe(source, header, held, reading)?;
        // The value for a key may be written after the event that has the key.
        let checkpoints = self.constants(source, held, reading);
        clock.on_flush(header, self.flushed_ticks);
        let events = self.events(source, held, clock, reading, emit);
        reading.pauses.settle(&mut |pause| emit(JfrEvent::Pause(pause)));
        self.count_lost(reading);
        checkpoints.and(events)?;
        if held < end { Err(Error::new(ErrorKind::UnexpectedEnd, whole)) } else { Ok(()) }
    }

    fn count_lost(&mut self, reading: &mut Interpreter) {
        let lost = self.constants.pools.lost;
        reading.summary.lost += lost - self.lost + std::mem::take(&mut reading.pauses.lost);
        self.lost = lost;
    }

    /// Reads the metadata event, if the chunk has a new one.
    fn describe<S: Source + ?Sized>(
        &mut self,
        source: &S,
        header: &Header,
        end: u64,
        reading: &mut Interpreter,
    ) -> Result<(), Error> {
        if header.metadata_at == self.metadata_at && self.metadata_at != 0 {
            return Ok(());
        }
        let at = self.at.saturating_add(header.metadata_at);
        if header.metadata_at < header::SIZE_BYTES || at >= end {
            return Err(Error::new(ErrorKind::NoMetadata, self.at));
        }
        let event = reading.window.event(source, at, end)?;
        let limit = MAX_METADATA_BYTES as u64;
        let body = event.body.filter(|body| body.rest.len() <= MAX_METADATA_BYTES);
        let body = body.ok_or(Error::new(ErrorKind::TooLarge(limit), at))?;
        if event.type_id != METADATA {
            return Err(Error::new(ErrorKind::BadMetadata, at));
        }
        let types = Types::parse(body)?;
        self.decoders = decoders(&types);
        self.constants.set_types(types);
        self.metadata_at = header.metadata_at;
        Ok(())
    }

    fn constants<S: Source + ?Sized>(
        &mut self,
        source: &S,
        end: u64,
        reading: &mut Interpreter,
    ) -> Result<(), Error> {
        let mut at = self.done;
        while at < end {
            let event = reading.window.event(source, at, end)?;
            at = event.next;
            if event.type_id == CHECKPOINT {
                let read = sized(event.body, at).and_then(|body| self.checkpoint(body));
                read.unwrap_or_else(|error| reading.summary.damage(error));
            }
        }
        Ok(())
    }

    fn checkpoint(&mut self, event: Bytes<'_>) -> Result<(), Error> {
        let ticks = { event }.varint()?;
        self.flushed_ticks = self.flushed_ticks.max(ticks);
        self.constants.add(event)
    }

    fn events<S: Source + ?Sized>(
        &mut self,
        source: &S,
        end: u64,
        clock: &Clock,
        reading: &mut Interpreter,
        emit: &mut dyn FnMut(JfrEvent),
    ) -> Result<(), Error> {
        while self.done < end {
            let Interpreter { pid, pauses, summary, window } = reading;
            let event = window.event(source, self.done, end)?;
            summary.bytes += event.next - self.done;
            summary.events += u64::from(!matches!(event.type_id, METADATA | CHECKPOINT));
            let at = self.done;
            self.done = event.next;
            let Some(decoder) = self.decoders.get(&event.type_id) else { continue };
            let constants = &mut self.constants;
            let read = sized(event.body, at).and_then(|body| match decoder {
                Decoder::Wait(fields) => {
                    fields.read(body, constants, clock, *pid).map(|wait| wait.map(JfrEvent::LockWait))
                }
                Decoder::Call(fields) => {
                    fields.read(body, constants, clock, *pid).map(|call| call.map(JfrEvent::HandlerCall))
                }
                Decoder::Stop(fields) => pauses.read(fields, body, constants, clock).map(|()| None),
            });
            match read {
                Ok(Some(observed)) => emit(observed),
                Ok(None) => {}
                Err(error) => summary.damage(error),
            }
        }
        Ok(())
    }
}

fn sized(body: Option<Bytes<'_>>, at: u64) -> Result<Bytes<'_>, Error> {
    body.ok_or(Error::new(ErrorKind::TooLarge(MAX_EVENT_BYTES), at))
}

fn decoders(types: &Types) -> HashMap<u64, Decoder> {
    let waits = [Waits::monitors(types), Waits::parks(types)];
    let waits = waits.into_iter().flatten().map(|(id, fields)| (id, Decoder::Wait(fields)));
    let stops = PauseEvent::all(types).map(|(id, fields)| (id, Decoder::Stop(fields)));
    let calls = Calls::of(types).map(|(id, fields)| (id, Decoder::Call(fields)));
    waits.chain(stops).chain(calls).collect()
}

// Lock waits from two of Flight Recorder's events. Does not find them in the file.
//
// `jdk.JavaMonitorEnter` is a wait for a monitor: from finding it taken to having it. Its previous owner is the thread
// that had it last before, not every thread that had it meanwhile.
//
// `jdk.ThreadPark` is every park of a thread; most of them wait for work and not for a lock. Its `parkedClass` is the
// class of the object that the thread named as the one it parked on. A lock's is its synchronizer, which is the same in
// JDK 11 to 25 and for async-profiler (`AbstractQueuedSynchronizer.acquire` parks on `this`):
// `ReentrantLock$NonfairSync` or `$FairSync`, `ReentrantReadWriteLock$…` likewise, `StampedLock` itself. A thread that
// awaits a condition, as one that takes from a queue does, names `AbstractQueuedSynchronizer$ConditionObject`; latches,
// semaphores, futures and fork-join pools name themselves; a park on nothing has no class. None of those is a lock
// wait. A thread that is woken and finds the lock taken by another parks again: that is two waits, one after the other.

/// The positions of the fields of a wait's event.
pub(super) struct Waits {
    kind: LockKind,
    fields: Selection<7>,
}

impl Waits {
    /// Waits for monitors.
    pub(super) fn monitors(types: &Types) -> Option<(u64, Self)> {
        Self::of(types, "jdk.JavaMonitorEnter", LockKind::Monitor, "monitorClass")
    }

    /// Waits of parked threads.
    pub(super) fn parks(types: &Types) -> Option<(u64, Self)> {
        Self::of(types, "jdk.ThreadPark", LockKind::Park, "parkedClass")
    }

    fn of(types: &Types, event: &str, kind: LockKind, class: &str) -> Option<(u64, Self)> {
        let names = ["startTime", "duration", "eventThread", "stackTrace", class, "previousOwner", "address"];
        let event = types.named(event)?;
        Some((event.id, Self { kind, fields: Selection::of(event, names) }))
    }

    /// The wait of an event; `None` if it was not for a lock.
    pub(super) fn read(
        &self,
        mut event: Bytes<'_>,
        constants: &mut Constants,
        clock: &Clock,
        pid: Pid,
    ) -> Result<Option<LockWait>, Error> {
        let [start, duration, thread, stack, class, owner, address] =
            self.fields.read(&constants.types, &mut event)?;
        let class = constants.class(class);
        if self.kind == LockKind::Park && !is_lock(&class) {
            return Ok(None);
        }
        let start = clock.at(start.integer() as u64);
        let (tid, thread) =
            constants.thread(thread).map(|thread| (thread.tid, thread.name)).unwrap_or_default();
        Ok(Some(LockWait {
            start,
            end: start + clock.length(duration.integer()).at_least_zero(),
            pid,
            tid,
            thread,
            lock: Lock { kind: self.kind, class, address: address.integer() as u64 },
            holder: constants.thread(owner).and_then(|owner| holder(owner.tid, owner.name)),
            stack: constants.stack(stack),
            source: LockSource::Jfr,
        }))
    }
}

fn holder(tid: Tid, thread: Arc<str>) -> Option<LockHolder> {
    let tid = (tid != 0).then_some(tid);
    (tid.is_some() || !thread.is_empty()).then_some(LockHolder { tid, thread })
}

/// Whether a thread that parks on an object of this class waits for a lock.
fn is_lock(class: &str) -> bool {
    let Some(class) = class.strip_prefix("java.util.concurrent.locks.") else { return false };
    match class.split_once('$') {
        Some(("ReentrantLock" | "ReentrantReadWriteLock", inner)) => inner.ends_with("Sync"),
        Some(_) => false,
        None => class == "StampedLock",
    }
}

#[cfg(test)]
mod locks_tests {
    use super::is_lock;

    #[test]
    fn only_lock_synchronizers_are_locks() {
        for class in [
            "ReentrantLock$NonfairSync",
            "ReentrantLock$FairSync",
            "ReentrantReadWriteLock$NonfairSync",
            "ReentrantReadWriteLock$FairSync",
            "StampedLock",
        ] {
            assert!(is_lock(&format!("java.util.concurrent.locks.{class}")), "{class}");
        }
        for class in [
            "",
            "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject",
            "java.util.concurrent.CountDownLatch$Sync",
            "java.util.concurrent.Semaphore$NonfairSync",
            "java.util.concurrent.SynchronousQueue$TransferStack",
            "java.util.concurrent.locks.StampedLock$WNode",
        ] {
            assert!(!is_lock(class), "{class}");
        }
    }
}
