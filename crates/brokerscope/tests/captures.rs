//! Tests capture files as users have them: rings, several side by side, compressed, damaged, through pipes. The expected
//! result is always the same: the rows of the sample capture.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

const FILE_HEADER_BYTES: usize = 24;

fn brokerscope(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brokerscope"));
    command.args(arguments).env("TZ", "UTC").stdin(Stdio::null());
    command
}

fn run(command: &str, files: &[PathBuf], arguments: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        brokerscope(&[command]).args(files).args(arguments).output().unwrap();
    (status.code().unwrap(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
}

/// The rows and the summary of `requests --format json`.
fn requests(files: &[PathBuf]) -> (Vec<Value>, Value) {
    let (status, stdout, stderr) = run("requests", files, &["--format", "json"]);
    assert_eq!((status, stderr.as_str()), (0, ""));
    rows_and_summary(&stdout)
}

fn rows_and_summary(stdout: &str) -> (Vec<Value>, Value) {
    let mut rows: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let summary = rows.pop().unwrap();
    assert_eq!(summary["type"], "summary");
    (rows, summary)
}

/// The sample capture, packet by packet: a little-endian pcap.
struct Sample {
    bytes: Vec<u8>,
    /// The offset of each packet's record, and the end of the last one.
    starts: Vec<usize>,
}

impl Sample {
    fn read() -> Self {
        let bytes = std::fs::read(Self::path()).unwrap();
        let mut starts = vec![FILE_HEADER_BYTES];
        while let Some(length) = bytes.get(starts[starts.len() - 1] + 8..).and_then(|rest| rest.first_chunk())
        {
            starts.push(starts[starts.len() - 1] + 16 + u32::from_le_bytes(*length) as usize);
        }
        assert_eq!(starts.last(), Some(&bytes.len()));
        Self { bytes, starts }
    }

    fn path() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/sample.pcap")
    }

    fn packets(&self) -> usize {
        self.starts.len() - 1
    }

    fn record(&self, packet: usize) -> &[u8] {
        &self.bytes[self.starts[packet]..self.starts[packet + 1]]
    }

    fn pcap(&self, packets: impl Iterator<Item = usize>) -> Vec<u8> {
        let mut file = self.bytes[..FILE_HEADER_BYTES].to_vec();
        packets.for_each(|packet| file.extend(self.record(packet)));
        file
    }

    /// The same packets in big-endian pcapng blocks; `if_tsoffset` adds a second that the times are short of.
    fn pcapng(&self, packets: impl Iterator<Item = usize>) -> Vec<u8> {
        let nanos = self.bytes[..4] == [0x4d, 0x3c, 0xb2, 0xa1];
        let link = u32::from_le_bytes(*self.bytes[20..].first_chunk().unwrap());
        let mut file = block(0x0a0d_0d0a, &[0x1a2b_3c4d, 0x0001_0000, u32::MAX, u32::MAX], &[]);
        // Options: a comment, the resolution, the offset.
        let options =
            [&[0, 1, 0, 2, b'o', b'k', 0, 0, 0, 9, 0, 1, 9, 0, 0, 0, 0, 14, 0, 8][..], &1u64.to_be_bytes()];
        file.extend(block(1, &[link << 16, 0], &options.concat()));
        for packet in packets {
            let record = self.record(packet);
            let number = |at: usize| u32::from_le_bytes(*record[at..].first_chunk().unwrap());
            let fraction = u64::from(number(4)) * if nanos { 1 } else { 1_000 };
            let ticks = u64::from(number(0) - 1) * 1_000_000_000 + fraction;
            let fields = [0, (ticks >> 32) as u32, ticks as u32, number(8), number(12)];
            file.extend(block(6, &fields, &record[16..]));
        }
        file
    }
}

fn block(kind: u32, fields: &[u32], rest: &[u8]) -> Vec<u8> {
    let padding = rest.len().next_multiple_of(4) - rest.len();
    let length = (12 + fields.len() * 4 + rest.len() + padding) as u32;
    let mut block: Vec<u8> = [kind, length].iter().chain(fields).flat_map(|n| n.to_be_bytes()).collect();
    block.extend(rest);
    block.resize(block.len() + padding, 0);
    block.extend(length.to_be_bytes());
    block
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn write(dir: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn ring_of_mixed_capture_files_gives_the_same_rows() {
    let (dir, sample) = (tempfile::tempdir().unwrap(), Sample::read());
    let (rows, mut summary) = requests(&[Sample::path()]);
    assert!(rows.len() > 20, "{}", rows.len());
    let part = |n: usize| sample.packets() * n / 5..sample.packets() * (n + 1) / 5;
    // Wrapped round: the newest packets are in the first file.
    let ring = [
        write(&dir, "x.pcap0", &sample.pcap(part(4))),
        write(&dir, "x.pcap1", &gzip(&sample.pcap(part(0)))),
        write(&dir, "x.pcap2", &sample.pcapng(part(1))),
        write(&dir, "x.pcap3", &zstd::encode_all(&sample.pcapng(part(2))[..], 1).unwrap()),
        write(&dir, "x.pcap4", &sample.pcap(part(3))),
    ];
    let (read, mut summed) = requests(&ring);
    for (row, expected) in read.iter().zip(&rows) {
        assert_eq!(row, expected);
    }
    assert_eq!(read.len(), rows.len());
    for counted in [&mut summary, &mut summed] {
        counted["notes"].take();
    }
    assert_eq!(summed, summary);
}

#[test]
fn parallel_captures_give_the_same_rows_as_one() {
    let (dir, sample) = (tempfile::tempdir().unwrap(), Sample::read());
    let (rows, summary) = requests(&[Sample::path()]);
    let every = |n: usize| (0..sample.packets()).filter(move |packet| packet % 3 == n);
    let files = [2, 0, 1].map(|n| write(&dir, &format!("eth{n}"), &sample.pcap(every(n))));
    let (merged, summed) = requests(&files);
    assert_eq!(merged.len(), rows.len());
    assert_eq!(summed["requests_by_api"], summary["requests_by_api"]);
    for row in &rows {
        assert!(merged.contains(row), "{row}");
    }
}

#[test]
fn duplicate_packets_give_each_row_once() {
    let (rows, _) = requests(&[Sample::path()]);
    let (twice, _) = requests(&[Sample::path(), Sample::path()]);
    assert_eq!(twice.len(), rows.len());
    for (row, expected) in twice.iter().zip(&rows) {
        assert_eq!(row, expected);
    }
}

#[test]
fn several_captures_are_explained_like_one() {
    let (dir, sample) = (tempfile::tempdir().unwrap(), Sample::read());
    let middle = sample.packets() / 2;
    let files = [
        write(&dir, "b", &sample.pcap(0..middle)),
        write(&dir, "a", &gzip(&sample.pcap(middle..sample.packets()))),
    ];
    let arguments = ["--slower-than", "0", "--format", "json"];
    let (status, explained, stderr) = run("explain", &files, &arguments);
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(explained, run("explain", &[Sample::path()], &arguments).1);
}

#[test]
fn pipe_and_live_input_must_be_the_only_input() {
    for inputs in [["-", "a.pcap"], ["a.pcap", "live:lo"], ["-", "-"]] {
        let (status, stdout, stderr) = run("requests", &inputs.map(PathBuf::from), &[]);
        assert_eq!((status, stdout.as_str(), stderr.lines().count()), (2, "", 1), "{stderr}");
        assert!(stderr.contains("must be the only input"), "{stderr}");
    }
}

#[test]
fn refuses_an_unsupported_or_too_short_snaplen() {
    for (input, more, expected_note) in [
        ("a.pcap", &["--snaplen", "256"][..], "-s"),
        ("-", &["--snaplen", "256"], "-s"),
        ("live:lo", &["--snaplen", "256", "--message-id", "id"], "--message-id"),
        ("live:lo", &["--snaplen", "40"], "160 bytes"),
    ] {
        let (status, stdout, stderr) = run("requests", &[PathBuf::from(input)], more);
        assert_eq!((status, stdout.as_str()), (2, ""), "{stderr}");
        assert!(stderr.contains(expected_note), "{input} {more:?}: {stderr}");
    }
}

#[test]
fn reports_an_unreadable_capture_before_any_output() {
    let dir = tempfile::tempdir().unwrap();
    let words = write(&dir, "words", &b"these are words, not packets at all".repeat(3));
    for bad in [words, dir.path().join("nothing"), dir.path().to_owned()] {
        for command in ["requests", "explain"] {
            let (status, stdout, stderr) = run(command, &[Sample::path(), bad.clone()], &[]);
            assert_eq!((status, stdout.as_str(), stderr.lines().count()), (1, "", 1), "{stderr}");
            assert!(stderr.starts_with(&format!("brokerscope: {}: ", bad.display())), "{stderr}");
        }
    }
}

#[test]
fn refuses_a_directory_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let (_, _, stderr) = run("requests", &[dir.path().to_owned()], &[]);
    assert!(stderr.contains(&format!("name the captures in it, {}/*", dir.path().display())), "{stderr}");
    write(&dir, "manifest.json", b"{}");
    let (status, _, stderr) = run("requests", &[dir.path().to_owned()], &[]);
    assert!(status == 1 && stderr.contains("brokerscope explain"), "{stderr}");
}

#[test]
fn damaged_capture_gives_its_rows_and_fails_with_the_position() {
    let (dir, sample) = (tempfile::tempdir().unwrap(), Sample::read());
    let middle = sample.packets() / 2;
    let place = sample.starts[middle];
    let mut bytes = sample.bytes.clone();
    bytes[place + 8..place + 12].fill(0xff);
    let (expected, _) = requests(&[write(&dir, "half", &sample.pcap(0..middle))]);
    assert!(!expected.is_empty());

    let bad = write(&dir, "bad.pcap", &bytes);
    let (status, stdout, stderr) = run("requests", std::slice::from_ref(&bad), &["--format", "json"]);
    let (rows, summary) = rows_and_summary(&stdout);
    assert_eq!((status, rows, stderr.lines().count()), (1, expected.clone(), 1), "{stderr}");
    assert!(stderr.contains("bad.pcap: damaged at byte ") && stderr.contains(&place.to_string()), "{stderr}");
    assert_eq!(summary["notes"][0], "1 captures were not read to their end");

    // The rest is in another file, which is still read.
    let rest = write(&dir, "rest.pcap", &sample.pcap(middle..sample.packets()));
    let (status, stdout, _) = run("requests", &[bad, rest], &["--format", "json"]);
    assert_eq!((status, rows_and_summary(&stdout).0), (1, requests(&[Sample::path()]).0));

    // The checksum before the length at gzip's end.
    let mut garbled = gzip(&sample.bytes);
    let end = garbled.len() - 8;
    garbled[end] ^= 1;
    let garbled = write(&dir, "bad.gz", &garbled);
    let (status, stdout, stderr) = run("requests", &[garbled], &["--format", "json"]);
    assert!(stderr.contains("bad.gz: damaged at byte ") && stderr.lines().count() == 1, "{stderr}");
    assert_eq!((status, rows_and_summary(&stdout).0), (1, requests(&[Sample::path()]).0));
}

#[test]
fn truncated_compressed_capture_ends_like_a_truncated_capture() {
    let (dir, sample) = (tempfile::tempdir().unwrap(), Sample::read());
    let packed = gzip(&sample.bytes);
    let (status, stdout, stderr) =
        run("requests", &[write(&dir, "cut.gz", &packed[..packed.len() * 3 / 4])], &["--format", "json"]);
    let (rows, summary) = rows_and_summary(&stdout);
    assert_eq!(status, 0, "{stderr}");
    let whole = requests(&[Sample::path()]).0;
    assert!(!rows.is_empty() && rows.len() < whole.len(), "{}", rows.len());
    assert!(
        summary["notes"][0].as_str().unwrap().contains("cut.gz ends in the middle of a packet"),
        "{summary}"
    );
}

/// Pipes `bytes` to a running `requests`. Reads the first row before closing the pipe.
fn first_row_of_an_open_pipe(input: &str, bytes: &[u8]) {
    let mut child = brokerscope(&["requests", input, "--format", "json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(bytes).unwrap();
    pipe.flush().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    rows.read_line(&mut first).unwrap();
    assert!(first.starts_with(r#"{"type":"request""#), "{input}: {first}");
    drop(pipe);
    let mut rest = String::new();
    rows.read_to_string(&mut rest).unwrap();
    assert!(rest.lines().last().unwrap().contains(r#""type":"summary""#), "{input}: {rest}");
    assert!(child.wait().unwrap().success());
}

#[test]
fn rows_of_an_open_pipe_appear_before_it_ends() {
    let sample = Sample::read();
    first_row_of_an_open_pipe("-", &sample.bytes);
    first_row_of_an_open_pipe("/dev/stdin", &sample.bytes);
    first_row_of_an_open_pipe("-", &sample.pcapng(0..sample.packets()));
    let mut zstd = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    zstd.write_all(&sample.bytes).unwrap();
    zstd.flush().unwrap();
    // The frame is incomplete: its pipe is closed before its end.
    first_row_of_an_open_pipe("-", zstd.get_ref());
}

/// What `requests -` reports of a pipe with the start of a compressed capture; `arguments` may end the command before the
/// pipe is closed.
fn notes_of_a_cut_pipe(arguments: &[&str]) -> Value {
    let packed = gzip(&Sample::read().bytes);
    let mut command = brokerscope(&["requests", "-", "--format", "json"]);
    let mut child = command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&packed[..packed.len() * 3 / 4]).unwrap();
    let kept_open = (!arguments.is_empty()).then_some(pipe);
    let output = child.wait_with_output().unwrap();
    drop(kept_open);
    assert!(output.status.success(), "{arguments:?}");
    let (rows, summary) = rows_and_summary(std::str::from_utf8(&output.stdout).unwrap());
    assert!(!rows.is_empty(), "{arguments:?}: {summary}");
    summary["notes"].clone()
}

#[test]
fn pipe_stopped_by_the_user_is_not_reported_as_truncated() {
    assert!(notes_of_a_cut_pipe(&[])[0].as_str().unwrap().contains("ends in the middle"));
    assert_eq!(notes_of_a_cut_pipe(&["--for", "3s"]), Value::Array(Vec::new()));
}

/// A TCP segment over IPv4 without a link layer, as a record of a capture file.
fn segment(
    number: u32,
    (from, to): (u16, u16),
    flags: u8,
    (seq, ack): (u32, u32),
    payload: &[u8],
) -> Vec<u8> {
    let total = 40 + payload.len() as u16;
    let mut packet = vec![0x45, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 1]);
    packet.extend([from.to_be_bytes(), to.to_be_bytes()].concat());
    packet.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
    packet.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    packet.extend(payload);
    let length = u32::from(total).to_le_bytes();
    [&1_700_000_000u32.to_le_bytes()[..], &(number * 1_000).to_le_bytes(), &length, &length, &packet].concat()
}

#[test]
fn explain_begins_with_the_tls_traffic() {
    let record =
        |kind: u8, bytes: u16| [&[kind, 3, 3][..], &bytes.to_be_bytes(), &vec![9; bytes.into()]].concat();
    let (hello, data) = (record(0x16, 200), record(0x17, 4_000));
    let (client, broker) = ((50_000, 9_093), (9_093, 50_000));
    let end = 101 + hello.len() as u32;
    let mut pcap =
        [&0xa1b2_c3d4u32.to_le_bytes()[..], &[2, 0, 4, 0], &[0; 8], &[0xff, 0xff, 0, 0, 101, 0, 0, 0]]
            .concat();
    pcap.extend(segment(1, client, 0x02, (100, 0), &[]));
    pcap.extend(segment(2, broker, 0x12, (900, 101), &[]));
    pcap.extend(segment(3, client, 0x18, (101, 901), &hello));
    pcap.extend(segment(4, broker, 0x18, (901, end), &data));
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("tls.pcap");
    std::fs::write(&file, pcap).unwrap();
    let bytes = hello.len() + data.len();
    let (status, text, _) = run("explain", std::slice::from_ref(&file), &[]);
    assert_eq!(status, 0);
    let expected_note = "1 connection and 4.1 KiB on 10.0.0.1:9093 were TLS and were not read";
    assert!(text.lines().take(2).any(|line| line == expected_note), "{text}");
    let (_, json, _) = run("explain", std::slice::from_ref(&file), &["--format", "json"]);
    let tls = rows_and_summary(&json).1["tls"].clone();
    assert_eq!(tls, serde_json::json!([{"listener": "10.0.0.1:9093", "connections": 1, "bytes": bytes}]));
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

/// How a process ended; `None` if it had to be killed.
fn end_of(mut child: Child) -> Option<ExitStatus> {
    for _ in 0..600 {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        sleep(Duration::from_millis(100));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

#[test]
fn fifo_in_a_log_dir_does_not_block() {
    let dir = TempDir::new().unwrap();
    std::fs::create_dir(dir.path().join("topic-0")).unwrap();
    make_fifo(&dir.path().join("topic-0/partition.metadata"));
    for command in ["requests", "explain"] {
        let mut command = brokerscope(&[command]);
        command.arg(Sample::path()).arg("--log-dir").arg(dir.path());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        assert!(end_of(command.spawn().unwrap()).is_some_and(|status| status.success()), "{command:?}");
    }
}

#[test]
fn signal_ends_a_wait_to_open_a_fifo() {
    let dir = TempDir::new().unwrap();
    let pipe = dir.path().join("pipe");
    make_fifo(&pipe);
    let child = brokerscope(&["requests"]).arg(&pipe).stderr(Stdio::null()).spawn().unwrap();
    let pid = child.id().to_string();
    // From then on the signal does not end it at once.
    let catches = |status: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t"));
        u64::from_str_radix(mask.unwrap_or("0"), 16).unwrap() & 1 << 14 != 0
    };
    while !catches(&std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap()) {
        std::thread::yield_now();
    }
    sleep(Duration::from_millis(300));
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert_eq!(end_of(child).and_then(|status| status.code()), Some(130));
}
