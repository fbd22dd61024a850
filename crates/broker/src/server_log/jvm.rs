//! Lines of the JVM among the broker's, as where both go to a container's output: collections and safepoints. Only how
//! long they took; what else such a log says, `jvm::gc_log` reads.

use model::LogKind;

use super::messages::{Around, Message};
use super::numbers::{length, length_after};

/// `[…][gc] GC(12) Pause Young (Normal) (G1 Evacuation Pause) 123M->45M(512M) 12.345ms`: gc/shared/gcTraceTime.cpp.
pub(super) fn collection(line: Around<'_>) -> Option<Message<'_>> {
    let word = line.before.rsplit(' ').find(|word| !word.is_empty() && !word.ends_with(':'))?;
    (word.contains("GC(") && word.ends_with(')')).then_some(())?;
    let length = length(line.after.trim_end().rsplit(' ').next()?)?;
    Some(Message { length: Some(length), ..Message::new(LogKind::GcPause) })
}

/// `Safepoint "G1PauseRemark", …, Total: 32660156 ns`: runtime/safepoint.cpp, JDK 13 on.
pub(super) fn safepoint(line: Around<'_>) -> Option<Message<'_>> {
    let length = length_after(line.after, "Total: ")?;
    Some(Message { length: Some(length), ..Message::new(LogKind::Safepoint) })
}

/// `Total time for which application threads were stopped: 0.0123 seconds, …`: up to JDK 12.
pub(super) fn stopped(line: Around<'_>) -> Option<Message<'_>> {
    line.before.ends_with("Total time for which ").then_some(())?;
    Some(Message { length: Some(length(line.after)?), ..Message::new(LogKind::Safepoint) })
}
