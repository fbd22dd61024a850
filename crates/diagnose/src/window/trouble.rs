//! Recent trouble other than the broker's own operations: a shortage of memory, a full log of a file system,
//! connections in trouble, a cgroup out of CPU. Bounded in time like the window; what has no end is bounded in
//! number. Does not know which requests it slowed.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;
use model::api_key::ADD_PARTITIONS_TO_TXN;
use model::{
    BlockIo, Device, Direction, HostSample, HostScope, KernelSpan, Nanos, OffCpu, Reclaim, Request, TcpEvent,
    TcpEventKind, Tid,
};

use crate::time::{Span, TimeSpan};
use crate::window::timeline::{Episodes, Timeline, Timelines};
use crate::window::{Connection, DeviceNumber};

/// A block request of at least this length shows a slow device; shorter ones are normal for some devices.
const SLOW_IO: Nanos = Nanos::from_millis(10);
/// A thread that had no CPU for this long did not just wait its turn.
pub(crate) const MIN_WAIT_FOR_CPU: Nanos = Nanos::from_millis(5);
/// Connections without window scaling that are stored; this is reported once, when they begin.
const MAX_UNSCALED: usize = 16_384;
/// The cgroup's metric for the share of time in which its quota had run out. See `watch::host::metrics`.
const THROTTLED: &str = "cpu_throttled_ratio";
/// Part of the names of a device's metrics that are limits of the broker's cgroup.
/// The names start with the direction and this.
const LIMIT: &str = "_limit_";

/// The function in which XFS waits for space in its log (`fs/xfs/xfs_log.c`).
pub(crate) const LOG_GRANT: &str = "xlog_grant_head_wait";

/// A condition that lasts; everything that one episode of it slowed has one root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Trouble {
    /// Threads reclaim memory themselves: for a cgroup's limit, or because the host is short of memory.
    Reclaim { memcg: bool },
    /// Writers are paused.
    DirtyThrottling,
    /// Threads have no CPU.
    NoCpu,
    /// The hypervisor has taken CPUs.
    Steal,
    /// A cgroup is out of its CPU quota.
    OutOfQuota,
    /// A device is slow.
    SlowDevice(DeviceNumber),
    /// The log of a file system is full.
    LogFull(DeviceNumber),
}

/// Recent trouble.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    episodes: HashMap<Trouble, Episodes, RandomState>,
    pub(crate) reclaims: Timelines<Tid, Reclaim>,
    /// Threads without a CPU.
    pub(crate) without_cpu: Timeline<OffCpu>,
    /// Calls of file systems, by their device.
    pub(crate) kernel_spans: Timelines<DeviceNumber, KernelSpan>,
    tcp_events: Timelines<Connection, TcpEvent>,
    unscaled: HashMap<Connection, Nanos, RandomState>,
    /// Requests to a transaction's coordinator, by the transaction's id.
    verifications: Timelines<Arc<str>, Arc<Request>>,
    pub(crate) out_of_quota: Timeline<HostSample>,
    /// Limits of the broker's cgroup on a device's reads and writes, by device name.
    io_limits: Timelines<Arc<str>, HostSample>,
}

/// Whether requests with this key go to a transaction's coordinator.
pub(crate) fn is_of_transaction(api_key: i16) -> bool {
    api_key == ADD_PARTITIONS_TO_TXN
}

impl Troubles {
    /// Adds a stretch of trouble.
    pub(crate) fn add(&mut self, trouble: Trouble, span: TimeSpan) {
        self.episodes.entry(trouble).or_default().add(span);
    }

    /// When the episode that includes the stretch began.
    pub(crate) fn began(&self, trouble: Trouble, span: TimeSpan) -> Option<Nanos> {
        self.episodes.get(&trouble)?.began(span)
    }

    pub(crate) fn reclaim(&mut self, reclaim: Reclaim) {
        self.add(Trouble::Reclaim { memcg: reclaim.memcg }, reclaim.span());
        self.reclaims.of_mut(&reclaim.tid).insert(reclaim);
    }

    pub(crate) fn off_cpu(&mut self, interval: &OffCpu) {
        let since = if interval.preempted { Some(interval.start) } else { interval.woken };
        if let Some(since) = since.filter(|since| interval.end - *since >= MIN_WAIT_FOR_CPU) {
            self.add(Trouble::NoCpu, TimeSpan::new(since, interval.end));
            self.without_cpu.insert(interval.clone());
        }
    }

