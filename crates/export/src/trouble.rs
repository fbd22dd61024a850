//! What went wrong, counted: pauses for dirty pages, connections, what was not seen; and whether the broker is there.

use diagnose::JoinStats;
use model::{BrokerChange, BrokerState, DirtyThrottle, Loss, LossKind, Nanos, TcpEvent, TcpEventKind};

use crate::catalog;
use crate::encoding::Encoder;
use crate::histogram::seconds;

/// Counts of it.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    throttles: u64,
    throttled: Nanos,
    tcp: [u64; TcpEventKind::ALL.len()],
    losses: [u64; LossKind::ALL.len()],
    is_watched: bool,
    /// Processes that were watched.
    processes: u64,
}

impl Trouble {
    pub(crate) fn dirty_throttle(&mut self, pause: &DirtyThrottle) {
        self.throttles += 1;
        self.throttled += (pause.end - pause.start).at_least_zero();
    }

    pub(crate) fn tcp(&mut self, trouble: &TcpEvent) {
        if let Some(count) = self.tcp.get_mut(trouble.kind as usize) {
            *count += trouble.count;
        }
    }

    pub(crate) fn loss(&mut self, loss: &Loss) {
        if let Some(count) = self.losses.get_mut(loss.kind as usize) {
            *count += loss.count;
        }
    }

    pub(crate) fn broker(&mut self, change: &BrokerChange) {
        self.is_watched = change.state == BrokerState::Watched;
        self.processes += u64::from(self.is_watched);
    }

    /// Something of the broker was seen, which says that it is there where nobody says when it came.
    pub(crate) fn seen(&mut self) {
        if self.processes == 0 {
            (self.is_watched, self.processes) = (true, 1);
        }
    }

    pub(crate) fn is_watched(&self) -> bool {
        self.is_watched
    }

    pub(crate) fn encode_throttles(&self, out: &mut dyn Encoder) {
        out.one(&catalog::DIRTY_THROTTLES, self.throttles as f64);
        out.one(&catalog::DIRTY_THROTTLE_TIME, seconds(self.throttled));
    }

    pub(crate) fn encode(&self, out: &mut dyn Encoder, joins: JoinStats) {
        let tcp = TcpEventKind::ALL.into_iter().zip(self.tcp);
        out.each(&catalog::TCP_TROUBLES, tcp.map(|(kind, count)| (kind.as_str(), count as f64)));
        let joins = [
            ("batch-crc", joins.by_crc),
            ("base-offset", joins.by_base_offset),
            ("none", joins.unjoined),
            ("not-written", joins.not_written),
        ];
        out.each(&catalog::JOINS, joins.map(|(key, count)| (key, count as f64)));
        let losses = LossKind::ALL.into_iter().zip(self.losses);
        out.each(&catalog::LOSSES, losses.map(|(kind, count)| (kind.as_str(), count as f64)));
    }

    pub(crate) fn encode_broker(&self, out: &mut dyn Encoder) {
        out.one(&catalog::BROKER_UP, f64::from(u8::from(self.is_watched)));
        out.one(&catalog::BROKER_RESTARTS, self.processes.saturating_sub(1) as f64);
    }
}
