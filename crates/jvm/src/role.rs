//! The role of a broker's thread, from its name: the full one, or the 15 characters that the kernel keeps. Does not
//! look names up.

/// The role of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Role(&'static str);

/// Prefixes of names without their digits, and their roles.
/// The first prefix that matches counts. Names are those of Kafka 3 and 4 and of `HotSpot` 17 to 25; the kernel's 15
/// characters match an entry of at most 15.
const ROLES: &[(&str, &str)] = &[
    ("data-plane-kafka-request-handler", "request-handlers"),
    ("data-plane-kafka-network-thread", "network-threads"),
    ("data-plane-kafka-socket-acceptor", "acceptors"),
    ("data-plane-kafk", "data-plane"),
    ("control-plane-k", "control-plane"),
    ("ReplicaFetcherT", "replica-fetchers"),
    ("ReplicaAlterLog", "replica-movers"),
    ("kafka-scheduler", "scheduler"),
    ("kafka-log-clean", "log-cleaners"),
    ("ExpirationReape", "expiration-reapers"),
    ("executor-Fetch", "expiration-reapers"),
    ("group-coordinat", "group-coordinator"),
    ("share-coordinat", "share-coordinator"),
    ("transaction-log", "transaction-coordinator"),
    ("TxnMarkerSender", "transaction-coordinator"),
    ("remote-log-", "remote-log"),
    ("RemoteLog", "remote-log"),
    ("kafka--raft", "raft"),
    ("raft-", "raft"),
    ("kafka--metadat", "metadata-loader"),
    ("quorum-controll", "controller"),
    ("controller--", "controller"),
    ("broker--", "broker-lifecycle"),
    ("GC Thread", "gc"),
    ("G Conc", "gc"),
    ("G Main", "gc"),
    ("G Refine", "gc"),
    ("G Service", "gc"),
    ("Shenandoah", "gc"),
    ("ZDirector", "gc"),
    ("ZDriver", "gc"),
    ("ZWorker", "gc"),
    ("C CompilerThr", "jit-compiler"),
    ("VM ", "jvm"),
    ("JFR", "jvm"),
    ("Monitor Deflati", "jvm"),
    ("Reference Handl", "jvm"),
    ("Signal Dispatch", "jvm"),
    ("Finalizer", "jvm"),
    ("Service Thread", "jvm"),
    ("Common-Cleaner", "jvm"),
    ("Attach Listener", "jvm"),
];

impl Role {
    /// The role of all other threads.
    pub const OTHER: Self = Self("other");

    /// The role of a thread with this name.
    pub fn of(name: &str) -> Self {
        let begins = |part: &str| {
            let mut rest = name.chars().filter(|c| !c.is_ascii_digit());
            part.chars().all(|c| rest.next() == Some(c))
        };
        ROLES.iter().find(|(part, _)| begins(part)).map_or(Self::OTHER, |(_, role)| Self(role))
    }

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Role;

    #[test]
    fn derives_roles_from_full_and_15_character_names() {
        for (name, role) in [
            ("data-plane-kafka-request-handler-7", "request-handlers"),
            ("data-plane-kafka-network-thread-1-ListenerName(PLAINTEXT)-PLAINTEXT-0", "network-threads"),
            ("data-plane-kafka-socket-acceptor-ListenerName(PLAINTEXT)-PLAINTEXT-9092", "acceptors"),
            ("data-plane-kafk", "data-plane"),
            ("ReplicaFetcherThread-0-2", "replica-fetchers"),
            ("ReplicaFetcherT", "replica-fetchers"),
            ("kafka-log-cleaner-thread-0", "log-cleaners"),
            ("kafka-scheduler-3", "scheduler"),
            ("kafka-1-raft-io-thread", "raft"),
            ("kafka-12-raft-o", "raft"),
            ("kafka-1-metadat", "metadata-loader"),
            ("G1 Conc#0", "gc"),
            ("GC Thread#12", "gc"),
            ("C2 CompilerThre", "jit-compiler"),
            ("VM Thread", "jvm"),
            ("java", "other"),
            ("", "other"),
        ] {
            assert_eq!(Role::of(name).as_str(), role, "{name}");
        }
    }
}
