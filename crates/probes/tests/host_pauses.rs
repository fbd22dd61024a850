//! What a guest sees of its hypervisor's pauses.
//!
//! `vmtest/pause` boots it, starts this there and obeys its output: `host: …`. Elsewhere it says loudly that it did not
//! run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "live/gate.rs"]
mod gate;
#[path = "live/watched.rs"]
mod watched;

use std::fs;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use model::{CpuGap, CpuGapKind, Event as Row};
use probes::{Event, Facts, Plan, Probes, Purpose, Target};
use watched::Watch;

const GIVE_UP: Duration = Duration::from_secs(60);
/// An emulated machine is sometimes slower than its host's clock.
const TOLERANCE_MS: i64 = 150;

#[test]
fn guest_reports_the_cpu_time_that_its_hypervisor_takes() {
    if !gate::is_open() || std::env::var_os("BROKERSCOPE_HOST_PAUSES").is_none() {
        eprintln!("NOT RUN: vmtest/pause runs it in a virtual machine");
        return;
    }
    // Only the necessary hooks: on an emulated CPU, every program takes long to load.
    let mut facts = Facts::survey();
    facts.tracepoints.clear();
    facts.functions.refused = Some("this test does without".to_owned());
    let plan = Plan::choose(&facts);
    assert!(plan.uses(Purpose::CpuGaps), "{:#?}", plan.hooks);
    let probes = Probes::attach(&plan, &Target { pid: std::process::id(), stacks: true }).unwrap();
    assert_eq!(probes.plan(), &plan, "the kernel refused something");
    let mut watch = Watch::by(probes, GIVE_UP);
    quiet(&mut watch);
    stopped_process(&mut watch);
    most_of_the_time(&mut watch);
    stopped_by_the_monitor(&mut watch);
    let losses = watch.probes.losses();
    assert!(!losses.has_lost_events(), "{losses:?}");
}

fn gaps(watch: &Watch) -> Vec<&CpuGap> {
    let gaps = watch.events.iter().filter_map(|event| match event {
        Event::Row(Row::CpuGap(gap)) if gap.kind == CpuGapKind::Gap => Some(&**gap),
        _ => None,
    });
    gaps.collect()
}

/// How long all CPUs were away at the same time, in milliseconds.
fn all_away_ms(watch: &Watch) -> i64 {
    let of = |cpu| gaps(watch).into_iter().filter(move |gap| gap.cpu == cpu);
    let both =
        of(0).flat_map(|one| of(1).map(move |other| one.end.min(other.end) - one.start.max(other.start)));
    both.map(|both| both.at_least_zero().0 / 1_000_000).sum()
}

fn poll_for(watch: &mut Watch, time: Duration) {
    let end = Instant::now() + time;
    let Watch { probes, events, .. } = watch;
    while Instant::now() < end {
        probes.poll(Duration::from_millis(50), &mut |event| events.push(event)).unwrap();
    }
}

/// While nothing happens, the machine is not paused: an emulated one may miss a moment.
fn quiet(watch: &mut Watch) {
    poll_for(watch, Duration::from_secs(2));
    let away = all_away_ms(watch);
    eprintln!("idle: {} gaps, all CPUs away for {away} ms", gaps(watch).len());
    assert!(away < TOLERANCE_MS, "{:#?}", gaps(watch));
    watch.events.clear();
}

/// Starts a thread that never leaves CPU 0 until the flag is set.
fn burner(stop: &Arc<AtomicBool>) -> (thread::JoinHandle<()>, u32) {
    let (sender, tid) = std::sync::mpsc::channel();
    let stop = Arc::clone(stop);
    let burn = move || {
        // SAFETY: a local set of CPUs, valid for its size; the calls take nothing else.
        let tid = unsafe {
            let mut cpus: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut cpus);
            assert_eq!(libc::sched_setaffinity(0, size_of_val(&cpus), &raw const cpus), 0);
            libc::gettid() as u32
        };
        sender.send(tid).unwrap();
        while !black_box(stop.load(Ordering::Relaxed)) {}
    };
    let thread = thread::Builder::new().name("test-burns".into()).spawn(burn).unwrap();
    (thread, tid.recv().unwrap())
}

/// A signal stops qemu: the guest's clock goes on, all its CPUs are away, and the thread on one of them is known.
fn stopped_process(watch: &mut Watch) {
    let stop = Arc::default();
    let (burner, tid) = burner(&stop);
    poll_for(watch, Duration::from_millis(300));
    watch.events.clear();
    println!("host: process 0.4");
    watch.until("gap of both CPUs", |watch| all_away_ms(watch) >= 300);
    stop.store(true, Ordering::Relaxed);
    burner.join().unwrap();
    let away = all_away_ms(watch);
    eprintln!("qemu stopped for 400 ms: all CPUs away for {away} ms");
    assert!((400 - TOLERANCE_MS..400 + 2 * TOLERANCE_MS).contains(&away), "{:#?}", gaps(watch));
    let longest = gaps(watch).into_iter().filter(|gap| gap.cpu == 0).max_by_key(|gap| gap.length()).unwrap();
    assert_eq!((longest.tid, &*longest.thread, longest.cpus), (Some(tid), "test-burns", 2));
    watch.events.clear();
}

/// Like a limited or crowded host: 80 ms of each 130, ten times.
fn most_of_the_time(watch: &mut Watch) {
    println!("host: most 0.08 10");
    watch.until("gaps of both CPUs", |watch| all_away_ms(watch) >= 500);
    poll_for(watch, Duration::from_secs(1));
    let away = all_away_ms(watch);
    eprintln!("qemu stopped for 80 ms ten times: {} gaps, all CPUs away for {away} ms", gaps(watch).len());
    assert!((500..1_500).contains(&away), "{:#?}", gaps(watch));
    watch.events.clear();
}

/// The monitor stops the guest's clocks too: nothing was slow by them, and only the hardware clock, the host's, shows
/// the pause.
fn stopped_by_the_monitor(watch: &mut Watch) {
    let clocks = || {
        let rtc_s: u64 =
            fs::read_to_string("/sys/class/rtc/rtc0/since_epoch").unwrap().trim().parse().unwrap();
        (Instant::now(), rtc_s)
    };
    let (before, rtc_before) = clocks();
    println!("host: monitor 5");
    let end = before + Duration::from_secs(20);
    let ahead = loop {
        poll_for(watch, Duration::from_millis(500));
        let (now, rtc) = clocks();
        let ahead = (rtc - rtc_before) as f64 - now.duration_since(before).as_secs_f64();
        if ahead > 3.0 || now > end {
            break ahead;
        }
    };
    let away = all_away_ms(watch);
    eprintln!(
        "stopped by the monitor for 5 s: all CPUs away for {away} ms, the hardware clock {ahead:.1} s ahead"
    );
    assert!((3.0..7.0).contains(&ahead), "{ahead}");
    assert!(away < TOLERANCE_MS, "{:#?}", gaps(watch));
}
