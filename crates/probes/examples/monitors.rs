//! Counts a JVM's contended waits for monitors for some seconds, and says what the probes cost:
//! `monitors PID SECONDS [holders]`.

use std::error::Error;
use std::time::{Duration, Instant};

use probes::Facts;
use probes::jvm::{JvmEvent, JvmFacts, JvmOptions, JvmPlan, JvmProbes, JvmPurpose};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, pid, seconds, rest @ ..] = arguments.as_slice() else {
        return Err("usage: monitors PID SECONDS [holders]".into());
    };
    let holders = rest.iter().any(|word| word == "holders");
    let plan = JvmPlan::choose(&Facts::survey(), &JvmFacts::survey(pid.parse()?));
    let plan = plan.only(|purpose| purpose != JvmPurpose::MonitorHolders || holders);
    let mut probes = JvmProbes::attach(&plan, &JvmOptions { measure: true, ..JvmOptions::default() })?;
    let end = Instant::now() + Duration::from_secs(seconds.parse()?);
    let (mut waits, mut held, mut pauses) = (0_u64, 0_u64, 0_u64);
    while Instant::now() < end {
        probes.poll(Duration::from_millis(50), &mut |event| match event {
            JvmEvent::MonitorWait(wait) => {
                waits += 1;
                held += u64::from(wait.holder.is_some());
            }
            JvmEvent::Pause(_) => pauses += 1,
        })?;
    }
    println!("{waits} waits, {held} with their holder, {pauses} pauses; {:?}", probes.short_waits());
    println!("{:?}", probes.losses());
    for cost in probes.overhead().iter().filter(|cost| cost.run_count > 0) {
        println!("{}: {} runs, {} ns each", cost.program, cost.run_count, cost.run_time_ns / cost.run_count);
    }
    Ok(())
}
