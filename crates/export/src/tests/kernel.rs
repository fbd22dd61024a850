//! Metrics of files, devices, journals, threads, the JVM, the host, and losses.

use model::{
    BlockIo, BrokerChange, BrokerState, CpuGap, CpuGapKind, Device, Direction, DirtyThrottle, Event,
    FileKind, FileOp, FileOpKind, HostSample, HostScope, JournalCommit, JvmPause, JvmPauseKind, Lock,
    LockKind, LockSource, LockWait, Loss, LossKind, Nanos, OffCpu, ProcessStop, Row, StopKind, TcpEvent,
    TcpEventKind, TlsTraffic,
};

use super::broker::{append, commit, device, off_cpu, op, text};
use super::{collect, exporter, ms, scrape};

fn other_device() -> Device {
    Device { major: 8, minor: 1, name: "".into() }
}

fn block(direction: Direction, bytes: u32, file: Option<&str>) -> Event {
    Event::BlockIo(Box::new(BlockIo {
        start: ms(1_000),
        end: ms(1_003),
        device: device(),
        direction,
        sector: 8,
        bytes,
        tid: 1,
        thread: text("kworker"),
        flags: text("R"),
        file: file.map(text),
        ..Row::empty()
    }))
}

#[test]
fn log_dir_writes_are_counted_by_device_with_a_one_minute_maximum() {
    let elsewhere = FileOp { device: other_device(), ..append(1, "a", 1_000, 1_002, 2) };
    let own_log = FileOp { kind: FileKind::Other, ..append(1, "a", 1_000, 1_900, 3) };
    let mut exporter = exporter();
    for event in [append(1, "a", 1_000, 1_040, 1), elsewhere, own_log].map(op) {
        exporter.push(event);
    }
    let metrics = scrape(&mut exporter);
    let here = "{device=\"loop0\",log_dir=\"/data\"}";
    assert_eq!(metrics.of_series(&format!("write_duration_seconds_count{here}")), 1.0);
    assert_eq!(metrics.of_series(&format!("write_duration_max_seconds{here}")), 0.04);
    let there = "{device=\"8:1\",log_dir=\"\"}";
    assert_eq!(metrics.of_series(&format!("write_duration_max_seconds{there}")), 0.002);
    assert_eq!(metrics.of_series("file_operations_total{op=\"write\",kind=\"log\"}"), 2.0);
    assert_eq!(metrics.of_series("file_operations_total{op=\"write\",kind=\"other\"}"), 1.0);
    exporter.tick(ms(120_000));
    let later = scrape(&mut exporter);
    assert_eq!(later.of_series(&format!("write_duration_max_seconds{here}")), 0.0, "a minute is over");
    assert_eq!(later.of_series(&format!("write_duration_seconds_count{here}")), 1.0);
}

#[test]
fn file_bytes_are_counted_by_kind_and_disk_reads_separately() {
    let on = |call, kind, bytes, disk_bytes| FileOp {
        op: call,
        kind,
        bytes: Some(bytes),
        disk_bytes,
        ..append(1, "a", 1_000, 1_001, 1)
    };
    let metrics = collect([
        op(on(FileOpKind::Read, FileKind::TierState, 4_096, Some(4_096))),
        op(on(FileOpKind::Sendfile, FileKind::Log, 1_000, Some(0))),
        op(on(FileOpKind::MmapFault, FileKind::Index, 4_096, Some(4_096))),
        op(on(FileOpKind::Write, FileKind::Log, 500, None)),
        op(on(FileOpKind::Fsync, FileKind::Log, 0, None)),
    ]);
    assert_eq!(metrics.of_series("file_read_bytes_total{kind=\"tierstate\"}"), 4_096.0);
    assert_eq!(metrics.of_series("file_disk_read_bytes_total{kind=\"tierstate\"}"), 4_096.0);
    assert_eq!(metrics.of_series("file_read_bytes_total{kind=\"log\"}"), 1_000.0);
    assert_eq!(metrics.of_series("file_disk_read_bytes_total{kind=\"log\"}"), 0.0);
    assert_eq!(metrics.of_series("file_read_bytes_total{kind=\"index\"}"), 4_096.0);
    assert_eq!(metrics.of_series("file_written_bytes_total{kind=\"log\"}"), 500.0);
    assert_eq!(metrics.of_series("fsync_duration_seconds_count{device=\"loop0\",log_dir=\"/data\"}"), 1.0);
}

