//! Which of the broker's locks a wait was for.
//! Follows from the lock's class and the Java methods that took it. Knows names of Kafka 2.x to 4.x, in which Scala's
//! classes became Java's and moved from `kafka.log` to `org.apache.kafka.storage.internals.log` (KAFKA-14470).

use model::{Lock, LockKind, LockWait, named};

named! {
    /// A lock by what it guards.
    pub enum LockName {
        /// A partition's log: the monitor that every append takes (`UnifiedLog.lock`, `Log.lock`).
        Log = "log lock",
        /// A segment's mapped index (`AbstractIndex.lock`, `LazyIndex`).
        Index = "index lock",
        /// A partition's leadership and in-sync replicas (`Partition.leaderIsrUpdateLock`).
        Isr = "ISR lock",
        /// A log's state of its producers (`ProducerStateManager`).
        ProducerState = "producer-state lock",
        /// Requests that wait for followers or data, and their timers.
        Purgatory = "purgatory lock",
        /// A group of consumers.
        Group = "group lock",
        /// Any other.
        Other = "lock",
    }
}

impl LockName {
    /// The lock that a wait was for; `None` if the thread waited for no lock, but for work, a signal or a timer.
    pub(crate) fn of(wait: &LockWait) -> Option<Self> {
        if !is_lock(&wait.lock) {
            return None;
        }
        let known =
            taken_in(&wait.stack).and_then(|frame| RULES.iter().find(|rule| rule.holds(&wait.lock, &frame)));
        Some(known.map_or(Self::Other, |rule| rule.name))
    }
}

/// What identifies a lock.
struct Rule {
    name: LockName,
    kind: LockKind,
    /// A part of the lock's class.
    class: &'static str,
    /// The method that took it is in one of these packages
    packages: &'static [&'static str],
    /// and in one of these classes or packages within it.
    within: &'static [&'static str],
}

impl Rule {
    fn holds(&self, lock: &Lock, frame: &str) -> bool {
        let is_taken_in = |package: &&str| {
            frame
                .strip_prefix(*package)
                .is_some_and(|rest| self.within.iter().any(|name| is_within(rest, name)))
        };
        self.kind == lock.kind
            && self.packages.iter().any(is_taken_in)
            && dotted(&lock.class).contains(self.class)
    }
}

/// The package of a partition's log, in Scala and in Java (KAFKA-14470).
const LOG: &[&str] = &["kafka.log.", "org.apache.kafka.storage.internals.log."];
const INDEXES: &[&str] = &["AbstractIndex", "OffsetIndex", "TimeIndex", "TransactionIndex", "LazyIndex"];
const LOGS: &[&str] = &["Log", "UnifiedLog", "LocalLog", "LogSegment"];
const PURGATORY: &[&str] = &[
    "kafka.server.DelayedOperation",
    "kafka.server.DelayedOperationPurgatory",
    "kafka.utils.timer",
    "org.apache.kafka.server.purgatory",
    "org.apache.kafka.server.util.timer",
];
const GROUP: &[&str] = &["kafka.coordinator.group", "org.apache.kafka.coordinator.group"];

const fn rule(name: LockName, kind: LockKind, class: &'static str, within: &'static [&'static str]) -> Rule {
    Rule { name, kind, class, packages: &[""], within }
}

const fn log_rule(
    name: LockName,
    kind: LockKind,
    class: &'static str,
    within: &'static [&'static str],
) -> Rule {
    Rule { packages: LOG, ..rule(name, kind, class, within) }
}

const PRODUCERS: &str = "ProducerStateManager";

const RULES: &[Rule] = &[
    log_rule(LockName::Index, LockKind::Park, "", INDEXES),
    log_rule(LockName::ProducerState, LockKind::Monitor, PRODUCERS, &[PRODUCERS]),
    log_rule(LockName::Log, LockKind::Monitor, "java.lang.Object", LOGS),
    rule(LockName::Isr, LockKind::Park, "ReentrantReadWriteLock", &["kafka.cluster.Partition"]),
    rule(LockName::Purgatory, LockKind::Park, "", PURGATORY),
    rule(LockName::Purgatory, LockKind::Monitor, "", PURGATORY),
    rule(LockName::Group, LockKind::Park, "", GROUP),
    rule(LockName::Group, LockKind::Monitor, "", GROUP),
];

