//! A run of real clients against a real broker, observed by three at once: Kafka's request log, tcpdump and
//! `brokerscope record`.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use lab::kafka::{DEFAULT_VERSION, OLD_VERSION};

use crate::bench::Bench;
use crate::brokerscope;
use crate::capture_file::CaptureFile;
use crate::clients::{CLIENTS, EVERY, NEWEST, PINNED, Report, Share};
use crate::frames::{self, Sizes};
use crate::kafka_log::{self, LoggedRequest};
use crate::recorder::Recorder;
use crate::recording::Recording;
use crate::row::{Key, Output};
use crate::tcpdump::Tcpdump;

/// The results of a run.
#[derive(Debug)]
pub struct Traffic {
    /// The broker's port.
    pub port: u16,
    /// tcpdump's file.
    pub capture: PathBuf,
    /// The sizes of its frames.
    pub sizes: BTreeMap<Key, Sizes>,
    /// The requests that Kafka logged while the capture ran.
    pub log: Vec<LoggedRequest>,
    /// The output of `requests` for the capture.
    pub output: Output,
    /// The contents of the recording.
    pub recording: Recording,
    /// The clients' reports of what they sent.
    pub reports: Vec<Report>,
}

/// The run against the newest broker, at the end with every version it supports; started on the first call.
///
/// # Panics
/// If it failed, on every call.
pub fn traffic() -> &'static Traffic {
    static RUN: OnceLock<Option<Traffic>> = OnceLock::new();
    run_once(&RUN, || Traffic::make("traffic", DEFAULT_VERSION, &[&CLIENTS, &EVERY]))
}

/// The run against the last broker that supports every old version: first as with the newest, then with clients set to
/// old versions, then with every version.
///
/// # Panics
/// If it failed, on every call.
pub fn old_traffic() -> &'static Traffic {
    static RUN: OnceLock<Option<Traffic>> = OnceLock::new();
    run_once(&RUN, || Traffic::make("old-traffic", OLD_VERSION, &[&CLIENTS, &PINNED, &EVERY]))
}

/// The run of clients that are newer than the broker.
///
/// # Panics
/// If it failed, on every call.
pub fn newest_traffic() -> &'static Traffic {
    static RUN: OnceLock<Option<Traffic>> = OnceLock::new();
    run_once(&RUN, || Traffic::make("newest-traffic", DEFAULT_VERSION, &[&NEWEST]))
}

fn run_once(run: &'static OnceLock<Option<Traffic>>, make: impl Fn() -> Traffic) -> &'static Traffic {
    let traffic = run.get_or_init(|| catch_unwind(AssertUnwindSafe(make)).ok());
    traffic.as_ref().expect("the run of clients failed: see the first test's output")
}

/// An empty directory in the target directory. It is left for inspection until the next run.
///
/// # Panics
/// If it cannot be made.
pub fn directory(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().and_then(Path::parent).expect("a test lies in target/debug/deps");
    let directory = target.join("e2e").join(name);
    if directory.exists() {
        fs::remove_dir_all(&directory).unwrap();
    }
    fs::create_dir_all(&directory).unwrap();
    directory
}

impl Traffic {
    /// `clients` are groups of names: a group's clients run side by side, the groups one after another.
    fn make(name: &str, kafka: &str, clients: &[&[&str]]) -> Self {
        let directory = directory(name);
        let bench = Bench::start(kafka, &directory);
        let capture = directory.join("capture.pcap");
        let tcpdump = Tcpdump::start(&capture, bench.port());
        let recorder = Recorder::start(&directory.join("recording"), bench.pid());
        bench.clients().set_up(bench.bootstrap(), &directory);
        let run = |names: &&[&str]| bench.clients().run(names, Share::Full, bench.bootstrap(), &directory);
        let reports = clients.iter().flat_map(run).collect();
        come_to_rest(&capture);
        recorder.stop();
        tcpdump.stop();
        let (port, broker) = (bench.port(), bench.bootstrap().to_owned());
        let log = kafka_log::read_listener(&bench.stop(), &broker);
        let sizes = frames::sizes(&CaptureFile::read(&capture), &broker);
        let log = since_capture(log, &sizes);
        let output = brokerscope::requests(&capture, port);
        let recording = Recording::read(&directory.join("recording"));
        Self { port, capture, sizes, log, output, recording, reports }
    }
}

/// Leaves out the requests before the first captured one. They were used to detect that the broker has started. Every
/// later one must be in the capture. A client may reuse the port of one that is left out, so their numbers distinguish
/// them too.
fn since_capture(log: Vec<LoggedRequest>, sizes: &BTreeMap<Key, Sizes>) -> Vec<LoggedRequest> {
    let captured: HashSet<_> = sizes.keys().map(|(client, id, _)| (client.as_str(), *id)).collect();
    let before =
        |request: &LoggedRequest| !captured.contains(&(request.client.as_str(), request.correlation_id));
    log.into_iter().skip_while(before).collect()
}

/// Waits until nothing was captured for a second and a half: no fetch of the clients waits longer, so every request is
/// answered.
///
/// # Panics
/// If that does not come.
pub fn come_to_rest(capture: &Path) {
    let end = Instant::now() + Duration::from_secs(180);
    let mut before = 0;
    loop {
        sleep(Duration::from_millis(1_500));
        let now = fs::metadata(capture).unwrap().len();
        if now == before {
            return;
        }
        assert!(Instant::now() < end, "the broker does not come to rest");
        before = now;
    }
}
