//! Tests a device with a known speed: what brokerscope reports about its requests, its utilization and the operations
//! that waited for it is correct within ten per cent. The oracles are the injected delays, the device's own counts, and
//! the orders' own times.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use e2e::first::FIRST;
use e2e::gate;
use e2e::ground::{Ground, WriteLimit};
use e2e::operations::{Operation, operations};
use e2e::recorder::Recorder;
use e2e::table::{Row, rows};
use e2e::workload::Workload;
use lab::device::Direction;

const SEGMENT: &str = "topicA-0/00000000000000000000.log";
/// A tenth of it is longer than a thread waits for a CPU.
const DELAY_MS: u64 = 100;
/// Enough writes for some seconds, with at least two whole samples.
const WRITES: usize = 40;
/// The limit of the limited device, and the rate of writes to it.
const LIMITED_BYTES_PER_SECOND: u64 = 8 << 20;
const LIMITED_BYTES: u64 = 1 << 20;
const LIMITED_WRITES: usize = 16;
const NS_PER_MS: f64 = 1e6;
const ROOM: f64 = 0.1;

/// A recording's data about one device.
struct DeviceReport {
    operations: Vec<Operation>,
    requests: Vec<Row>,
    samples: Vec<Row>,
}

fn recorded(ground: &mut Ground, play: impl FnOnce(&mut Ground, &mut Workload)) -> DeviceReport {
    let log_dir = ground.path().join("kafka");
    std::fs::create_dir_all(log_dir.join("topicA-0")).unwrap();
    let mut workload = Workload::start_by(&log_dir, &FIRST);
    // Blocks and size exist before: overwriting them needs no journal.
    workload.order(&format!("open s {SEGMENT} direct"));
    workload.order("write s 4194304");
    workload.order("fsync s");
    let recording = ground.directory().join("recording");
    let recorder = Recorder::start(&recording, workload.pid());
    play(ground, &mut workload);
    ground.clear();
    recorder.stop();
    drop(workload);
    let device = ground.device();
    let of_device = |column: &'static str| {
        let device = device.clone();
        move |row: &Row| row.text(column) == device
    };
    DeviceReport {
        operations: operations(&recording, &device),
        requests: rows(&recording, "block_ios").into_iter().filter(of_device("device")).collect(),
        samples: rows(&recording, "host_samples").into_iter().filter(of_device("name")).collect(),
    }
}