    pub(crate) fn block_io(&mut self, io: &BlockIo) {
        if io.latency() >= SLOW_IO {
            self.add(Trouble::SlowDevice(io.device.number()), io.span());
        }
    }

    pub(crate) fn kernel_span(&mut self, span: KernelSpan) {
        let Some(device) = span.device.as_ref().map(model::Device::number) else { return };
        if &*span.function == LOG_GRANT {
            self.add(Trouble::LogFull(device), span.span());
        }
        self.kernel_spans.insert(&device, span);
    }

    pub(crate) fn tcp(&mut self, event: TcpEvent) {
        let (Some(client), Some(broker)) = (event.remote, event.local) else { return };
        let connection = (client, broker);
        if event.kind == TcpEventKind::NoWindowScaling {
            if self.unscaled.len() >= MAX_UNSCALED {
                // Drops the oldest half: a connection that still matters is usually a new one.
                let mut times: Vec<Nanos> = self.unscaled.values().copied().collect();
                times.sort_unstable();
                let middle = times.get(times.len() / 2).copied().unwrap_or(Nanos::MAX);
                self.unscaled.retain(|_, at| *at > middle);
            }
            self.unscaled.insert(connection, event.at);
        } else {
            self.tcp_events.insert(&connection, event);
        }
    }

    pub(crate) fn request(&mut self, request: &Arc<Request>) {
        if let Some(id) = request.transactional_id.as_ref().filter(|_| is_of_transaction(request.api_key)) {
            self.verifications.insert(id, Arc::clone(request));
        }
    }

    pub(crate) fn sample(&mut self, sample: HostSample) {
        if sample.scope == HostScope::Cgroup && &*sample.metric == THROTTLED && sample.value > 0.0 {
            self.add(Trouble::OutOfQuota, sample.span());
            self.out_of_quota.insert(sample);
        } else if sample.scope == HostScope::Device && sample.metric.contains(LIMIT) {
            let device = Arc::clone(&sample.name);
            self.io_limits.insert(&device, sample);
        }
    }

    /// Whether the broker's cgroup recently had a limit on a device.
    pub(crate) fn is_limited(&self, device: &Device) -> bool {
        self.io_limits.has(&device.name)
    }

    /// A limit of the broker's cgroup that was in force in a stretch.
    /// It is on reads from a device or writes to it, and known as far as it was sampled.
    pub(crate) fn io_limit(
        &self,
        device: &Device,
        direction: Direction,
        span: TimeSpan,
    ) -> Option<&HostSample> {
        let mut limits = self.io_limits.of(&device.name).overlapping(span);
        limits.find(|limit| limit.metric.starts_with(direction.as_str()))
    }

    /// Trouble with a connection within a stretch, in order.
    pub(crate) fn of_connection(&self, of: Connection, span: TimeSpan) -> impl Iterator<Item = &TcpEvent> {
        let events = self.tcp_events.of(&of).ended_after(span.start - Nanos(1));
        events.take_while(move |event| event.at <= span.end)
    }

    /// Whether a connection has no window scaling. Then it carries at most 64 KiB per round trip.
    pub(crate) fn is_unscaled(&self, connection: Connection) -> bool {
        self.unscaled.contains_key(&connection)
    }

    /// The request to a transaction's coordinator that took most of a stretch.
    pub(crate) fn verification(&self, id: &Arc<str>, span: TimeSpan) -> Option<&Arc<Request>> {
        let requests = self.verifications.of(id).overlapping(span);
        requests.max_by_key(|request| (request.overlap(span), request.arrival))
    }

    /// The number of events, of the kinds that may be numerous.
    pub(crate) fn len(&self) -> usize {
        self.reclaims.len() + self.kernel_spans.len() + self.tcp_events.len()
    }

    pub(crate) fn forget(&mut self, horizon: Nanos) {
        self.episodes.retain(|_, episodes| episodes.forget(horizon));
        self.reclaims.forget(horizon);
        self.without_cpu.forget(horizon);
        self.kernel_spans.forget(horizon);
        self.tcp_events.forget(horizon);
        self.verifications.forget(horizon);
        self.out_of_quota.forget(horizon);
        self.io_limits.forget(horizon);
    }
}
