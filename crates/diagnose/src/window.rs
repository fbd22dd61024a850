//! The recent past: events kept by the keys under which verdicts look for them, bounded in time and number.
//! Does not interpret events.

pub(crate) mod appends;
pub(crate) mod lock_waits;
pub(crate) mod requests;
pub(crate) mod search;
pub(crate) mod sockets;
pub(crate) mod timeline;
pub(crate) mod trouble;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use ahash::RandomState;
use model::{
    BlockIo, CpuSample, Device, DirtyThrottle, FileKind, FileOp, FileOpKind, HostSample, JournalCommit,
    JvmPause, KernelSpan, LockWait, Loss, Nanos, OffCpu, Pid, Reclaim, Request, SocketOp, Tid,
    TopicPartition,
};

use crate::config::Config;
use crate::window::appends::Appends;
use crate::window::lock_waits::{is_same_wait, unite};
use crate::window::requests::{Followers, ProduceIndex};
use crate::window::sockets::{CpuSamples, Sockets};
pub(crate) use crate::window::timeline::Timeline;
use crate::window::trouble::Trouble;

/// Block requests faster than this never explain a slow request and are not kept.
const UNREMARKABLE_BLOCK_IO: Nanos = Nanos::from_millis(1);

/// Packets and probes read two clocks, paired once a second: slewing may part them by this much.
pub(crate) const CLOCK_SLACK: Nanos = Nanos::from_millis(1);

/// A handler that has appended nothing for so long may be gone: `num.io.threads` can be lowered while the broker runs.
const KNOWN_FOR: Nanos = Nanos::from_millis(600_000);

/// Both ends of a connection: client, broker.
type Connection = (SocketAddr, SocketAddr);

/// Something with a start and an end.
pub(crate) trait Span {
    fn start(&self) -> Nanos;
    fn end(&self) -> Nanos;

    /// What tells apart what began and ended together.
    fn tie(&self) -> u64 {
        0
    }

    /// The time that this and the given stretch share.
    fn overlap(&self, start: Nanos, end: Nanos) -> Nanos {
        (self.end().min(end) - self.start().max(start)).at_least_zero()
    }
}

macro_rules! span {
    ($($event:ty $(, $tie:ident)?;)*) => {$(
        impl Span for $event {
            fn start(&self) -> Nanos {
                self.start
            }
            fn end(&self) -> Nanos {
                self.end
            }
            $(fn tie(&self) -> u64 {
                self.$tie.into()
            })?
        }
    )*};
}
span! {
    OffCpu;
    JournalCommit;
    DirtyThrottle;
    JvmPause;
    LockWait;
    Loss;
    Reclaim;
    KernelSpan;
    HostSample;
    Arc<FileOp>, tid;
    BlockIo, sector;
}

impl Span for Arc<Request> {
    fn start(&self) -> Nanos {
        self.arrival
    }
    fn end(&self) -> Nanos {
        self.last_seen()
    }
}

/// What one thread did and what happened to it.
#[derive(Debug, Default)]
pub(crate) struct ThreadPast {
    pub(crate) file_ops: Timeline<Arc<FileOp>>,
    pub(crate) off_cpu: Timeline<OffCpu>,
    pub(crate) throttles: Timeline<DirtyThrottle>,
    pub(crate) lock_waits: Timeline<LockWait>,
    /// Of a request handler.
    pub(crate) samples: CpuSamples,
    /// Its full name, where the JVM told it.
    name: Option<Arc<str>>,
}

/// What happened on one block device.
#[derive(Debug, Default)]
pub(crate) struct DevicePast {
    pub(crate) commits: Timeline<JournalCommit>,
    pub(crate) ios: Timeline<BlockIo>,
}

/// Everything that may still explain a request.
#[derive(Debug, Default)]
pub(crate) struct Window {
    threads: HashMap<Tid, ThreadPast, RandomState>,
    partitions: HashMap<TopicPartition, Timeline<Arc<FileOp>>, RandomState>,
    devices: HashMap<(u32, u32), DevicePast, RandomState>,
    connections: HashMap<Connection, Timeline<Arc<Request>>, RandomState>,
    pub(crate) sockets: Sockets,
    pub(crate) followers: Followers,
    pub(crate) produced: ProduceIndex,
    pauses: Timeline<JvmPause>,
    losses: Timeline<Loss>,
    pub(crate) trouble: Trouble,
    pub(crate) appends: Appends<Arc<FileOp>>,
    /// The request handlers, and when each appended last.
    handlers: HashMap<Tid, (Pid, Nanos), RandomState>,
    /// How many events are kept, and some that were forgotten since they were counted.
    kept: usize,
    /// Nothing that ended before this is kept.
    horizon: Nanos,
}