#[test]
fn block_ios_are_counted_by_direction_and_file_kind() {
    let metrics = collect([
        block(Direction::Read, 4_096, Some("a-0/00000000000000000000.log")),
        block(Direction::Write, 512, None),
        block(Direction::Other, 0, None),
    ]);
    let labels = |direction, kind| format!("{{device=\"loop0\",direction=\"{direction}\",kind=\"{kind}\"}}");
    assert_eq!(metrics.of_series(&format!("block_io_bytes_total{}", labels("read", "log"))), 4_096.0);
    assert_eq!(metrics.of_series(&format!("block_ios_total{}", labels("write", "unknown"))), 1.0);
    assert_eq!(metrics.of_series(&format!("block_ios_total{}", labels("other", "unknown"))), 1.0);
    let time = "block_io_duration_seconds_sum{device=\"loop0\",direction=\"read\"}";
    assert_eq!(metrics.of_series(time), 0.003);
}

#[test]
fn journal_commits_are_counted_with_their_phases() {
    let without = JournalCommit { phases: None, ..commit(2, 2_000, 2_010) };
    let metrics =
        collect([commit(1, 1_000, 1_140), without].map(|commit| Event::JournalCommit(Box::new(commit))));
    assert_eq!(metrics.of_series("journal_commit_duration_seconds_count{device=\"loop0\"}"), 2.0);
    let sum = metrics.of_series("journal_commit_duration_seconds_sum{device=\"loop0\"}");
    assert!((sum - 0.15).abs() < 1e-9, "{sum}");
    assert_eq!(metrics.of_series("journal_commit_max_seconds{device=\"loop0\"}"), 0.14);
    let phase = |phase, field| {
        let name = "journal_commit_phase_duration_seconds";
        metrics.of_series(&format!("{name}_{field}{{device=\"loop0\",phase=\"{phase}\"}}"))
    };
    assert_eq!((phase("flushing", "count"), phase("flushing", "sum")), (1.0, 0.12));
    assert_eq!((phase("locked", "sum"), phase("logging", "sum")), (0.004, 0.0));
}

fn lock_wait(source: LockSource, start: i64, end: i64) -> LockWait {
    LockWait {
        start: ms(start),
        end: ms(end),
        pid: 1,
        tid: 4_484,
        thread: text("data-plane-kafka-request-handler-1"),
        lock: Lock { kind: LockKind::Monitor, class: text("java.lang.Object"), address: 1 },
        stack: text(""),
        source,
        ..Row::empty()
    }
}

#[test]
fn lock_waits_are_counted_by_role_and_source_without_thread_dumps() {
    let waits = [
        lock_wait(LockSource::Jfr, 1_000, 1_119),
        lock_wait(LockSource::Usdt, 1_000, 1_119),
        lock_wait(LockSource::ThreadDump, 1_000, 1_000),
    ];
    let metrics = collect(waits.map(|wait| Event::LockWait(Box::new(wait))));
    for source in ["jfr", "usdt"] {
        let labels = format!("{{role=\"request-handlers\",source=\"{source}\"}}");
        assert_eq!(metrics.of_series(&format!("lock_wait_duration_seconds_count{labels}")), 1.0);
        assert_eq!(metrics.of_series(&format!("lock_wait_duration_seconds_sum{labels}")), 0.119);
    }
    assert!(!metrics.each().any(|(name, _)| name.contains("thread-dump")));
}

#[test]
fn jvm_pauses_are_counted_by_kind() {
    let pause = |kind, length: i64| {
        Event::JvmPause(Box::new(JvmPause {
            start: ms(1_000),
            end: ms(1_000 + length),
            pid: 1,
            kind,
            operation: text("G1New"),
            cause: text(""),
            ..Row::empty()
        }))
    };
    let metrics = collect([pause(JvmPauseKind::Gc, 30), pause(JvmPauseKind::Safepoint, 5)]);
    assert_eq!(metrics.of_series("jvm_pause_duration_seconds_sum{kind=\"gc\"}"), 0.03);
    assert_eq!(metrics.of_series("jvm_pause_duration_seconds_count{kind=\"safepoint\"}"), 1.0);
}

#[test]
fn process_stops_are_counted_by_kind() {
    let stop = |kind, length: i64| {
        Event::ProcessStop(Box::new(ProcessStop {
            start: ms(1_000),
            end: ms(1_000 + length),
            pid: 1,
            kind,
            by: text(""),
            threads: 30,
            ..Row::empty()
        }))
    };
    let metrics =
        collect([stop(StopKind::Signal, 400), stop(StopKind::Signal, 100), stop(StopKind::Freezer, 5)]);
    assert_eq!(metrics.of_series("process_stops_total{kind=\"signal\"}"), 2.0);
    assert_eq!(metrics.of_series("process_stop_seconds_total{kind=\"signal\"}"), 0.5);
    assert_eq!(metrics.of_series("process_stops_total{kind=\"tracer\"}"), 0.0);
}

