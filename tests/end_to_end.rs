//! Tests all of brokerscope with a real broker, as a user meets it: the binary on one side, Kafka's own request log and
//! tcpdump on the other.
//!
//! Live tests need root and run where `BROKERSCOPE_LIVE_TESTS=1`; see README.md.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "what cannot go on panics, and the test fails with it"
)]

#[path = "end_to_end/calls.rs"]
mod calls;

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

use e2e::agreement::{self, few, none};
use e2e::bench::Bench;
use e2e::brokerscope::{self, CommandOutput};
use e2e::capture_file::CaptureFile;
use e2e::clients::{CLIENTS, EVERY};
use e2e::comparison::{latency_excess, quantile, with_log, with_sizes, with_whole};
use e2e::damage;
use e2e::frames;
use e2e::gate;
use e2e::intact::Whole;
use e2e::kafka_log;
use e2e::recorder::{Recorder, now_ns};
use e2e::recording::{Recording, appends_of};
use e2e::row::{self, Output};
use e2e::spoken::VersionTable;
use e2e::tcpdump::Tcpdump;
use e2e::traffic::{directory, traffic};
use e2e::views;
use fastrand::Rng;
use lab::kafka::DEFAULT_VERSION;

/// Seeds of all damage; a failing test prints its seed.
const SEEDS: [u64; 4] = [1, 20, 300, 4711];

#[test]
fn the_sample_agrees_with_kafkas_log() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    if brokerscope::binary().is_none() {
        let _live = gate::live("the sample: there is no brokerscope binary").map(|_| brokerscope::command());
        return;
    }
    let output = brokerscope::requests(&data.join("sample.pcap"), 29092);
    let sizes = frames::sizes(&CaptureFile::read(&data.join("sample.pcap")), "127.0.0.1:29092");
    let log = kafka_log::read(&data.join("sample-request.log"));
    assert_eq!(few(with_log(&output, &log, &sizes)), none());
    assert_eq!(few(with_sizes(&output, &sizes)), none());
}

#[test]
fn reordered_sample_agrees_with_kafkas_log() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    if brokerscope::binary().is_none() {
        let _live = gate::live("the sample: there is no brokerscope binary").map(|_| brokerscope::command());
        return;
    }
    let sample = CaptureFile::read(&data.join("sample.pcap"));
    let (sizes, log) =
        (frames::sizes(&sample, "127.0.0.1:29092"), kafka_log::read(&data.join("sample-request.log")));
    let path = directory("shuffled-sample").join("sample.pcap");
    for seed in 0..50 {
        fs::write(&path, damage::shuffled(&sample, &mut Rng::with_seed(seed)).bytes()).unwrap();
        let output = brokerscope::requests(&path, 29092);
        assert_eq!(few(with_log(&output, &log, &sizes)), none(), "seed {seed}: {}", output.summary);
        assert_eq!(few(with_sizes(&output, &sizes)), none(), "seed {seed}: {}", output.summary);
        assert_eq!(output.count("gaps"), 0, "seed {seed}: {}", output.summary);
    }
}

#[test]
fn requests_agree_with_kafkas_own_log() {
    let Some(_alone) = gate::live("requests against Kafka's own log") else { return };
    agreement::with_kafkas_log(traffic());
}

#[test]
fn run_covers_all_codecs_acks_and_produce_and_fetch_versions() {
    let Some(_alone) = gate::live("the variety of the run") else { return };
    agreement::has_variety(traffic());
    let spoken = VersionTable::of(&traffic().log, &[&CLIENTS[..], &EVERY[..]].concat());
    println!("{}", spoken.table());
    assert_eq!(spoken.lacks("PRODUCE", &(3..=13).collect::<Vec<_>>()), Vec::<i64>::new());
    assert_eq!(
        spoken.lacks("FETCH", &[&(4..=16).collect::<Vec<_>>()[..], &[18]].concat()),
        Vec::<i64>::new()
    );
}

#[test]
fn every_message_id_is_found() {
    let Some(_alone) = gate::live("message ids") else { return };
    agreement::on_records(traffic());
}