impl Window {
    pub(crate) fn file_op(&mut self, op: FileOp) {
        let op = Arc::new(op);
        self.kept += 1;
        self.threads.entry(op.tid).or_default().file_ops.insert(Arc::clone(&op));
        let (FileKind::Log, FileOpKind::Write, Some(partition)) = (op.kind, op.op, &op.topic_partition)
        else {
            return;
        };
        match self.partitions.get_mut(partition) {
            Some(appends) => appends.insert(Arc::clone(&op)),
            None => self.partitions.entry(partition.clone()).or_default().insert(Arc::clone(&op)),
        }
        if is_handlers_name(&op.thread) {
            self.handler(&op);
        }
        self.appends.insert(op);
    }

    pub(crate) fn off_cpu(&mut self, interval: OffCpu) {
        self.trouble.off_cpu(&interval);
        self.kept += 1;
        self.threads.entry(interval.tid).or_default().off_cpu.insert(interval);
    }

    pub(crate) fn throttle(&mut self, pause: DirtyThrottle) {
        self.trouble.throttled(&pause);
        self.kept += 1;
        self.threads.entry(pause.tid).or_default().throttles.insert(pause);
    }

    /// Whether it was not known yet: another source may have seen it.
    pub(crate) fn lock_wait(&mut self, wait: LockWait) -> bool {
        if let Some((tid, name)) = wait.holder.as_ref().and_then(|holder| Some((holder.tid?, &holder.thread)))
        {
            self.threads.entry(tid).or_default().name = Some(Arc::clone(name));
        }
        self.kept += 1;
        let past = self.threads.entry(wait.tid).or_default();
        past.name = Some(Arc::clone(&wait.thread));
        let known = past.lock_waits.take(|known| is_same_wait(known, &wait));
        let is_new = known.is_none();
        past.lock_waits.insert(match known {
            Some(known) => unite(known, wait),
            None => wait,
        });
        is_new
    }

    /// The wait with what other sources have reported of it since.
    pub(crate) fn as_known(&self, wait: &LockWait) -> LockWait {
        let waits = self.threads.get(&wait.tid).map(|past| past.lock_waits.overlapping(wait.start, wait.end));
        let united = waits.into_iter().flatten().find(|known| {
            is_same_wait(known, wait) || (known.source == wait.source && known.start == wait.start)
        });
        united.unwrap_or(wait).clone()
    }

    pub(crate) fn pause(&mut self, pause: JvmPause) {
        self.pauses.insert(pause);
    }

    pub(crate) fn commit(&mut self, commit: JournalCommit) {
        self.devices.entry(commit.device.number()).or_default().commits.insert(commit);
    }

    pub(crate) fn block_io(&mut self, io: BlockIo) {
        if io.latency() >= UNREMARKABLE_BLOCK_IO {
            self.trouble.block_io(&io);
            self.kept += 1;
            self.devices.entry(io.device.number()).or_default().ios.insert(io);
        }
    }

    pub(crate) fn loss(&mut self, loss: Loss) {
        self.losses.insert(loss);
    }

    pub(crate) fn request(&mut self, request: &Arc<Request>) {
        self.kept += 1;
        let connection = (request.client, request.broker);
        self.connections.entry(connection).or_default().insert(Arc::clone(request));
        self.followers.request(request);
        self.produced.request(request);
        self.trouble.request(request);
    }

    pub(crate) fn socket_op(&mut self, op: &SocketOp) {
        self.kept += 1;
        self.sockets.push(op);
    }

    pub(crate) fn cpu_sample(&mut self, sample: &CpuSample) {
        self.sockets.sample(sample);
        if self.handlers.contains_key(&sample.tid) {
            self.threads.entry(sample.tid).or_default().samples.push(sample);
        }
    }

    pub(crate) fn thread(&self, tid: Tid) -> Option<&ThreadPast> {
        self.threads.get(&tid)
    }

    /// A thread's full name: the JVM's where it is longer than what the kernel kept of it.
    pub(crate) fn name(&self, tid: Tid, kept: &Arc<str>) -> Arc<str> {
        let full = self.thread(tid).and_then(|past| past.name.as_ref());
        Arc::clone(full.filter(|full| full.starts_with(&**kept)).unwrap_or(kept))
    }

    /// Pauses of the JVM that share time with the stretch.
    pub(crate) fn pauses(&self, start: Nanos, end: Nanos) -> impl Iterator<Item = &JvmPause> {
        self.pauses.overlapping(start, end)
    }

    /// The past of every thread that anything was seen of, in no order.
    pub(crate) fn threads(&self) -> impl Iterator<Item = &ThreadPast> {
        self.threads.values()
    }

    /// The request handlers that appended of late, in the order of their ids.
    pub(crate) fn handlers(&self) -> Vec<Tid> {
        let mut tids: Vec<Tid> = self.handlers.keys().copied().collect();
        tids.sort_unstable();
        tids
    }

    /// Notes that a handler appended: with a new process come new handlers.
    fn handler(&mut self, op: &FileOp) {
        if self.handlers.values().next().is_some_and(|(pid, _)| *pid != op.pid) {
            self.handlers.clear();
        }
        let (_, last) = self.handlers.entry(op.tid).or_insert((op.pid, op.end));
        *last = op.end.max(*last);
    }

