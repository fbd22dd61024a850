//! The one list of all metrics: name, type, labels, unit and meaning. `docs/reference/metrics.md` is generated from it,
//! and a test checks that exactly the listed metrics are exported. Counts nothing.
//!
//! Names follow Prometheus' conventions: base units (seconds, bytes), `_total` for counters.

use std::fmt::Write as _;

use model::{Cause, CpuGapKind, FileKind, JvmPauseKind, LossKind, Stage, StopKind, TcpEventKind};

use crate::label::OTHER;

/// The APIs whose stages and topics are reported: of others, hardly anything is observed inside the broker.
pub(crate) const APIS: [&str; 2] =
    [model::api_key::name(model::api_key::PRODUCE), model::api_key::name(model::api_key::FETCH)];

model::named! {
    /// Type of a metric, as all formats call it.
    pub enum Kind {
        /// Only grows, except when brokerscope restarts.
        Counter = "counter",
        /// A current value.
        Gauge = "gauge",
        /// Counts by buckets, with their sum: classic and native.
        Histogram = "histogram",
    }
}

/// Metrics that an always-on watch lacks: it observes only the requests and file operations around slow ones, and neither
/// packets nor signals.
pub(crate) const UNSEEN_ALWAYS_ON: &[Metric] = &[
    Metric::Failed,
    Metric::Throttled,
    Metric::ThrottleTime,
    Metric::BatchBytes,
    Metric::BatchRecords,
    Metric::TopicRequests,
    Metric::TopicBytes,
    Metric::TopicProduce,
    Metric::Write,
    Metric::WriteMax,
    Metric::Fsync,
    Metric::FileOps,
    Metric::FileRead,
    Metric::FileWritten,
    Metric::FileDiskRead,
    Metric::ProcessStops,
    Metric::ProcessStopTime,
    Metric::TlsConnections,
    Metric::TlsBytes,
];

/// A metric.
#[derive(Debug)]
pub struct Family {
    /// Its name; a counter's ends with `_total`.
    pub name: &'static str,
    /// Its type.
    pub kind: Kind,
    /// Its labels, in the order of their values.
    pub labels: &'static [&'static str],
    pub(crate) initial: InitialSeries,
    /// Its unit: `seconds`, `bytes`, `ratio` (1 is all), or none.
    pub unit: &'static str,
    /// Its meaning.
    pub help: &'static str,
}

/// Label values of the series that a metric has from the start.
/// With these, an alert on an event that never happened has data.
type InitialSeries = fn() -> Vec<Vec<&'static str>>;

/// No series.
fn none() -> Vec<Vec<&'static str>> {
    Vec::new()
}

/// The only series of a metric without labels.
fn one() -> Vec<Vec<&'static str>> {
    vec![Vec::new()]
}

/// One series for each value of the only label.
fn each(values: impl IntoIterator<Item = &'static str>) -> Vec<Vec<&'static str>> {
    values.into_iter().map(|value| vec![value]).collect()
}

impl Family {
    /// Upper bounds of its classic buckets. Native ones need none.
    pub(crate) fn bounds(&self) -> &'static [f64] {
        match self.unit {
            "seconds" => SECONDS,
            "bytes" => BYTES,
            _ => RECORDS,
        }
    }
}

const SECONDS: &[f64] =
    &[0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const BYTES: &[f64] = &[256.0, 1_024.0, 4_096.0, 16_384.0, 65_536.0, 262_144.0, 1_048_576.0, 4_194_304.0];
const RECORDS: &[f64] = &[1.0, 4.0, 16.0, 64.0, 256.0, 1_024.0, 4_096.0];

macro_rules! metrics {
    ($($id:ident: $kind:ident $name:literal [$($label:literal),*] ($initial:expr) $unit:literal $help:literal;)*) => {
        /// A metric: the key of its declaration and its series.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Metric {
            $($id,)*
        }

        /// Every metric, in the order of the output.
        pub static FAMILIES: &[Family] = &[$(Family {
            name: $name,
            kind: Kind::$kind,
            labels: &[$($label),*],
            initial: $initial,
            unit: $unit,
            help: $help,
        }),*];
    };
}

