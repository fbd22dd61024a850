//! Describes TLS traffic that was not read.

use std::net::SocketAddr;

use model::{OTHER_LISTENERS, TlsCount, TlsTotals};

use crate::quantity::{format_bytes, format_count_of};

/// Limit on the listeners named; the rest are added up.
const MAX_NAMED: usize = 5;

/// Describes what was not read on one listener, without a full stop.
pub fn describe_tls(listener: SocketAddr, count: TlsCount) -> String {
    let of = if listener == OTHER_LISTENERS { "other listeners".to_owned() } else { listener.to_string() };
    describe(&of, count)
}

/// One sentence per listener, the one with the most bytes first.
pub fn tls_lines(totals: &TlsTotals) -> Vec<String> {
    let mut listeners: Vec<_> = totals.iter().collect();
    listeners.sort_by_key(|(_, count)| std::cmp::Reverse(count.bytes));
    let rest = listeners.split_off(listeners.len().min(MAX_NAMED));
    let mut lines: Vec<_> =
        listeners.into_iter().map(|(listener, count)| describe_tls(listener, count)).collect();
    if !rest.is_empty() {
        let mut sum = TlsTotals::default();
        for (listener, count) in &rest {
            sum.add(*listener, *count);
        }
        lines.push(describe(&format_count_of(rest.len() as u64, "more listener"), sum.total()));
    }
    lines
}

fn describe(of: &str, count: TlsCount) -> String {
    let connections = format_count_of(count.connections, "connection");
    format!("{connections} and {} on {of} were TLS and were not read", format_bytes(count.bytes))
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use model::{OTHER_LISTENERS, TlsCount, TlsTotals};

    use super::tls_lines;

    #[test]
    fn names_the_largest_listeners_and_sums_up_the_rest() {
        let mut totals = TlsTotals::default();
        totals.add(OTHER_LISTENERS, TlsCount { connections: 1, bytes: 9_999_999 });
        for port in 1..=6 {
            let count = TlsCount { connections: 2, bytes: 1_024 * u64::from(port) };
            totals.add(SocketAddr::from(([10, 0, 0, 1], 9_090 + port)), count);
        }
        let lines = tls_lines(&totals);
        assert_eq!(lines[0], "1 connection and 9.5 MiB on other listeners were TLS and were not read");
        assert_eq!(lines[1], "2 connections and 6.0 KiB on 10.0.0.1:9096 were TLS and were not read");
        assert_eq!(lines[5], "4 connections and 3.0 KiB on 2 more listeners were TLS and were not read");
        assert_eq!(lines.len(), 6);
    }
}
