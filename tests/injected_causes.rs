//! Injects causes in the kernel, one at a time: the operations that a cause slowed must name it as the reason for most
//! of their time. On a workload process, and, for a segment's roll, on a real broker.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::process::{Child, Command};
use std::time::{Duration, Instant};

use e2e::first::FIRST;
use e2e::gate;
use e2e::ground::{Ground, MemoryLimit};
use e2e::operations::{Operation, operations};
use e2e::recorder::Recorder;
use e2e::workload::Workload;
use lab::device::Direction;

const SEGMENT: &str = "topicA-0/00000000000000000000.log";
/// Kafka's request handlers write some KB; a chunk of this size is written in well under a millisecond.
const CHUNK: usize = 1 << 20;
/// Maximum number of rounds of ten chunks: they fit on the test device.
const MAX_ROUNDS: usize = 40;

/// Records a workload that follows the orders of `play`. Returns the recorded operations on the segment. Only one test
/// injects waits for a CPU; in the others the workload has priority over everything else here.
fn recorded(
    ground: &mut Ground,
    starter: &[&str],
    play: impl FnOnce(&mut Ground, &mut Workload),
) -> Vec<Operation> {
    let log_dir = ground.path().join("kafka");
    std::fs::create_dir_all(log_dir.join("topicA-0")).unwrap();
    let mut workload = Workload::start_by(&log_dir, starter);
    let recording = ground.directory().join("recording");
    let recorder = Recorder::start(&recording, workload.pid());
    play(ground, &mut workload);
    ground.clear();
    recorder.stop();
    drop(workload);
    let all_operations = operations(&recording, &ground.device());
    all_operations.into_iter().filter(|operation| operation.file == SEGMENT).collect()
}

/// Checks that operations that took at least this long blame one of the causes. More of their time than anything else
/// must be due to it, with one exception in ten, because a machine has other troubles too. The reasons of each
/// operation must add up.
fn assert_slow_because(operations: &[Operation], slower_than_ms: i64, at_least: usize, causes: &[&str]) {
    for operation in operations {
        let total: i64 = operation.reasons.values().sum();
        assert_eq!(total, operation.latency_ns, "reasons do not add up: {operation:?}");
    }
    let slow: Vec<&Operation> =
        operations.iter().filter(|operation| operation.latency_ns >= slower_than_ms * 1_000_000).collect();
    let table: Vec<String> = slow.iter().map(|slow| format!("{} {:?}", slow.op, slow.reasons)).collect();
    println!("{} of {} operations were slow:\n{}", slow.len(), operations.len(), table.join("\n"));
    assert!(
        slow.len() >= at_least,
        "what was injected slowed {} operations of {}",
        slow.len(),
        operations.len()
    );
    let others: Vec<_> = slow.iter().filter(|slow| !causes.contains(&slow.main_reason().0)).collect();
    assert!(others.len() * 10 < slow.len(), "not {causes:?}: {others:#?}");
}

#[test]
fn a_journal_stall_is_blamed_for_appends() {
    let Some(_alone) = gate::live("a journal stall") else { return };
    let mut ground = Ground::prepare("journal-stall", "commit=1");
    let operations = recorded(&mut ground, &FIRST, |ground, workload| {
        workload.order(&format!("open s {SEGMENT} create"));
        workload.order("write s 4096");
        ground.delay_journal(200);
        workload.order("repeat 400 10 write s 4096");
    });
    assert_slow_because(&operations, 50, 2, &["journal-commit"]);
}

#[test]
fn dirty_throttling_is_blamed_for_writes() {
    let Some(_alone) = gate::live("dirty throttling") else { return };
    let mut ground = Ground::prepare("dirty-throttling", "");
    let _limit = ground.limit_dirty_bytes(1 << 20);
    let operations = recorded(&mut ground, &FIRST, |ground, workload| {
        workload.order(&format!("open s {SEGMENT} create"));
        // The length of a pause depends on the device's earlier speed, also in earlier tests.
        ground.delay_all_but_the_journal(Direction::Write, 40);
        workload.order(&format!("repeat 40 0 write s {CHUNK}"));
    });
    assert_slow_because(&operations, 20, 3, &["dirty-throttling"]);
}