/// Whether a method is of this class or package.
/// Classes inside the class and its companion (`kafka.log.Log$`) count as well.
fn is_within(frame: &str, class: &str) -> bool {
    frame.strip_prefix(class).is_some_and(|rest| rest.starts_with(['.', '$']))
}

/// A parked thread may wait for anything; these classes are locks.
fn is_lock(lock: &Lock) -> bool {
    const LOCKS: [&str; 3] = ["ReentrantLock", "ReentrantReadWriteLock", "StampedLock"];
    lock.kind == LockKind::Monitor || LOCKS.iter().any(|name| lock.class.contains(name))
}

/// Methods that take locks for others.
const NEUTRAL: [&str; 6] =
    ["java.", "jdk.", "sun.", "scala.", "kafka.utils.CoreUtils", "org.apache.kafka.server.util.LockUtils"];

/// The methods of a stack, innermost first. Without modules, line numbers and helper methods.
fn frames(stack: &str) -> impl Iterator<Item = String> + '_ {
    stack.rsplit(';').map(dotted).filter(|frame| !NEUTRAL.iter().any(|name| frame.starts_with(name)))
}

/// `java.base/java/lang/Object.wait(Object.java:9)` as `java.lang.Object.wait`: dumps and profilers write both.
fn dotted(name: &str) -> String {
    let name = name.split_once('(').map_or(name, |(method, _)| method).trim();
    let unmoduled = name.split_once('/').filter(|(module, rest)| module.contains('.') && !rest.is_empty());
    unmoduled.map_or(name, |(_, rest)| rest).replace('/', ".")
}

/// The method that takes the lock: the innermost that is neither the JDK's nor a helper.
pub(crate) fn taken_in(stack: &str) -> Option<String> {
    frames(stack).find(|frame| !frame.is_empty())
}

/// Whether a stack shows a thread on the way to an append.
/// `ReplicaManager.appendRecords` is not enough: it also answers, and a thread that waits there has appended.
pub(crate) fn is_appending(stack: &str) -> bool {
    const APPENDING: [&str; 5] = [
        "kafka.log.Log.append",
        "kafka.log.UnifiedLog.append",
        "org.apache.kafka.storage.internals.log.UnifiedLog.append",
        "kafka.cluster.Partition.appendRecordsToLeader",
        "kafka.server.ReplicaManager.appendToLocalLog",
    ];
    frames(stack).any(|frame| APPENDING.iter().any(|name| frame.starts_with(name)))
}

/// The methods of a stack, innermost first. From the one that waited to the broker's own callers.
pub(crate) fn methods(stack: &str) -> impl Iterator<Item = String> + '_ {
    frames(stack).filter(|frame| !frame.is_empty())
}

/// The method in which a handler serves a produce request.
/// `REPLICA_MANAGER` is the part of that in which it appends and answers.
const PRODUCE: &str = "kafka.server.KafkaApis.handleProduceRequest";
const REPLICA_MANAGER: &str = "kafka.server.ReplicaManager.";

/// Whether a stack shows a handler with a produce request not yet appended.
pub(crate) fn is_before_append(stack: &str) -> bool {
    is_appending(stack) || (is_within_produce(stack) && !has_frame(stack, REPLICA_MANAGER))
}

/// Whether a stack shows a handler after or between a produce request's appends.
pub(crate) fn is_after_append(stack: &str) -> bool {
    is_within_produce(stack) && has_frame(stack, REPLICA_MANAGER) && !is_appending(stack)
}

fn is_within_produce(stack: &str) -> bool {
    has_frame(stack, PRODUCE)
}

fn has_frame(stack: &str, name: &str) -> bool {
    frames(stack).any(|frame| frame.starts_with(name))
}

#[cfg(test)]
mod tests {
    use model::{Lock, LockKind, LockSource, LockWait, Nanos, Row};

    use super::{LockName, dotted, is_appending, taken_in};

    fn wait(kind: LockKind, class: &str, stack: &str) -> LockWait {
        LockWait {
            start: Nanos(0),
            end: Nanos(1),
            pid: 1,
            tid: 7,
            thread: "t".into(),
            lock: Lock { kind, class: class.into(), address: 0 },
            stack: stack.into(),
            source: LockSource::Jfr,
            ..Row::empty()
        }
    }

