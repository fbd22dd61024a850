//! Tests a JVM's own probes on a small program, with every installed JDK. The program has known waiters, holders and
//! durations. The JDKs are `java`, and those in `/usr/lib/jvm` of other versions. Needs root, BPF and
//! `BROKERSCOPE_LIVE_TESTS=1`; without that it says loudly that it did not run.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "live/gate.rs"]
mod gate;
#[path = "jvm/program.rs"]
mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use model::{Event, JvmPause, JvmPauseKind, LockWait};
use probes::jvm::{JvmFacts, JvmLosses, JvmMechanism, JvmOptions, JvmPlan, JvmProbes, JvmPurpose};
use probes::{Facts, State};
use program::{Measurement, Program};

/// Tolerance between the program's measurements and the probes': the program reads its clock outside of the wait, and
/// may lose its CPU in between, as few of its threads do.
const NEAR_NS: u64 = 1_000_000;
const TIMEOUT: Duration = Duration::from_secs(120);

#[test]
fn known_monitor_waits_and_pauses_are_reported_once() {
    if !gate::is_open() {
        return;
    }
    for java in javas() {
        eprintln!("{}", java.display());
        with_the_flag(&java, JvmMechanism::Wakeups);
        with_the_flag(&java, JvmMechanism::Probes);
        without_the_flag(&java);
    }
}

/// `java`, and one of each other installed version.
fn javas() -> Vec<PathBuf> {
    if program::is_emulated() {
        return vec![PathBuf::from("java")];
    }
    let mut found = BTreeMap::from([(program::version("java".as_ref()), PathBuf::from("java"))]);
    let homes = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    for java in homes.map(|home| home.path().join("bin/java")).filter(|java| java.exists()) {
        found.entry(program::version(&java)).or_insert(java);
    }
    if found.len() == 1 {
        eprintln!("NOT CHECKED: another JDK than {:?}; there is none in /usr/lib/jvm", found.keys());
    }
    found.into_values().collect()
}

fn with_the_flag(java: &Path, holders: JvmMechanism) {
    let mut program = Program::start(java, &["-XX:+DTraceMonitorProbes"]);
    let mut facts = JvmFacts::survey(program.pid());
    assert_eq!(facts.monitor_probes, Ok(true));
    assert!(facts.owner_at.is_ok(), "{facts:#?}");
    if holders == JvmMechanism::Probes {
        facts.owner_at = Err("as of a JVM that does not say".to_owned());
    } else if !facts.call_registers {
        return eprintln!("NOT CHECKED: holders by wake-ups; this kernel has no bpf_task_pt_regs");
    }
    let plan = JvmPlan::choose(&Facts::survey(), &facts);
    let by = plan.hooks.iter().find(|hook| hook.purpose == JvmPurpose::MonitorHolders);
    assert_eq!(by.map(|hook| hook.mechanism), Some(holders));
    assert!(plan.hooks.iter().all(|hook| hook.state == State::Use), "{:#?}", plan.hooks);
    let options = JvmOptions { min_wait: Duration::ZERO, measure: true, ..JvmOptions::default() };
    let mut probes = JvmProbes::attach(&plan, &options).unwrap();
    assert_eq!(probes.plan(), &plan, "something could not be attached");

    let measured = program.run();
    let events = events_until_gc(&mut probes, &measured);
    check_waits(&measured, &waits(&events));
    check_pauses(&measured, &events);
    assert_eq!(probes.losses(), JvmLosses::default());
    report_costs(&probes);
    // Detached from a process that runs on, and attached again.
    drop(probes);
    JvmProbes::attach(&plan, &JvmOptions::default()).unwrap();
    program.end();
}

fn without_the_flag(java: &Path) {
    let mut program = Program::start(java, &[]);
    let mut facts = JvmFacts::survey(program.pid());
    assert_eq!(facts.monitor_probes, Ok(false));
    let plan = JvmPlan::choose(&Facts::survey(), &facts);
    assert!(!plan.uses(JvmPurpose::MonitorWaits) && plan.uses(JvmPurpose::Collections), "{plan:#?}");
    // The plan believes the facts: the probes attach all the same, but nothing fires.
    facts.monitor_probes = Ok(true);
    let plan = JvmPlan::choose(&Facts::survey(), &facts);
    let options = JvmOptions { min_wait: Duration::ZERO, ..JvmOptions::default() };
    let mut probes = JvmProbes::attach(&plan, &options).unwrap();
    let measured = program.run();
    let events = events_until_gc(&mut probes, &measured);
    assert_eq!(waits(&events), Vec::<&LockWait>::new());
    check_pauses(&measured, &events);
    program.end();
}

