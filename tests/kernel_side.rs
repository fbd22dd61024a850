//! Checks brokerscope's kernel side on known operations: of a workload process on a journaled ext4, on a device with
//! injected latency. Its oracles are the orders, strace, the device itself and the kernel's own counts.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

use std::fs;
use std::path::PathBuf;

use e2e::first::FIRST;
use e2e::gate;
use e2e::ground::Ground;
use e2e::operations::{Operation, operations};
use e2e::recorder::Recorder;
use e2e::workload::{Call, Strace, Workload};
use lab::device::Direction;

/// The log dir, as deep below the file system's root as a real one.
const LOG_DIR: &str = "var/lib/kafka/data";
const SEGMENT: &str = "topicA-0/00000000000000000000.log";
const ROLLED: &str = "topicA-0/00000000000000004096.log";
/// The name that Kafka gives a partition's directory before it deletes it.
const DELETED: &str = "topicA-0.0123456789abcdef0123456789abcdef-delete";
const DEEP: &str = "topicB-1/remote/cache/tier/00000000000000000007.index";
/// Slack for clocks read one after the other, and for strace's microseconds.
const SLACK_SECONDS: f64 = 0.000_100;

/// An order, and the expected operation.
struct Step {
    order: String,
    /// Its name in strace.
    call: &'static str,
    expected: Option<Expectation>,
}

/// The expected fields of an operation.
#[derive(Clone, Debug, PartialEq)]
struct Expectation {
    op: &'static str,
    file: String,
    bytes: Option<i64>,
    offset: u64,
    renamed_to: Option<String>,
    failed: bool,
}

fn step(order: impl Into<String>, call: &'static str, expected: impl Into<Option<Expectation>>) -> Step {
    Step { order: order.into(), call, expected: expected.into() }
}

fn expectation(op: &'static str, file: &str, bytes: i64, offset: u64) -> Expectation {
    Expectation { op, file: file.to_owned(), bytes: Some(bytes), offset, renamed_to: None, failed: false }
}

/// Every kind of operation, in an order in which each leaves a distinct trace.
fn script() -> Vec<Step> {
    let mut steps = vec![
        step(format!("open s {SEGMENT} create"), "openat", expectation("open", SEGMENT, 0, 0)),
        step("write s 1000", "write", expectation("write", SEGMENT, 1000, 0)),
        step("write s 2009", "write", expectation("write", SEGMENT, 2009, 1000)),
        step("writev s 100 200 300", "writev", expectation("write", SEGMENT, 600, 3009)),
        step("pwrite s 10000 77", "pwrite64", expectation("write", SEGMENT, 77, 10_000)),
        step("pwritev s 20000 11 22", "pwritev", expectation("write", SEGMENT, 33, 20_000)),
        // Past its end: the file has 20,033 bytes, and the call ends there.
        step("pread s 20000 500", "pread64", expectation("read", SEGMENT, 33, 20_000)),
        step("preadv s 100 5 6", "preadv", expectation("read", SEGMENT, 11, 100)),
        step("seek s 1000", "lseek", None),
        step("read s 50", "read", expectation("read", SEGMENT, 50, 1000)),
        step("readv s 7 8", "readv", expectation("read", SEGMENT, 15, 1050)),
        step("sendfile s 300 4000", "sendfile", expectation("sendfile", SEGMENT, 4000, 300)),
        step("splice s 4096 600", "splice", expectation("splice", SEGMENT, 600, 4096)),
        step("say 300", "sendto", None),
        step("fsync s", "fsync", expectation("fsync", SEGMENT, 0, 0)),
        step(format!("open a {ROLLED} append"), "openat", expectation("open", ROLLED, 0, 0)),
        step("write a 4096", "write", expectation("write", ROLLED, 4096, 0)),
        step("write a 10", "write", expectation("write", ROLLED, 10, 4096)),
        step("fdatasync a", "fdatasync", expectation("fdatasync", ROLLED, 0, 0)),
        step("allocate a 8192 65536", "fallocate", expectation("allocate", ROLLED, 0, 8192)),
        step("truncate a 5000", "ftruncate", expectation("truncate", ROLLED, 0, 5000)),
        step(format!("open r {ROLLED} read"), "openat", expectation("open", ROLLED, 0, 0)),
        step(
            "write r 10",
            "write",
            Expectation { failed: true, bytes: None, ..expectation("write", ROLLED, 0, 0) },
        ),
        step(format!("open d {DEEP} create"), "openat", expectation("open", DEEP, 0, 0)),
        step("truncate d 10485760", "ftruncate", expectation("truncate", DEEP, 0, 10_485_760)),
        step("map d 10485760", "mmap", None),
        step("store d 4096", "", None),
        step("msync d", "msync", expectation("msync", DEEP, 0, 0)),
        step("pwrite d 1048576 12", "pwrite64", expectation("write", DEEP, 12, 1_048_576)),
    ];
    let deleted_file = format!("{SEGMENT}.deleted");
    let moved =
        Expectation { renamed_to: Some(deleted_file.clone()), ..expectation("rename", SEGMENT, 0, 0) };
    steps.extend([
        step(format!("rename {SEGMENT} {deleted_file}"), "rename", moved),
        step("pwrite s 0 5", "pwrite64", expectation("write", &deleted_file, 5, 0)),
    ]);
    // The directory moves, with every open file in it.
    let (old, new) = ("topicA-0", DELETED);
    let (deleted_path, rolled_path) = (deleted_file.replace(old, new), ROLLED.replace(old, new));
    let moved = Expectation { renamed_to: Some(new.to_owned()), ..expectation("rename", old, 0, 0) };
    steps.extend([
        step(format!("rename {old} {new}"), "rename", moved),
        step("pwrite s 7 6", "pwrite64", expectation("write", &deleted_path, 6, 7)),
        step("pread r 1 9", "pread64", expectation("read", &rolled_path, 9, 1)),
        step(format!("unlink {deleted_path}"), "unlink", expectation("unlink", &deleted_path, 0, 0)),
        // It no longer has a name, and keeps its last one.
        step("pwrite s 9 3", "pwrite64", expectation("write", &deleted_path, 3, 9)),
    ]);
    steps
}

