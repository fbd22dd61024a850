//! An invented recording of what the sample lacks: fetches, quotas, threads, locks, JVM pauses, and tiered storage's
//! state read from the disk: every metric in dashboards that neither the sample nor a broker without clients has.

use std::path::Path;
use std::sync::Arc;

use model::api_key::{self, FETCH, PRODUCE};
use model::{
    BlockIo, Device, Direction, Event, HostSample, HostScope, JvmPause, JvmPauseKind, Lock, LockKind,
    LockSource, LockWait, Loss, LossKind, Nanos, Partition, Request, Row,
};
use recording::{Manifest, Writer, WriterOptions};

const TICK: Nanos = Nanos::from_millis(50);

/// A host's samples for one second, as `watch::host::METRICS` lists them.
const SAMPLES: &[(HostScope, &str, &str, f64)] = &[
    (HostScope::Threads, "request-handlers", "cpu_ratio", 0.7),
    (HostScope::Threads, "request-handlers", "run_queue_ratio", 0.2),
    (HostScope::Threads, "request-handlers", "thread_count", 8.0),
    (HostScope::Threads, "network-threads", "cpu_ratio", 0.3),
    (HostScope::Threads, "network-threads", "run_queue_ratio", 0.1),
    (HostScope::Threads, "network-threads", "thread_count", 3.0),
    (HostScope::Device, "loop0", "util_ratio", 0.4),
    (HostScope::Device, "loop0", "reads_per_second", 90.0),
    (HostScope::Device, "loop0", "read_bytes_per_second", 1e6),
    (HostScope::Interface, "eth0", "receive_bytes_per_second", 2e6),
    (HostScope::Interface, "eth0", "transmit_bytes_per_second", 5e6),
    (HostScope::Cgroup, "/kafka", "cpu_throttled_ratio", 0.1),
];

/// Writes a recording of this many seconds.
///
/// # Panics
/// If it cannot be written.
pub(crate) fn recording(directory: &Path, seconds: i64) {
    let manifest = Manifest::default();
    let mut writer = Writer::create(directory, &manifest, WriterOptions::default()).unwrap();
    let begin = Nanos::from_millis(1_795_000_000_000);
    for tick in 0..seconds * 20 {
        let now = begin + Nanos(tick * TICK.0);
        let mut events = vec![request(PRODUCE, tick, now), request(FETCH, tick, now), read(tick, now)];
        if tick % 20 == 19 {
            events.extend(SAMPLES.iter().map(|sample| host(sample, now)));
            events.extend([lock_wait(now), pause(now), loss(now)]);
        }
        for event in &events {
            writer.write(event).unwrap();
        }
    }
    writer
        .finish(&Manifest { ended_ns: Some((begin + Nanos::from_millis(seconds * 1_000)).0), ..manifest })
        .unwrap();
}

fn device() -> Device {
    Device { major: 7, minor: 0, name: "loop0".into() }
}

/// A produce request (0) or a fetch (1). One in fifty is slow, and one in ten is throttled.
fn request(api_key: i16, tick: i64, now: Nanos) -> Event {
    let latency = Nanos::from_millis(if tick % 50 == 49 { 30 } else { 2 });
    let partition = Partition {
        topic: Some(Arc::from("orders")),
        partition: (tick % 3) as i32,
        bytes: 4_000,
        records: Some(10),
        error_code: Some(0),
        ..Partition::default()
    };
    Event::Request(Box::new(Request {
        arrival: now - latency,
        arrival_end: now - latency + Nanos::from_micros(200),
        response: Some(now - Nanos::from_micros(300)),
        end: Some(now),
        head_of_line: Some(Nanos::ZERO),
        api_key,
        api: api_key::name(api_key),
        api_version: 11,
        correlation_id: tick as i32,
        client_id: Some(Arc::from("billing")),
        request_bytes: if api_key == PRODUCE { 4_200 } else { 100 },
        response_bytes: Some(if api_key == PRODUCE { 80 } else { 4_100 }),
        acks: (api_key == PRODUCE).then_some(1),
        min_bytes: (api_key == FETCH).then_some(1),
        max_wait_ms: (api_key == FETCH).then_some(500),
        throttle_ms: Some(if tick % 10 == 9 { 20 } else { 0 }),
        partitions: vec![partition],
        ..Request::new("10.0.0.7:41234".parse().unwrap(), "10.0.0.1:9092".parse().unwrap())
    }))
}

fn read(tick: i64, now: Nanos) -> Event {
    Event::BlockIo(Box::new(BlockIo {
        start: now - Nanos::from_micros(800),
        end: now,
        device: device(),
        direction: Direction::Read,
        sector: tick.unsigned_abs() * 256,
        bytes: 131_072,
        tid: 90,
        thread: "data-plane-kafk".into(),
        flags: "RA".into(),
        inode: Some(12),
        file: Some("orders-1/00000000000000000000.tierstate.mutable".into()),
        ..Row::empty()
    }))
}

fn host(&(scope, name, metric, value): &(HostScope, &str, &str, f64), now: Nanos) -> Event {
    let start = now - Nanos::from_millis(1_000);
    Event::HostSample(Box::new(HostSample {
        start,
        end: now,
        scope,
        name: name.into(),
        metric: metric.into(),
        value,
    }))
}

fn lock_wait(now: Nanos) -> Event {
    Event::LockWait(Box::new(LockWait {
        start: now - Nanos::from_millis(7),
        end: now,
        pid: 7,
        tid: 101,
        thread: "data-plane-kafka-request-handler-3".into(),
        lock: Lock { kind: LockKind::Monitor, class: "java/lang/Object".into(), address: 4_096 },
        stack: "".into(),
        source: LockSource::Usdt,
        ..Row::empty()
    }))
}

fn pause(now: Nanos) -> Event {
    Event::JvmPause(Box::new(JvmPause {
        start: now - Nanos::from_millis(9),
        end: now,
        pid: 7,
        kind: JvmPauseKind::Gc,
        operation: "G1New".into(),
        cause: "".into(),
        ..Row::empty()
    }))
}

fn loss(now: Nanos) -> Event {
    Event::Loss(Loss { start: now, end: now, kind: LossKind::FramesUndecodable, count: 1, detail: "".into() })
}
