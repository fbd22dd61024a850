//! Checks that commands that read files have no rights left, and still work. They have none before they read the
//! first byte. What a sandbox refuses is tested in `crates/sandbox`.

// clippy.toml allows these in test functions only; this whole crate is tests.
#![allow(clippy::unwrap_used)]
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::fs;
#[cfg(feature = "live")]
use std::io::Write as _;
#[cfg(feature = "live")]
use std::os::fd::OwnedFd;
#[cfg(feature = "live")]
use std::os::unix::{fs::MetadataExt as _, net::UnixStream, process::CommandExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Timeout: what takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Lines of `/proc/PID/status`: no capabilities, no means to gain any, and a system call filter.
const NOTHING: [&str; 4] =
    ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"];
/// Commands that read no file, serve until they are ended, or need a terminal.
const NOT_HERE: [&str; 4] = ["doctor", "export", "record", "top"];

fn brokerscope(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_brokerscope"));
    command.args(arguments).env("TZ", "Europe/Berlin");
    command
}

fn project(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path).canonicalize().unwrap()
}

/// Whether no thread of a process has any rights left.
fn holds_nothing(pid: u32) -> bool {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let states: Vec<_> = threads.map(|thread| fs::read_to_string(thread.path().join("status"))).collect();
    let is_empty = |state: &String| NOTHING.iter().all(|line| state.lines().any(|found| found == *line));
    !states.is_empty() && states.iter().all(|state| state.as_ref().is_ok_and(is_empty))
}

fn assert_holds_nothing(mut reader: Child, arguments: &[&str]) {
    let begun = Instant::now();
    while !holds_nothing(reader.id()) {
        let ended = reader.try_wait().unwrap();
        assert!(ended.is_none() && begun.elapsed() < TIMEOUT, "{arguments:?}: {ended:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    reader.kill().unwrap();
    reader.wait().unwrap();
}

#[test]
fn file_readers_have_no_privileges_before_the_first_byte() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (pipe, sample) = (pipe.to_str().unwrap(), project("samples/journal-stall"));
    let page = directory.path().join("page.html");
    for arguments in [
        &["requests", "-"][..],
        &["logs", "-"],
        &["requests", pipe],
        &["logs", pipe],
        &["segment", pipe],
        &["explain", pipe],
        &["explain", sample.to_str().unwrap(), "--request-log", pipe],
        &["report", pipe, "-o", page.to_str().unwrap()],
        &["advise", sample.to_str().unwrap(), "--jvm-options", pipe],
        &["locks", "--gc-log", pipe],
        &["locks", "--jfr", pipe],
        &["locks", "--dump", pipe],
    ] {
        let mut reader = brokerscope(arguments);
        let reader =
            reader.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        assert_holds_nothing(reader, arguments);
    }
}

#[cfg(feature = "live")]
#[test]
fn live_parsers_have_no_privileges_and_end_with_the_watch() {
    for name in [watch::PARSE_PACKETS, watch::PARSE_REQUEST_LOG, watch::PARSE_JVM] {
        holds_nothing_and_ends(name);
    }
}

#[cfg(feature = "live")]
fn holds_nothing_and_ends(name: &'static str) {
    let start = || {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut parser = brokerscope(&[name]);
        parser.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::piped());
        (ours, parser.spawn().unwrap())
    };
    let (_open, parser) = start();
    assert_holds_nothing(parser, &[name]);

    let (ours, parser) = start();
    drop(ours);
    let Output { status, stderr, .. } = parser.wait_with_output().unwrap();
    assert!(status.success() && stderr.is_empty(), "{status}");

    let (mut ours, parser) = start();
    ours.write_all(&[0xff; 64]).unwrap();
    let Output { status, stderr, .. } = parser.wait_with_output().unwrap();
    assert_eq!(status.code(), Some(1));
    assert_eq!(String::from_utf8(stderr).unwrap().lines().count(), 1);
}

/// The interface is already open, which needs root.
#[cfg(feature = "live")]
#[test]
fn live_capture_has_no_privileges_while_it_waits_for_packets() {
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        eprintln!("LEFT OUT: only root can capture on an interface");
        return;
    }
    // Nothing uses port 1.
    let arguments = ["requests", "live:lo", "--port", "1"];
    assert_holds_nothing(brokerscope(&arguments).stdout(Stdio::null()).spawn().unwrap(), &arguments);
}

