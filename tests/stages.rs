//! Measures on this machine what a test could not require: how well the stages of produce requests under load agree
//! with Kafka's own request log. `queue`, `handler`, `lock` and `append` are compared with its queue and local time,
//! `remote` and `respond` with its remote, response-queue and send time: 98 % must be within 1 ms and the median within
//! 0.1 ms, over 50,000 requests. Ends with status 1 if they are not. Needs root; run it on an otherwise idle machine:
//! `make stages`.
//!
//! No request of the recording is left out, and unobserved time counts as a difference. As in `latency`, the broker is
//! set up so that writing the request log hardly disturbs its own measurement: many network threads, so that few
//! connections wait while one writes a line; and code that is compiled after few calls.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a measurement that cannot go on says so and ends"
)]

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use e2e::brokerscope;
use e2e::recorder::Recorder;
use e2e::traffic::directory;
use lab::kafka::Kafka;
use lab::load::{Load, Producer};
use lab::{Broker, BrokerOptions};
use serde_json::Value;

/// Minimum number of compared requests.
const ENOUGH: u64 = 50_000;
const WITHIN_PERCENT: f64 = 98.0;
const MEDIAN_MS: f64 = 0.1;

/// Time before the measurement, so that the code is compiled.
const WARM_UP: Duration = Duration::from_secs(15);
/// Each is a request or two, because they do not linger.
const RECORDS_PER_SECOND: u32 = 500;

fn main() -> ExitCode {
    let seconds = std::env::args().nth(1).map_or(50, |text| text.parse().expect("seconds"));
    let directory = directory("stages");
    let (recording, log) = record(&directory, Duration::from_secs(seconds));
    let summary = explain(&recording, &log);
    let agreement = &summary["request_log"];
    println!("{} requests; losses {}; joins {}", summary["requests"], summary["losses"], summary["joins"]);
    println!("{agreement:#}");
    let compared = agreement["compared"].as_u64().expect("a count");
    let mut missed = Vec::new();
    if compared < ENOUGH {
        missed.push(format!("only {compared} produce requests were compared, less than {ENOUGH}"));
    }
    for part in ["local", "after"] {
        missed.extend(missed_by(part, &agreement[part]));
    }
    for target in &missed {
        println!("MISSED: {target}");
    }
    if missed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn missed_by(part: &str, differences: &Value) -> Vec<String> {
    let within = differences["within"].as_f64().expect("a share") * 100.0;
    let median_ms = differences["median_ns"].as_f64().map_or(f64::INFINITY, |ns| ns / 1e6);
    let mut missed = Vec::new();
    if within < WITHIN_PERCENT {
        missed.push(format!("{part}: {within:.2} % within 1 ms, less than {WITHIN_PERCENT} %"));
    }
    if median_ms.abs() > MEDIAN_MS {
        missed.push(format!("{part}: {median_ms:.3} ms at the median, more than {MEDIAN_MS} ms"));
    }
    missed
}

/// Records a broker under load for this long; returns the recording and the broker's request log.
fn record(directory: &Path, length: Duration) -> (std::path::PathBuf, std::path::PathBuf) {
    let kafka = Kafka::prepare(lab::kafka::DEFAULT_VERSION).unwrap();
    let mut options = BrokerOptions::new(directory.join("broker"));
    options.request_log = true;
    for (name, value) in [("num.network.threads", "16"), ("num.partitions", "4")] {
        options.properties.push((name.to_owned(), value.to_owned()));
    }
    options.jvm_arguments.push("-XX:TieredStopAtLevel=1".to_owned());
    let broker = Broker::start(&kafka, options).unwrap();
    let producers = ["1", "1", "all"].iter().enumerate().map(|(i, acks)| Producer {
        topic: format!("topic{i}"),
        client_id: format!("producer-{i}"),
        rate: RECORDS_PER_SECOND,
        record_bytes: 500,
        properties: [format!("acks={acks}"), "linger.ms=0".to_owned(), "enable.idempotence=false".to_owned()]
            .to_vec(),
    });
    let producers: Vec<Producer> = producers.collect();
    let mut load = Load::start(&kafka, &broker, &producers, &directory.join("load")).unwrap();
    sleep(WARM_UP);
    load.check().unwrap();
    let recording = directory.join("recording");
    let _ = fs::remove_dir_all(&recording);
    let recorder = Recorder::start(&recording, broker.pid);
    sleep(length);
    recorder.stop();
    load.check().unwrap();
    load.stop();
    let log = broker.request_log.clone().expect("a request log was asked for");
    // The log is complete only when the broker has stopped, because it is buffered.
    broker.stop();
    (recording, log)
}

/// Explains every request, and returns the summary.
fn explain(recording: &Path, log: &Path) -> Value {
    let arguments = ["--slower-than", "0ms", "--api", "produce", "--format", "json", "--request-log"];
    let mut all = vec!["explain".as_ref(), recording.as_os_str()];
    all.extend(arguments.iter().map(std::ffi::OsStr::new));
    all.push(log.as_os_str());
    let output = brokerscope::run(all).done();
    let last = output.stdout.lines().last().expect("a summary");
    serde_json::from_str(last).expect("JSON")
}
