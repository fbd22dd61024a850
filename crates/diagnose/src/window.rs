//! The recent past: events by the keys that verdicts use, bounded in time and number. Does not interpret events.

pub(crate) mod appends;
pub(crate) mod cpu_gaps;
pub(crate) mod lock_waits;
pub(crate) mod pools;
pub(crate) mod replicas;
pub(crate) mod requests;
pub(crate) mod search;
pub(crate) mod sockets;
pub(crate) mod timeline;
pub(crate) mod trouble;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;

use ahash::RandomState;
use model::row_summary::WriteKey;
use model::{
    BlockIo, CpuGap, CpuSample, DirtyThrottle, FileKind, FileOp, FileOpKind, HandlerCall, HostSample,
    JournalCommit, JvmPause, KernelSpan, LockWait, Loss, Nanos, OffCpu, ProcessStop, Reclaim, Request,
    SocketOp, TcpEvent, Tid, TopicPartition,
};

use crate::causes::remote_tier::TierCall;
use crate::config::Config;
use crate::kernel_stack;
use crate::time::{Span, TimeSpan};
use crate::window::appends::Appends;
use crate::window::cpu_gaps::{CpuGaps, is_stolen};
use crate::window::lock_waits::{is_same_wait, unite};
use crate::window::pools::{PoolThreads, ThreadPool};
use crate::window::replicas::{FollowerState, Replicas};
use crate::window::requests::{Followers, ProduceIndex};
use crate::window::sockets::{CpuSamples, Sockets};
use crate::window::timeline::{Timeline, Timelines, forget_first, insert_sorted};
use crate::window::trouble::{Trouble, Troubles};

/// Minimum length of a block request that may explain a slow request.
/// Quicker ones are dropped, unless a limit may have kept them out of the device's queue.
const UNREMARKABLE_BLOCK_IO: Nanos = Nanos::from_millis(1);

/// Packets and probes read two clocks, which are paired once a second: slewing may separate them by this much.
pub(crate) const CLOCK_SLACK: Nanos = Nanos::from_millis(1);

/// Both ends of a connection: client, broker.
pub(crate) type Connection = (SocketAddr, SocketAddr);

/// Major and minor number.
pub(crate) type DeviceNumber = (u32, u32);