fn prepare(ground: &Ground) -> PathBuf {
    let log_dir = ground.path().join(LOG_DIR);
    for file in [SEGMENT, DEEP] {
        fs::create_dir_all(log_dir.join(file).parent().unwrap()).unwrap();
    }
    log_dir
}

#[test]
fn records_each_operation_once_with_its_file_and_as_strace_does() {
    let Some(_alone) = gate::live("file operations against strace") else { return };
    let mut ground = Ground::prepare("operations", "");
    let log_dir = prepare(&ground);
    let mut workload = Workload::start_by(&log_dir, &FIRST);
    let recording = ground.directory().join("recording");
    let recorder = Recorder::start(&recording, workload.pid());
    let strace = Strace::start(workload.pid(), &ground.directory().join("strace.txt"));
    // A device with slow writes: an fsync then takes so long that strace's own time and its waits for a CPU are
    // negligible.
    ground.delay(Direction::Write, 200);
    let steps = script();
    for step in &steps {
        let answer = workload.order(&step.order);
        let fails = step.expected.as_ref().is_some_and(|expected| expected.failed);
        assert_eq!(answer.starts_with("error"), fails, "{}: {answer}", step.order);
    }
    ground.clear();
    let calls = strace.stop(workload.tid());
    recorder.stop();
    drop(workload);

    let observed = operations(&recording, &ground.device());
    compare(&steps, &observed);
    compare_durations(&steps, &observed, &calls);
}

fn compare(steps: &[Step], observed: &[Operation]) {
    let expected: Vec<Expectation> = steps.iter().filter_map(|step| step.expected.clone()).collect();
    let actual: Vec<Expectation> = observed.iter().map(expected_of).collect();
    let mut wrong = Vec::new();
    for at in 0..expected.len().max(actual.len()) {
        let (expected_op, found) = (expected.get(at), actual.get(at));
        if expected_op != found {
            wrong.push(format!("wanted {expected_op:?}\n found {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} differ:\n{}", wrong.len(), expected.len(), wrong.join("\n"));
}

fn expected_of(observed: &Operation) -> Expectation {
    Expectation {
        op: Box::leak(observed.op.clone().into_boxed_str()),
        file: observed.file.clone(),
        bytes: observed.bytes,
        offset: observed.offset,
        renamed_to: observed.renamed_to.clone(),
        failed: observed.errno.is_some(),
    }
}

/// strace stops the thread before and after the probes' measurement: its time is never shorter, and both agree when the
/// device made the call long.
fn compare_durations(steps: &[Step], observed: &[Operation], calls: &[Call]) {
    let mut rest = calls.iter();
    let mut long = 0;
    for (step, observed) in steps.iter().filter(|step| step.expected.is_some()).zip(observed) {
        let call = rest.by_ref().find(|call| call.name.trim_end_matches('2') == step.call);
        let call = call.unwrap_or_else(|| panic!("strace did not see {}", step.order));
        let seconds = observed.latency_ns as f64 / 1e9;
        assert!(
            seconds <= call.seconds + SLACK_SECONDS,
            "{}: {seconds} s, strace {}",
            step.order,
            call.seconds
        );
        if seconds > 0.15 {
            assert!(
                call.seconds - seconds < 0.1 * seconds,
                "{}: {seconds} s, strace {}",
                step.order,
                call.seconds
            );
            long += 1;
        }
    }
    assert!(long >= 2, "no operation was long: the device was not slow");
}
