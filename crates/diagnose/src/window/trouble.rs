//! What went wrong of late beside the broker's own operations: threads that freed memory, waits inside file systems,
//! connections in trouble, a cgroup out of CPU. Bounded in time as the window is, and what has no end in
//! number. Does not know whom it hurt.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;

use ahash::RandomState;
use model::api_key::ADD_PARTITIONS_TO_TXN;
use model::{
    BlockIo, Device, DirtyThrottle, HostSample, HostScope, KernelSpan, Nanos, OffCpu, Reclaim, Request,
    TcpEvent, TcpEventKind, Tid,
};

use crate::window::Span;
use crate::window::timeline::{Episodes, Timeline};

/// A block request that took so long is one of a slow device; faster ones are how some devices always are.
const SLOW_IO: Nanos = Nanos::from_millis(10);
/// A thread that had no CPU for so long did not just take its turn.
pub(crate) const MIN_WAIT_FOR_CPU: Nanos = Nanos::from_millis(5);
/// Connections known to be without window scaling, which is said once, when they begin.
const MAX_UNSCALED: usize = 16_384;
/// The cgroup's figure of the time for which its quota had run out (`watch::host::metrics`).
const THROTTLED: &str = "cpu_throttled_ratio";

/// The function in which XFS waits for room in its log (`fs/xfs/xfs_log.c`).
pub(crate) const LOG_GRANT: &str = "xlog_grant_head_wait";

/// Both ends of a connection: client, broker.
type Connection = (SocketAddr, SocketAddr);

/// The recent past of it.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    reclaims: HashMap<Tid, Timeline<Reclaim>, RandomState>,
    /// Of the whole host's shortage.
    short: Episodes,
    /// Of a cgroup's limit.
    limited: Episodes,
    pub(crate) throttling: Episodes,
    pub(crate) no_cpu: Episodes,
    /// Threads without a CPU.
    pub(crate) without_cpu: Timeline<OffCpu>,
    devices: HashMap<(u32, u32), DeviceTrouble>,
    connections: HashMap<Connection, Timeline<TcpEvent>>,
    unscaled: HashMap<Connection, Nanos>,
    /// Requests to a transaction's coordinator, by the transaction's id.
    verifications: HashMap<Arc<str>, Timeline<Arc<Request>>>,
    pub(crate) out_of_quota: Timeline<HostSample>,
    pub(crate) quota_episodes: Episodes,
    /// How many are kept of what may come in any number, and some that were forgotten since they were counted.
    kept: usize,
}

/// That of one device.
#[derive(Debug, Default)]
struct DeviceTrouble {
    spans: Timeline<KernelSpan>,
    slow: Episodes,
    log_full: Episodes,
}

impl Span for TcpEvent {
    fn start(&self) -> Nanos {
        self.at
    }
    fn end(&self) -> Nanos {
        self.at
    }
}

/// Whether requests with this key ask a transaction's coordinator.
pub(crate) fn is_of_transaction(api_key: i16) -> bool {
    api_key == ADD_PARTITIONS_TO_TXN
}

impl Trouble {
    pub(crate) fn reclaim(&mut self, reclaim: Reclaim) {
        let episodes = if reclaim.memcg { &mut self.limited } else { &mut self.short };
        episodes.add(reclaim.start, reclaim.end);
        self.kept += 1;
        self.reclaims.entry(reclaim.tid).or_default().insert(reclaim);
    }

    pub(crate) fn throttled(&mut self, pause: &DirtyThrottle) {
        self.throttling.add(pause.start, pause.end);
    }

    pub(crate) fn off_cpu(&mut self, interval: &OffCpu) {
        let since = if interval.preempted { Some(interval.start) } else { interval.woken };
        if let Some(since) = since.filter(|since| interval.end - *since >= MIN_WAIT_FOR_CPU) {
            self.no_cpu.add(since, interval.end);
            self.without_cpu.insert(interval.clone());
        }
    }

    pub(crate) fn block_io(&mut self, io: &BlockIo) {
        if io.latency() >= SLOW_IO {
            self.devices.entry(io.device.number()).or_default().slow.add(io.start, io.end);
        }
    }

    pub(crate) fn kernel_span(&mut self, span: KernelSpan) {
        let Some(device) = &span.device else { return };
        let past = self.devices.entry(device.number()).or_default();
        if &*span.function == LOG_GRANT {
            past.log_full.add(span.start, span.end);
        }
        past.spans.insert(span);
        self.kept += 1;
    }

    pub(crate) fn tcp(&mut self, trouble: TcpEvent) {
        let (Some(client), Some(broker)) = (trouble.remote, trouble.local) else { return };
        let connection = (client, broker);
        if trouble.kind == TcpEventKind::NoWindowScaling {
            if self.unscaled.len() >= MAX_UNSCALED {
                // The oldest half goes: a connection that still matters is mostly a new one.
                let mut times: Vec<Nanos> = self.unscaled.values().copied().collect();
                times.sort_unstable();
                let middle = times.get(times.len() / 2).copied().unwrap_or(Nanos::MAX);
                self.unscaled.retain(|_, at| *at > middle);
            }
            self.unscaled.insert(connection, trouble.at);
        } else {
            self.connections.entry(connection).or_default().insert(trouble);
            self.kept += 1;
        }
    }