macro_rules! span {
    ($($event:ty $(, $tie:ident)?;)*) => {$(
        impl Span for $event {
            fn span(&self) -> TimeSpan {
                TimeSpan::new(self.start, self.end)
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
    ProcessStop;
    LockWait;
    HandlerCall;
    Loss;
    Reclaim;
    KernelSpan;
    CpuGap, cpu;
    HostSample;
    WriteKey;
    FileOp, tid;
    BlockIo, sector;
}

impl Span for Request {
    fn span(&self) -> TimeSpan {
        TimeSpan::new(self.arrival, self.last_seen())
    }
}

impl Span for TcpEvent {
    fn span(&self) -> TimeSpan {
        TimeSpan::new(self.at, self.at)
    }
}

/// The connection on which a request came.
pub(crate) fn connection_of(request: &Request) -> Connection {
    (request.client, request.broker)
}

/// How many ordinary events take as much memory as a request.
pub(crate) fn weight_of(request: &Request) -> usize {
    (request.memory_bytes() / Config::EVENT_BYTES).max(1)
}

/// Everything that may still explain a request.
#[derive(Debug, Default)]
pub(crate) struct Window {
    pub(crate) file_ops: Timelines<Tid, Arc<FileOp>>,
    pub(crate) off_cpu: Timelines<Tid, OffCpu>,
    /// Waits that user space asked for (futexes). Separate from what threads do in the kernel.
    pub(crate) futex_waits: Timelines<Tid, OffCpu>,
    pub(crate) throttles: Timelines<Tid, DirtyThrottle>,
    pub(crate) lock_waits: Timelines<Tid, LockWait>,
    /// Long calls of request handlers.
    pub(crate) handler_calls: Timelines<Tid, HandlerCall>,
    /// Appends to each partition's log.
    pub(crate) partitions: Timelines<TopicPartition, Arc<FileOp>>,
    pub(crate) commits: Timelines<DeviceNumber, JournalCommit>,
    pub(crate) ios: Timelines<DeviceNumber, BlockIo>,
    connections: Timelines<Connection, Arc<Request>>,
    /// The ends of large requests, with their weight beyond the first event.
    large_requests: VecDeque<(Nanos, usize)>,
    pub(crate) sockets: Sockets,
    /// Calls of remote-log readers on their own connections, and their reads of files.
    pub(crate) tier_calls: Timelines<Tid, TierCall>,
    pub(crate) followers: Followers,
    pub(crate) replicas: Replicas,
    pub(crate) produced: ProduceIndex,
    pub(crate) pauses: Timeline<JvmPause>,
    pub(crate) stops: Timeline<ProcessStop>,
    pub(crate) cpu_gaps: CpuGaps,
    pub(crate) losses: Timeline<Loss>,
    pub(crate) troubles: Troubles,
    pub(crate) appends: Appends<Arc<FileOp>>,
    pool_threads: PoolThreads,
    /// Samples of these threads.
    samples: HashMap<Tid, CpuSamples, RandomState>,
    /// Full names of known threads, if the JVM reported them.
    names: HashMap<Tid, Arc<str>, RandomState>,
    /// The number of stored events. Includes some that were dropped since the last count.
    event_count: usize,
    /// Nothing that ended before this is stored.
    horizon: Nanos,
}

impl Window {
    pub(crate) fn file_op(&mut self, op: FileOp) {
        let op = Arc::new(op);
        self.event_count += 1;
        self.file_ops.insert(&op.tid, Arc::clone(&op));
        if let Some(call) = TierCall::of_file(&op) {
            self.tier_calls.insert(&op.tid, call);
        }
        let (FileKind::Log, FileOpKind::Write, Some(partition)) = (op.kind, op.op, &op.topic_partition)
        else {
            return;
        };
        self.partitions.insert(partition, Arc::clone(&op));
        self.pool_threads.append(&op);
        self.appends.insert(op);
    }

    pub(crate) fn off_cpu(&mut self, interval: OffCpu) {
        self.troubles.off_cpu(&interval);
        self.event_count += 1;
        let is_futex = !interval.preempted && kernel_stack::is_of_user_space(&interval.stack);
        let waits = if is_futex { &mut self.futex_waits } else { &mut self.off_cpu };
        waits.of_mut(&interval.tid).insert(interval);
    }

    pub(crate) fn cpu_gap(&mut self, gap: CpuGap) {
        if is_stolen(&gap) {
            self.troubles.add(Trouble::Steal, gap.span());
        }
        self.cpu_gaps.insert(gap);
    }

    pub(crate) fn throttle(&mut self, pause: DirtyThrottle) {
        self.troubles.add(Trouble::DirtyThrottling, pause.span());
        self.event_count += 1;
        self.throttles.of_mut(&pause.tid).insert(pause);
    }

    /// Returns whether the wait is new: another source may have reported it.
    pub(crate) fn lock_wait(&mut self, wait: LockWait) -> bool {
        let holder = wait.holder.as_ref().and_then(|holder| Some((holder.tid?, &holder.thread)));
        for (tid, name) in holder.into_iter().chain([(wait.tid, &wait.thread)]) {
            self.names.insert(tid, Arc::clone(name));
        }
        self.event_count += 1;
        let waits = self.lock_waits.of_mut(&wait.tid);
        let known = waits.take(|known| is_same_wait(known, &wait));
        let is_new = known.is_none();
        waits.insert(match known {
            Some(known) => unite(known, wait),
            None => wait,
        });
        is_new
    }

    /// The wait with what other sources have reported of it since.
    pub(crate) fn as_known(&self, wait: &LockWait) -> LockWait {
        let mut waits = self.lock_waits.of(&wait.tid).overlapping(wait.span());
        let united = waits.find(|known| {
            is_same_wait(known, wait) || (known.source == wait.source && known.start == wait.start)
        });
        united.unwrap_or(wait).clone()
    }

    pub(crate) fn handler_call(&mut self, call: HandlerCall) {
        self.names.insert(call.tid, Arc::clone(&call.thread));
        self.event_count += 1;
        self.handler_calls.of_mut(&call.tid).insert(call);
    }

    pub(crate) fn block_io(&mut self, io: BlockIo) {
        let may_have_been_held_back =
            || io.inode.and(io.queued).is_some() && self.troubles.is_limited(&io.device);
        if io.latency() >= UNREMARKABLE_BLOCK_IO || may_have_been_held_back() {
            self.troubles.block_io(&io);
            self.event_count += 1;
            self.ios.of_mut(&io.device.number()).insert(io);
        }
    }

    pub(crate) fn request(&mut self, request: &Arc<Request>) {
        let weight = weight_of(request);
        if weight > 1 {
            insert_sorted(&mut self.large_requests, (request.last_seen(), weight - 1), |(end, _)| *end);
        }
        self.event_count += weight;
        self.connections.insert(&connection_of(request), Arc::clone(request));
        self.followers.request(request);
        self.produced.request(request);
        self.troubles.request(request);
    }

    pub(crate) fn socket_op(&mut self, op: &SocketOp) {
        self.event_count += 1;
        self.sockets.push(op);
        if let Some(call) = TierCall::of_socket(op) {
            self.tier_calls.insert(&op.tid, call);
        }
    }

    pub(crate) fn cpu_sample(&mut self, sample: &CpuSample) {
        self.sockets.sample(sample);
        self.pool_threads.sample(sample);
        if self.pool_threads.has(sample.tid) {
            self.samples.entry(sample.tid).or_default().push(sample);
        }
    }

    /// A thread's full name: the JVM's if it is longer than the name in the kernel.
    pub(crate) fn name(&self, tid: Tid, short: &Arc<str>) -> Arc<str> {
        let full = self.names.get(&tid).filter(|full| full.starts_with(&**short));
        Arc::clone(full.unwrap_or(short))
    }

    /// The threads of a pool that appended recently, in the order of their ids.
    pub(crate) fn threads_of(&self, pool: ThreadPool) -> Vec<Tid> {
        self.pool_threads.of(pool)
    }

    /// Whether samples show a thread of a pool at work during a whole stretch; `unknown` is the time of it that has
    /// no other explanation.
    pub(crate) fn is_seen_at_work(&self, tid: Tid, span: TimeSpan, unknown: Nanos) -> bool {
        self.samples.get(&tid).is_some_and(|samples| samples.show_work(span, unknown))
    }

    /// The stretches around samples of a pool's thread on a CPU, near a stretch.
    pub(crate) fn on_cpu(&self, tid: Tid, span: TimeSpan) -> impl Iterator<Item = TimeSpan> {
        self.samples.get(&tid).into_iter().flat_map(move |samples| samples.on_cpu(span))
    }

    /// Requests ahead of this one on its connection at a moment.
    /// They arrived before it and were still unanswered. The last to be answered comes first.
    pub(crate) fn ahead_of(&self, request: &Request, at: Nanos) -> impl Iterator<Item = &Arc<Request>> {
        let (arrival, number) = (request.arrival, request.correlation_id);
        let past = self.connections.of(&connection_of(request)).ended_by(request.last_seen());
        past.take_while(move |earlier| earlier.last_seen() > at)
            .filter(move |earlier| earlier.arrival <= arrival && earlier.correlation_id != number)
    }

    /// The last earlier request of the same connection that was answered by a moment; both may have arrived together.
    pub(crate) fn before_on_connection(&self, request: &Request, by: Nanos) -> Option<&Arc<Request>> {
        let (arrival, number) = (request.arrival, request.correlation_id);
        let mut past = self.connections.of(&connection_of(request)).ended_by(by);
        past.find(|earlier| {
            earlier.arrival < arrival || earlier.arrival == arrival && earlier.correlation_id != number
        })
    }

    /// Whether a partition has followers that its writers may wait for.
    pub(crate) fn follower_state(&self, partition: &TopicPartition) -> FollowerState {
        match self.replicas.of(partition) {
            _ if self.followers.any(partition) => FollowerState::Seen,
            Some(1) => FollowerState::Alone,
            replicas => FollowerState::Unseen(replicas),
        }
    }

    /// For how much of the stretch the connection was serving an earlier request.
    pub(crate) fn connection_busy(&self, request: &Request, span: TimeSpan) -> Nanos {
        let past = self.connections.of(&connection_of(request)).overlapping(span);
        let earlier = past.filter(|other| other.arrival < request.arrival && other.end.is_some());
        earlier.map(|earlier| earlier.overlap(span)).max().unwrap_or_default()
    }

    /// Whether everything since `time` is still stored.
    pub(crate) fn reaches_back_to(&self, time: Nanos) -> bool {
        self.horizon <= time
    }

    /// The start of the time that is retained at a moment: the configured retention, less if there are too many
    /// events.
    pub(crate) fn retention_start(&self, now: Nanos, config: &Config) -> Nanos {
        let horizon = self.horizon.max(now - config.retention);
        if self.event_count + self.troubles.len() + self.cpu_gaps.len() <= config.max_events {
            return horizon;
        }
        // Half of the retained time goes at once, so that this is rare however fast events arrive.
        horizon.max(now - Nanos((now - horizon).0 / 2))
    }

    /// Drops what is no longer retained at a moment.
    pub(crate) fn forget(&mut self, now: Nanos, config: &Config) {
        let horizon = self.retention_start(now, config);
        self.horizon = horizon;
        self.file_ops.forget(horizon);
        self.off_cpu.forget(horizon);
        self.futex_waits.forget(horizon);
        self.throttles.forget(horizon);
        self.lock_waits.forget(horizon);
        self.handler_calls.forget(horizon);
        self.partitions.forget(horizon);
        self.commits.forget(horizon);
        self.ios.forget(horizon);
        self.connections.forget(horizon);
        forget_first(&mut self.large_requests, |(end, _)| *end < horizon);
        self.sockets.forget(horizon);
        self.tier_calls.forget(horizon);
        self.followers.forget(horizon);
        self.produced.forget(horizon);
        self.pauses.forget(horizon);
        self.stops.forget(horizon);
        self.cpu_gaps.forget(horizon);
        self.losses.forget(horizon);
        self.troubles.forget(horizon);
        self.appends.forget(horizon);
        self.pool_threads.forget(now);
        self.samples.retain(|_, samples| samples.forget(horizon));
        let mut names = std::mem::take(&mut self.names);
        names.retain(|tid, _| self.knows(*tid));
        self.names = names;
        self.event_count = self.count();
    }

    /// Whether anything is stored about a thread.
    pub(crate) fn knows(&self, tid: Tid) -> bool {
        self.file_ops.has(&tid)
            || self.off_cpu.has(&tid)
            || self.futex_waits.has(&tid)
            || self.throttles.has(&tid)
            || self.lock_waits.has(&tid)
            || self.handler_calls.has(&tid)
            || self.samples.contains_key(&tid)
            || self.names.contains_key(&tid)
    }

    /// The number of stored events, each counted once.
    /// Large requests count as [`weight_of`] says. Of rare kinds, only the events of threads are counted.
    pub(crate) fn count(&self) -> usize {
        let off_cpu = self.off_cpu.len() + self.futex_waits.len();
        let of_jvm = self.lock_waits.len() + self.handler_calls.len();
        let of_threads = self.file_ops.len() + off_cpu + self.throttles.len() + of_jvm;
        let of_requests =
            self.connections.len() + self.large_requests.iter().map(|large| large.1).sum::<usize>();
        of_threads + of_requests + self.sockets.len() + self.ios.len()
    }

    /// Memory of the stored requests.
    #[cfg(test)]
    pub(crate) fn request_bytes(&self) -> usize {
        let requests = self.connections.all().flat_map(|requests| requests.ended_after(Nanos::MIN));
        requests.map(|request| request.memory_bytes()).sum()
    }
}