/// The exact bounds depend on the machine's load, and `make latency` measures them; the median hardly depends on it.
#[test]
fn median_latency_is_close_to_kafkas_total_time() {
    let Some(_alone) = gate::live("latency against Kafka's total time") else { return };
    let excess = latency_excess(&traffic().output, &traffic().log);
    let mut excess: Vec<f64> = excess.iter().map(|excess| excess.ms).collect();
    excess.sort_by(f64::total_cmp);
    let at = |share| quantile(&excess, share);
    println!(
        "latency - head of line - totalTimeMs of {} requests, ms: min {:.3}, 1 % {:.3}, 10 % {:.3}, median {:.3}, 90 % {:.3}, 99 % {:.3}, max {:.3}",
        excess.len(),
        at(0.0),
        at(0.01),
        at(0.1),
        at(0.5),
        at(0.9),
        at(0.99),
        at(1.0)
    );
    let within = excess.iter().filter(|ms| (-0.2..=5.0).contains(*ms)).count();
    println!("{:.2} % within [-0.2, 5] ms", within as f64 * 100.0 / excess.len() as f64);
    // The difference to the broker's time is two waits for a CPU, on a machine that may be busy.
    assert!((-0.2..=50.0).contains(&at(0.5)), "median {} ms", at(0.5));
}

#[test]
fn produce_partitions_join_their_writes_by_crc() {
    let Some(_alone) = gate::live("the join by CRC") else { return };
    agreement::on_joins(traffic());
}

#[test]
fn recording_has_the_produce_requests_that_tcpdump_captured() {
    let Some(_alone) = gate::live("recording against capture") else { return };
    agreement::of_recorder_and_capture(traffic());
}

#[test]
fn requests_join_their_socket_reads_and_writes() {
    let Some(_alone) = gate::live("requests against calls on connections") else { return };
    let joins = calls::Joins::of(&traffic().capture.with_file_name("recording"));
    println!("{joins:?}");
    assert!(joins.requests > 1_500 && joins.responses > 1_500, "too few requests to prove much");
    assert_eq!(joins.exact, joins.calls, "{joins:?}");
    assert!(joins.read * 100 >= joins.requests * 99, "{joins:?}");
    assert!(joins.written * 100 >= joins.responses * 99, "{joins:?}");
}

/// Runs `requests` on a damaged capture: it must succeed and report nothing that differs from the intact one.
fn read_damaged(name: &str, damaged: &CaptureFile) -> Output {
    let path = directory("damaged").join(format!("{name}.pcap"));
    fs::write(&path, damaged.bytes()).unwrap();
    let output = brokerscope::requests(&path, traffic().port);
    let with_error = output.rows.iter().filter(|row| !row["error"].is_null()).count();
    println!("{name}: {} rows, {with_error} with an error: {}", output.rows.len(), output.summary);
    let deviations = with_whole(&output, &traffic().output);
    assert_eq!(few(deviations.altered), none(), "{name}");
    assert!(
        deviations.later * 100 <= output.rows.len(),
        "{name}: {} rows with later times",
        deviations.later
    );
    output
}

fn whole() -> (CaptureFile, usize) {
    (CaptureFile::read(&traffic().capture), traffic().output.rows.len())
}

#[test]
fn capture_that_begins_mid_stream_yields_the_later_requests() {
    let Some(_alone) = gate::live("captures that begin late") else { return };
    let (capture, all) = whole();
    for share in [0.001, 0.1, 0.5, 0.9] {
        let output = read_damaged(&format!("late-{share}"), &damage::begun_late(&capture, share));
        let first = capture.packets[(capture.packets.len() as f64 * share) as usize].time_ns();
        let after = traffic().output.rows.iter().filter(|row| row["arrival_ns"].as_i64() > Some(first));
        // Requests of connections without their first frames may be skipped during resynchronization.
        let (rows, after) = (output.rows.len(), after.count());
        assert!(rows <= all && rows * 100 >= after * 95, "{rows} rows of {after}");
    }
}

/// Minimum percentage of requests with all packets that must come out intact. That is, as in the intact capture.
const INTACT_PERCENT: f64 = 97.0;

