//! Compares a recording read while a JVM makes it with the file that it leaves. Runs a real JVM of every JDK of this
//! machine.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jvm::jfr::{ChunkFolder, JfrEvent, Recording, Tail};
use model::clock::{ClockOffset, ClockPair};
use model::{LockKind, LockWait, Nanos};

/// Tolerance between the two clocks at one moment.
const CLOCK: Nanos = Nanos::from_millis(1);

/// Rounds that a JVM runs: nine of about 0.3 s each, for several flushes.
const ROUNDS: &str = "9";

#[test]
fn followed_recording_matches_the_finished_file() {
    if std::env::var_os("BROKERSCOPE_LIVE_TESTS").is_none_or(|value| value != "1") {
        eprintln!("NOT RUN: needs a JDK and BROKERSCOPE_LIVE_TESTS=1");
        return;
    }
    let jdks = jdks();
    assert!(!jdks.is_empty(), "no JDK in JAVA_HOME or /usr/lib/jvm");
    for jdk in jdks {
        println!("{}", jdk.display());
        follow(&jdk);
    }
}

/// Every JDK of 17 or later, each once.
fn jdks() -> Vec<PathBuf> {
    let installed = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path());
    let all = std::env::var_os("JAVA_HOME").map(PathBuf::from).into_iter().chain(installed);
    let mut homes: Vec<_> = all.filter_map(|home| home.canonicalize().ok()).collect();
    homes.retain(|home| home.join("bin/jfr").is_file());
    homes.sort();
    homes.dedup();
    homes
}

/// Ends the JVM even if the test fails.
struct Jvm(Child);

impl Drop for Jvm {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn follow(jdk: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let (repository, file) = (folder.path().join("repository"), folder.path().join("whole.jfr"));
    let offset = ClockOffset::at(now());
    let mut jvm = start(jdk, &repository, &file);
    let mut tail = Tail::of(jvm.0.id(), offset, Nanos::MIN);
    let mut chunks = None;
    let mut followed = Vec::new();
    while jvm.0.try_wait().unwrap().is_none() {
        if chunks.is_none() {
            let mut folders = fs::read_dir(&repository).into_iter().flatten().flatten();
            let folder =
                folders.find(|folder| fs::read_dir(folder.path()).is_ok_and(|mut dir| dir.next().is_some()));
            chunks = folder.map(|folder| ChunkFolder::of(&folder.path()));
        }
        if let Some(chunks) = &mut chunks {
            for (name, file) in chunks.open_new().unwrap() {
                tail.add(name, file);
            }
        }
        tail.poll(now(), &mut |observed| followed.push(observed)).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    let early = followed.len();
    // The folder has been removed, but the chunk is still open here.
    let _ = tail.poll(now(), &mut |observed| followed.push(observed));
    tail.finish(&mut |observed| followed.push(observed));
    println!("{:?}, {early} of {} read while it ran", tail.summary(), followed.len());
    assert!(early > followed.len() / 2, "{early} of {} read while it ran", followed.len());
    let mut whole = Vec::new();
    let mut recording = Recording::of(jvm.0.id());
    recording.read(&fs::File::open(file).unwrap(), &mut |observed| whole.push(observed)).unwrap();
    assert_same(&followed, &whole);
    let mut output = String::new();
    jvm.0.stdout.take().unwrap().read_to_string(&mut output).unwrap();
    assert_in_time(&waits(&followed), &output, offset);
}

fn start(jdk: &Path, repository: &Path, file: &Path) -> Jvm {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jfr");
    let recording = format!(
        "-XX:StartFlightRecording=filename={},settings={}",
        file.display(),
        folder.join("locks.jfc").display()
    );
    let mut command = Command::new(jdk.join("bin/java"));
    command.env_remove("JAVA_TOOL_OPTIONS").env_remove("JDK_JAVA_OPTIONS");
    command.args(["-Xmx64m", "-Xlog:disable"]).arg(recording);
    command.arg(format!("-XX:FlightRecorderOptions=repository={}", repository.display()));
    command.arg(folder.join("Contended.java")).arg(ROUNDS);
    Jvm(command.stdout(Stdio::piped()).spawn().unwrap())
}

fn now() -> ClockPair {
    let monotonic = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let realtime = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    ClockPair {
        monotonic_ns: monotonic.tv_sec as u64 * 1_000_000_000 + monotonic.tv_nsec as u64,
        realtime_ns: i64::try_from(realtime.as_nanos()).unwrap(),
    }
}

fn waits(all: &[JfrEvent]) -> Vec<&LockWait> {
    let waits = all.iter().filter_map(|observed| match observed {
        JfrEvent::LockWait(wait) => Some(wait),
        JfrEvent::Pause(_) | JfrEvent::HandlerCall(_) => None,
    });
    let mut waits: Vec<_> = waits.collect();
    waits.sort_by_key(|wait| (wait.start, wait.tid));
    waits
}

/// Checks that the waits are the same, except those of the last moment. The JVM may have flushed and removed these at
/// once.
fn assert_same(followed: &[JfrEvent], whole: &[JfrEvent]) {
    let (followed, whole) = (waits(followed), waits(whole));
    assert!(followed.len() > 20, "{} waits", followed.len());
    assert!(followed.len() + 8 >= whole.len(), "{} of {} waits", followed.len(), whole.len());
    for (followed, whole) in followed.iter().zip(whole) {
        assert!(apart(followed.start, whole.start) <= CLOCK, "{followed:?} {whole:?}");
        let shifted =
            LockWait { start: whole.start, end: whole.start + followed.length(), ..(*followed).clone() };
        assert_eq!(&shifted, whole);
    }
}

/// Checks that each monitor wait lies within times that its thread itself measured. Compares by the clock of the
/// kernel's side. The JVM may lack a wait: it is not recorded if a busy machine made it shorter than the threshold.
fn assert_in_time(followed: &[&LockWait], output: &str, offset: ClockOffset) {
    let nanos = |ns: &str| offset.from_monotonic(ns.parse().unwrap());
    let own = output.lines().filter_map(|line| line.split_once(' '));
    let own: Vec<_> = own.map(|(requested, acquired)| (nanos(requested), nanos(acquired))).collect();
    let monitors: Vec<_> =
        followed.iter().filter(|wait| &*wait.lock.class == "Contended$PartitionLog").collect();
    assert!(monitors.len() > 4, "{} waits", monitors.len());
    let mut furthest = Nanos::ZERO;
    for wait in &monitors {
        assert_eq!(wait.lock.kind, LockKind::Monitor);
        let distances = own.iter().map(|own| (own.0 - wait.start).max(wait.end - own.1));
        let distance = distances.min().expect("the threads print their times");
        assert!(distance <= CLOCK, "{wait:?} within {own:?}");
        furthest = furthest.max(distance);
    }
    println!("{} waits begin and end within {furthest} of what their thread saw", monitors.len());
}

fn apart(a: Nanos, b: Nanos) -> Nanos {
    (a - b).max(b - a)
}