#[test]
fn cpu_gaps_are_counted_by_kind() {
    let gap = |kind, length: i64, stolen| {
        Event::CpuGap(Box::new(CpuGap {
            start: ms(1_000),
            end: ms(1_000 + length),
            kind,
            cpu: 1,
            cpus: 2,
            stolen: ms(stolen),
            tid: None,
            thread: text(""),
        }))
    };
    let metrics =
        collect([gap(CpuGapKind::Gap, 400, 0), gap(CpuGapKind::Gap, 100, 90), gap(CpuGapKind::Steal, 20, 5)]);
    assert_eq!(metrics.of_series("cpu_gaps_total{kind=\"gap\"}"), 2.0);
    assert_eq!(metrics.of_series("cpu_gap_seconds_total{kind=\"gap\"}"), 0.5);
    assert_eq!(metrics.of_series("cpu_gap_seconds_total{kind=\"steal\"}"), 0.005);
}

fn sample(scope: HostScope, name: &str, metric: &str, value: f64) -> Event {
    Event::HostSample(Box::new(HostSample {
        start: ms(1_000),
        end: ms(3_000),
        scope,
        name: text(name),
        metric: text(metric),
        value,
    }))
}

fn reading() -> [Event; 3] {
    [("cpu_ratio", 0.5), ("run_queue_ratio", 0.1), ("thread_count", 4.0)]
        .map(|(metric, value)| sample(HostScope::Threads, "request-handlers", metric, value))
}

#[test]
fn thread_busy_ratio_adds_cpu_run_queue_blocked_and_lock_time() {
    let preempted = OffCpu { preempted: true, ..off_cpu(1, 1_000, None, 1_900) };
    let idle = OffCpu {
        stack: text("schedule;futex_wait_queue;futex_wait;do_futex"),
        ..off_cpu(3, 1_000, None, 3_000)
    };
    let blocked = [off_cpu(1, 1_000, Some(1_400), 1_500), off_cpu(2, 2_000, None, 2_400), preempted, idle];
    let mut events: Vec<_> = blocked.map(|interval| Event::OffCpu(Box::new(interval))).into();
    // Both sources report the wait: it counts once.
    let waits = [lock_wait(LockSource::Jfr, 1_000, 1_200), lock_wait(LockSource::Usdt, 1_000, 1_190)];
    events.extend(waits.map(|wait| Event::LockWait(Box::new(wait))));
    events.extend(reading());
    let metrics = collect(events);
    // 0.5 + 0.1 + (0.4 + 0.4 + 0.2) / 2 of 4.
    let busy = metrics.of_series("thread_busy_ratio{role=\"request-handlers\"}");
    assert!((busy - 0.275).abs() < 1e-9, "{busy}");
    assert_eq!(metrics.of_series("thread_cpu_ratio{role=\"request-handlers\"}"), 0.5);
    assert_eq!(metrics.of_series("thread_run_queue_ratio{role=\"request-handlers\"}"), 0.1);
    assert_eq!(metrics.of_series("threads{role=\"request-handlers\"}"), 4.0);
}

#[test]
fn thread_blocked_time_resets_after_each_sample() {
    let mut exporter = exporter();
    exporter.push(Event::OffCpu(Box::new(off_cpu(1, 1_000, None, 2_000))));
    for event in reading() {
        exporter.push(event);
    }
    for event in reading() {
        exporter.push(event);
    }
    let busy = scrape(&mut exporter).of_series("thread_busy_ratio{role=\"request-handlers\"}");
    assert!((busy - 0.15).abs() < 1e-9, "{busy}");
}

#[test]
fn host_rates_become_counters() {
    let metrics = collect([
        sample(HostScope::Device, "sda", "util_ratio", 0.75),
        sample(HostScope::Device, "sda", "reads_per_second", 10.0),
        sample(HostScope::Device, "sda", "reads_per_second", 1.0),
        sample(HostScope::Device, "sda", "read_bytes_per_second", f64::NAN),
        sample(HostScope::Device, "sda", "write_bytes_per_second", -4.0),
        sample(HostScope::Interface, "eth0", "transmit_bytes_per_second", 1_000.0),
        sample(HostScope::Cgroup, "/", "cpu_throttled_ratio", 0.25),
        sample(HostScope::Host, "", "anything", 1.0),
    ]);
    assert_eq!(metrics.of_series("device_utilization_ratio{device=\"sda\"}"), 0.75);
    assert_eq!(metrics.of_series("device_reads_total{device=\"sda\"}"), 22.0, "of two seconds each");
    assert_eq!(metrics.of_series("device_read_bytes_total{device=\"sda\"}"), 0.0);
    assert_eq!(metrics.of_series("device_written_bytes_total{device=\"sda\"}"), 0.0);
    assert_eq!(metrics.of_series("network_transmit_bytes_total{interface=\"eth0\"}"), 2_000.0);
    assert_eq!(metrics.of_series("cgroup_cpu_throttled_seconds_total"), 0.5);
}