#[test]
fn missing_packets_affect_only_their_own_requests() {
    let Some(_alone) = gate::live("captures with missing packets") else { return };
    let (capture, _) = whole();
    let broker = format!("127.0.0.1:{}", traffic().port);
    // As captured, with packets of up to 64 KiB, and as on a network with an MTU of 1500.
    for most in [usize::MAX, 1_448] {
        let whole = Whole::new(damage::segmented(&capture, most), &broker, &traffic().output);
        for seed in SEEDS {
            let left = damage::thinned(whole.packets(), 10, &mut Rng::with_seed(seed));
            let output = read_damaged(&format!("thinned-{seed}"), &whole.filter_packets(&left));
            assert!(output.count("gaps") > 0 && output.count("gap_bytes") > 0, "{}", output.summary);
            let share = whole.judge(&left, &output);
            println!("seed {seed}: {:.2} % of {} intact requests", share.percent(), share.intact);
            assert!(share.percent() >= INTACT_PERCENT, "seed {seed}: {:?}", few(share.missed));
        }
    }
}

#[test]
fn missing_packets_of_the_sample_affect_only_their_own_requests() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    if brokerscope::binary().is_none() {
        let _live = gate::live("the sample: there is no brokerscope binary").map(|_| brokerscope::command());
        return;
    }
    let output = brokerscope::requests(&data.join("sample.pcap"), 29092);
    let path = directory("thinned-sample").join("sample.pcap");
    let (mut intact, mut missed) = (0, Vec::new());
    for most in [usize::MAX, 400, 100] {
        let capture = damage::segmented(&CaptureFile::read(&data.join("sample.pcap")), most);
        let whole = Whole::new(capture, "127.0.0.1:29092", &output);
        for seed in 0..30 {
            let left = damage::thinned(whole.packets(), 10, &mut Rng::with_seed(seed));
            fs::write(&path, whole.filter_packets(&left).bytes()).unwrap();
            let damaged = brokerscope::requests(&path, 29092);
            assert_eq!(few(with_whole(&damaged, &output).altered), none(), "seed {seed}, {most} bytes");
            let share = whole.judge(&left, &damaged);
            intact += share.intact;
            missed.extend(share.missed);
        }
    }
    let percent = (intact - missed.len()) as f64 * 100.0 / intact as f64;
    println!("{percent:.2} % of {intact} intact requests");
    assert!(intact > 1_500 && percent >= INTACT_PERCENT, "{percent} % of {intact}: {:?}", few(missed));
}

#[test]
fn tolerates_reordered_and_repeated_packets() {
    let Some(_alone) = gate::live("captures out of order") else { return };
    let (capture, all) = whole();
    for seed in SEEDS {
        let path = directory("damaged").join("shuffled.pcap");
        fs::write(&path, damage::shuffled(&capture, &mut Rng::with_seed(seed)).bytes()).unwrap();
        let output = brokerscope::requests(&path, traffic().port);
        // If the machine stalls, neighbouring packets may be further apart in time than a segment is waited for.
        assert!(output.rows.len() <= all, "seed {seed}: {}", output.summary);
        let differences = with_sizes(&output, &traffic().sizes);
        println!("seed {seed}: {} rows of {all}, differences: {differences:?}", output.rows.len());
        assert!(differences.len() * 1000 <= all, "seed {seed}: {:?}", few(differences));
        assert!(output.count("retransmitted_bytes") > 0, "{}", output.summary);
    }
}

#[test]
fn truncated_packets_are_counted_and_most_rows_remain() {
    let Some(_alone) = gate::live("truncated packets") else { return };
    let (capture, all) = whole();
    // The lower layers' headers are 66 bytes here: 60 leave nothing, 80 a request's API, version and number, 96 its
    // header if the client's name is short, 256 every header. Even then, requests that start within another's packet
    // are missing: more on a busy machine, because clients keep sending.
    for (snaplen, least_percent) in [(60, 0), (80, 60), (96, 60), (256, 60)] {
        let output = read_damaged(&format!("snaplen-{snaplen}"), &damage::cut(&capture, snaplen));
        assert!(output.count("truncated_packets") > 0, "{}", output.summary);
        let (rows, unread) = (output.rows.len(), output.count("undecodable_frames"));
        assert!(rows * 100 >= all * least_percent, "{rows} rows of {all}");
        assert_eq!(output.count("other_connections"), 0, "{}", output.summary);
        assert!(rows == all || unread + output.count("gaps") > 0, "{}", output.summary);
    }
}

