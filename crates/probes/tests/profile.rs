//! A profile of this very process on this kernel: threads that spend their time in known places.
//!
//! Needs root, BPF and `BROKERSCOPE_LIVE_TESTS=1`; without that it says loudly that it did not run, and with it
//! anything that is missing is a failure.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

#[path = "live/gate.rs"]
mod gate;

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use model::{CpuState, StackTime};
use probes::profile::{Profile, ProfileOptions, ProfileResult, Sampler};

const WAIT: Duration = Duration::from_millis(300);
/// CPU time of the running thread.
const BURNT: Duration = Duration::from_millis(200);

#[test]
fn profile_finds_threads_where_they_spend_their_time() {
    if !gate::is_open() {
        return;
    }
    everything();
    only_what_is_inside_a_system_call();
    single_samples();
    threads_that_ended();
}

fn options() -> ProfileOptions {
    ProfileOptions {
        pid: std::process::id(),
        on_cpu_hz: Some(199),
        off_cpu_from: Some(Duration::ZERO),
        calls: Vec::new(),
        by_thread: false,
        measure: true,
    }
}

/// Starts three threads with known states. One runs for a known time, one waits within write(2) for a reader, one
/// within read(2) for a writer. The last one is still waiting when the profile ends.
fn act() -> JoinHandle<()> {
    let runner = spawn_named("test-runs", burn);
    let (mut filled, mut full) = pipe();
    let writer = spawn_named("test-writes", move || full.write_all(&vec![7; 200 << 10]).unwrap());
    let (mut empty, waker) = pipe();
    let reader = spawn_named("test-reads", move || assert_eq!(empty.read(&mut [0; 8]).unwrap(), 0));
    wait_until_asleep("test-writes");
    wait_until_asleep("test-reads");
    thread::sleep(WAIT);
    filled.read_exact(&mut vec![0; 200 << 10]).unwrap();
    writer.join().unwrap();
    runner.join().unwrap();
    // Kept open until the profile is over.
    spawn_named("test-holds", move || {
        thread::sleep(WAIT);
        drop(waker);
        reader.join().unwrap();
    })
}

/// Returns once the thread with this name sleeps.
fn wait_until_asleep(name: &str) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_asleep(name) {
        assert!(Instant::now() < end, "{name} does not wait");
        thread::sleep(Duration::from_millis(1));
    }
}

fn is_asleep(name: &str) -> bool {
    let threads = fs::read_dir("/proc/self/task").unwrap().flatten();
    let mut stats = threads.filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok());
    stats.any(|stat| stat.contains(&format!("({name}) S")))
}

#[inline(never)]
fn burn() {
    while cpu_time() < BURNT {
        // Makes no calls: their time would belong to another function.
        let mut i = 0_u32;
        while i < 1_000_000 {
            i += 1;
        }
        black_box(i);
    }
}

/// A pipe's reading and writing end.
fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: the pointer is to room for two descriptors.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: the kernel has just returned these descriptors and nothing else owns them.
    ends.map(|end| unsafe { File::from_raw_fd(end) }).into()
}

fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the pointer is to a local value that the call fills in.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn spawn_named(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).unwrap()
}

fn profile(options: &ProfileOptions) -> ProfileResult {
    let profile = Profile::attach(options).unwrap();
    let last = act();
    let profiled = profile.finish().unwrap();
    last.join().unwrap();
    assert_eq!(profiled.losses, probes::profile::ProfileLosses::default());
    profiled
}

fn of<'a>(profiled: &'a ProfileResult, thread: &str, state: CpuState) -> Vec<&'a StackTime> {
    profiled.stacks.iter().filter(|spent| &*spent.thread == thread && spent.state == state).collect()
}

fn seconds(spent: &[&StackTime]) -> f64 {
    spent.iter().map(|spent| spent.time.0 as f64 / 1e9).sum()
}