    pub(crate) fn request(&mut self, request: &Arc<Request>) {
        if let Some(id) = request.transactional_id.as_ref().filter(|_| is_of_transaction(request.api_key)) {
            self.verifications.entry(Arc::clone(id)).or_default().insert(Arc::clone(request));
        }
    }

    pub(crate) fn sample(&mut self, sample: HostSample) {
        if sample.scope == HostScope::Cgroup && &*sample.metric == THROTTLED && sample.value > 0.0 {
            self.quota_episodes.add(sample.start, sample.end);
            self.out_of_quota.insert(sample);
        }
    }

    /// What a thread did to free memory within a stretch.
    pub(crate) fn reclaims(&self, tid: Tid, start: Nanos, end: Nanos) -> impl Iterator<Item = &Reclaim> {
        self.reclaims.get(&tid).into_iter().flat_map(move |past| past.overlapping(start, end))
    }

    /// What all threads did to free memory within a stretch.
    pub(crate) fn all_reclaims(&self, start: Nanos, end: Nanos) -> impl Iterator<Item = &Reclaim> {
        self.reclaims.values().flat_map(move |past| past.overlapping(start, end))
    }

    /// When the shortage of memory began that a stretch is of.
    pub(crate) fn shortage(&self, memcg: bool, start: Nanos, end: Nanos) -> Option<Nanos> {
        if memcg { self.limited.began(start, end) } else { self.short.began(start, end) }
    }

    /// When the device began to be slow.
    pub(crate) fn slow_device(&self, device: &Device, start: Nanos, end: Nanos) -> Option<Nanos> {
        self.devices.get(&device.number())?.slow.began(start, end)
    }

    /// When the file system's log began to be full.
    pub(crate) fn log_full(&self, device: &Device, start: Nanos, end: Nanos) -> Option<Nanos> {
        self.devices.get(&device.number())?.log_full.began(start, end)
    }

    /// Calls of this function for a device's file system within a stretch.
    pub(crate) fn spans<'w>(
        &'w self,
        device: &Device,
        function: &'w str,
        start: Nanos,
        end: Nanos,
    ) -> impl Iterator<Item = &'w KernelSpan> {
        let past = self.devices.get(&device.number()).into_iter();
        past.flat_map(move |past| past.spans.overlapping(start, end))
            .filter(move |span| &*span.function == function)
    }

    /// What went wrong with a connection within a stretch, in order.
    pub(crate) fn of_connection(
        &self,
        client: SocketAddr,
        broker: SocketAddr,
        start: Nanos,
        end: Nanos,
    ) -> impl Iterator<Item = &TcpEvent> {
        let past = self.connections.get(&(client, broker)).into_iter();
        past.flat_map(move |past| past.ended_after(start - Nanos(1)))
            .take_while(move |trouble| trouble.at <= end)
    }

    /// Whether a connection has no window scaling, so that it carries 64 KiB a round trip at most.
    pub(crate) fn is_unscaled(&self, client: SocketAddr, broker: SocketAddr) -> bool {
        self.unscaled.contains_key(&(client, broker))
    }

    /// What a transaction's coordinator was asked in a stretch: what took most of it.
    pub(crate) fn verification(&self, id: &str, start: Nanos, end: Nanos) -> Option<&Arc<Request>> {
        let asked = self.verifications.get(id)?.overlapping(start, end);
        asked.max_by_key(|request| (request.overlap(start, end), request.arrival))
    }

    /// How many events are kept, of what may be many.
    pub(crate) fn len(&self) -> usize {
        self.kept
    }

    pub(crate) fn forget(&mut self, horizon: Nanos) {
        self.reclaims.values_mut().for_each(|past| past.forget(horizon));
        self.reclaims.retain(|_, past| !past.is_empty());
        self.short.forget(horizon);
        self.limited.forget(horizon);
        self.throttling.forget(horizon);
        self.no_cpu.forget(horizon);
        self.without_cpu.forget(horizon);
        for past in self.devices.values_mut() {
            past.spans.forget(horizon);
            past.slow.forget(horizon);
            past.log_full.forget(horizon);
        }
        self.connections.values_mut().for_each(|past| past.forget(horizon));
        self.connections.retain(|_, past| !past.is_empty());
        self.verifications.values_mut().for_each(|past| past.forget(horizon));
        self.verifications.retain(|_, past| !past.is_empty());
        self.out_of_quota.forget(horizon);
        self.quota_episodes.forget(horizon);
        self.kept = self.reclaims.values().map(Timeline::len).sum::<usize>()
            + self.devices.values().map(|past| past.spans.len()).sum::<usize>()
            + self.connections.values().map(Timeline::len).sum::<usize>();
    }
}