#[test]
fn file_cut_anywhere_yields_the_rows_before_the_cut() {
    let Some(_alone) = gate::live("files cut anywhere") else { return };
    let bytes = fs::read(&traffic().capture).unwrap();
    let path = directory("damaged").join("cut.pcap");
    for seed in SEEDS {
        let mut rng = Rng::with_seed(seed);
        for at in [24, 24 + rng.u64(..40), rng.u64(..bytes.len() as u64), bytes.len() as u64 - 1] {
            fs::write(&path, &bytes[..(at as usize).max(24)]).unwrap();
            let output = brokerscope::requests(&path, traffic().port);
            let deviations = with_whole(&output, &traffic().output);
            assert_eq!(few(deviations.altered), none(), "seed {seed}, cut at {at}");
            assert_eq!(deviations.later, 0, "seed {seed}, cut at {at}");
        }
    }
}

#[test]
fn foreign_protocols_on_the_port_are_counted_and_lose_no_row() {
    let Some(_alone) = gate::live("strangers on the port") else { return };
    let (capture, all) = whole();
    for seed in SEEDS {
        let mut rng = Rng::with_seed(seed);
        let strangers = [
            damage::client_hello(&mut rng),
            b"GET / HTTP/1.1\r\nHost: kafka\r\n\r\n".repeat(50),
            damage::bytes(70_000, &mut rng),
            damage::bytes(3, &mut rng),
            vec![0; 5_000],
            vec![0xff; 5_000],
            // A frame of the maximum length, of no API.
            [&[0x06, 0x40, 0, 0][..], &damage::bytes(10_000, &mut rng)].concat(),
        ];
        let damaged = damage::with_strangers(&capture, traffic().port, &strangers);
        let output = read_damaged(&format!("strangers-{seed}"), &damaged);
        assert_eq!(output.rows.len(), all);
        assert_eq!(output.count("tls_connections"), 1, "{}", output.summary);
        assert!(output.count("other_connections") >= 2, "{}", output.summary);
    }
}