/// Reads events until the collection, which comes last.
fn events_until_gc(probes: &mut JvmProbes, measured: &[Measurement]) -> Vec<Event> {
    let gc = measured.iter().find(|it| it.role == "gc").unwrap();
    let end = Instant::now() + TIMEOUT;
    let mut events = Vec::new();
    let is_safepoint = |event: &Event| matches!(event, Event::JvmPause(it) if it.kind == JvmPauseKind::Safepoint && ns(it.end) > gc.start_ns);
    while !events.iter().any(is_safepoint) {
        assert!(Instant::now() < end, "{:?} {events:#?}", probes.losses());
        probes.poll(Duration::from_millis(10), &mut |event| events.push(event)).unwrap();
    }
    events
}

/// The probes' own clock, because no other was set.
fn ns(time: model::Nanos) -> u64 {
    u64::try_from(time.0).unwrap()
}

fn waits(events: &[Event]) -> Vec<&LockWait> {
    let waits = events.iter().filter_map(|event| match event {
        Event::LockWait(wait) => Some(&**wait),
        _ => None,
    });
    waits.collect()
}

fn check_waits(measured: &[Measurement], waits: &[&LockWait]) {
    let threads: BTreeSet<u32> = measured.iter().map(|it| it.tid).collect();
    let waits: Vec<_> = waits.iter().filter(|wait| threads.contains(&wait.tid)).collect();
    let (mut checked, mut near, mut known) = (0, 0, 0);
    for round in measured.split(|it| it.role == "round") {
        // In the order in which they had the lock: each got it from the one before.
        for (before, waiter) in round.iter().zip(round.iter().skip(1)) {
            if waiter.role != "waiter" {
                continue;
            }
            let own: Vec<_> = waits.iter().filter(|wait| wait.tid == waiter.tid).collect();
            let [wait] = own[..] else { panic!("{waiter:?}: {own:#?}") };
            assert!(waiter.end_ns - waiter.start_ns > NEAR_NS, "{waiter:?}");
            assert!(waiter.start_ns < ns(wait.start) && wait.start < wait.end, "{waiter:?}: {wait:?}");
            assert!(ns(wait.end) < waiter.end_ns, "{waiter:?}: {wait:?}");
            let apart_ns = (ns(wait.start) - waiter.start_ns).max(waiter.end_ns - ns(wait.end));
            near += usize::from(apart_ns < NEAR_NS);
            assert_eq!((&*wait.lock.class, &*wait.thread), ("Contend$Lock", "a-thread-that-w"));
            // A thread that was awake just then, because of a timer, is let in unseen.
            let holder = wait.holder.as_ref().and_then(|holder| holder.tid);
            assert!(holder.is_none_or(|tid| tid == before.tid), "{before:?}: {wait:?}");
            known += usize::from(holder.is_some());
            checked += 1;
        }
    }
    assert_eq!(checked, 12, "{measured:#?}");
    assert!(known * 2 > checked, "{known} of {checked} have a holder: {waits:#?}");
    assert!(near * 2 > checked || program::is_emulated(), "{near} of {checked}: {measured:#?} {waits:#?}");
    let monitors: BTreeSet<u64> = waits.iter().map(|wait| wait.lock.address).collect();
    assert!(!monitors.contains(&0), "{monitors:?}");
}

/// Checks that each collection is within a safepoint. The one that the program requested must be there.
fn check_pauses(measured: &[Measurement], events: &[Event]) {
    let pauses = events.iter().filter_map(|event| match event {
        Event::JvmPause(pause) => Some(&**pause),
        _ => None,
    });
    let (safepoints, collections): (Vec<&JvmPause>, Vec<&JvmPause>) =
        pauses.partition(|pause| pause.kind == JvmPauseKind::Safepoint);
    let gc = measured.iter().find(|it| it.role == "gc").unwrap();
    let requested = collections.iter().find(|it| gc.start_ns < ns(it.start) && ns(it.end) < gc.end_ns);
    let requested = requested.unwrap_or_else(|| panic!("{gc:?} {events:#?}"));
    assert_eq!(&*requested.cause, "full collection");
    for collection in &collections {
        let around = |it: &&&JvmPause| it.start < collection.start && collection.end < it.end;
        let safepoint =
            safepoints.iter().find(around).unwrap_or_else(|| panic!("{collection:?} {safepoints:#?}"));
        let reached = safepoint.start + safepoint.time_to_safepoint.unwrap();
        assert!((safepoint.start..collection.start).contains(&reached), "{safepoint:?}");
        assert_eq!(safepoint.operation, collection.operation);
        assert!(!safepoint.operation.is_empty());
    }
}

fn report_costs(probes: &JvmProbes) {
    for cost in probes.overhead().iter().filter(|cost| cost.run_count > 0) {
        eprintln!("{}: {} runs, {} ns each", cost.program, cost.run_count, cost.run_time_ns / cost.run_count);
    }
}
