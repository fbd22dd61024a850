//! The list of all metrics of host samples: name with unit, source, computation and meaning.
//! Also reads those in text files.
//!
//! `…_per_second` and `…_ratio` are increases over the sample's interval divided by its length; `…_bytes` and `…_count` are
//! values at its end; `…_ms` are means over operations that ended in the interval, and absent if none did. A metric whose
//! source is missing on a kernel is absent too.
//! Not fuzzed: the kernel wrote it.

use std::collections::HashMap;

use model::HostScope;
use model::HostScope::{Cgroup, Device, Host, Interface, Process, Threads};

use super::Moment;
use super::cgroup::NO_LIMIT_BYTES;
use super::figures::Bits::{self, Narrow, Wide};
use super::figures::{Counter, Figures};
use super::text;

/// A metric of host samples.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// What it measures: a device, an interface, the host.
    pub scope: HostScope,
    /// Its name in samples.
    pub name: &'static str,
    pub(super) read: Read,
    /// Each is a file below `/proc` or in a cgroup, with a field and the field's unit.
    /// The first that exists is used, unless the metric combines them.
    pub(super) sources: &'static [(&'static str, f64)],
    /// Its description.
    pub meaning: &'static str,
}

/// How to compute a metric from its sources.
#[derive(Clone, Copy, Debug)]
pub(super) enum Read {
    /// The field's value.
    Value,
    /// The product of both fields: pages and the page size.
    Product,
    /// A counter's increase per second.
    Rate(Bits),
    /// The first counter's increase divided by the second's.
    Mean(Bits),
    /// A counter's increase per second divided by the other field.
    Share,
    /// Computed where it is read.
    Own,
}

const fn metric(
    scope: HostScope,
    name: &'static str,
    read: Read,
    sources: &'static [(&'static str, f64)],
    meaning: &'static str,
) -> Metric {
    Metric { scope, name, read, sources, meaning }
}

use Read::{Mean, Own, Product, Rate, Share, Value};

/// Bytes of a sector, the kernel's unit everywhere.
const SECTOR_BYTES: f64 = 512.0;
/// `kB` of `/proc/meminfo` and `/proc/PID/status`.
const KIB: f64 = 1024.0;
/// Seconds per tick in `/proc/stat` and `/proc/PID/stat`.
/// A tick is 10 ms on every architecture with BPF (`USER_HZ`, asm-generic/param.h).
const TICK_S: f64 = 0.01;