#[rustfmt::skip]
metrics! {
    Requests: Counter "brokerscope_requests_total" ["api"] (none) "" "Requests seen, by Kafka's name of the API.";
    Failed: Counter "brokerscope_failed_requests_total" ["api"] (none) "" "Requests that were answered with an error, could not be read in full, or were never answered.";
    LongPolls: Counter "brokerscope_long_poll_requests_total" ["api"] (none) "" "Requests that waited because the client asked for it (long polls without data, rebalances). They are in no latency histogram. With --watch always-on only rebalances.";
    RequestBytes: Counter "brokerscope_request_bytes_total" ["api"] (none) "bytes" "Bytes of requests.";
    ResponseBytes: Counter "brokerscope_response_bytes_total" ["api"] (none) "bytes" "Bytes of responses.";
    Duration: Histogram "brokerscope_request_duration_seconds" ["api"] (|| each(["PRODUCE", "FETCH", "OTHER"])) "seconds" "Latency of answered requests, from the first byte seen of the request to the last of the response, less the time for which a fetch waited for data (long poll). api is PRODUCE, FETCH or OTHER. With --watch always-on, from the first byte in the socket to the last that the broker writes, and without FETCH: how long a fetch waited for data is not known.";
    Stage: Histogram "brokerscope_request_stage_duration_seconds" ["api", "stage"] (|| APIS.iter().flat_map(|api| Stage::ALL.map(|stage| vec![*api, stage.as_str()])).collect()) "seconds" "Time that answered requests, slow or not, spent in a stage. A request counts in each stage in which it spent time. api is PRODUCE or FETCH. Time that no source saw is in the stage unobserved, a fetch's wait for data in remote. With --watch always-on, of slow requests only.";
    Slow: Counter "brokerscope_slow_requests_total" ["api", "cause"] (none) "" "Requests that took at least the slow request threshold, by the deepest proven cause (unobserved: no cause is proven).";
    SlowTime: Counter "brokerscope_slow_request_seconds_total" ["api", "cause"] (none) "seconds" "Sum of the latencies of slow requests.";
    Roots: Counter "brokerscope_slow_roots_total" ["cause"] (|| each(Cause::ALL.iter().filter(|cause| **cause != Cause::Unobserved).map(|cause| cause.as_str()))) "" "Root events of slow requests: one journal commit that slowed 37 requests counts once.";
    Threshold: Gauge "brokerscope_slow_request_threshold_seconds" [] (one) "seconds" "Latency from which a request counts as slow (--slower-than).";
    VerdictLag: Gauge "brokerscope_verdict_lag_seconds" [] (one) "seconds" "Time from the end of a request until its verdict, for the last verdict.";
    Throttled: Counter "brokerscope_throttled_requests_total" ["api"] (none) "" "Responses with a throttle time (the client is over its quota).";
    ThrottleTime: Counter "brokerscope_throttle_seconds_total" ["api"] (none) "seconds" "Sum of the throttle times in responses.";
    BatchBytes: Histogram "brokerscope_produce_batch_bytes" [] (one) "bytes" "Bytes of records for one partition in one produce request: how full batches are.";
    BatchRecords: Histogram "brokerscope_produce_batch_records" [] (one) "" "Records for one partition in one produce request, where the batch header could be read.";
    TopicRequests: Counter "brokerscope_topic_requests_total" ["topic", "api"] (|| APIS.map(|api| vec![OTHER, api]).into()) "" "Requests that name the topic. Only the --top-topics topics with the most bytes have series; the others are __other__. api is PRODUCE or FETCH.";
    TopicBytes: Counter "brokerscope_topic_bytes_total" ["topic", "api"] (|| APIS.map(|api| vec![OTHER, api]).into()) "bytes" "Bytes of records that were sent to the topic, or fetched from it.";
    TopicProduce: Histogram "brokerscope_topic_produce_duration_seconds" ["topic"] (|| each([OTHER])) "seconds" "Latency of produce requests that name the topic.";
    Write: Histogram "brokerscope_write_duration_seconds" ["device", "log_dir"] (none) "seconds" "Duration of the broker's write calls to files of its log dirs, by device. log_dir is empty if it is not known, and a comma-separated list if log dirs share a device.";
    WriteMax: Gauge "brokerscope_write_duration_max_seconds" ["device", "log_dir"] (none) "seconds" "Longest write call that ended in the last minute.";
    Fsync: Histogram "brokerscope_fsync_duration_seconds" ["device", "log_dir"] (none) "seconds" "Duration of fsync, fdatasync and msync of files of the log dirs.";
    FileOps: Counter "brokerscope_file_operations_total" ["op", "kind"] (none) "" "The broker's operations on files, by call and kind of file.";
    FileRead: Counter "brokerscope_file_read_bytes_total" ["kind"] (|| each(FileKind::ALL.map(FileKind::as_str))) "bytes" "Bytes of files that the broker read (read, sendfile, splice, copy_file_range, faults on mapped pages), from the page cache or the device.";
    FileWritten: Counter "brokerscope_file_written_bytes_total" ["kind"] (|| each(FileKind::ALL.map(FileKind::as_str))) "bytes" "Bytes that the broker wrote to files.";
    FileDiskRead: Counter "brokerscope_file_disk_read_bytes_total" ["kind"] (|| each(FileKind::ALL.map(FileKind::as_str))) "bytes" "Bytes of files that the broker read and that were not in the page cache, where that is watched.";
    BlockIos: Counter "brokerscope_block_ios_total" ["device", "direction", "kind"] (none) "" "Block requests, by the kind of file whose page they hold; unknown: no file's page (journal, file system metadata).";
    BlockBytes: Counter "brokerscope_block_io_bytes_total" ["device", "direction", "kind"] (none) "bytes" "Bytes of block requests.";
    BlockTime: Histogram "brokerscope_block_io_duration_seconds" ["device", "direction"] (none) "seconds" "Time that the device took for a block request.";
    Commit: Histogram "brokerscope_journal_commit_duration_seconds" ["device"] (none) "seconds" "Duration of ext4 journal (jbd2) commits.";
    CommitMax: Gauge "brokerscope_journal_commit_max_seconds" ["device"] (none) "seconds" "Longest journal commit that ended in the last minute.";
    CommitPhase: Histogram "brokerscope_journal_commit_phase_duration_seconds" ["device", "phase"] (none) "seconds" "Duration of the phases of journal commits, with the resolution of a jiffy: wait, running, locked, flushing, logging.";
    DirtyThrottles: Counter "brokerscope_dirty_throttles_total" [] (one) "" "Pauses of writers by balance_dirty_pages, because too many pages were dirty.";
    DirtyThrottleTime: Counter "brokerscope_dirty_throttle_seconds_total" [] (one) "seconds" "Sum of the pauses of writers by balance_dirty_pages.";
    LockWait: Histogram "brokerscope_lock_wait_duration_seconds" ["role", "source"] (none) "seconds" "Waits for Java locks that the JVM reported, by the role of the waiting thread. source is jfr or usdt; both may report the same wait.";
    ProcessStops: Counter "brokerscope_process_stops_total" ["kind"] (|| each(StopKind::ALL.map(StopKind::as_str))) "" "Times in which something had stopped the whole process: a signal, the freezer of its cgroup, or a tracer.";
    ProcessStopTime: Counter "brokerscope_process_stop_seconds_total" ["kind"] (|| each(StopKind::ALL.map(StopKind::as_str))) "seconds" "Sum of these times.";
    CpuGaps: Counter "brokerscope_cpu_gaps_total" ["kind"] (|| each(CpuGapKind::ALL.map(CpuGapKind::as_str))) "" "Times in which a CPU was taken away from this machine, each CPU by itself. gap: no timer interrupt for 30 ms or longer; steal: shorter ones, by the kernel's count of steal time.";
    CpuGapTime: Counter "brokerscope_cpu_gap_seconds_total" ["kind"] (|| each(CpuGapKind::ALL.map(CpuGapKind::as_str))) "seconds" "How long the CPUs were away: gaps from the timer interrupt before to the one after; of steal, the time that was counted.";
    JvmPause: Histogram "brokerscope_jvm_pause_duration_seconds" ["kind"] (|| each(JvmPauseKind::ALL.map(JvmPauseKind::as_str))) "seconds" "JVM pauses, in which all Java threads are stopped: gc or safepoint.";
    Busy: Gauge "brokerscope_thread_busy_ratio" ["role"] (none) "ratio" "Share of the time of the threads of a role in which they were on a CPU, runnable, or blocked in a file operation or by a lock that the JVM reported, over about the last second, or five while always on. A lower bound, because shorter waits are not seen.";
    Cpu: Gauge "brokerscope_thread_cpu_ratio" ["role"] (none) "ratio" "CPUs that the threads of a role used.";
    RunQueue: Gauge "brokerscope_thread_run_queue_ratio" ["role"] (none) "ratio" "Mean number of threads of a role that waited for a CPU.";
    Threads: Gauge "brokerscope_threads" ["role"] (none) "" "Threads of a role.";
    DeviceUtil: Gauge "brokerscope_device_utilization_ratio" ["device"] (none) "ratio" "Share of time in which the device had a request in flight (%util of iostat).";
    DeviceReads: Counter "brokerscope_device_reads_total" ["device"] (none) "" "Reads completed by a device under the log dirs, for any process.";
    DeviceWrites: Counter "brokerscope_device_writes_total" ["device"] (none) "" "Writes completed by a device under the log dirs, for any process.";
    DeviceReadBytes: Counter "brokerscope_device_read_bytes_total" ["device"] (none) "bytes" "Bytes read from a device under the log dirs, by any process.";
    DeviceWrittenBytes: Counter "brokerscope_device_written_bytes_total" ["device"] (none) "bytes" "Bytes written to a device under the log dirs, by any process.";
    NetworkReceived: Counter "brokerscope_network_receive_bytes_total" ["interface"] (none) "bytes" "Bytes received in the broker's network namespace.";
    NetworkSent: Counter "brokerscope_network_transmit_bytes_total" ["interface"] (none) "bytes" "Bytes sent in the broker's network namespace.";
    CgroupThrottled: Counter "brokerscope_cgroup_cpu_throttled_seconds_total" [] (one) "seconds" "Time for which CPUs of the broker's cgroup were throttled for its CPU quota.";
    TcpTroubles: Counter "brokerscope_tcp_troubles_total" ["kind"] (|| each(TcpEventKind::ALL.map(TcpEventKind::as_str))) "" "TCP events that slow the broker's connections, by kind.";
    TlsConnections: Counter "brokerscope_tls_connections_total" ["listener"] (none) "" "Connections to a listener that are TLS: they are counted and not read.";
    TlsBytes: Counter "brokerscope_tls_bytes_total" ["listener"] (none) "bytes" "TCP payload of TLS connections to a listener, in both directions, which is not read.";
    Joins: Counter "brokerscope_append_joins_total" ["key"] (|| each(["batch-crc", "base-offset", "none", "not-written"])) "" "Partitions of produce requests, by the key that joined them with their writes: batch-crc, base-offset, none, or not-written (refused by the broker, or empty). With --watch always-on, of slow requests only.";
    Losses: Counter "brokerscope_losses_total" ["kind"] (|| each(LossKind::ALL.map(LossKind::as_str))) "" "Packets, bytes, frames or events that were lost, in the unit that the kind names.";
    SourceUp: Gauge "brokerscope_source_up" ["purpose"] (none) "" "1 if this purpose is served on this host, 0 if it is not (brokerscope doctor says why) or not at the moment (/readyz says why). With --watch always-on, 1 also for file-writes, off-cpu and kernel-stacks, which are then seen only around slow requests.";
    SourceLastEvent: Gauge "brokerscope_source_last_event_timestamp_seconds" ["purpose"] (none) "seconds" "Unix time of the newest event of the source that serves this purpose. One that reports rare events is silent for long.";
    WatchInfo: Gauge "brokerscope_watch_info" ["mode"] (none) "" "Always 1; the label is how much is watched: full or always-on (--watch).";
    Cost: Gauge "brokerscope_cost_ratio" ["part"] (none) "ratio" "CPU time that watching took in the last minute, as a share of the broker's. part is process (brokerscope itself) or programs (BPF, measured for 0.25 s in every 10; only with CAP_SYS_ADMIN, or while something else has the kernel measure them). Their sum is compared with --max-cost.";
    MaxCost: Gauge "brokerscope_max_cost_ratio" [] (none) "ratio" "Share of the broker's CPU time above which sources are given up (--max-cost); without one there is no sample. Of a source that was given up, brokerscope_source_up is 0, and losses of kind source-shed count the seconds.";
    BrokerUp: Gauge "brokerscope_broker_up" [] (one) "" "1 while the broker's process is watched.";
    BrokerRestarts: Counter "brokerscope_broker_restarts_total" [] (one) "" "Restarts of the broker that were seen: its process ended and a new one was found.";
    BrokerInfo: Gauge "brokerscope_broker_info" ["node_id", "host", "kernel"] (none) "" "Always 1; the labels identify the broker.";
    BuildInfo: Gauge "brokerscope_build_info" ["version"] (none) "" "Always 1; the label is the version of brokerscope.";
    LastEvent: Gauge "brokerscope_last_event_timestamp_seconds" [] (none) "seconds" "Unix time of the newest event.";
    Events: Counter "brokerscope_events_total" [] (one) "" "Events received from all sources.";
    OtlpTraces: Counter "brokerscope_otlp_traces_total" ["outcome"] (none) "" "Traces of slow requests (--otlp), by outcome: sent, sampled-out (not among the slowest of their second), dropped (no room, or no collector in time), refused (by the collector).";
    OtlpRejected: Counter "brokerscope_otlp_rejected_spans_total" [] (none) "" "Spans that a collector rejected from a batch that it accepted.";
    OtlpRetries: Counter "brokerscope_otlp_retries_total" [] (none) "" "Retries of batches of traces that could not be sent.";
    Scrapes: Counter "brokerscope_scrapes_total" [] (one) "" "Times that the metrics were rendered. Scrapes within a fifth of a second get the same text.";
    ScrapeTime: Gauge "brokerscope_scrape_duration_seconds" [] (one) "seconds" "Duration of the last rendering of the metrics.";
    BpfTime: Counter "brokerscope_bpf_run_seconds_total" [] (none) "seconds" "Time spent in brokerscope's BPF programs, by the kernel's count; only with --measure-probes.";
    BpfRuns: Counter "brokerscope_bpf_runs_total" [] (none) "" "Runs of brokerscope's BPF programs; only with --measure-probes.";
    ProcessCpu: Counter "process_cpu_seconds_total" [] (none) "seconds" "User and system CPU time of brokerscope.";
    ProcessResident: Gauge "process_resident_memory_bytes" [] (none) "bytes" "Resident memory of brokerscope.";
    ProcessVirtual: Gauge "process_virtual_memory_bytes" [] (none) "bytes" "Virtual memory of brokerscope.";
    ProcessFds: Gauge "process_open_fds" [] (none) "" "Open file descriptors of brokerscope.";
    ProcessStart: Gauge "process_start_time_seconds" [] (none) "seconds" "Unix time at which brokerscope started.";
}