fn everything() {
    let profiled = profile(&options());
    let (on, off) = (of(&profiled, "test-runs", CpuState::On), of(&profiled, "test-runs", CpuState::Off));
    assert!(
        on.iter().all(|spent| spent.count > 0 && spent.time.0 == spent.count as i64 * 5_025_125),
        "{on:?}"
    );
    // A sampling clock misses ticks while the machine itself does not run, as with emulation.
    assert!((0.02..0.3).contains(&seconds(&on)), "{on:#?} {off:#?}");
    let burning = on.iter().filter(|spent| spent.stack.contains("burn"));
    assert!(seconds(&burning.copied().collect::<Vec<_>>()) > seconds(&on) / 2.0, "{on:#?}");

    let writes = of(&profiled, "test-writes", CpuState::Off);
    let waits = writes.iter().filter(|spent| spent.stack.contains("vfs_write_[k];")).copied();
    let waits: Vec<_> = waits.collect();
    assert!(seconds(&waits) > 0.25, "{writes:#?}");
    let stack = &waits[0].stack;
    assert!(stack.ends_with("__schedule_[k]") && stack.contains("pipe_write_[k]"), "{stack}");
    assert!(stack.split(';').next().is_some_and(|outermost| !outermost.ends_with("_[k]")), "{stack}");
    // It never returned, so it is counted up to the end.
    let reads = of(&profiled, "test-reads", CpuState::Off);
    assert!(
        seconds(&reads) > 0.25 && reads.iter().any(|spent| spent.stack.contains("pipe_read_[k]")),
        "{reads:#?}"
    );
    assert!(
        profiled.costs.iter().all(|cost| cost.run_count > 0 && cost.run_time_ns > 0),
        "{:?}",
        profiled.costs
    );
}

fn only_what_is_inside_a_system_call() {
    let calls = vec![libc::SYS_write as i32, libc::SYS_writev as i32];
    let started = Instant::now();
    let profiled = profile(&ProfileOptions { calls, by_thread: true, ..options() });
    let took = started.elapsed().as_secs_f64();
    if !profiled.in_calls {
        assert!(before_5_15(), "this kernel can distinguish system calls");
        assert!(!of(&profiled, "test-reads", CpuState::Off).is_empty(), "all is there, to be chosen from");
        eprintln!("NOT CHECKED: system calls cannot be distinguished before Linux 5.15");
        return;
    }
    for spent in &profiled.stacks {
        // A thread that yields its CPU on the way back is still in the call, but in none of its functions.
        let is_inside = ["write_[k];", "exit_to_user_mode"].iter().any(|frame| spent.stack.contains(frame));
        assert!(is_inside && spent.tid.is_some(), "{spent:?}");
        assert!((spent.time.0 as f64) < took * 1e9, "{spent:?}");
    }
    assert!(seconds(&of(&profiled, "test-writes", CpuState::Off)) > 0.25, "{:#?}", profiled.stacks);
    assert!(of(&profiled, "test-runs", CpuState::On).is_empty());
    assert!(of(&profiled, "test-reads", CpuState::Off).is_empty());
}

fn before_5_15() -> bool {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release.split(['.', '-']).map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap(), numbers.next().unwrap()) < (5, 15)
}

/// More threads in sequence than fit at once.
fn threads_that_ended() {
    let profile = Profile::attach(&ProfileOptions { on_cpu_hz: None, ..options() }).unwrap();
    for _ in 0..9_000 {
        thread::spawn(|| thread::sleep(Duration::from_micros(1))).join().unwrap();
    }
    assert_eq!(profile.finish().unwrap().losses.intervals, 0);
}

fn single_samples() {
    let mut clock = Sampler::attach(std::process::id(), 199, model::ClockOffset::from_ns(0)).unwrap();
    act().join().unwrap();
    let mut samples = Vec::new();
    clock.poll(&mut |sample| samples.push(sample)).unwrap();
    assert_eq!(clock.losses(), probes::profile::ProfileLosses::default());
    samples.retain(|sample| &*sample.thread == "test-runs");
    assert!(samples.len() > 3, "{samples:#?}");
    assert!(samples.iter().all(|sample| sample.pid == std::process::id() && sample.period.0 == 5_025_125));
    assert!(samples.iter().filter(|sample| sample.stack.contains("burn")).count() > samples.len() / 2);
    let before = samples.len();
    clock.poll(&mut |sample| samples.push(sample)).unwrap();
    samples.retain(|sample| &*sample.thread == "test-runs");
    assert_eq!(samples.len(), before, "a sample was delivered twice");
}