/// All metrics.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    // Block devices, /proc/diskstats: Documentation/admin-guide/iostats.rst numbers the fields; the arithmetic is iostat -x's.
    metric(Device, "util_ratio", Rate(Narrow), &[("10", 1e-3)], "time with a request in flight (%util): saturation only if the device serves one at a time"),
    metric(Device, "queue_depth", Rate(Narrow), &[("11", 1e-3)], "requests in flight, mean (aqu-sz)"),
    metric(Device, "in_flight_count", Value, &[("9", 1.0)], "requests in flight now"),
    metric(Device, "reads_per_second", Rate(Wide), &[("1", 1.0)], "reads completed (r/s)"),
    metric(Device, "writes_per_second", Rate(Wide), &[("5", 1.0)], "writes completed (w/s)"),
    metric(Device, "flushes_per_second", Rate(Wide), &[("16", 1.0)], "flushes completed (f/s)"),
    metric(Device, "read_bytes_per_second", Rate(Wide), &[("3", SECTOR_BYTES)], "bytes read (rkB/s)"),
    metric(Device, "write_bytes_per_second", Rate(Wide), &[("7", SECTOR_BYTES)], "bytes written (wkB/s)"),
    metric(Device, "read_wait_ms", Mean(Narrow), &[("4", 1.0), ("1", 1.0)], "mean time of a read, in the queue and the device (r_await)"),
    metric(Device, "write_wait_ms", Mean(Narrow), &[("8", 1.0), ("5", 1.0)], "mean time of a write, in the queue and the device (w_await)"),
    metric(Device, "flush_wait_ms", Mean(Narrow), &[("17", 1.0), ("16", 1.0)], "mean time of a flush (f_await)"),
    metric(Device, "read_limit_bytes_per_second", Own, &[], "lowest limit of bytes read (io.max, blkio.throttle) in the broker's cgroup and its ancestors"),
    metric(Device, "write_limit_bytes_per_second", Own, &[], "lowest limit of bytes written in the broker's cgroup and its ancestors"),
    metric(Device, "read_limit_per_second", Own, &[], "lowest limit of reads in the broker's cgroup and its ancestors"),
    metric(Device, "write_limit_per_second", Own, &[], "lowest limit of writes in the broker's cgroup and its ancestors"),

    // Interfaces with traffic in the broker's network namespace: columns of /proc/PID/net/dev, counted from 0, and
    // /sys/class/net.
    metric(Interface, "receive_bytes_per_second", Rate(Wide), &[("0", 1.0)], "bytes received"),
    metric(Interface, "transmit_bytes_per_second", Rate(Wide), &[("8", 1.0)], "bytes sent"),
    metric(Interface, "receive_packets_per_second", Rate(Wide), &[("1", 1.0)], "packets received"),
    metric(Interface, "transmit_packets_per_second", Rate(Wide), &[("9", 1.0)], "packets sent"),
    metric(Interface, "receive_packet_bytes", Mean(Wide), &[("0", 1.0), ("1", 1.0)], "mean size of a received packet; above the MTU if packets are merged (GRO)"),
    metric(Interface, "transmit_packet_bytes", Mean(Wide), &[("8", 1.0), ("9", 1.0)], "mean size of a sent packet; above the MTU if the device splits packets (TSO)"),
    metric(Interface, "receive_drops_per_second", Rate(Wide), &[("3", 1.0)], "packets dropped on receive"),
    metric(Interface, "transmit_drops_per_second", Rate(Wide), &[("11", 1.0)], "packets dropped on transmit"),
    metric(Interface, "receive_errors_per_second", Rate(Wide), &[("2", 1.0)], "receive errors"),
    metric(Interface, "mtu_bytes", Value, &[("mtu", 1.0)], "MTU"),
    metric(Interface, "speed_bits_per_second", Value, &[("speed", 1.0)], "link speed, if the driver reports it"),
    metric(Interface, "receive_utilization_ratio", Share, &[("0", 8.0), ("speed", 1.0)], "share of the link speed used to receive"),
    metric(Interface, "transmit_utilization_ratio", Share, &[("8", 8.0), ("speed", 1.0)], "share of the link speed used to send"),

    // The broker's threads by role, as far as 15 characters of a name distinguish roles: /proc/PID/task/*/schedstat.
    metric(Threads, "cpu_ratio", Own, &[], "CPU time: 1 is one CPU"),
    metric(Threads, "run_queue_ratio", Own, &[], "time runnable, waiting for a CPU: 1 is one thread all the time"),
    metric(Threads, "switches_per_second", Own, &[], "times scheduled on a CPU"),
    metric(Threads, "thread_count", Own, &[], "threads"),

    metric(Process, "user_cpu_ratio", Rate(Wide), &[("PID/stat 14", TICK_S)], "CPU time in user mode: 1 is one CPU"),
    metric(Process, "system_cpu_ratio", Rate(Wide), &[("PID/stat 15", TICK_S)], "CPU time in the kernel"),
    metric(Process, "minor_faults_per_second", Rate(Wide), &[("PID/stat 10", 1.0)], "page faults served from memory"),
    metric(Process, "major_faults_per_second", Rate(Wide), &[("PID/stat 12", 1.0)], "page faults that read from a device"),
    metric(Process, "resident_bytes", Value, &[("PID/status VmRSS", KIB)], "resident memory"),
    metric(Process, "resident_anonymous_bytes", Value, &[("PID/status RssAnon", KIB)], "resident anonymous memory: the heap and others"),
    metric(Process, "resident_file_bytes", Value, &[("PID/status RssFile", KIB)], "resident memory of mapped files"),
    metric(Process, "swapped_bytes", Value, &[("PID/status VmSwap", KIB)], "memory swapped out"),
    metric(Process, "read_bytes_per_second", Rate(Wide), &[("PID/io read_bytes", 1.0)], "bytes that its reads fetched from devices"),
    metric(Process, "write_bytes_per_second", Rate(Wide), &[("PID/io write_bytes", 1.0)], "bytes that it dirtied, to be written to devices"),
    metric(Process, "read_call_bytes_per_second", Rate(Wide), &[("PID/io rchar", 1.0)], "bytes that its read calls returned, the page cache included"),
    metric(Process, "write_call_bytes_per_second", Rate(Wide), &[("PID/io wchar", 1.0)], "bytes that its write calls took"),
    metric(Process, "read_calls_per_second", Rate(Wide), &[("PID/io syscr", 1.0)], "read calls"),
    metric(Process, "write_calls_per_second", Rate(Wide), &[("PID/io syscw", 1.0)], "write calls"),

    // The broker's cgroup; version 2 and version 1 have the same figures in different files.
    metric(Cgroup, "cpu_periods_per_second", Rate(Wide), &[("cpu.stat nr_periods", 1.0)], "periods in which it had a CPU quota and ran"),
    metric(Cgroup, "cpu_throttled_per_second", Rate(Wide), &[("cpu.stat nr_throttled", 1.0)], "periods in which the quota ran out"),
    metric(Cgroup, "cpu_throttled_ratio", Rate(Wide), &[("cpu.stat throttled_usec", 1e-6), ("cpu.stat throttled_time", 1e-9)], "time throttled by the CPU quota, summed over CPUs"),
    metric(Cgroup, "memory_bytes", Value, &[("memory.current", 1.0), ("memory.usage_in_bytes", 1.0)], "memory charged to it, page cache included"),
    metric(Cgroup, "memory_limit_bytes", Value, &[("memory.max", 1.0), ("memory.limit_in_bytes", 1.0)], "its memory limit, if it has one"),
    metric(Cgroup, "memory_limit_hits_per_second", Rate(Wide), &[("memory.events max", 1.0), ("memory.failcnt", 1.0)], "times the limit was hit"),
    metric(Cgroup, "page_cache_bytes", Value, &[("memory.stat file", 1.0), ("memory.stat total_cache", 1.0)], "page cache charged to it"),
    metric(Cgroup, "dirty_bytes", Value, &[("memory.stat file_dirty", 1.0), ("memory.stat total_dirty", 1.0)], "its dirty page cache, not yet in writeback"),
    metric(Cgroup, "writeback_bytes", Value, &[("memory.stat file_writeback", 1.0), ("memory.stat total_writeback", 1.0)], "its page cache in writeback"),
    metric(Cgroup, "read_bytes_per_second", Rate(Wide), &[("io.stat rbytes", 1.0), ("blkio.throttle.io_service_bytes Read", 1.0)], "bytes read from devices"),
    metric(Cgroup, "write_bytes_per_second", Rate(Wide), &[("io.stat wbytes", 1.0), ("blkio.throttle.io_service_bytes Write", 1.0)], "bytes written to devices"),
    metric(Cgroup, "pressure_cpu_some_ratio", Rate(Wide), &[("cpu.pressure some", 1e-6)], "share of time in which some task of this cgroup waited for a CPU"),
    metric(Cgroup, "pressure_cpu_full_ratio", Rate(Wide), &[("cpu.pressure full", 1e-6)], "share of time in which all tasks of this cgroup waited for a CPU"),
    metric(Cgroup, "pressure_memory_some_ratio", Rate(Wide), &[("memory.pressure some", 1e-6)], "share of time in which some task of this cgroup waited for memory"),
    metric(Cgroup, "pressure_memory_full_ratio", Rate(Wide), &[("memory.pressure full", 1e-6)], "share of time in which all tasks of this cgroup waited for memory"),
    metric(Cgroup, "pressure_io_some_ratio", Rate(Wide), &[("io.pressure some", 1e-6)], "share of time in which some task of this cgroup waited for I/O"),
    metric(Cgroup, "pressure_io_full_ratio", Rate(Wide), &[("io.pressure full", 1e-6)], "share of time in which all tasks of this cgroup waited for I/O"),

    metric(Host, "cpu_count", Value, &[("stat count", 1.0)], "CPUs"),
    metric(Host, "user_cpu_ratio", Rate(Wide), &[("stat 0+1", TICK_S)], "CPU time in user mode: 1 is one CPU"),
    metric(Host, "system_cpu_ratio", Rate(Wide), &[("stat 2", TICK_S)], "CPU time in the kernel"),
    metric(Host, "interrupt_cpu_ratio", Rate(Wide), &[("stat 5+6", TICK_S)], "CPU time in interrupts"),
    metric(Host, "iowait_cpu_ratio", Rate(Wide), &[("stat 4", TICK_S)], "idle CPU time while a thread waits for I/O (iowait)"),
    metric(Host, "steal_cpu_ratio", Rate(Wide), &[("stat 7", TICK_S)], "CPU time that the hypervisor gave to other guests (steal)"),
    metric(Host, "suspended_ratio", Own, &[], "time for which the machine was suspended and its clock stood still: how much further CLOCK_BOOTTIME went than CLOCK_MONOTONIC"),
    metric(Host, "rtc_ahead_seconds", Own, &[], "how much further the hardware clock had gone than the machine's, looked at once a minute: its hypervisor had stopped its clocks, or somebody set the hardware clock"),
    metric(Host, "pressure_cpu_some_ratio", Rate(Wide), &[("pressure/cpu some", 1e-6)], "share of time in which some task waited for a CPU"),
    metric(Host, "pressure_cpu_full_ratio", Rate(Wide), &[("pressure/cpu full", 1e-6)], "share of time in which all tasks waited for a CPU"),
    metric(Host, "pressure_memory_some_ratio", Rate(Wide), &[("pressure/memory some", 1e-6)], "share of time in which some task waited for memory"),
    metric(Host, "pressure_memory_full_ratio", Rate(Wide), &[("pressure/memory full", 1e-6)], "share of time in which all tasks waited for memory"),
    metric(Host, "pressure_io_some_ratio", Rate(Wide), &[("pressure/io some", 1e-6)], "share of time in which some task waited for I/O"),
    metric(Host, "pressure_io_full_ratio", Rate(Wide), &[("pressure/io full", 1e-6)], "share of time in which all tasks waited for I/O"),
    metric(Host, "memory_bytes", Value, &[("meminfo MemTotal", KIB)], "memory"),
    metric(Host, "memory_available_bytes", Value, &[("meminfo MemAvailable", KIB)], "memory available without swapping"),
    metric(Host, "page_cache_bytes", Value, &[("meminfo Cached", KIB)], "page cache"),
    metric(Host, "dirty_bytes", Value, &[("meminfo Dirty", KIB)], "dirty page cache, not yet in writeback"),
    metric(Host, "writeback_bytes", Value, &[("meminfo Writeback", KIB)], "page cache in writeback"),
    metric(Host, "swap_used_bytes", Value, &[("meminfo SwapTotal-SwapFree", KIB)], "swap in use"),
    metric(Host, "dirty_limit_bytes", Product, &[("vmstat nr_dirty_threshold", 1.0), ("self/auxv", 1.0)], "dirty memory at which writers are throttled"),
    metric(Host, "dirty_background_limit_bytes", Product, &[("vmstat nr_dirty_background_threshold", 1.0), ("self/auxv", 1.0)], "dirty memory at which background writeback begins"),
    metric(Host, "direct_reclaim_pages_per_second", Rate(Wide), &[("vmstat pgscan_direct", 1.0)], "pages scanned by direct reclaim"),
    metric(Host, "major_faults_per_second", Rate(Wide), &[("vmstat pgmajfault", 1.0)], "page faults that read from a device"),

    // TCP of the broker's network namespace: all its connections, not only the broker's.
    metric(Host, "tcp_segments_out_per_second", Rate(Wide), &[("PID/net/snmp Tcp: OutSegs", 1.0)], "segments sent, without retransmissions"),
    metric(Host, "tcp_segments_in_per_second", Rate(Wide), &[("PID/net/snmp Tcp: InSegs", 1.0)], "segments received"),
    metric(Host, "tcp_retransmits_per_second", Rate(Wide), &[("PID/net/snmp Tcp: RetransSegs", 1.0)], "segments retransmitted"),
    metric(Host, "tcp_timeouts_per_second", Rate(Wide), &[("PID/net/netstat TcpExt: TCPTimeouts", 1.0)], "retransmission timers that ran out"),
    metric(Host, "tcp_listen_overflows_per_second", Rate(Wide), &[("PID/net/netstat TcpExt: ListenOverflows", 1.0)], "connections refused by a full accept queue"),
    metric(Host, "tcp_listen_drops_per_second", Rate(Wide), &[("PID/net/netstat TcpExt: ListenDrops", 1.0)], "connections refused for any reason"),
    metric(Host, "tcp_zero_windows_told_per_second", Rate(Wide), &[("PID/net/netstat TcpExt: TCPToZeroWindowAdv", 1.0)], "times a receive buffer here became full"),
    metric(Host, "tcp_zero_windows_heard_per_second", Rate(Wide), &[("PID/net/netstat TcpExt: TCPFromZeroWindowAdv", 1.0)], "times a full receive buffer here had space again"),
    metric(Host, "tcp_syncookies_per_second", Rate(Wide), &[("PID/net/netstat TcpExt: SyncookiesSent", 1.0)], "handshakes answered with a SYN cookie: such connections may lack window scaling"),
    metric(Host, "tcp_connection_count", Value, &[("PID/net/snmp Tcp: CurrEstab", 1.0)], "connections established"),
];

