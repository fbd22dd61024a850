//! Every metric there is: its name, type, labels, unit and meaning. The one list of them; `docs/reference/metrics.md` is made of it, and a test
//! holds that what is exported is what is listed. Counts nothing.
//!
//! Names follow Prometheus' conventions: base units (seconds, bytes), `_total` for what only grows.

use std::fmt::Write as _;

use model::{Cause, FileKind, JvmPauseKind, LossKind, Stage, TcpEventKind};

use crate::label::OTHER;

/// The APIs whose stages and topics are reported: of others, next to nothing is seen inside the broker.
pub(crate) const APIS: [&str; 2] =
    [model::api_key::name(model::api_key::PRODUCE), model::api_key::name(model::api_key::FETCH)];

/// How a metric behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows, but for a new process of brokerscope.
    Counter,
    /// As it stands.
    Gauge,
    /// Counts by buckets, with their sum: classic and native.
    Histogram,
}

impl Kind {
    /// As all formats call it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric.
#[derive(Debug)]
pub struct Family {
    /// Its name; of a counter, with `_total`.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// Its labels, in the order in which values are given.
    pub labels: &'static [&'static str],
    pub(crate) initial: InitialSeries,
    /// What it counts in: `seconds`, `bytes`, `ratio` (1 is all), or nothing.
    pub unit: &'static str,
    /// What it says.
    pub help: &'static str,
}

/// Labels' values of the series that a metric has before anything was seen: an alert on what has never been is no alert on nothing.
type InitialSeries = fn() -> Vec<Vec<&'static str>>;

/// No series.
fn none() -> Vec<Vec<&'static str>> {
    Vec::new()
}

/// The only one, of a metric without labels.
fn one() -> Vec<Vec<&'static str>> {
    vec![Vec::new()]
}

