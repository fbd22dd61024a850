//! Attaches to one process and prints what the probes report: `watch PID [SECONDS]`.
//!
//! For development; the product is `brokerscope`.

use std::time::{Duration, Instant};

use probes::{Facts, LoadedProbes, Options, Plan, State, Target};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let pid = arguments.next().ok_or("usage: watch PID [SECONDS]")?.parse()?;
    let seconds = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let facts = Facts::survey();
    println!("{} btf={} tracefs={:?} hz={:?}", facts.kernel_release, facts.btf, facts.tracefs, facts.hz);
    let plan = Plan::choose(&facts);
    for hook in &plan.hooks {
        match &hook.state {
            State::Use => println!("{:18} {:?}", hook.purpose.as_str(), hook.mechanism),
            State::Missing { why, remedy } => {
                println!("{:18} MISSING {why} {remedy:?}", hook.purpose.as_str());
            }
        }
    }
    let options = Options { measure: true, ..Options::default() };
    let start = Instant::now();
    let loaded = LoadedProbes::load(&plan, &Target { pid, stacks: true }, &options)?;
    let loaded_at = Instant::now();
    let mut probes = loaded.attach()?;
    println!("loaded in {:?}, attached in {:?}", loaded_at - start, loaded_at.elapsed());
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut events = 0_u64;
    let quiet = std::env::var_os("QUIET").is_some();
    while Instant::now() < end {
        probes.poll(Duration::from_millis(100), &mut |event| {
            events += 1;
            if !quiet {
                println!("{event:?}");
            }
        })?;
    }
    println!("{events} events, {:?}", probes.losses());
    for cost in probes.overhead() {
        let each = cost.run_time_ns.checked_div(cost.run_count).unwrap_or(0);
        println!(
            "{:20} {:>9} runs {each:>6} ns each, {} skipped",
            cost.program, cost.run_count, cost.skipped
        );
    }
    Ok(())
}