/// Adds the metrics of a scope that are in files, which `read` reads.
pub(super) fn sample(
    scope: HostScope,
    name: &str,
    figures: &mut Figures,
    moment: &mut Moment<'_>,
    read: &dyn Fn(&str) -> Option<Vec<u8>>,
) {
    let mut texts = HashMap::new();
    let mut field = |source: &'static str| {
        let (file, key) = source.split_once(' ').unwrap_or((source, ""));
        if file == "self/auxv" {
            return Some(Counter { value: page_bytes(&read(file)?)?, at: moment() });
        }
        let (at, text) = texts.entry(file).or_insert_with(|| (moment(), read(file).map(text::of)));
        Some(Counter { value: parse_field(file, text.as_deref()?, key)?, at: *at })
    };
    figures.of(scope, name).sample(&mut field);
}

/// The page size, from the auxiliary vector.
/// The kernel passes these pairs of words to every program (getauxval(3)).
fn page_bytes(vector: &[u8]) -> Option<u64> {
    const AT_PAGESZ: u64 = 6;
    let words = vector.chunks_exact(8).filter_map(|word| Some(u64::from_ne_bytes(word.try_into().ok()?)));
    let words: Vec<u64> = words.collect();
    words.chunks_exact(2).find(|pair| pair.first() == Some(&AT_PAGESZ))?.get(1).copied()
}