#[test]
fn tcp_troubles_dirty_throttles_and_losses_are_counted() {
    let loss =
        |kind, count| Event::Loss(Loss { start: ms(1_000), end: ms(1_001), kind, count, detail: text("") });
    let (at, kind) = (ms(1_000), TcpEventKind::ZeroWindow);
    let pause = DirtyThrottle { start: ms(1_000), end: ms(1_200), tid: 1, dirty_pages: 1, limit_pages: 1 };
    let metrics = collect([
        Event::TcpEvent(Box::new(TcpEvent { at, kind, local: None, remote: None, count: 3 })),
        Event::DirtyThrottle(pause),
        loss(LossKind::PacketsDropped, 7),
        loss(LossKind::PacketsDropped, 2),
    ]);
    assert_eq!(metrics.of_series("tcp_troubles_total{kind=\"zero-window\"}"), 3.0);
    assert_eq!(metrics.of_series("tcp_troubles_total{kind=\"retransmit\"}"), 0.0);
    assert_eq!(metrics.of_series("losses_total{kind=\"packets-dropped\"}"), 9.0);
    assert_eq!(metrics.of_series("dirty_throttles_total"), 1.0);
    assert_eq!(metrics.of_series("dirty_throttle_seconds_total"), 0.2);
}

#[test]
fn tls_traffic_is_counted_by_a_bounded_number_of_listeners() {
    let tls = |port: u16, connections| {
        let listener = std::net::SocketAddr::from(([10, 0, 0, 1], port));
        Event::TlsTraffic(TlsTraffic { start: ms(0), end: ms(1_000), listener, connections, bytes: 100 })
    };
    let metrics =
        collect([tls(9_093, 2), tls(9_093, 0)].into_iter().chain((1..=100).map(|port| tls(port, 1))));
    assert_eq!(metrics.of_series("tls_connections_total{listener=\"10.0.0.1:9093\"}"), 2.0);
    assert_eq!(metrics.of_series("tls_bytes_total{listener=\"10.0.0.1:9093\"}"), 200.0);
    assert_eq!(metrics.of_series("tls_connections_total{listener=\"__other__\"}"), 37.0);
}

#[test]
fn broker_restart_is_counted_and_counters_continue() {
    let mut exporter = exporter();
    let changed = |at: i64, pid, state| Event::BrokerChange(BrokerChange { at: ms(at), pid, state });
    exporter.push(changed(900, 1, BrokerState::Watched));
    exporter.push(op(append(1, "a", 1_000, 1_040, 1)));
    for event in reading() {
        exporter.push(event);
    }
    exporter.push(changed(4_000, 1, BrokerState::Gone));
    let gone = scrape(&mut exporter);
    assert_eq!((gone.of_series("broker_up"), gone.of_series("broker_restarts_total")), (0.0, 0.0));
    assert!(!exporter.is_watched());
    assert_eq!(gone.find("threads{role=\"request-handlers\"}"), None, "they are gone too");
    exporter.push(changed(9_000, 2, BrokerState::Watched));
    exporter.push(op(append(2, "a", 9_000, 9_040, 2)));
    let back = scrape(&mut exporter);
    assert_eq!((back.of_series("broker_up"), back.of_series("broker_restarts_total")), (1.0, 1.0));
    let writes = "write_duration_seconds_count{device=\"loop0\",log_dir=\"/data\"}";
    assert_eq!((gone.of_series(writes), back.of_series(writes)), (1.0, 2.0));
}

#[test]
fn operations_with_invalid_times_are_counted() {
    let backwards = FileOp { start: Nanos::MAX, end: Nanos::MIN, ..append(1, "a", 0, 0, 1) };
    let metrics = collect([op(backwards), op(append(1, "a", 1_000, 1_001, 1))]);
    assert_eq!(metrics.of_series("file_operations_total{op=\"write\",kind=\"log\"}"), 2.0);
}
