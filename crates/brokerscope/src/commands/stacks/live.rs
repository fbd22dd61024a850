//! Profiles a running process.

use std::fs;
use std::time::{Duration, Instant};

use analysis::{Stop, source};
use anyhow::Context as _;
use broker::Broker;
use model::{CpuState, Nanos};
use page::flame_graph::{FoldedStacks, Header};
use probes::profile::{Java, Profile, ProfileLosses, ProfileOptions, ProfileResult, call_number};
use report::quantity::{format_count, format_count_of};
use watch::Process;

use super::inside::Inside;
use super::{StackFilter, Stacks, conditions, states};

const POLL_INTERVAL: Duration = Duration::from_millis(100);

pub(super) fn profile(args: &Stacks) -> anyhow::Result<super::Profile> {
    let stop = Stop::after(args.source.length.duration)?;
    let (pid, name) = process(args)?;
    let options = options(args, pid);
    let profile = Profile::attach(&options).with_context(|| format!("{name}: no profile can be taken"))?;
    tracing::info!("profiling {name}{}", args.source.length.until());
    let (started, process) = (Instant::now(), Process::of(pid));
    while !stop.should_stop() && !process.is_gone() {
        std::thread::sleep(POLL_INTERVAL);
    }
    let took = Nanos(i64::try_from(started.elapsed().as_nanos()).unwrap_or(i64::MAX));
    let profiled = profile.finish()?;
    let mut missing = missing(&profiled, pid);
    if process.is_gone() {
        missing.push(format!("{name} is gone: it was profiled until then"));
    }
    let header = Header { title: title(args, &name), notes: vec![describe_method(args, took)], missing };
    let mut stacks = FoldedStacks::default();
    let filter = StackFilter { args, in_calls: profiled.in_calls && !options.calls.is_empty() };
    profiled.stacks.iter().filter(|spent| filter.admits(spent)).for_each(|spent| stacks.add(spent));
    Ok(super::Profile { stacks, header })
}

/// Finds the process and its name: a broker unless the user names another process.
fn process(args: &Stacks) -> anyhow::Result<(u32, String)> {
    if let Some(pid) = args.target.pid {
        let command = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        if Broker::of_pid(pid).is_err() && !command.is_empty() {
            return Ok((pid, format!("process {pid} ({})", command.trim_end())));
        }
    }
    let broker = source::broker(args.target.pid)?;
    Ok((broker.pid, format!("broker {}", broker.pid)))
}

fn options(args: &Stacks, pid: u32) -> ProfileOptions {
    let calls = match &args.inside {
        Some(Inside::Call(_, calls)) => calls.iter().filter_map(|name| call_number(name)).collect(),
        _ => Vec::new(),
    };
    let min = Duration::from_nanos(args.min.as_length_ns());
    let shows = |state| states(args).contains(&state);
    ProfileOptions {
        pid,
        on_cpu_hz: shows(CpuState::On).then_some(args.frequency),
        off_cpu_from: shows(CpuState::Off).then_some(min),
        calls,
        by_thread: args.each_thread,
        measure: false,
    }
}

fn title(args: &Stacks, name: &str) -> String {
    format!("Where {name} spends its time{}", conditions(args))
}

fn describe_method(args: &Stacks, took: Nanos) -> String {
    let mut parts = vec![format!("{took} of observation")];
    if states(args).contains(&CpuState::On) {
        parts.push(format!("on CPU: {} samples a second on each CPU", args.frequency));
    }
    if states(args).contains(&CpuState::Off) {
        let min = if args.min > Nanos::ZERO { format!(" from {}", args.min) } else { String::new() };
        parts.push(format!("off CPU: every interval{min}, including those still open at the end"));
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    parts.push(format!("Linux {}", release.trim_end()));
    parts.join("; ")
}

fn missing(profiled: &ProfileResult, pid: u32) -> Vec<String> {
    let mut missing = format_losses(&profiled.losses);
    missing.extend(java(&profiled.java, pid));
    missing
}

fn format_losses(losses: &ProfileLosses) -> Vec<String> {
    let ProfileLosses { stacks, uncounted, uncounted_time, intervals, samples } = *losses;
    let mut lines = Vec::new();
    if stacks > 0 {
        lines.push(format!("{} times the stack map was full: see [stack lost]", format_count(stacks)));
    }
    if uncounted > 0 {
        lines.push(format!(
            "lost {uncounted_time} in {}: the map of totals was full",
            format_count_of(uncounted, "piece")
        ));
    }
    if intervals + samples > 0 {
        lines.push(format!("lost {}", format_count_of(intervals + samples, "interval or sample")));
    }
    lines
}

/// Explains in one line why Java's frames are missing, and what to do.
fn java(java: &Java, pid: u32) -> Option<String> {
    if !java.is_jvm || (java.frame_pointers && java.no_perf_map.is_none() && !java.unnamed) {
        return None;
    }
    let mut lacks = Vec::new();
    if !java.frame_pointers {
        lacks.push("start the broker with -XX:+PreserveFramePointer".to_owned());
    }
    if let Some(why) = &java.no_perf_map {
        lacks.push(format!("run `jcmd {pid} Compiler.perfmap` (JDK 17) while it is watched ({why})"));
    }
    if java.no_perf_map.is_none() && java.unnamed {
        lacks.push(format!(
            "run `jcmd {pid} Compiler.perfmap` again: [java] was compiled after it wrote its list"
        ));
    }
    Some(format!("for Java's own frames, {}", lacks.join(", and ")))
}
