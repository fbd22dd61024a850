//! TCP's counters in the broker's network namespace: of all its connections, not only the broker's.

use model::HostScope;

use super::figures::Figures;
use super::text::{self, Kernel};

pub(super) fn sample(kernel: &Kernel, pid: u32, figures: &mut Figures) {
    let file = |name| text::read(&kernel.of_process(pid, name)).unwrap_or_default();
    let (snmp, netstat) = (file("net/snmp"), file("net/netstat"));
    let tcp = |name| counter(&snmp, "Tcp:", name);
    let extended = |name| counter(&netstat, "TcpExt:", name);
    let mut figure = figures.of(HostScope::Host, "");
    figure.rate("tcp_segments_out_per_second", tcp("OutSegs"), 1.0);
    figure.rate("tcp_segments_in_per_second", tcp("InSegs"), 1.0);
    figure.rate("tcp_retransmits_per_second", tcp("RetransSegs"), 1.0);
    figure.stands("tcp_connection_count", tcp("CurrEstab").map(|count| count as f64));
    figure.rate("tcp_timeouts_per_second", extended("TCPTimeouts"), 1.0);
    figure.rate("tcp_listen_overflows_per_second", extended("ListenOverflows"), 1.0);
    figure.rate("tcp_listen_drops_per_second", extended("ListenDrops"), 1.0);
    figure.rate("tcp_zero_windows_told_per_second", extended("TCPToZeroWindowAdv"), 1.0);
    figure.rate("tcp_zero_windows_heard_per_second", extended("TCPFromZeroWindowAdv"), 1.0);
    figure.rate("tcp_syncookies_per_second", extended("SyncookiesSent"), 1.0);
}

/// The kernel writes a line of names and a line of numbers, both begun by the protocol (net/ipv4/proc.c).
pub(super) fn counter(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|candidate| candidate == name)?;
    numbers.split_whitespace().nth(at)?.parse().ok()
}
