//! A manifest's plan: what was to be seen, and by what means it was, or why not.

use report::explanation::Unobservable;

/// How the plan marks what was seen.
const SEEN: &str = "seen: ";
/// How the plan marks what could not be seen.
const MISSING: &str = "missing: ";
/// How many requests there were and how long they took, of a watch that is always on.
pub const REQUEST_LATENCIES: &str = "request-latencies";
/// Writes to files.
pub const FILE_WRITES: &str = "file-writes";
/// Requests on listeners that are TLS.
#[cfg(feature = "live")]
pub const TLS: &str = "tls-requests";
/// Waits for Java's locks that the JVM records.
#[cfg(feature = "live")]
pub const LOCK_WAITS: &str = "lock-waits";
/// Reads of files.
pub const FILE_READS: &str = "file-reads";
/// How much of what is read comes from the device.
pub const DISK_READS: &str = "disk-reads";
/// Threads off the CPU.
pub const OFF_CPU: &str = "off-cpu";

/// What was to be seen, and by what means it was, or why not.
pub type Plan = [(String, String)];

/// A watch's plan, as a manifest keeps it.
#[cfg(feature = "live")]
pub fn of_watch(plan: &[watch::Purpose]) -> Vec<(String, String)> {
    let line = |of: &watch::Purpose| {
        let outcome = match &of.outcome {
            watch::Outcome::Active(how) => format!("{SEEN}{how}"),
            watch::Outcome::Missing(why) => format!("{MISSING}{why}"),
        };
        (of.purpose.clone(), outcome)
    };
    plan.iter().map(line).collect()
}

/// Reports what was given up because watching cost too much, and has the plan miss it. `known` counts what the plan misses
/// already. Whether there was anything new.
#[cfg(feature = "live")]
pub fn note_shed(plan: &mut Plan, costs: &watch::Costs, known: &mut usize) -> bool {
    let shed = costs.shed_after(*known);
    for (purpose, outcome) in of_watch(&shed) {
        tracing::warn!("{purpose} is not watched from now on: {}", outcome.trim_start_matches(MISSING));
        for (_, now) in plan.iter_mut().filter(|(of, _)| *of == purpose) {
            now.clone_from(&outcome);
        }
    }
    *known += shed.len();
    !shed.is_empty()
}

/// Whether each thing was seen.
pub fn seen(plan: &Plan) -> impl Iterator<Item = (&String, bool)> {
    plan.iter().map(|(what, outcome)| (what, outcome.starts_with(SEEN)))
}

/// Whether something was seen.
pub fn sees(plan: &Plan, purpose: &str) -> bool {
    seen(plan).any(|(what, is_seen)| what == purpose && is_seen)
}

/// What could not be seen, and why.
pub fn missing(plan: &Plan) -> Vec<Unobservable> {
    let missing = plan.iter().filter_map(|(what, outcome)| Some((what, outcome.strip_prefix(MISSING)?)));
    missing.map(|(what, why)| Unobservable { what: what.clone(), why: why.to_owned() }).collect()
}
