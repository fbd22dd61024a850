//! TLS on a broker's listeners: how much of it passed without being read. Does not recognise it.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Listeners that are counted separately; the rest are counted together, as [`OTHER_LISTENERS`].
const MAX_LISTENERS: usize = 64;
/// Stands for all listeners beyond the limit.
pub const OTHER_LISTENERS: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

row! {
    tls_traffic_row =>
    /// TLS connections to one listener, and their traffic, which was not read.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct TlsTraffic {
        /// When it was last counted before.
        start: Nanos as "start_ns",
        /// When it was counted.
        end: Nanos as "end_ns",
        /// The broker's end of the connections; `0.0.0.0:0` for all beyond the first 64.
        listener: SocketAddr,
        /// Connections that turned out to be TLS since then.
        connections: u64,
        /// TCP payload of TLS connections since then, in both directions.
        bytes: u64,
    }
}

/// TLS connections and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TlsCount {
    /// Connections.
    pub connections: u64,
    /// TCP payload, in both directions.
    pub bytes: u64,
}

/// Totals of TLS by listener, for a bounded number of listeners.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsTotals(BTreeMap<SocketAddr, TlsCount>);

impl TlsTotals {
    /// Adds to a listener's count; returns whether it is the listener's first.
    pub fn add(&mut self, listener: SocketAddr, count: TlsCount) -> bool {
        let is_full = self.0.len() >= MAX_LISTENERS && !self.0.contains_key(&listener);
        let listener = if is_full { OTHER_LISTENERS } else { listener };
        let is_first = !self.0.contains_key(&listener);
        let total = self.0.entry(listener).or_default();
        total.connections = total.connections.saturating_add(count.connections);
        total.bytes = total.bytes.saturating_add(count.bytes);
        is_first
    }

    /// Adds a row; returns whether it is its listener's first.
    pub fn take(&mut self, row: &TlsTraffic) -> bool {
        self.add(row.listener, TlsCount { connections: row.connections, bytes: row.bytes })
    }

    /// Whether there was no TLS.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The listeners with TLS, and their counts.
    pub fn iter(&self) -> impl Iterator<Item = (SocketAddr, TlsCount)> + '_ {
        self.0.iter().map(|(listener, count)| (*listener, *count))
    }

    /// The total over all listeners.
    pub fn total(&self) -> TlsCount {
        self.0.values().fold(TlsCount::default(), |sum, count| TlsCount {
            connections: sum.connections.saturating_add(count.connections),
            bytes: sum.bytes.saturating_add(count.bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::{MAX_LISTENERS, OTHER_LISTENERS, TlsCount, TlsTotals};

    #[test]
    fn listeners_are_bounded_and_totals_complete() {
        let (mut totals, one) = (TlsTotals::default(), TlsCount { connections: 1, bytes: 10 });
        for port in 0..200 {
            assert_eq!(
                totals.add(SocketAddr::from(([10, 0, 0, 1], port)), one),
                port <= MAX_LISTENERS as u16
            );
        }
        assert!(!totals.add(SocketAddr::from(([10, 0, 0, 1], 7)), one));
        assert_eq!(totals.iter().count(), MAX_LISTENERS + 1);
        assert_eq!(totals.total(), TlsCount { connections: 201, bytes: 2_010 });
        let rest = totals.iter().find(|(listener, _)| *listener == OTHER_LISTENERS).map(|(_, count)| count);
        assert_eq!(rest, Some(TlsCount { connections: 136, bytes: 1_360 }));
    }
}
