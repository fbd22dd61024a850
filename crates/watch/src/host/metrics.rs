//! Every figure of a host sample: its name with its unit, where it is read, what it means. The one list of them;
//! does not read anything.
//!
//! `…_per_second` and `…_ratio` are increases over the sample's own stretch of time divided by its length;
//! `…_bytes` and `…_count` are as they stood at its end; `…_ms` are means over what ended in the stretch, and
//! absent where nothing did. A figure whose source is missing on a kernel is absent too.

use model::HostScope;
use model::HostScope::{Cgroup, Device, Host, Interface, Process, Threads};

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// What it is of.
    pub scope: HostScope,
    /// Its name as samples carry it.
    pub name: &'static str,
    /// The file and field it is read from.
    pub source: &'static str,
    /// What it says.
    pub meaning: &'static str,
}

const fn metric(scope: HostScope, name: &'static str, source: &'static str, meaning: &'static str) -> Metric {
    Metric { scope, name, source, meaning }
}

/// Every figure.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    // Block devices: Documentation/admin-guide/iostats.rst numbers the fields; the arithmetic is iostat -x's.
    metric(Device, "util_ratio", "/proc/diskstats 10", "time with a request in flight (%util): saturation only of a device that serves one at a time"),
    metric(Device, "queue_depth", "/proc/diskstats 11", "requests in flight, mean (aqu-sz)"),
    metric(Device, "in_flight_count", "/proc/diskstats 9", "requests in flight now"),
    metric(Device, "reads_per_second", "/proc/diskstats 1", "reads completed (r/s)"),
    metric(Device, "writes_per_second", "/proc/diskstats 5", "writes completed (w/s)"),
    metric(Device, "flushes_per_second", "/proc/diskstats 16", "flushes completed (f/s)"),
    metric(Device, "read_bytes_per_second", "/proc/diskstats 3", "bytes read (rkB/s)"),
    metric(Device, "write_bytes_per_second", "/proc/diskstats 7", "bytes written (wkB/s)"),
    metric(Device, "read_wait_ms", "/proc/diskstats 4 / 1", "queue and service of a read (r_await)"),
    metric(Device, "write_wait_ms", "/proc/diskstats 8 / 5", "queue and service of a write (w_await)"),
    metric(Device, "flush_wait_ms", "/proc/diskstats 17 / 16", "a flush (f_await)"),

    // Interfaces of the broker's network namespace that moved something.
    metric(Interface, "receive_bytes_per_second", "/proc/PID/net/dev", "bytes received"),
    metric(Interface, "transmit_bytes_per_second", "/proc/PID/net/dev", "bytes sent"),
    metric(Interface, "receive_packets_per_second", "/proc/PID/net/dev", "packets received"),
    metric(Interface, "transmit_packets_per_second", "/proc/PID/net/dev", "packets sent"),
    metric(Interface, "receive_packet_bytes", "/proc/PID/net/dev", "mean size of a received packet; above the MTU where the driver joins packets"),
    metric(Interface, "transmit_packet_bytes", "/proc/PID/net/dev", "mean size of a sent packet; above the MTU where the device splits packets"),
    metric(Interface, "receive_drops_per_second", "/proc/PID/net/dev", "received packets dropped"),
    metric(Interface, "transmit_drops_per_second", "/proc/PID/net/dev", "packets to send dropped"),
    metric(Interface, "receive_errors_per_second", "/proc/PID/net/dev", "bad packets received"),
    metric(Interface, "mtu_bytes", "/sys/class/net/*/mtu", "largest packet"),
    metric(Interface, "speed_bits_per_second", "/sys/class/net/*/speed", "the link's speed, where the driver knows it"),
    metric(Interface, "receive_utilization_ratio", "/proc/PID/net/dev, /sys/class/net/*/speed", "share of the link's speed received"),
    metric(Interface, "transmit_utilization_ratio", "/proc/PID/net/dev, /sys/class/net/*/speed", "share of the link's speed sent"),

    // The broker's threads by role, as far as the kernel's 15 characters of a name tell roles apart.
    metric(Threads, "cpu_ratio", "/proc/PID/task/*/schedstat 1", "processor time: 1 is one processor"),
    metric(Threads, "run_queue_ratio", "/proc/PID/task/*/schedstat 2", "time runnable without a processor: 1 is one thread all the time"),
    metric(Threads, "switches_per_second", "/proc/PID/task/*/schedstat 3", "times put on a processor"),
    metric(Threads, "thread_count", "/proc/PID/task", "threads"),

    metric(Process, "user_cpu_ratio", "/proc/PID/stat 14", "processor time in user mode: 1 is one processor"),
    metric(Process, "system_cpu_ratio", "/proc/PID/stat 15", "processor time in the kernel"),
    metric(Process, "minor_faults_per_second", "/proc/PID/stat 10", "page faults served from memory"),
    metric(Process, "major_faults_per_second", "/proc/PID/stat 12", "page faults that read from a device"),
    metric(Process, "resident_bytes", "/proc/PID/status VmRSS", "memory resident"),
    metric(Process, "resident_anonymous_bytes", "/proc/PID/status RssAnon", "of it heap and the like"),
    metric(Process, "resident_file_bytes", "/proc/PID/status RssFile", "of it mapped files"),
    metric(Process, "swapped_bytes", "/proc/PID/status VmSwap", "memory swapped out"),
    metric(Process, "read_bytes_per_second", "/proc/PID/io read_bytes", "bytes that its reads had fetched from devices"),
    metric(Process, "write_bytes_per_second", "/proc/PID/io write_bytes", "bytes that it made dirty for devices"),
    metric(Process, "read_call_bytes_per_second", "/proc/PID/io rchar", "bytes that its read calls returned, the page cache's included"),
    metric(Process, "write_call_bytes_per_second", "/proc/PID/io wchar", "bytes that its write calls took"),
    metric(Process, "read_calls_per_second", "/proc/PID/io syscr", "read calls"),
    metric(Process, "write_calls_per_second", "/proc/PID/io syscw", "write calls"),

    // The broker's cgroup; v1 and v2 say the same things in other files.
    metric(Cgroup, "cpu_periods_per_second", "cpu.stat nr_periods", "periods in which it had a CPU quota and ran"),
    metric(Cgroup, "cpu_throttled_per_second", "cpu.stat nr_throttled", "periods in which the quota ran out"),
    metric(Cgroup, "cpu_throttled_ratio", "cpu.stat throttled_usec (v1: throttled_time)", "time its CPUs stood still for the quota, summed over CPUs"),
    metric(Cgroup, "memory_bytes", "memory.current (v1: memory.usage_in_bytes)", "memory charged to it, page cache included"),
    metric(Cgroup, "memory_limit_bytes", "memory.max (v1: memory.limit_in_bytes)", "its limit, where it has one"),
    metric(Cgroup, "memory_limit_hits_per_second", "memory.events max (v1: memory.failcnt)", "times the limit was hit"),
    metric(Cgroup, "page_cache_bytes", "memory.stat file (v1: total_cache)", "of it page cache"),
    metric(Cgroup, "dirty_bytes", "memory.stat file_dirty (v1: total_dirty)", "of that, not yet being written"),
    metric(Cgroup, "writeback_bytes", "memory.stat file_writeback (v1: total_writeback)", "of that, being written"),
    metric(Cgroup, "read_bytes_per_second", "io.stat rbytes (v1: blkio.throttle.io_service_bytes)", "bytes read from devices"),
    metric(Cgroup, "write_bytes_per_second", "io.stat wbytes (v1: blkio.throttle.io_service_bytes)", "bytes written to devices"),
    metric(Cgroup, "pressure_cpu_some_ratio", "cpu.pressure", "as the host's, of this cgroup's tasks"),
    metric(Cgroup, "pressure_cpu_full_ratio", "cpu.pressure", "as the host's, of this cgroup's tasks"),
    metric(Cgroup, "pressure_memory_some_ratio", "memory.pressure", "as the host's, of this cgroup's tasks"),
    metric(Cgroup, "pressure_memory_full_ratio", "memory.pressure", "as the host's, of this cgroup's tasks"),
    metric(Cgroup, "pressure_io_some_ratio", "io.pressure", "as the host's, of this cgroup's tasks"),
    metric(Cgroup, "pressure_io_full_ratio", "io.pressure", "as the host's, of this cgroup's tasks"),

    metric(Host, "cpu_count", "/proc/stat", "processors"),
    metric(Host, "user_cpu_ratio", "/proc/stat user, nice", "processor time in user mode: 1 is one processor"),
    metric(Host, "system_cpu_ratio", "/proc/stat system", "processor time in the kernel"),
    metric(Host, "interrupt_cpu_ratio", "/proc/stat irq, softirq", "processor time in interrupts"),
    metric(Host, "iowait_cpu_ratio", "/proc/stat iowait", "idle time of processors that a thread waits for I/O on"),
    metric(Host, "steal_cpu_ratio", "/proc/stat steal", "time the hypervisor gave to others"),
    metric(Host, "pressure_cpu_some_ratio", "/proc/pressure/cpu", "share of time in which some task waited for a processor"),
    metric(Host, "pressure_cpu_full_ratio", "/proc/pressure/cpu", "share of time in which all tasks did"),
    metric(Host, "pressure_memory_some_ratio", "/proc/pressure/memory", "share of time in which some task waited for memory"),
    metric(Host, "pressure_memory_full_ratio", "/proc/pressure/memory", "share of time in which all tasks did"),
    metric(Host, "pressure_io_some_ratio", "/proc/pressure/io", "share of time in which some task waited for I/O"),
    metric(Host, "pressure_io_full_ratio", "/proc/pressure/io", "share of time in which all tasks did"),
    metric(Host, "memory_bytes", "/proc/meminfo MemTotal", "memory"),
    metric(Host, "memory_available_bytes", "/proc/meminfo MemAvailable", "memory to be had without swapping"),
    metric(Host, "page_cache_bytes", "/proc/meminfo Cached", "page cache"),
    metric(Host, "dirty_bytes", "/proc/meminfo Dirty", "page cache not yet being written"),
    metric(Host, "writeback_bytes", "/proc/meminfo Writeback", "page cache being written"),
    metric(Host, "swap_used_bytes", "/proc/meminfo SwapTotal, SwapFree", "swap in use"),
    metric(Host, "dirty_limit_bytes", "/proc/vmstat nr_dirty_threshold", "dirty memory at which writers are paused"),
    metric(Host, "dirty_background_limit_bytes", "/proc/vmstat nr_dirty_background_threshold", "dirty memory at which write-back begins"),
    metric(Host, "direct_reclaim_pages_per_second", "/proc/vmstat pgscan_direct", "pages that threads in need of memory looked at themselves"),
    metric(Host, "major_faults_per_second", "/proc/vmstat pgmajfault", "page faults that read from a device"),

    // TCP of the broker's network namespace: all its connections, not only the broker's.
    metric(Host, "tcp_segments_out_per_second", "/proc/PID/net/snmp OutSegs", "segments sent, without those sent again"),
    metric(Host, "tcp_segments_in_per_second", "/proc/PID/net/snmp InSegs", "segments received"),
    metric(Host, "tcp_retransmits_per_second", "/proc/PID/net/snmp RetransSegs", "segments sent again"),
    metric(Host, "tcp_timeouts_per_second", "/proc/PID/net/netstat TCPTimeouts", "retransmission timers that ran out"),
    metric(Host, "tcp_listen_overflows_per_second", "/proc/PID/net/netstat ListenOverflows", "connections refused by a full accept queue"),
    metric(Host, "tcp_listen_drops_per_second", "/proc/PID/net/netstat ListenDrops", "connections refused for any reason"),
    metric(Host, "tcp_zero_windows_told_per_second", "/proc/PID/net/netstat TCPToZeroWindowAdv", "times a receive buffer here became full"),
    metric(Host, "tcp_zero_windows_heard_per_second", "/proc/PID/net/netstat TCPFromZeroWindowAdv", "times a sender here could go on after a full window"),
    metric(Host, "tcp_syncookies_per_second", "/proc/PID/net/netstat SyncookiesSent", "handshakes answered with a cookie: such connections may lack window scaling"),
    metric(Host, "tcp_connection_count", "/proc/PID/net/snmp CurrEstab", "connections established"),
];

/// Whether there is such a figure.
#[cfg(test)]
pub(super) fn is_listed(scope: HostScope, name: &str) -> bool {
    METRICS.iter().any(|metric| metric.scope == scope && metric.name == name)
}
