//! What a watch reads from a real JVM of another user. Needs root, a JDK, `brokerscope` built (it parses), and
//! `BROKERSCOPE_LIVE_TESTS=1`. Without the variable, the test prints that it did not run; with it, anything missing is a
//! failure.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "../../jvm/tests/live/java.rs"]
#[allow(dead_code, reason = "the tests of `jvm` use more of it")]
mod java;

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use java::{Java, NOBODY};
use lab::program::child_with;
use model::{Event, LossKind};
use rustix::process::{Signal, kill_process};
use watch::{Jfr, Memory, Options, PARSE_JVM, Watch};

/// The time within which a source that has died must show.
const SHOWS_WITHIN: Duration = Duration::from_secs(5);

fn watch(jvm: &Java) -> Watch {
    Watch::start(&Options {
        pid: jvm.pid(),
        node_id: None,
        log_dirs: Vec::new(),
        named_dirs: None,
        ports: Vec::new(),
        named_ports: None,
        packets: None,
        request_log: None,
        always_on: None,
        kernel: false,
        cpu_samples_hz: None,
        host: false,
        jvm: true,
        jfr: Jfr::Always,
        parser: lab::program::brokerscope().unwrap(),
        memory: Memory::default(),
        max_cost: None,
    })
}

fn parser() -> Option<u32> {
    child_with(std::process::id(), PARSE_JVM)
}

fn why_down(watch: &Watch) -> Option<String> {
    let health = watch.sources().health().into_iter();
    health.filter(|health| health.purpose == "lock-waits").find_map(|health| health.down)
}

/// The time after which a parser that does not respond is killed, and as long again for a busy machine.
const HANGS_FOR: Duration = Duration::from_secs(25);

/// Waits until the source is down; returns why.
fn await_down(watch: &Watch, within: Duration) -> String {
    let begun = Instant::now();
    loop {
        if let Some(why) = why_down(watch) {
            return why;
        }
        assert!(begun.elapsed() < within, "the source is still up");
        sleep(Duration::from_millis(10));
    }
}

/// One test, because all parts look for the parser of this process.
#[test]
fn jvm_parser_ends_with_the_watch_and_a_killed_one_is_a_loss() {
    if std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_none_or(|value| value != "1") {
        eprintln!("NOT RUN: needs root, a JDK and BROKERSCOPE_LIVE_TESTS=1");
        return;
    }
    for home in java::homes() {
        let jvm = Java::start(&home, &[]);
        ends_with_the_watch(&jvm);
        killed_is_a_loss(&jvm);
        stopped_is_killed(&jvm);
        assert_eq!(jvm.left_behind(), [] as [std::path::PathBuf; 0]);
    }
}

fn ends_with_the_watch(jvm: &Java) {
    let watch = watch(jvm);
    assert!(parser().is_some() && watch.jvm_version().is_some(), "{:?}", watch.plan());
    let ended = watch.stop(&mut drop);
    assert!(ended.trouble.is_empty(), "{:?}", ended.trouble);
    assert_eq!(parser(), None);
}

fn killed_is_a_loss(jvm: &Java) {
    let watch = watch(jvm);
    assert_eq!(why_down(&watch), None, "{:?}", watch.plan());
    let killed = parser().unwrap();
    signal(killed, Signal::KILL);
    let begun = Instant::now();
    let why = await_down(&watch, SHOWS_WITHIN);
    assert!(why.contains("signal: 9"), "{why}");
    let loss = |event: Event| match event {
        Event::Loss(loss) if loss.kind == LossKind::SourceDown => Some(loss.detail),
        _ => None,
    };
    while watch.next(Duration::from_millis(100)).and_then(loss).is_none_or(|detail| !detail.contains("jvm")) {
        assert!(begun.elapsed() < SHOWS_WITHIN, "no loss");
    }
    assert!(!is_recording(jvm), "nobody reads what the JVM records");
    let ended = watch.stop(&mut drop);
    assert!(ended.trouble.iter().any(|trouble| trouble.contains("signal: 9")), "{:?}", ended.trouble);
}

/// A parser that hangs, as one would in a chunk that never ends.
fn stopped_is_killed(jvm: &Java) {
    let watch = watch(jvm);
    assert!(is_recording(jvm), "{:?}", watch.plan());
    signal(parser().unwrap(), Signal::STOP);
    let why = await_down(&watch, HANGS_FOR);
    assert!(why.contains("timed out"), "{why}");
    assert_eq!(parser(), None);
    assert!(!is_recording(jvm), "nobody reads what the JVM records");
    watch.stop(&mut drop);
}

fn signal(process: u32, signal: Signal) {
    kill_process(rustix::process::Pid::from_raw(process as i32).unwrap(), signal).unwrap();
}

/// Whether the JVM's Flight Recorder has a recording of ours.
fn is_recording(jvm: &Java) -> bool {
    let jcmd = jvm.home().join("bin/jcmd");
    let output = Command::new(jcmd)
        .args([&jvm.pid().to_string(), "JFR.check"])
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.contains("ecording"), "{output}");
    output.contains("brokerscope")
}