/// Formats all metrics as a Markdown table. Those that an always-on watch lacks follow the table.
pub fn table() -> String {
    let mut table = String::from("| metric | type | labels | unit | meaning |\n|---|---|---|---|---|\n");
    for family in FAMILIES {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(
            table,
            "| `{}` | {} | {} | {} | {} |",
            family.name,
            family.kind.as_str(),
            labels.join(", "),
            family.unit,
            family.help
        );
    }
    let unseen = UNSEEN_ALWAYS_ON.iter().filter_map(|metric| FAMILIES.get(*metric as usize));
    let unseen: Vec<String> = unseen.map(|family| format!("`{}`", family.name)).collect();
    let _ = writeln!(table, "\nWith `--watch always-on` these have no samples: {}.", unseen.join(", "));
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{FAMILIES, Kind};

    #[test]
    fn names_are_unique_and_follow_prometheus_conventions() {
        let names: BTreeSet<_> = FAMILIES.iter().map(|family| family.name).collect();
        assert_eq!(names.len(), FAMILIES.len());
        for family in FAMILIES {
            let name = family.name;
            assert!(name.starts_with("brokerscope_") || name.starts_with("process_"), "{name}");
            assert_eq!(name.ends_with("_total"), family.kind == Kind::Counter, "{name}");
            let base = name.trim_end_matches("_total");
            if family.unit == "seconds" || (family.unit == "bytes" && family.kind != Kind::Counter) {
                assert!(base.ends_with(family.unit), "{name} is in {}", family.unit);
            }
            assert!(base.contains("_bytes") || family.unit != "bytes", "{name}");
            assert!(base.ends_with("_ratio") == (family.unit == "ratio"), "{name}");
            assert!(family.help.ends_with('.') && !family.help.contains('|'), "{name}");
        }
    }
}