#[test]
fn flipped_bits_cause_no_panic() {
    let Some(_alone) = gate::live("flipped bits") else { return };
    let bytes = fs::read(&traffic().capture).unwrap();
    let path = directory("damaged").join("flipped.pcap");
    for seed in SEEDS {
        let mut rng = Rng::with_seed(seed);
        let mut flipped = bytes.clone();
        for _ in 0..bytes.len() / 20_000 {
            let at = 24 + rng.u64(..bytes.len() as u64 - 24) as usize;
            flipped[at] ^= 1 << rng.u64(..8);
        }
        fs::write(&path, &flipped).unwrap();
        let CommandOutput { status, stderr, stdout } =
            brokerscope::run(["requests", "--format", "json", "--message-id", "mid", path.to_str().unwrap()]);
        // A flipped length may make the rest of the file unreadable as a capture, but must not cause a panic.
        assert!(matches!(status, Some(0 | 1)) && !stderr.contains("panicked"), "seed {seed}: {stderr}");
        assert!(status == Some(1) || stdout.contains(r#""type":"summary""#), "seed {seed}");
    }
}

#[test]
fn reports_an_invalid_capture_in_one_line() {
    if brokerscope::binary().is_none() {
        let _live = gate::live("no capture: there is no brokerscope binary").map(|_| brokerscope::command());
        return;
    }
    let directory = directory("no-capture");
    let text = directory.join("text");
    fs::write(&text, "what Kafka logged\n".repeat(100)).unwrap();
    let empty = directory.join("empty");
    fs::write(&empty, "").unwrap();
    for path in [text, empty, directory.join("missing"), directory, PathBuf::from("/dev/null")] {
        let finished = brokerscope::run(["requests".as_ref(), path.as_os_str()]);
        assert_eq!(finished.status, Some(1), "{}: {}", path.display(), finished.stderr);
        assert_eq!(finished.stdout, "", "{}", path.display());
        assert_eq!(finished.stderr.lines().count(), 1, "{}: {}", path.display(), finished.stderr);
        assert!(finished.stderr.contains(path.to_str().unwrap()), "{}", finished.stderr);
    }
}

#[test]
fn killed_recorder_loses_at_most_its_last_second() {
    let Some(_alone) = gate::live("killing the recorder") else { return };
    let directory = directory("killed");
    let bench = Bench::start(DEFAULT_VERSION, &directory);
    bench.clients().set_up(bench.bootstrap(), &directory);
    let capture = directory.join("capture.pcap");
    let tcpdump = Tcpdump::start(&capture, bench.port());
    let load = bench.clients().trickle(bench.bootstrap(), 600, &directory);
    come_to_work(&capture);
    let mut killed = Vec::new();
    for seed in &SEEDS[..2] {
        let recording = directory.join(format!("recording-{seed}"));
        let recorder = Recorder::start(&recording, bench.pid());
        let begun_ns = now_ns();
        // Some of the load is older than a second when it is killed.
        come_to_work(&capture);
        sleep(Duration::from_millis(1_000 + Rng::with_seed(*seed).u64(..4_000)));
        killed.push((recording, begun_ns, recorder.kill()));
    }
    // The load also serves the live views, because a broker takes long to start.
    let live = ["--pid", &bench.pid().to_string(), "--for", "5s"].map(str::to_owned);
    show_what_the_broker_does(&live.each_ref().map(String::as_str));
    drop(load);
    tcpdump.stop();
    let output = brokerscope::requests(&capture, bench.port());
    bench.stop();
    for (recording, begun_ns, killed_ns) in killed {
        lacks_at_most_a_second(&recording, &output, begun_ns, killed_ns);
    }
}

/// Runs `io`, `files` and `kernel` live, all at once.
fn show_what_the_broker_does(live: &[&str]) {
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let appends = views::operations(live);
            let appends = appends.iter().filter(|op| op["op"] == "write" && op["kind"] == "log");
            assert!(appends.filter(|op| op["batch_crc"].is_u64()).count() > 20, "the load appends");
        });
        scope.spawn(|| {
            let kinds = views::rows("files", &[live, &["--by", "kind"]].concat());
            let log = kinds.iter().find(|kind| kind["kind"] == "log").expect("logs are written");
            assert!(log["writes"].as_u64() > Some(20), "{log}");
        });
        scope.spawn(|| views::rows("kernel", live));
    });
}

/// Waits until a load has sent some tens of requests: a JVM may take long to start.
fn come_to_work(capture: &Path) {
    let length = || fs::metadata(capture).unwrap().len();
    let (before, end) = (length(), Instant::now() + Duration::from_secs(120));
    while length() < before + 100_000 {
        assert!(Instant::now() < end, "the load does not begin");
        sleep(Duration::from_millis(50));
    }
}

fn lacks_at_most_a_second(directory: &Path, output: &Output, begun_ns: i64, killed_ns: i64) {
    let recording = Recording::read(directory);
    let due: Vec<_> = output
        .rows
        .iter()
        .filter(|row| row["api"] == "PRODUCE" && row["arrival_ns"].as_i64() > Some(begun_ns))
        .filter(|row| row["end_ns"].as_i64().is_some_and(|end| end < killed_ns - 1_000_000_000))
        .collect();
    let lived_ms = (killed_ns - begun_ns) / 1_000_000;
    println!("{}: killed after {lived_ms} ms, {} requests due", directory.display(), due.len());
    assert!(due.len() > 20, "too little load to prove anything: {}", due.len());
    let found: HashSet<_> =
        recording.requests.iter().map(|r| (row::client(r), row::correlation_id(r))).collect();
    let appends = recording.appends();
    for row in due {
        assert!(found.contains(&(row::client(row), row::correlation_id(row))), "lost: {row}");
        for append in appends_of(row) {
            assert!(appends.contains(&append), "lost the append {append:?} of {row}");
        }
    }
}