/// Facts about the process itself are read before.
#[cfg(feature = "live")]
#[test]
fn advise_has_no_privileges_when_it_reads_dumps() {
    let directory = tempfile::tempdir().unwrap();
    let [pipe, properties] = ["pipe", "server.properties"].map(|name| directory.path().join(name));
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    fs::write(&properties, "log.dirs=/tmp\n").unwrap();
    // Its command line is a broker's once it has executed `tail`.
    let mut tail = Command::new("tail");
    tail.arg0("java").args(["-f", "/dev/null", "kafka.Kafka"]).arg(&properties);
    let mut broker = tail.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let pid = broker.id().to_string();
    while !fs::read(format!("/proc/{pid}/cmdline")).unwrap().starts_with(b"java\0") {
        std::thread::yield_now();
    }
    let arguments = ["advise", "--pid", &pid, "--dump", pipe.to_str().unwrap()];
    assert_holds_nothing(brokerscope(&arguments).stdout(Stdio::null()).spawn().unwrap(), &arguments);
    broker.kill().unwrap();
    broker.wait().unwrap();
}

#[test]
fn every_command_on_files_works_in_the_sandbox() {
    let directory = tempfile::tempdir().unwrap();
    let inside = |path: &str| directory.path().join(path);
    // With relative names, as people use them.
    copy(&project("samples/journal-stall"), &inside("recording"));
    fs::create_dir_all(inside("fleet/cluster=one/broker=1")).unwrap();
    copy(&inside("recording"), &inside("fleet/cluster=one/broker=1/10h"));
    fs::copy(project("tests/data/sample.pcap"), inside("sample.pcap")).unwrap();
    fs::write(inside("server.log"), "[2024-05-19 15:04:47,458] INFO a line of a broker (kafka.log.Log)\n")
        .unwrap();
    fs::write(inside("server.properties"), "num.io.threads=8\n").unwrap();
    fs::write(inside("00000000000000000000.log"), "").unwrap();
    let mut tried = BTreeSet::new();
    for (arguments, written) in [
        (&["requests", "sample.pcap", "--format", "json"][..], None),
        (&["requests", "sample.pcap", "--log-dir", "fleet", "--summary"], None),
        (&["io", "--from", "recording", "--top", "3"], None),
        (&["io", "--from", "recording", "--top", "3", "--message-id", "id"], None),
        (&["files", "--from", "recording"], None),
        (&["kernel", "--from", "recording", "--slower-than", "50ms"], None),
        (&["locks", "--from", "recording", "--flame", "waits.svg"], Some("waits.svg")),
        (&["stacks", "--from", "recording", "-o", "stacks.svg"], Some("stacks.svg")),
        (&["segment", "00000000000000000000.log"], None),
        (&["explain", "recording"], None),
        (&["explain", "sample.pcap"], None),
        (&["explain", "recording", "--save"], Some("recording/verdicts/part-00001.parquet")),
        (&["report", "recording", "-o", "page.html"], Some("page.html")),
        (&["report", "recording", "-o", "/dev/stdout", "--format", "md"], None),
        (&["compare", "recording@-20s", "recording@20s-", "--md", "note.md"], Some("note.md")),
        (&["advise", "recording", "--properties", "server.properties"], None),
        (&["advise", "server.properties"], None),
        (&["fleet", "fleet", "--figures"], None),
        (&["logs", "server.log", "--list"], None),
    ] {
        tried.extend(arguments.first().copied());
        let mut command = brokerscope(arguments);
        command.arg("--verbose").stdin(Stdio::null()).current_dir(directory.path());
        let Output { status, stderr, .. } = command.output().unwrap();
        let messages = String::from_utf8(stderr).unwrap();
        assert!(status.success(), "{arguments:?}: {status}: {messages}");
        assert!(
            messages.contains("sandbox: ") && messages.contains("landlock ABI") && messages.ends_with('\n'),
            "{arguments:?}: {messages}"
        );
        let is_missing = |path: &&str| fs::metadata(inside(path)).map_or(0, |file| file.len()) == 0;
        assert_eq!(written.filter(is_missing), None, "{arguments:?}: {messages}");
    }
    let known = brokerscope::command();
    let untried = known.get_subcommands().map(clap::Command::get_name).filter(|name| !tried.contains(name));
    assert_eq!(
        untried.collect::<BTreeSet<_>>(),
        BTreeSet::from(NOT_HERE),
        "commands that no sandbox was tried with"
    );
}

fn copy(from: &Path, to: &Path) {
    assert!(Command::new("cp").arg("-r").args([from, to]).status().unwrap().success());
}
