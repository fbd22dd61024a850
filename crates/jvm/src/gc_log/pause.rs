//! The messages that tell a pause. Does not know when they were written.
//!
//! ```text
//! GC(12) Pause Young (Normal) (G1 Evacuation Pause) 123M->45M(512M) 12.345ms      gc/shared/gcTraceTime.cpp
//! GC(3) Y: Pause Mark Start (Major) 0.025ms                                         gc/z/zStat.cpp, zDriver.cpp
//! Safepoint "G1PauseRemark", Time since last: 31045877 ns, Reaching safepoint: 4277374 ns, [Cleanup: 38 ns,]
//!   At safepoint: 23165200 ns, [Leaving safepoint: 5217582 ns,] Total: 32660156 ns  runtime/safepoint.cpp, JDK 13 on
//! Entering safepoint region: G1CollectForAllocation                                JDK 9 to 12, of which the next is
//! Total time for which application threads were stopped: 0.0123 seconds, Stopping threads took: 0.0001 seconds
//! ```

use std::sync::Arc;

use model::{JvmPause, JvmPauseKind, Nanos};

use super::stamp::decimal;

/// What a name may have; the rest of it is left out.
const MAX_NAME_CHARS: usize = 200;

/// A stop longer than this is none: no JVM stands still for a day.
const LONGEST: Nanos = Nanos(86_400_000_000_000);

/// What a message tells.
#[derive(Debug)]
pub(super) enum Told<'a> {
    /// A pause that is over.
    Pause(Over),
    /// The operation of the safepoint that begins.
    Operation(&'a str),
}

/// A pause that is over when its line is written.
#[derive(Debug)]
pub(super) struct Over {
    kind: JvmPauseKind,
    pub(super) operation: String,
    cause: String,
    gc_id: Option<u32>,
    length: Nanos,
    time_to_safepoint: Option<Nanos>,
}

impl Over {
    /// Whether the line does not say which operation it was for.
    pub(super) fn is_unnamed_safepoint(&self) -> bool {
        self.kind == JvmPauseKind::Safepoint && self.operation.is_empty()
    }

    /// The pause, given when it was over.
    pub(super) fn ending_at(self, end: Nanos) -> JvmPause {
        JvmPause {
            start: end - self.length,
            end,
            pid: 0,
            kind: self.kind,
            operation: name(&self.operation),
            cause: name(&self.cause),
            gc_id: self.gc_id,
            time_to_safepoint: self.time_to_safepoint.map(|reach| reach.min(self.length)),
        }
    }
}

fn name(text: &str) -> Arc<str> {
    text.chars().take(MAX_NAME_CHARS).collect::<String>().into()
}

/// What this message tells, if anything.
pub(super) fn told(message: &str) -> Option<Told<'_>> {
    if let Some(operation) = message.strip_prefix("Entering safepoint region: ") {
        return Some(Told::Operation(operation));
    }
    let over = collection(message).or_else(|| safepoint(message)).or_else(|| stopped(message))?;
    (over.length <= LONGEST).then_some(Told::Pause(over))
}

/// Which of a message's pieces are the operation and which the cause: a generation's name before it (ZGC) is of
/// the former, and what stands in brackets is a cause where the heap's sizes follow; of a young collection of G1 the
/// first such is its kind.
fn collection(message: &str) -> Option<Over> {
    let (id, rest) = message.strip_prefix("GC(")?.split_once(") ")?;
    let (text, length) = rest.strip_suffix("ms")?.rsplit_once(' ')?;
    let length = Nanos(decimal(length, 6)?);
    let text = text.trim();
    let unprefixed = text.split_once(": ").filter(|(of, _)| of.len() == 1).map_or(text, |(_, rest)| rest);
    if !unprefixed.starts_with("Pause ") {
        return None;
    }
    let (operation, cause) = match text.rsplit_once(' ').filter(|(_, sizes)| sizes.contains("->")) {
        Some((named, _)) => split_cause(named.trim()),
        None => (text, ""),
    };
    Some(Over {
        kind: JvmPauseKind::Gc,
        operation: operation.to_owned(),
        cause: unbracketed(cause).to_owned(),
        gc_id: id.parse().ok(),
        length,
        time_to_safepoint: None,
    })
}

/// `Pause Young (Normal) (G1 Evacuation Pause)` or `Pause Full (System.gc())`, before the cause.
fn split_cause(named: &str) -> (&str, &str) {
    let is_typed = named.starts_with("Pause Young (") && named.contains(") (");
    let at = if is_typed { named.find(") (").map(|at| at + 1) } else { named.find(" (") };
    at.and_then(|at| named.split_at_checked(at))
        .map_or((named, ""), |(operation, cause)| (operation, cause.trim()))
}

/// Without the brackets, if they are one pair around everything.
fn unbracketed(cause: &str) -> &str {
    let inner = cause.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    inner.filter(|inner| !inner.contains(") (")).unwrap_or(cause)
}

fn safepoint(message: &str) -> Option<Over> {
    let (operation, rest) = message.strip_prefix("Safepoint \"")?.split_once("\", ")?;
    let part = |mark: &str| {
        let found = rest.split(", ").find_map(|part| part.strip_prefix(mark))?;
        decimal(found.strip_suffix(" ns")?, 0).map(Nanos)
    };
    Some(Over {
        kind: JvmPauseKind::Safepoint,
        operation: operation.to_owned(),
        cause: String::new(),
        gc_id: None,
        length: part("Total: ")?,
        time_to_safepoint: part("Reaching safepoint: "),
    })
}

fn stopped(message: &str) -> Option<Over> {
    let rest = message.strip_prefix("Total time for which application threads were stopped: ")?;
    let (length, rest) = rest.split_once(" seconds")?;
    let reach = rest.strip_prefix(", Stopping threads took: ").and_then(|rest| rest.strip_suffix(" seconds"));
    Some(Over {
        kind: JvmPauseKind::Safepoint,
        operation: String::new(),
        cause: String::new(),
        gc_id: None,
        length: Nanos(decimal(length, 9)?),
        time_to_safepoint: reach.and_then(|reach| decimal(reach, 9)).map(Nanos),
    })
}