    const SYNC: &str = "java.util.concurrent.locks.ReentrantLock$NonfairSync";
    const RW: &str = "java.util.concurrent.locks.ReentrantReadWriteLock$NonfairSync";

    #[test]
    fn names_locks_by_class_and_methods_in_every_kafka_version() {
        use LockKind::{Monitor, Park};
        let object = "java.lang.Object";
        let produce = "kafka.server.KafkaApis.handleProduceRequest;kafka.server.ReplicaManager.appendRecords";
        for (kind, class, stack, name) in [
            (Monitor, object, "kafka.log.Log.append", LockName::Log),
            (Monitor, object, "kafka.log.Log.$anonfun$append$2", LockName::Log),
            (
                Monitor,
                object,
                "kafka.log.UnifiedLog.append;kafka.log.UnifiedLog.$anonfun$append$2",
                LockName::Log,
            ),
            (Monitor, object, "org.apache.kafka.storage.internals.log.UnifiedLog.append", LockName::Log),
            (Monitor, object, "kafka/log/Log.append(Log.scala:1072)", LockName::Log),
            (
                Monitor,
                object,
                "kafka.log.LogManager.flushDirtyLogs;kafka.log.UnifiedLog.flush",
                LockName::Log,
            ),
            (Monitor, object, "kafka.log.LogCleaner.cleanOrSleep", LockName::Other),
            (Monitor, "kafka.log.LogConfig", "kafka.log.UnifiedLog.append", LockName::Other),
            (
                Park,
                SYNC,
                "kafka.log.UnifiedLog.append;kafka.log.LogSegment.append;kafka.log.OffsetIndex.append;kafka.utils.CoreUtils$.inLock;java.util.concurrent.locks.ReentrantLock.lock;jdk.internal.misc.Unsafe.park",
                LockName::Index,
            ),
            (
                Park,
                SYNC,
                "org.apache.kafka.storage.internals.log.UnifiedLog.append;org.apache.kafka.storage.internals.log.LazyIndex.get;java.base/java.util.concurrent.locks.ReentrantLock.lock",
                LockName::Index,
            ),
            (Park, RW, "kafka.cluster.Partition.$anonfun$appendRecordsToLeader$1", LockName::Isr),
            (Park, SYNC, "kafka.cluster.Partition.makeLeader", LockName::Other),
            (Park, SYNC, "kafka.server.DelayedOperation.safeTryComplete", LockName::Purgatory),
            (
                Park,
                SYNC,
                "org.apache.kafka.server.purgatory.DelayedOperation.safeTryComplete",
                LockName::Purgatory,
            ),
            (Monitor, "", "", LockName::Other),
        ] {
            assert_eq!(LockName::of(&wait(kind, class, stack)), Some(name), "{class} {stack}");
            let behind = format!("{produce};{stack}");
            assert_eq!(LockName::of(&wait(kind, class, &behind)), Some(name), "{class} {behind}");
        }
    }

    #[test]
    fn thread_parked_for_work_waits_for_no_lock() {
        for class in [
            "java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject",
            "java.util.concurrent.CountDownLatch$Sync",
            "",
        ] {
            let stack = "kafka.server.KafkaRequestHandler.run;kafka.network.RequestChannel.receiveRequest";
            assert_eq!(LockName::of(&wait(LockKind::Park, class, stack)), None, "{class}");
        }
    }

    #[test]
    fn parses_method_names_of_dumps_and_profilers() {
        assert_eq!(dotted("java.base/java/lang/Object.wait(Object.java:9)"), "java.lang.Object.wait");
        assert_eq!(dotted("kafka/log/Log.append"), "kafka.log.Log.append");
        assert_eq!(dotted("a.b.C$D.e"), "a.b.C$D.e");
        assert_eq!(taken_in("a.B.c;java.lang.Object.wait").as_deref(), Some("a.B.c"));
        assert_eq!(taken_in(""), None);
        assert!(is_appending("kafka.cluster.Partition.appendRecordsToLeader;kafka.log.UnifiedLog.append"));
        let answering =
            "kafka.server.ReplicaManager.appendRecords;org.apache.kafka.common.network.Selector.wakeup";
        assert!(!is_appending(answering));
        assert!(!is_appending("kafka.server.KafkaApis.handleFetchRequest;kafka.log.UnifiedLog.read"));
    }
}