/// Parses a field of a file, in the kernel's format for files of that name.
fn parse_field(file: &str, text: &str, key: &str) -> Option<u64> {
    match file {
        _ if key.is_empty() => text.trim().parse().ok().filter(|&number| number < NO_LIMIT_BYTES),
        "stat" => processors(text, key),
        "PID/stat" => text::process_stat(text, key.parse().ok()?)?.parse().ok(),
        "PID/net/snmp" | "PID/net/netstat" => text::counter(text, key),
        "io.stat" | "blkio.throttle.io_service_bytes" => Some(sum_after(text, key)),
        _ if file.contains("pressure") => total_us(text, key),
        _ => match key.split_once('-') {
            Some((whole, part)) => text::keyed(text, whole)?.checked_sub(text::keyed(text, part)?),
            None => text::keyed(text, key),
        },
    }
}

/// Counts the CPUs, or sums some of the columns of the line `cpu`.
/// The columns are user nice system idle iowait irq softirq steal (`proc_stat(5)`).
fn processors(stat: &str, key: &str) -> Option<u64> {
    if key == "count" {
        let is_one = |line: &&str| {
            line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        return Some(stat.lines().filter(is_one).count() as u64).filter(|&count| count > 0);
    }
    let sums = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let sum = |column: &str| sums.split_ascii_whitespace().nth(column.parse().ok()?)?.parse().ok();
    key.split('+').try_fold(0u64, |all, column| Some(all.saturating_add(sum(column)?)))
}

/// Sums a key in `8:0 rbytes=1 wbytes=2 …`, a line per device; in version 1 `8:0 Read 1`, a line per device and direction.
fn sum_after(text: &str, key: &str) -> u64 {
    let words = || text.split([' ', '=', '\n']);
    let counts = words().zip(words().skip(1)).filter(|(word, _)| *word == key);
    counts.filter_map(|(_, count)| count.parse().ok()).fold(0, u64::saturating_add)
}

/// Parses the total of a line of pressure, in microseconds.
/// Example: `some avg10=0.00 avg60=0.00 avg300=0.00 total=1234` (Documentation/accounting/psi.rst).
fn total_us(text: &str, line: &str) -> Option<u64> {
    let line = text.lines().find(|candidate| candidate.split(' ').next() == Some(line))?;
    line.split(' ').find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// Whether the list has this metric.
#[cfg(test)]
pub(super) fn is_listed(scope: HostScope, name: &str) -> bool {
    METRICS.iter().any(|metric| metric.scope == scope && metric.name == name)
}
