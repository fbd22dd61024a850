//! A manifest's plan: each purpose, with how it was served or why it was not.

use report::explanation::Unobservable;

/// Marks a purpose that was served.
const SEEN: &str = "seen: ";
/// Marks a purpose that could not be served.
const MISSING: &str = "missing: ";
/// Counts and latencies of requests, from an always-on watch.
pub const REQUEST_LATENCIES: &str = "request-latencies";
/// File writes.
pub const FILE_WRITES: &str = "file-writes";
/// Requests on TLS listeners.
#[cfg(feature = "live")]
pub const TLS: &str = "tls-requests";
/// Waits for Java locks, recorded by the JVM.
#[cfg(feature = "live")]
pub const LOCK_WAITS: &str = "lock-waits";
/// File reads.
pub const FILE_READS: &str = "file-reads";
/// The share of reads that comes from the device.
pub const DISK_READS: &str = "disk-reads";
/// Threads off the CPU.
pub const OFF_CPU: &str = "off-cpu";

/// Each purpose, with how it was served or why it was not.
pub type Plan = [(String, String)];

/// Converts a watch's plan to a manifest's.
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

/// Reports purposes that were shed because watching cost too much.
/// Marks them as missing in the plan. `known` counts those that are marked already. Returns whether there were new
/// ones.
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

/// Each purpose, and whether it was served.
pub fn purposes(plan: &Plan) -> impl Iterator<Item = (&String, bool)> {
    plan.iter().map(|(what, outcome)| (what, outcome.starts_with(SEEN)))
}

/// Whether a purpose was served.
pub fn sees(plan: &Plan, purpose: &str) -> bool {
    purposes(plan).any(|(what, is_seen)| what == purpose && is_seen)
}

/// Purposes that could not be served, and why.
pub fn missing(plan: &Plan) -> Vec<Unobservable> {
    let missing = plan.iter().filter_map(|(what, outcome)| Some((what, outcome.strip_prefix(MISSING)?)));
    missing.map(|(what, why)| Unobservable { what: what.clone(), why: why.to_owned() }).collect()
}