fn median(mut all: Vec<f64>) -> f64 {
    assert!(!all.is_empty());
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

fn assert_near(what: &str, found: f64, expected: f64) {
    println!("{what}: {found:.3}, known: {expected:.3}");
    assert!((found - expected).abs() <= ROOM * expected, "{what}: {found} is not within 10 % of {expected}");
}

/// Checks a value: at least the injected one, and at most what the orders took; on an idle machine they are the same.
fn assert_between(what: &str, found: f64, least: f64, most: f64) {
    println!("{what}: {found:.3}, known: {least:.3} to {most:.3}");
    let is_near = found >= least * (1.0 - ROOM) && found <= most * (1.0 + ROOM);
    assert!(is_near, "{what}: {found} is not within 10 % of {least} to {most}");
}

/// The median time of its orders that `repeat` reports.
fn own_ms(answer: &str) -> f64 {
    answer.rsplit(' ').next().unwrap().parse().unwrap()
}

/// The mean of a figure over the samples within `start..end`, in nanoseconds.
fn mean_of_samples(samples: &[Row], metric: &str, (start, end): (f64, f64)) -> f64 {
    let within = |row: &&Row| {
        row.text("metric") == metric
            && row.number("start_ns").unwrap() >= start
            && row.number("end_ns").unwrap() <= end
    };
    let values: Vec<f64> = samples.iter().filter(within).map(|row| row.number("value").unwrap()).collect();
    assert!(values.len() >= 2, "{metric}: {} samples of {}", values.len(), samples.len());
    values.iter().sum::<f64>() / values.len() as f64
}

/// The time from the first start to the last end.
fn span(operations: &[&Operation]) -> (f64, f64) {
    (operations[0].start_ns as f64, operations[operations.len() - 1].end_ns as f64)
}

#[test]
fn device_times_and_utilisation_match_the_injected_delay() {
    let Some(_alone) = gate::live("a device with a known delay") else { return };
    let mut ground = Ground::prepare("known-delay", "");
    let mut own = Vec::new();
    let observed = recorded(&mut ground, |ground, workload| {
        ground.delay_all_but_the_journal(Direction::Write, DELAY_MS);
        // Busy all the time, then half of it.
        own.push(own_ms(&workload.order(&format!("repeat {WRITES} 0 pwrite s 8192 4096"))));
        own.push(own_ms(&workload.order(&format!("repeat {WRITES} {DELAY_MS} pwrite s 16384 8192"))));
    });
    let of_bytes = |bytes: i64| -> Vec<&Operation> {
        observed.operations.iter().filter(|op| op.op == "write" && op.bytes == Some(bytes)).collect()
    };
    for (bytes, own) in [4096, 8192].into_iter().zip(own) {
        let writes = of_bytes(bytes);
        assert_eq!(writes.len(), WRITES);
        // Kernel workers that write back metadata write such sizes too; a direct write is submitted by its own thread.
        let tid = f64::from(u32::try_from(writes[0].tid).unwrap());
        let ours = |row: &&Row| row.number("bytes") == Some(bytes as f64) && row.number("tid") == Some(tid);
        let latencies = observed.requests.iter().filter(ours);
        let service: Vec<f64> = latencies.map(|row| row.number("latency_ns").unwrap() / NS_PER_MS).collect();
        assert_eq!(service.len(), WRITES, "one request a write");
        assert!(service.iter().all(|ms| *ms >= DELAY_MS as f64), "{service:?}");
        assert_between("service time, ms", median(service.clone()), DELAY_MS as f64, own);
        let took = median(writes.iter().map(|op| op.latency_ns as f64 / NS_PER_MS).collect());
        assert_between("a write's time, ms", took, DELAY_MS as f64, own);
        for write in &writes {
            let total: i64 = write.reasons.values().sum();
            assert_eq!(total, write.latency_ns, "{write:?}");
        }
        let in_device = |op: &&Operation| *op.reasons.get("device").unwrap_or(&0) as f64 / NS_PER_MS;
        let within = median(writes.iter().map(in_device).collect());
        assert_between("of a write in the device, ms", within, DELAY_MS as f64, own);
        // The device was busy exactly as long as it had requests.
        let (start, end) = span(&writes);
        let busy = service.iter().sum::<f64>() * NS_PER_MS / (end - start);
        let utilisation = mean_of_samples(&observed.samples, "util_ratio", (start, end));
        assert_near("utilisation", utilisation, busy);
        let rate = mean_of_samples(&observed.samples, "writes_per_second", (start, end));
        // Includes what the file system itself wrote meanwhile.
        let is_within = |row: &&Row| {
            row.text("direction") == "write"
                && row.number("end_ns").is_some_and(|at| at >= start && at <= end)
        };
        let all = observed.requests.iter().filter(is_within).count();
        let a_second = |writes: usize| writes as f64 * 1e9 / (end - start);
        assert_between("writes a second", rate, a_second(WRITES), a_second(all));
    }
}

#[test]
fn rate_limit_delays_writes_but_not_the_device_service_time() {
    let Some(_alone) = gate::live("a device with a limited rate") else { return };
    let mut ground = Ground::prepare("limited-rate", "");
    let (major, minor) = ground.device_number();
    let observed = recorded(&mut ground, |_, workload| {
        let _limit = WriteLimit::new(major, minor, LIMITED_BYTES_PER_SECOND);
        workload.order(&format!("repeat {LIMITED_WRITES} 0 pwrite s 0 {LIMITED_BYTES}"));
    });
    let writes: Vec<&Operation> = observed.operations.iter().filter(|op| op.op == "write").collect();
    assert_eq!(writes.len(), LIMITED_WRITES);
    let known = LIMITED_BYTES as f64 / LIMITED_BYTES_PER_SECOND as f64 * 1e3;
    // The first ones may use saved credit.
    let ms = |of: &dyn Fn(&Operation) -> i64| {
        median(writes[1..].iter().map(|write| of(write) as f64 / NS_PER_MS).collect())
    };
    assert_near("a write's time, ms", ms(&|write| write.latency_ns), known);
    let waiting = |write: &Operation| {
        ["device-queue", "device"].iter().filter_map(|reason| write.reasons.get(*reason)).sum::<i64>()
    };
    assert_near("of it before or in the device, ms", ms(&waiting), known);
    let serving: Vec<f64> = observed.requests.iter().filter_map(|row| row.number("latency_ns")).collect();
    assert!(median(serving) / NS_PER_MS < known / 2.0, "the device itself was quick");
}
