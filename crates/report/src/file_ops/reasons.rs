//! What an operation's time was spent on, as tables show it.

use diagnose::Reason;

use crate::escape::escape;
use crate::quantity::NONE;

/// The longest of them; the kernel function with it where it has no name of its own.
pub(crate) fn longest(reasons: &[Reason]) -> String {
    reasons.first().map_or_else(|| NONE.to_owned(), one)
}

/// All of them, the longest first.
pub(crate) fn all(reasons: &[Reason]) -> String {
    let reasons = reasons.iter().map(one).collect::<Vec<_>>();
    if reasons.is_empty() { NONE.to_owned() } else { reasons.join(", ") }
}

/// The thread that held up the longest of them.
pub(crate) fn held_up_by(reasons: &[Reason]) -> String {
    let by = reasons.first().and_then(|reason| reason.woken_by.as_ref());
    by.map_or_else(|| NONE.to_owned(), |by| format!("{} {}", escape(&by.thread), by.tid))
}

fn one(Reason { name, time, function, .. }: &Reason) -> String {
    match function {
        Some(function) if *name == OTHER => format!("{name} {time} in {}", escape(function)),
        _ => format!("{name} {time}"),
    }
}

/// The name of a wait that has none: then the function says more.
const OTHER: &str = "other";
