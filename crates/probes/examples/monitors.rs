//! Counts a JVM's contended monitor waits and prints what the probes cost. Runs for some seconds:
//! `monitors PID SECONDS [holders | exit | waits]`. `holders` adds who held the monitors, `exit` does so with the JVM's
//! third probe, `waits` prints each wait with its holder by both methods.

use std::error::Error;
use std::time::{Duration, Instant};

use model::Event;
use probes::Facts;
use probes::jvm::{DEFAULT_MIN_WAIT, JvmFacts, JvmOptions, JvmPlan, JvmProbes, JvmPurpose};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, pid, seconds, rest @ ..] = arguments.as_slice() else {
        return Err("usage: monitors PID SECONDS [holders | exit | waits]".into());
    };
    let (pid, end) = (pid.parse()?, Instant::now() + Duration::from_secs(seconds.parse()?));
    match rest.first().map(String::as_str) {
        Some("waits") => {
            let mut wakeups = attach(pid, true, false, Duration::ZERO)?;
            print_waits(&mut wakeups, &mut attach(pid, true, true, Duration::ZERO)?, end)
        }
        word => count(&mut attach(pid, word.is_some(), word == Some("exit"), DEFAULT_MIN_WAIT)?, end),
    }
}

fn attach(pid: u32, holders: bool, by_exit: bool, min_wait: Duration) -> Result<JvmProbes, Box<dyn Error>> {
    let mut facts = JvmFacts::survey(pid);
    if by_exit {
        facts.owner_at = Err("not wanted".to_owned());
    }
    let plan = JvmPlan::choose(&Facts::survey(), &facts);
    let plan = plan.only(|purpose| purpose != JvmPurpose::MonitorHolders || holders);
    for hook in &plan.hooks {
        eprintln!("{}: {}", hook.purpose.as_str(), hook.describe());
    }
    let options = JvmOptions { measure: true, min_wait, ring_bytes: 1 << 20, ..JvmOptions::default() };
    Ok(JvmProbes::attach(&plan, &options)?)
}

/// Prints the waits of one JVM: thread, ends, and the holder by wake-ups and by the JVM's own probe.
fn print_waits(wakeups: &mut JvmProbes, exits: &mut JvmProbes, end: Instant) -> Result<(), Box<dyn Error>> {
    while Instant::now() < end {
        for (way, probes) in [("wakeups", &mut *wakeups), ("exit", &mut *exits)] {
            probes.poll(Duration::from_millis(20), &mut |event| {
                if let Event::LockWait(wait) = event {
                    let holder = wait.holder.and_then(|holder| holder.tid).unwrap_or(0);
                    println!("{way} {} {} {} {holder}", wait.tid, wait.start.0, wait.end.0);
                }
            })?;
        }
    }
    eprintln!("{:?} {:?}", wakeups.losses(), exits.losses());
    Ok(())
}

fn count(probes: &mut JvmProbes, end: Instant) -> Result<(), Box<dyn Error>> {
    let (mut waits, mut with_holder, mut pauses) = (0_u64, 0_u64, 0_u64);
    while Instant::now() < end {
        probes.poll(Duration::from_millis(50), &mut |event| match event {
            Event::LockWait(wait) => {
                waits += 1;
                with_holder += u64::from(wait.holder.is_some());
            }
            _ => pauses += 1,
        })?;
    }
    println!("{waits} waits, {with_holder} with their holder, {pauses} pauses; {:?}", probes.short_waits());
    println!("{:?}", probes.losses());
    for cost in probes.overhead().iter().filter(|cost| cost.run_count > 0) {
        println!("{}: {} runs, {} ns each", cost.program, cost.run_count, cost.run_time_ns / cost.run_count);
    }
    Ok(())
}
