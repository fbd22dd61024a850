//! The chain of causes from a request to its root, as a shape and in plain words.

use model::{Cause, EvidenceKind, Verdict};

/// The chain without the number of requests ahead: what distinguishes one request's story from another's.
pub(crate) fn shape(verdict: &Verdict) -> Vec<Cause> {
    let mut shape = verdict.chain.clone();
    shape.dedup_by(|next, previous| next == previous && *previous == Cause::HeadOfLine);
    shape
}

/// The chain in plain words, nearest first, with the write that held the lock.
pub(crate) fn describe_chain_and_holder(verdict: &Verdict) -> String {
    let chain = describe_chain(verdict);
    match holder(verdict) {
        Some(holder) if verdict.chain.first() == Some(&Cause::LogLock) => format!("{chain} ← {holder}"),
        _ => chain,
    }
}

/// The chain in as few words as possible.
pub fn describe_chain(verdict: &Verdict) -> String {
    let ahead = verdict.chain.iter().take_while(|&&cause| cause == Cause::HeadOfLine).count();
    let mut words = Vec::new();
    if ahead > 0 {
        words.push(format!("{ahead} ahead on its connection"));
    }
    let mut locked = false;
    let mut in_file = false;
    for cause in verdict.chain.iter().skip(ahead) {
        match cause {
            Cause::LogLock => {
                words.push("log lock".to_owned());
                locked = true;
            }
            Cause::GcPause => words.push("garbage collection".to_owned()),
            Cause::Safepoint => words.push("safepoint".to_owned()),
            // Behind the log lock, these are the lock holder's waits.
            Cause::JournalCommit | Cause::FastCommit | Cause::SlowDevice | Cause::DirtyThrottling
                if locked => {}
            // The root names what an fsync or a page waited for.
            Cause::JournalCommit | Cause::SlowDevice | Cause::FastCommit if in_file => {}
            Cause::JournalCommit | Cause::FastCommit | Cause::SlowDevice | Cause::DirtyThrottling => {
                words.push(if ahead > 0 { "its write" } else { "own write" }.to_owned());
            }
            Cause::RollFsync | Cause::IndexPageFault if locked => words.push(cause.to_string()),
            Cause::RollFsync => words.push(if ahead > 0 { "its fsync" } else { "own fsync" }.to_owned()),
            Cause::IndexPageFault => words.push("index page".to_owned()),
            Cause::PageLock => words.push("page lock".to_owned()),
            Cause::SlowClient => words.push("its own bytes".to_owned()),
            Cause::HeadOfLine => words.push("requests ahead".to_owned()),
            Cause::MemoryReclaim => words.push("direct reclaim".to_owned()),
            Cause::CpuThrottled => words.push("CPU quota".to_owned()),
            Cause::RunQueue => words.push("no CPU".to_owned()),
            Cause::Unobserved => words.push("not observed".to_owned()),
            _ => words.push(cause.to_string()),
        }
        in_file |= matches!(cause, Cause::RollFsync | Cause::IndexPageFault | Cause::PageLock);
    }
    if words.is_empty() { verdict.cause.to_string() } else { words.join(" ← ") }
}

/// The write during which the lock was held.
fn holder(verdict: &Verdict) -> Option<String> {
    let write = verdict.evidence.iter().find(|evidence| evidence.kind == EvidenceKind::FileOp)?;
    write.tid.map(|tid| format!("write of thread {tid}"))
}
