//! Every metric there is: its name, type, labels, unit and meaning. The one list of them; `METRICS.md` is made of it, and a test
//! holds that what is exported is what is listed. Counts nothing.
//!
//! Names follow Prometheus' conventions: base units (seconds, bytes), `_total` for what only grows.

use std::fmt::Write as _;

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
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// Its name; of a counter, with `_total`.
    pub name: &'static str,
    /// How it behaves.
    pub kind: Kind,
    /// Its labels, in the order in which values are given.
    pub labels: &'static [&'static str],
    /// What it counts in: `seconds`, `bytes`, `ratio` (1 is all), or nothing.
    pub unit: &'static str,
    /// What it says.
    pub help: &'static str,
}

macro_rules! families {
    ($($id:ident: $kind:ident $name:literal [$($label:literal),*] $unit:literal $help:literal;)*) => {
        $(
            pub(crate) static $id: Family = Family {
                name: $name,
                kind: Kind::$kind,
                labels: &[$($label),*],
                unit: $unit,
                help: $help,
            };
        )*
        /// Every metric, in the order in which they are written.
        pub static FAMILIES: &[&Family] = &[$(&$id),*];
    };
}

#[rustfmt::skip]
families! {
    REQUESTS: Counter "brokerscope_requests_total" ["api"] "" "Requests seen, by Kafka's name of the API.";
    FAILED: Counter "brokerscope_failed_requests_total" ["api"] "" "Requests that were answered with an error, could not be read in full, or were never answered.";
    HELD: Counter "brokerscope_held_requests_total" ["api"] "" "Requests that the broker kept because they had asked for it (long polls that nothing came for, rebalances): in no histogram of latencies.";
    REQUEST_BYTES: Counter "brokerscope_request_bytes_total" ["api"] "bytes" "Bytes of requests.";
    RESPONSE_BYTES: Counter "brokerscope_response_bytes_total" ["api"] "bytes" "Bytes of responses.";
    DURATION: Histogram "brokerscope_request_duration_seconds" ["api"] "seconds" "Latency of answered requests, from the first byte seen of the request to the last of the response, less the time for which a fetch waited for data as it had asked to. api is PRODUCE, FETCH or OTHER.";
    STAGE: Histogram "brokerscope_request_stage_duration_seconds" ["api", "stage"] "seconds" "Time that answered requests spent in a stage: of all requests, slow or not; each counts in the stages in which it spent any. api is PRODUCE or FETCH. What no source saw is the stage unobserved; a fetch's wait for data is in remote.";
    SLOW: Counter "brokerscope_slow_requests_total" ["api", "cause"] "" "Requests that took as long as the threshold or longer, by the deepest cause that is proven (unobserved: none is).";
    SLOW_TIME: Counter "brokerscope_slow_request_seconds_total" ["api", "cause"] "seconds" "The latencies of those, added up.";
    ROOTS: Counter "brokerscope_slow_roots_total" ["cause"] "" "Root events of slow requests: one commit that hurt 37 requests is one.";
    THRESHOLD: Gauge "brokerscope_slow_request_threshold_seconds" [] "seconds" "From which latency on a request counts as slow (--slower-than).";
    VERDICT_LAG: Gauge "brokerscope_verdict_lag_seconds" [] "seconds" "How long after its request's end the last verdict was reached.";
    THROTTLED: Counter "brokerscope_throttled_requests_total" ["api"] "" "Responses in which the broker says that it throttled the client.";
    THROTTLE_TIME: Counter "brokerscope_throttle_seconds_total" ["api"] "seconds" "The throttle times in them, added up.";
    BATCH_BYTES: Histogram "brokerscope_produce_batch_bytes" [] "bytes" "What one partition was sent in one produce request: how full batches are.";
    BATCH_RECORDS: Histogram "brokerscope_produce_batch_records" [] "" "Records in it, where its header could be read.";
    TOPIC_REQUESTS: Counter "brokerscope_topic_requests_total" ["topic", "api"] "" "Requests that name the topic: of the --top-topics topics with the most bytes; all others are __other__. api is PRODUCE or FETCH.";
    TOPIC_BYTES: Counter "brokerscope_topic_bytes_total" ["topic", "api"] "bytes" "Bytes of records that were sent to the topic, or fetched from it.";
    TOPIC_PRODUCE: Histogram "brokerscope_topic_produce_duration_seconds" ["topic"] "seconds" "Latency of produce requests that name the topic.";
    WRITE: Histogram "brokerscope_write_duration_seconds" ["device", "log_dir"] "seconds" "Write calls of the broker to files of its log dirs, by the device that these are on. log_dir is empty where it is not known, and several with commas between them where they share a device.";
    WRITE_MAX: Gauge "brokerscope_write_duration_max_seconds" ["device", "log_dir"] "seconds" "The longest of them that ended in the last minute.";
    FSYNC: Histogram "brokerscope_fsync_duration_seconds" ["device", "log_dir"] "seconds" "fsync, fdatasync and msync of those files.";
    FILE_OPS: Counter "brokerscope_file_operations_total" ["op", "kind"] "" "The broker's operations on files, by call and kind of file.";
    FILE_READ: Counter "brokerscope_file_read_bytes_total" ["kind"] "bytes" "Bytes that they read, by read, sendfile, splice, copy_file_range or a mapped page, from the page cache or the device.";
    FILE_WRITTEN: Counter "brokerscope_file_written_bytes_total" ["kind"] "bytes" "Bytes that they wrote.";
    FILE_DISK_READ: Counter "brokerscope_file_disk_read_bytes_total" ["kind"] "bytes" "Of the bytes read, those that were not in the page cache, where that is watched.";
    BLOCK_IOS: Counter "brokerscope_block_ios_total" ["device", "direction", "kind"] "" "Requests to block devices, by the kind of file whose page they hold; unknown: of none (journal, metadata of the file system).";
    BLOCK_BYTES: Counter "brokerscope_block_io_bytes_total" ["device", "direction", "kind"] "bytes" "Bytes of those.";
    BLOCK_TIME: Histogram "brokerscope_block_io_duration_seconds" ["device", "direction"] "seconds" "How long the device took for them.";
    COMMIT: Histogram "brokerscope_journal_commit_duration_seconds" ["device"] "seconds" "Commits of ext4's journal (jbd2).";
    COMMIT_MAX: Gauge "brokerscope_journal_commit_max_seconds" ["device"] "seconds" "The longest of them that ended in the last minute.";
    COMMIT_PHASE: Histogram "brokerscope_journal_commit_phase_duration_seconds" ["device", "phase"] "seconds" "Their phases, at the resolution of a jiffy: wait, running, locked, flushing, logging.";
    DIRTY_THROTTLES: Counter "brokerscope_dirty_throttles_total" [] "" "Times that a writer was paused because too many pages were dirty.";
    DIRTY_THROTTLE_TIME: Counter "brokerscope_dirty_throttle_seconds_total" [] "seconds" "Those pauses, added up.";
    LOCK_WAIT: Histogram "brokerscope_lock_wait_duration_seconds" ["role", "source"] "seconds" "Waits for Java locks that the JVM told of, by what the thread that waited is for. source is jfr or usdt: both may tell of one wait.";
    JVM_PAUSE: Histogram "brokerscope_jvm_pause_duration_seconds" ["kind"] "seconds" "Stops of all Java threads: gc or safepoint.";
    BUSY: Gauge "brokerscope_thread_busy_ratio" ["role"] "ratio" "Share of the time of the threads of a role in which they were on a processor, waited for one, or were held up in a call on a file or by a lock that the JVM told of, over the last second or so. At least as long: shorter waits are not seen.";
    CPU: Gauge "brokerscope_thread_cpu_ratio" ["role"] "ratio" "Processors that they used.";
    RUN_QUEUE: Gauge "brokerscope_thread_run_queue_ratio" ["role"] "ratio" "How many of them waited for a processor, mean.";
    THREADS: Gauge "brokerscope_threads" ["role"] "" "How many there are.";
    DEVICE_UTIL: Gauge "brokerscope_device_utilization_ratio" ["device"] "ratio" "Time with a request in flight (%util of iostat).";
    DEVICE_READS: Counter "brokerscope_device_reads_total" ["device"] "" "Reads completed by a device under the log dirs, whoever asked for them.";
    DEVICE_WRITES: Counter "brokerscope_device_writes_total" ["device"] "" "Writes completed by it.";
    DEVICE_READ_BYTES: Counter "brokerscope_device_read_bytes_total" ["device"] "bytes" "Bytes read from it.";
    DEVICE_WRITTEN_BYTES: Counter "brokerscope_device_written_bytes_total" ["device"] "bytes" "Bytes written to it.";
    NETWORK_RECEIVED: Counter "brokerscope_network_receive_bytes_total" ["interface"] "bytes" "Bytes received in the broker's network namespace.";
    NETWORK_SENT: Counter "brokerscope_network_transmit_bytes_total" ["interface"] "bytes" "Bytes sent.";
    CGROUP_THROTTLED: Counter "brokerscope_cgroup_cpu_throttled_seconds_total" [] "seconds" "Time for which CPUs of the broker's cgroup stood still for its quota.";
    TCP_TROUBLES: Counter "brokerscope_tcp_troubles_total" ["kind"] "" "Trouble of the broker's connections.";
    JOINS: Counter "brokerscope_append_joins_total" ["key"] "" "How partitions of produce requests were joined with the writes of them: batch-crc, base-offset, none, or not-written because the broker refused them or they were empty.";
    LOSSES: Counter "brokerscope_losses_total" ["kind"] "" "What was not seen, counted in what the kind says: packets, bytes, frames, events.";
    SOURCE_UP: Gauge "brokerscope_source_up" ["purpose"] "" "1: this is seen on this host; 0: it is missing (brokerscope doctor says why).";
    BROKER_UP: Gauge "brokerscope_broker_up" [] "" "1 while the broker's process is watched.";
    BROKER_RESTARTS: Counter "brokerscope_broker_restarts_total" [] "" "Times that the process was gone and another took its place.";
    BROKER_INFO: Gauge "brokerscope_broker_info" ["node_id", "host", "kernel"] "" "Always 1: which broker this is of.";
    BUILD_INFO: Gauge "brokerscope_build_info" ["version"] "" "Always 1: what exports this.";
    LAST_EVENT: Gauge "brokerscope_last_event_timestamp_seconds" [] "seconds" "The time of the newest event, since 1970.";
    EVENTS: Counter "brokerscope_events_total" [] "" "Events taken.";
    OTLP_TRACES: Counter "brokerscope_otlp_traces_total" ["outcome"] "" "Slow requests by what became of them as traces (--otlp): sent, sampled-out (not among the slowest of their second), dropped (no room, or no collector in time), refused (by the collector).";
    OTLP_REJECTED: Counter "brokerscope_otlp_rejected_spans_total" [] "" "Spans that a collector took a batch without.";
    OTLP_RETRIES: Counter "brokerscope_otlp_retries_total" [] "" "Attempts to send a batch that failed and were made again.";
    SCRAPES: Counter "brokerscope_scrapes_total" [] "" "Times that this was written; who asks again within a fifth of a second gets the same once more.";
    SCRAPE_TIME: Gauge "brokerscope_scrape_duration_seconds" [] "seconds" "How long writing it took the last time.";
    BPF_TIME: Counter "brokerscope_bpf_run_seconds_total" [] "seconds" "Time spent in this process' BPF programs, by the kernel's count; only with --measure-probes.";
    BPF_RUNS: Counter "brokerscope_bpf_runs_total" [] "" "How often they ran.";
    PROCESS_CPU: Counter "process_cpu_seconds_total" [] "seconds" "User and system time of this process, brokerscope.";
    PROCESS_RESIDENT: Gauge "process_resident_memory_bytes" [] "bytes" "Its memory resident.";
    PROCESS_VIRTUAL: Gauge "process_virtual_memory_bytes" [] "bytes" "Its address space.";
    PROCESS_FDS: Gauge "process_open_fds" [] "" "Its open file descriptors.";
    PROCESS_START: Gauge "process_start_time_seconds" [] "seconds" "When it was started, since 1970.";
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