/// One for each value of the only label.
fn each(values: impl IntoIterator<Item = &'static str>) -> Vec<Vec<&'static str>> {
    values.into_iter().map(|value| vec![value]).collect()
}

impl Family {
    /// The upper bounds of its classic buckets. Native ones need none.
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
        /// A metric, by which its declaration and its series are found.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Metric {
            $($id,)*
        }

        /// Every metric, in the order in which they are written.
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
    LongPolls: Counter "brokerscope_long_poll_requests_total" ["api"] (none) "" "Requests that the broker kept because they had asked for it (long polls that nothing came for, rebalances): in no histogram of latencies.";
    RequestBytes: Counter "brokerscope_request_bytes_total" ["api"] (none) "bytes" "Bytes of requests.";
    ResponseBytes: Counter "brokerscope_response_bytes_total" ["api"] (none) "bytes" "Bytes of responses.";
    Duration: Histogram "brokerscope_request_duration_seconds" ["api"] (|| each(["PRODUCE", "FETCH", "OTHER"])) "seconds" "Latency of answered requests, from the first byte seen of the request to the last of the response, less the time of a long poll: for which a fetch waited for data. api is PRODUCE, FETCH or OTHER.";
    Stage: Histogram "brokerscope_request_stage_duration_seconds" ["api", "stage"] (|| APIS.iter().flat_map(|api| Stage::ALL.map(|stage| vec![*api, stage.as_str()])).collect()) "seconds" "Time that answered requests spent in a stage: of all requests, slow or not; each counts in the stages in which it spent any. api is PRODUCE or FETCH. What no source saw is the stage unobserved; a fetch's wait for data is in remote.";
    Slow: Counter "brokerscope_slow_requests_total" ["api", "cause"] (none) "" "Requests that took as long as the threshold or longer, by the deepest cause that is proven (unobserved: none is).";
    SlowTime: Counter "brokerscope_slow_request_seconds_total" ["api", "cause"] (none) "seconds" "The latencies of those, added up.";
    Roots: Counter "brokerscope_slow_roots_total" ["cause"] (|| each(Cause::ALL.iter().filter(|cause| **cause != Cause::Unobserved).map(|cause| cause.as_str()))) "" "Root events of slow requests: one commit that hurt 37 requests is one.";
    Threshold: Gauge "brokerscope_slow_request_threshold_seconds" [] (one) "seconds" "From which latency on a request counts as slow (--slower-than).";
    VerdictLag: Gauge "brokerscope_verdict_lag_seconds" [] (one) "seconds" "How long after its request's end the last verdict was reached.";
    Throttled: Counter "brokerscope_throttled_requests_total" ["api"] (none) "" "Responses in which the broker says that it throttled the client.";
    ThrottleTime: Counter "brokerscope_throttle_seconds_total" ["api"] (none) "seconds" "The throttle times in them, added up.";
    BatchBytes: Histogram "brokerscope_produce_batch_bytes" [] (one) "bytes" "What one partition was sent in one produce request: how full batches are.";
    BatchRecords: Histogram "brokerscope_produce_batch_records" [] (one) "" "Records in it, where its header could be read.";
    TopicRequests: Counter "brokerscope_topic_requests_total" ["topic", "api"] (|| APIS.map(|api| vec![OTHER, api]).into()) "" "Requests that name the topic: of the --top-topics topics with the most bytes; all others are __other__. api is PRODUCE or FETCH.";
    TopicBytes: Counter "brokerscope_topic_bytes_total" ["topic", "api"] (|| APIS.map(|api| vec![OTHER, api]).into()) "bytes" "Bytes of records that were sent to the topic, or fetched from it.";
    TopicProduce: Histogram "brokerscope_topic_produce_duration_seconds" ["topic"] (|| each([OTHER])) "seconds" "Latency of produce requests that name the topic.";
    Write: Histogram "brokerscope_write_duration_seconds" ["device", "log_dir"] (none) "seconds" "Write calls of the broker to files of its log dirs, by the device that these are on. log_dir is empty where it is not known, and several with commas between them where they share a device.";
    WriteMax: Gauge "brokerscope_write_duration_max_seconds" ["device", "log_dir"] (none) "seconds" "The longest of them that ended in the last minute.";
    Fsync: Histogram "brokerscope_fsync_duration_seconds" ["device", "log_dir"] (none) "seconds" "fsync, fdatasync and msync of those files.";
    FileOps: Counter "brokerscope_file_operations_total" ["op", "kind"] (none) "" "The broker's operations on files, by call and kind of file.";
    FileRead: Counter "brokerscope_file_read_bytes_total" ["kind"] (|| each(FileKind::ALL.map(FileKind::as_str))) "bytes" "Bytes that they read, by read, sendfile, splice, copy_file_range or a mapped page, from the page cache or the device.";
    FileWritten: Counter "brokerscope_file_written_bytes_total" ["kind"] (|| each(FileKind::ALL.map(FileKind::as_str))) "bytes" "Bytes that they wrote.";
    FileDiskRead: Counter "brokerscope_file_disk_read_bytes_total" ["kind"] (|| each(FileKind::ALL.map(FileKind::as_str))) "bytes" "Of the bytes read, those that were not in the page cache, where that is watched.";
    BlockIos: Counter "brokerscope_block_ios_total" ["device", "direction", "kind"] (none) "" "Requests to block devices, by the kind of file whose page they hold; unknown: of none (journal, metadata of the file system).";
    BlockBytes: Counter "brokerscope_block_io_bytes_total" ["device", "direction", "kind"] (none) "bytes" "Bytes of those.";
    BlockTime: Histogram "brokerscope_block_io_duration_seconds" ["device", "direction"] (none) "seconds" "How long the device took for them.";
    Commit: Histogram "brokerscope_journal_commit_duration_seconds" ["device"] (none) "seconds" "Commits of ext4's journal (jbd2).";
    CommitMax: Gauge "brokerscope_journal_commit_max_seconds" ["device"] (none) "seconds" "The longest of them that ended in the last minute.";
    CommitPhase: Histogram "brokerscope_journal_commit_phase_duration_seconds" ["device", "phase"] (none) "seconds" "Their phases, at the resolution of a jiffy: wait, running, locked, flushing, logging.";
    DirtyThrottles: Counter "brokerscope_dirty_throttles_total" [] (one) "" "Times that a writer was paused because too many pages were dirty.";
    DirtyThrottleTime: Counter "brokerscope_dirty_throttle_seconds_total" [] (one) "seconds" "Those pauses, added up.";
    LockWait: Histogram "brokerscope_lock_wait_duration_seconds" ["role", "source"] (none) "seconds" "Waits for Java locks that the JVM reported, by what the thread that waited is for. source is jfr or usdt: both may report one wait.";
    JvmPause: Histogram "brokerscope_jvm_pause_duration_seconds" ["kind"] (|| each(JvmPauseKind::ALL.map(JvmPauseKind::as_str))) "seconds" "Stops of all Java threads: gc or safepoint.";
    Busy: Gauge "brokerscope_thread_busy_ratio" ["role"] (none) "ratio" "Share of the time of the threads of a role in which they were on a processor, waited for one, or were held up in a call on a file or by a lock that the JVM reported, over the last second or so. At least as long: shorter waits are not seen.";
    Cpu: Gauge "brokerscope_thread_cpu_ratio" ["role"] (none) "ratio" "Processors that they used.";
    RunQueue: Gauge "brokerscope_thread_run_queue_ratio" ["role"] (none) "ratio" "How many of them waited for a processor, mean.";
    Threads: Gauge "brokerscope_threads" ["role"] (none) "" "How many there are.";
    DeviceUtil: Gauge "brokerscope_device_utilization_ratio" ["device"] (none) "ratio" "Time with a request in flight (%util of iostat).";
    DeviceReads: Counter "brokerscope_device_reads_total" ["device"] (none) "" "Reads completed by a device under the log dirs, for any process.";
    DeviceWrites: Counter "brokerscope_device_writes_total" ["device"] (none) "" "Writes completed by it.";
    DeviceReadBytes: Counter "brokerscope_device_read_bytes_total" ["device"] (none) "bytes" "Bytes read from it.";
    DeviceWrittenBytes: Counter "brokerscope_device_written_bytes_total" ["device"] (none) "bytes" "Bytes written to it.";
    NetworkReceived: Counter "brokerscope_network_receive_bytes_total" ["interface"] (none) "bytes" "Bytes received in the broker's network namespace.";
    NetworkSent: Counter "brokerscope_network_transmit_bytes_total" ["interface"] (none) "bytes" "Bytes sent.";
    CgroupThrottled: Counter "brokerscope_cgroup_cpu_throttled_seconds_total" [] (one) "seconds" "Time for which CPUs of the broker's cgroup stood still for its quota.";
    TcpTroubles: Counter "brokerscope_tcp_troubles_total" ["kind"] (|| each(TcpEventKind::ALL.map(TcpEventKind::as_str))) "" "Trouble of the broker's connections.";
    Joins: Counter "brokerscope_append_joins_total" ["key"] (|| each(["batch-crc", "base-offset", "none", "not-written"])) "" "How partitions of produce requests were joined with the writes of them: batch-crc, base-offset, none, or not-written because the broker refused them or they were empty.";
    Losses: Counter "brokerscope_losses_total" ["kind"] (|| each(LossKind::ALL.map(LossKind::as_str))) "" "What was not seen, counted in what the kind says: packets, bytes, frames, events.";
    SourceUp: Gauge "brokerscope_source_up" ["purpose"] (none) "" "1: this is seen on this host; 0: it is missing (brokerscope doctor says why).";
    BrokerUp: Gauge "brokerscope_broker_up" [] (one) "" "1 while the broker's process is watched.";
    BrokerRestarts: Counter "brokerscope_broker_restarts_total" [] (one) "" "Times that the process was gone and another took its place.";
    BrokerInfo: Gauge "brokerscope_broker_info" ["node_id", "host", "kernel"] (none) "" "Always 1: which broker this is of.";
    BuildInfo: Gauge "brokerscope_build_info" ["version"] (none) "" "Always 1: what exports this.";
    LastEvent: Gauge "brokerscope_last_event_timestamp_seconds" [] (none) "seconds" "The time of the newest event, since 1970.";
    Events: Counter "brokerscope_events_total" [] (one) "" "Events taken.";
    OtlpTraces: Counter "brokerscope_otlp_traces_total" ["outcome"] (none) "" "Slow requests by what became of them as traces (--otlp): sent, sampled-out (not among the slowest of their second), dropped (no room, or no collector in time), refused (by the collector).";
    OtlpRejected: Counter "brokerscope_otlp_rejected_spans_total" [] (none) "" "Spans that a collector took a batch without.";
    OtlpRetries: Counter "brokerscope_otlp_retries_total" [] (none) "" "Attempts to send a batch that failed and were made again.";
    Scrapes: Counter "brokerscope_scrapes_total" [] (one) "" "Times that this was written; who asks again within a fifth of a second gets the same once more.";
    ScrapeTime: Gauge "brokerscope_scrape_duration_seconds" [] (one) "seconds" "How long writing it took the last time.";
    BpfTime: Counter "brokerscope_bpf_run_seconds_total" [] (none) "seconds" "Time spent in this process' BPF programs, by the kernel's count; only with --measure-probes.";
    BpfRuns: Counter "brokerscope_bpf_runs_total" [] (none) "" "How often they ran.";
    ProcessCpu: Counter "process_cpu_seconds_total" [] (none) "seconds" "User and system time of this process, brokerscope.";
    ProcessResident: Gauge "process_resident_memory_bytes" [] (none) "bytes" "Its memory resident.";
    ProcessVirtual: Gauge "process_virtual_memory_bytes" [] (none) "bytes" "Its address space.";
    ProcessFds: Gauge "process_open_fds" [] (none) "" "Its open file descriptors.";
    ProcessStart: Gauge "process_start_time_seconds" [] (none) "seconds" "When it was started, since 1970.";
}

/// All of them as a Markdown table.
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
    table
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{FAMILIES, Kind};

    #[test]
    fn names_follow_prometheus_conventions_and_are_each_given_once() {
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
