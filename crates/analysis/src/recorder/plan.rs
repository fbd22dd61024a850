//! A manifest's plan: what was to be seen, and by what means it was, or why not.

use report::explanation::Unobservable;

/// How the plan marks what was seen.
pub const SEEN: &str = "seen: ";
/// How the plan marks what could not be seen.
pub const MISSING: &str = "missing: ";
/// Writes to files.
pub const FILE_WRITES: &str = "file-writes";
/// Threads off the CPU.
pub const OFF_CPU: &str = "off-cpu";

type Plan = [(String, String)];

/// Whether something was seen.
pub fn sees(plan: &Plan, purpose: &str) -> bool {
    plan.iter().any(|(what, outcome)| what == purpose && outcome.starts_with(SEEN))
}

/// What could not be seen, and why.
pub fn missing(plan: &Plan) -> Vec<Unobservable> {
    let missing = plan.iter().filter_map(|(what, outcome)| Some((what, outcome.strip_prefix(MISSING)?)));
    missing.map(|(what, why)| Unobservable { what: what.clone(), why: why.to_owned() }).collect()
}
