//! A wait for a monitor that two sources saw is one wait. The JVM's own probes win, because their times and thread
//! are the kernel's; Flight Recorder adds the stack, and the holder if the probes saw none.

use model::{LockKind, LockSource, LockWait};

/// Whether two sources saw the same wait: one thread waits for one monitor at a time.
/// Both identify a monitor by the address of the JVM's `ObjectMonitor`.
pub(crate) fn is_same_wait(one: &LockWait, other: &LockWait) -> bool {
    let sources = [one.source, other.source];
    let is_monitor = |wait: &LockWait| wait.lock.kind == LockKind::Monitor;
    let (here, there) = (one.lock.address, other.lock.address);
    sources.contains(&LockSource::Usdt)
        && sources.contains(&LockSource::Jfr)
        && (is_monitor(one) && is_monitor(other))
        && one.tid == other.tid
        && (one.start < other.end && other.start < one.end)
        && (here == there || here == 0 || there == 0)
}

/// Combines both sources' reports of a wait.
pub(crate) fn unite(one: LockWait, other: LockWait) -> LockWait {
    let (mut wait, more) = if one.source == LockSource::Usdt { (one, other) } else { (other, one) };
    wait.stack = more.stack;
    wait.holder = wait.holder.or(more.holder);
    if wait.lock.class.is_empty() {
        wait.lock.class = more.lock.class;
    }
    wait
}

#[cfg(test)]
mod tests {
    use model::{Lock, LockHolder, LockKind, LockSource, LockWait, Nanos, Row};

    use super::{is_same_wait, unite};

    fn wait(source: LockSource, start: i64, end: i64) -> LockWait {
        LockWait {
            start: Nanos(start),
            end: Nanos(end),
            pid: 1,
            tid: 2,
            thread: "waits".into(),
            lock: Lock { kind: LockKind::Monitor, class: "java.lang.Object".into(), address: 7 },
            stack: "".into(),
            source,
            ..Row::empty()
        }
    }

    #[test]
    fn same_wait_needs_two_sources_and_one_thread_and_monitor() {
        let usdt = wait(LockSource::Usdt, 10, 20);
        let jfr = wait(LockSource::Jfr, 11, 22);
        assert!(is_same_wait(&usdt, &jfr) && is_same_wait(&jfr, &usdt));
        assert!(!is_same_wait(&usdt, &usdt), "a source does not see a wait twice");
        assert!(!is_same_wait(&usdt, &wait(LockSource::Jfr, 20, 30)), "the next one");
        assert!(!is_same_wait(&usdt, &wait(LockSource::ThreadDump, 15, 15)));
        assert!(!is_same_wait(&usdt, &LockWait { tid: 3, ..jfr.clone() }));
        let other =
            |address, kind| LockWait { lock: Lock { address, kind, ..jfr.lock.clone() }, ..jfr.clone() };
        assert!(!is_same_wait(&usdt, &other(8, LockKind::Monitor)));
        assert!(is_same_wait(&usdt, &other(0, LockKind::Monitor)), "an address that is not known");
        assert!(!is_same_wait(&usdt, &other(7, LockKind::Park)));
    }

    #[test]
    fn unite_takes_probe_times_and_the_jfr_stack() {
        let holder = |name: &str| Some(LockHolder { tid: Some(9), thread: name.into() });
        let usdt = wait(LockSource::Usdt, 10, 20);
        let jfr = LockWait { stack: "a;b".into(), holder: holder("jfr"), ..wait(LockSource::Jfr, 11, 22) };
        let expected = LockWait { stack: "a;b".into(), holder: holder("jfr"), ..usdt.clone() };
        assert_eq!(unite(usdt.clone(), jfr.clone()), expected);
        assert_eq!(unite(jfr.clone(), usdt.clone()), expected, "whichever came first");
        let usdt = LockWait { holder: holder("usdt"), ..usdt };
        assert_eq!(unite(jfr, usdt).holder, holder("usdt"));
    }
}