    pub(crate) fn device(&self, device: &Device) -> Option<&DevicePast> {
        self.devices.get(&device.number())
    }

    pub(crate) fn partition(&self, partition: &TopicPartition) -> Option<&Timeline<Arc<FileOp>>> {
        self.partitions.get(partition)
    }

    /// Requests of the same connection that arrived before this one and were still unanswered at a moment, the one answered
    /// last first.
    pub(crate) fn ahead_of(&self, request: &Request, at: Nanos) -> impl Iterator<Item = &Arc<Request>> {
        let (arrival, number) = (request.arrival, request.correlation_id);
        self.connections
            .get(&(request.client, request.broker))
            .into_iter()
            .flat_map(move |past| past.ended_by(request.last_seen()))
            .take_while(move |earlier| earlier.last_seen() > at)
            .filter(move |earlier| earlier.arrival <= arrival && earlier.correlation_id != number)
    }

    /// The last earlier request of the same connection that was answered by a moment.
    pub(crate) fn before_on_connection(&self, request: &Request, by: Nanos) -> Option<&Arc<Request>> {
        let past = self.connections.get(&(request.client, request.broker))?;
        past.ended_by(by).find(|earlier| earlier.arrival < request.arrival)
    }

    /// Whether the connection was serving an earlier request for most of the stretch.
    pub(crate) fn connection_busy(&self, request: &Request, start: Nanos, end: Nanos) -> Nanos {
        let past = self.connections.get(&(request.client, request.broker));
        past.into_iter()
            .flat_map(|past| past.overlapping(start, end))
            .filter(|earlier| earlier.arrival < request.arrival && earlier.end.is_some())
            .map(|earlier| earlier.overlap(start, end))
            .max()
            .unwrap_or_default()
    }

    pub(crate) fn losses(&self, start: Nanos, end: Nanos) -> impl Iterator<Item = &Loss> {
        self.losses.overlapping(start, end)
    }

    /// Whether everything since `time` is still here.
    pub(crate) fn reaches_back_to(&self, time: Nanos) -> bool {
        self.horizon <= time
    }

    /// From when on things are kept at that moment: for the configured retention, and not as long where there is too
    /// much of it.
    pub(crate) fn kept_from(&self, now: Nanos, config: &Config) -> Nanos {
        let horizon = self.horizon.max(now - config.retention);
        if self.kept + self.trouble.len() <= config.max_events {
            return horizon;
        }
        // Half the kept time goes at once, so that this is rare however fast events come.
        horizon.max(now - Nanos((now - horizon).0 / 2))
    }

    /// Forgets what is not kept any more at that moment.
    pub(crate) fn forget(&mut self, now: Nanos, config: &Config) {
        let horizon = self.kept_from(now, config);
        self.horizon = horizon;
        self.appends.forget(horizon);
        self.handlers.retain(|_, (_, last)| now - *last <= KNOWN_FOR);
        for past in self.threads.values_mut() {
            past.file_ops.forget(horizon);
            past.off_cpu.forget(horizon);
            past.throttles.forget(horizon);
            past.lock_waits.forget(horizon);
            past.samples.forget(horizon);
        }
        for past in self.devices.values_mut() {
            past.commits.forget(horizon);
            past.ios.forget(horizon);
        }
        self.partitions.values_mut().for_each(|appends| appends.forget(horizon));
        self.connections.values_mut().for_each(|requests| requests.forget(horizon));
        self.sockets.forget(horizon);
        self.followers.forget(horizon);
        self.produced.forget(horizon);
        self.pauses.forget(horizon);
        self.losses.forget(horizon);
        self.trouble.forget(horizon);
        self.threads.retain(|_, past| !past.is_empty());
        self.partitions.retain(|_, appends| !appends.is_empty());
        self.connections.retain(|_, requests| !requests.is_empty());
        self.kept = self.count();
    }

    /// The events that are kept, each counted once. Of what is seldom, only what belongs to a thread.
    fn count(&self) -> usize {
        let of_threads = self.threads.values().map(ThreadPast::len).sum::<usize>();
        let of_connections = self.connections.values().map(Timeline::len).sum::<usize>();
        let calls = self.sockets.len();
        of_threads + of_connections + calls + self.devices.values().map(|past| past.ios.len()).sum::<usize>()
    }

    #[cfg(test)]
    pub(crate) fn kept(&self) -> usize {
        self.count()
    }
}

/// `data-plane-kafka-request-handler-N` (`KafkaRequestHandlerPool`; before Kafka 2.2 without the first two words), of which
/// the kernel keeps 15 characters. Followers' fetchers and the log cleaner write logs too.
fn is_handlers_name(name: &str) -> bool {
    name.starts_with("data-plane-kafk") || name.starts_with("kafka-request-h")
}

impl ThreadPast {
    fn is_empty(&self) -> bool {
        self.len() == 0 && self.samples.is_empty()
    }

    fn len(&self) -> usize {
        self.file_ops.len() + self.off_cpu.len() + self.throttles.len() + self.lock_waits.len()
    }
}