#[test]
fn direct_reclaim_is_blamed_for_writes() {
    let Some(_alone) = gate::live("direct reclaim") else { return };
    let mut ground = Ground::prepare("direct-reclaim", "");
    let limit = MemoryLimit::new(24 << 20);
    let operations = recorded(&mut ground, &FIRST, |ground, workload| {
        workload.order(&format!("open s {SEGMENT} create"));
        limit.put(workload.pid());
        ground.delay_all_but_the_journal(Direction::Write, 40);
        // How often a write must reclaim memory first depends on how much write-back has cleaned by then.
        let is_slow = |_: &usize| {
            let begun = Instant::now();
            workload.order(&format!("repeat 10 0 write s {CHUNK}"));
            begun.elapsed() >= Duration::from_millis(50)
        };
        (0..MAX_ROUNDS).filter(is_slow).take(6).for_each(drop);
    });
    assert_slow_because(&operations, 20, 3, &["memory-reclaim"]);
}

#[test]
fn a_slow_device_is_blamed_for_direct_writes_reads_and_fsyncs() {
    let Some(_alone) = gate::live("a slow device") else { return };
    let mut ground = Ground::prepare("slow-device", "");
    let operations = recorded(&mut ground, &FIRST, |ground, workload| {
        workload.order(&format!("open s {SEGMENT} direct"));
        workload.order(&format!("write s {CHUNK}"));
        workload.order("fsync s");
        ground.delay_all_but_the_journal(Direction::Write, 100);
        ground.delay(Direction::Read, 100);
        // Overwrites existing blocks: neither size nor blocks change, so the journal is not involved.
        workload.order("repeat 4 20 pwrite s 8192 4096");
        workload.order(&format!("open b {SEGMENT} create"));
        workload.order("forget b");
        workload.order("pread b 131072 512");
        workload.order("pread b 917504 512");
        workload.order("pwrite b 16384 4096");
        workload.order("fdatasync b");
    });
    assert_slow_because(&operations, 50, 7, &["device", "writeback-wait"]);
    for slow in operations.iter().filter(|operation| operation.latency_ns > 50_000_000) {
        let reason = if slow.op == "fdatasync" { "writeback-wait" } else { "device" };
        assert_eq!(slow.main_reason().0, reason, "{slow:?}");
    }
    let slow = |op: &str| {
        operations.iter().filter(|operation| operation.op == op && operation.latency_ns > 50_000_000).count()
    };
    assert_eq!((slow("write"), slow("fdatasync")), (4, 1));
    let from_disk: Vec<i64> = operations
        .iter()
        .filter(|operation| operation.op == "read")
        .filter_map(|operation| operation.disk_bytes)
        .collect();
    assert_eq!(from_disk, [512, 512], "a read that misses the page cache brings its bytes from the device");
}

#[test]
fn a_busy_cpu_is_blamed_for_reads_that_need_only_cpu_time() {
    let Some(_alone) = gate::live("run-queue delay") else { return };
    let mut ground = Ground::prepare("run-queue", "");
    let operations =
        recorded(&mut ground, &["taskset", "--cpu-list", "1", "nice", "-n", "10"], |_, workload| {
            workload.order(&format!("open s {SEGMENT} create"));
            // A hole, so that reading needs only a CPU, for longer than one time slice.
            workload.order(&format!("truncate s {}", 32 * CHUNK));
            let _hog = Hog::on_processor("1");
            workload.order(&format!("repeat 3 0 pread s 0 {}", 32 * CHUNK));
        });
    assert_slow_because(&operations, 20, 3, &["run-queue"]);
}

/// A process that spins on a CPU; killed when dropped.
struct Hog(Child);

impl Hog {
    fn on_processor(number: &str) -> Self {
        let idle = "while :; do :; done";
        let command = ["--cpu-list", number, "sh", "-c", idle];
        Self(Command::new("taskset").args(command).spawn().unwrap())
    }
}

impl Drop for Hog {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
