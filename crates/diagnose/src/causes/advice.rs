//! What to change about each cause, and where the advice comes from. Does not say whether a cause holds.

use model::Cause;

use crate::causes::{device, file_system, jvm, memory, operation};

/// What to change about a cause, the most effective first; nothing where there is nothing to change.
pub fn advice(cause: Cause) -> &'static [&'static str] {
    match cause {
        Cause::JournalCommit => file_system::JOURNAL_COMMIT,
        Cause::FastCommit => FAST_COMMIT,
        Cause::XfsLogSpace => XFS_LOG_SPACE,
        Cause::XfsInodeLock => XFS_INODE_LOCK,
        Cause::LogLock => LOG_LOCK,
        Cause::RollFsync => operation::ROLL_FSYNC,
        Cause::DirtyThrottling => memory::DIRTY_THROTTLING,
        Cause::StablePage => STABLE_PAGE,
        Cause::PageLock => PAGE_LOCK,
        Cause::MemoryReclaim => MEMORY_RECLAIM,
        Cause::SlowDevice => device::SLOW_DEVICE,
        Cause::DiskReadInNetworkThread => DISK_READ_IN_NETWORK_THREAD,
        Cause::CacheEviction => CACHE_EVICTION,
        Cause::IndexPageFault => memory::INDEX_PAGE_FAULT,
        Cause::TierStateIo => TIER_STATE_IO,
        Cause::HandlersBusy => HANDLERS_BUSY,
        Cause::NetworkThreadsBusy => NETWORK_THREADS_BUSY,
        Cause::HeadOfLine => HEAD_OF_LINE,
        Cause::ReplicationWait => REPLICATION_WAIT,
        Cause::Quota => QUOTA,
        Cause::GcPause => jvm::GC_ADVICE,
        Cause::Safepoint => jvm::SAFEPOINT_ADVICE,
        Cause::CpuThrottled => CPU_THROTTLED,
        Cause::RunQueue => RUN_QUEUE,
        Cause::LogCleaner => LOG_CLEANER,
        Cause::DownConversion => DOWN_CONVERSION,
        Cause::Recompression => RECOMPRESSION,
        Cause::SlowClient => SLOW_CLIENT,
        Cause::TxnVerification => TXN_VERIFICATION,
        // The client asked for the wait; of what was not seen nothing can be said.
        Cause::LongPoll | Cause::Unobserved => &[],
    }
}

/// What to change where a request was held up in this way, the root first. What it waited behind is not to be changed
/// where that has a cause of its own, but what the broker chose to do there is.
pub(crate) fn advice_on(chain: &[Cause]) -> Vec<&'static str> {
    let root = chain.last().copied().unwrap_or(Cause::Unobserved);
    let chosen = chain.iter().filter(|cause| {
        let own = [Cause::RollFsync, Cause::IndexPageFault, Cause::XfsInodeLock, Cause::SlowDevice];
        **cause != root && own.contains(cause)
    });
    [root].iter().chain(chosen).flat_map(|cause| advice(*cause)).copied().collect()
}

/// As a public case measured it: produce requests of 3 s at the 99.9th percentile took 500 ms with fast commits and kept
/// within 65 ms but for a few a day on XFS.
const FAST_COMMIT: &[&str] = &[
    "put the log dirs on XFS: fast commits are shorter than whole ones, but writers still wait while one is under way (fs/jbd2/journal.c, jbd2_fc_begin_commit)",
];

/// Documentation/filesystems/xfs: delayed logging's design.
const XFS_LOG_SPACE: &[&str] = &[
    "XFS's log was full, and changes waited until older ones were written back: make a larger log (mkfs.xfs -l size=…), or put it on a device of its own (-l logdev=…, mount -o logdev=…)",
];

/// `xfs_file_buffered_read` takes the inode's lock shared, `xfs_file_buffered_write` exclusively (`fs/xfs/xfs_file.c`);
/// public talks on Kafka at LINE.
const XFS_INODE_LOCK: &[&str] = &[
    "on XFS one thread that writes a file keeps its readers waiting, and they keep it: smaller segments (log.segment.bytes) part those who read old records from the append",
    "keep what is read in the page cache: a reader holds the file for as long as the device takes",
];

const LOG_LOCK: &[&str] =
    &["more partitions spread the appends over more locks; find out what slowed the holder's write"];

/// Documentation/ABI/stable/sysfs-block: `stable_writes`.
const STABLE_PAGE: &[&str] = &[
    "a page could not be changed while it was on its way to the device: a device that needs no stable pages (/sys/block/DEVICE/queue/stable_writes is 0: no checksum or parity is computed of them), or XFS",
];

/// Public talks on Kafka at LINE; `folio_lock`, mm/filemap.c; Documentation/admin-guide/sysctl/vm.rst.
const PAGE_LOCK: &[&str] = &[
    "a page is locked while it is read from the device, and whoever else wants it waits: fewer consumers that read the same old segment at once, or more memory for the page cache",
    "where write-back has it (a kworker is named): the device's queue was full of what is written back at once; see how busy the device is, and write back less at a time (vm.dirty_background_bytes lower)",
];

/// Documentation/admin-guide/sysctl/vm.rst, cgroup-v2.rst.
const MEMORY_RECLAIM: &[&str] = &[
    "the broker's threads had to free memory themselves: raise vm.min_free_kbytes, so that the kernel begins earlier in the background (Documentation/admin-guide/sysctl/vm.rst)",
    "where a cgroup's limit asked for it, raise the limit or make the heap smaller: the page cache of what the broker writes is charged to it (Documentation/admin-guide/cgroup-v2.rst)",
];

/// KAFKA-7504: a network thread serves all of its connections in turn.
const DISK_READ_IN_NETWORK_THREAD: &[&str] = &[
    "a consumer that reads old records from the disk stops every other connection of its network thread (KAFKA-7504): more memory for the page cache, a quota on consumers that catch up (consumer_byte_rate), or tiered storage",
    "more network threads (num.network.threads) put fewer connections on each",
];

/// Kafka's documentation, operations: hardware and OS.
const CACHE_EVICTION: &[&str] = &[
    "what consumers read was no longer in the page cache: more memory, a smaller heap, or tiered storage for what is old",
    "reads of old records push new ones out: bound consumers that catch up by a quota (consumer_byte_rate)",
];

/// A public case: state files of hundreds of MB each, most of it of segments long deleted.
const TIER_STATE_IO: &[&str] = &[
    "the broker's disk reads are of tiered storage's own state: turn its cleanup on (confluent.tier.partition.state.cleanup.enable=true, with .delay.ms and .interval.ms; ages count from then on)",
];

const HANDLERS_BUSY: &[&str] = &[
    "every request handler was at work: first remove what kept them (it is named); then num.io.threads a few above the number of CPUs, and no more than there are partitions",
];

const NETWORK_THREADS_BUSY: &[&str] = &[
    "the network thread was at work for others: raise num.network.threads",
    "if its time goes into TLS, terminate or offload that elsewhere",
];

/// `SocketServer` mutes a connection's channel while a request of it is served.
const HEAD_OF_LINE: &[&str] = &[
    "the broker serves one request of a connection at a time: look at the request ahead; a lower max.in.flight.requests.per.connection shortens the queue",
];

/// Kafka's documentation, monitoring: `RemoteTimeMs`.
const REPLICATION_WAIT: &[&str] = &[
    "with acks=all a request waits until all in-sync replicas have it: look at the follower that is named, its disk, its CPU and the network to it",
    "if followers are merely behind under load: num.replica.fetchers, replica.fetch.max.bytes",
];

/// `KafkaApis`, `ClientQuotaManager`.
const QUOTA: &[&str] = &[
    "the client used more than its quota and the broker muted its connection for it: raise the quota (producer_byte_rate, consumer_byte_rate, request_percentage), or have the client send less",
];

/// Documentation/scheduler/sched-bwc.rst.
const CPU_THROTTLED: &[&str] = &[
    "the broker's cgroup ran out of its CPU quota and stood still until the next period: raise or drop the limit (cpu.max, Kubernetes' limits.cpu); shares (cpu.weight, requests.cpu) bound it without that",
];

const RUN_QUEUE: &[&str] = &[
    "threads could run and had no CPU: more CPUs, fewer threads (num.io.threads a few above the number of CPUs), or nothing else on this host",
    "kernel.sched_migration_cost_ns (/sys/kernel/debug/sched/migration_cost_ns) lowered lets waiting threads move to an idle CPU earlier",
];

/// Kafka's documentation, broker configuration.
const LOG_CLEANER: &[&str] = &[
    "the log cleaner and the requests shared the device: bound it (log.cleaner.io.max.bytes.per.second), which may be changed while the broker runs",
];

/// Kafka's documentation, upgrade notes; KIP-896 ended it with Kafka 4.0.
const DOWN_CONVERSION: &[&str] = &[
    "a client asked for records in a format older than they are stored in, and the broker converts each batch for it: upgrade the client (Kafka 4.0 refuses such clients, KIP-896)",
];

/// Kafka's documentation, topic configuration.
const RECOMPRESSION: &[&str] = &[
    "the broker did not keep the batch as it was sent but compressed it itself: compression.type=producer on the topic keeps what producers chose",
    "message.timestamp.type=LogAppendTime and clients of an old message format make it write batches anew, too",
];

/// KIP-764; KAFKA-9648: connections that SYN cookies set up have no window scaling.
const SLOW_CLIENT: &[&str] = &[
    "bytes came or went slowly: look at the client (a busy or paused process reads and writes late) and at the network before it (retransmissions)",
    "connections without window scaling carry 64 KiB a round trip: avoid SYN cookies when many clients connect at once (net.ipv4.tcp_max_syn_backlog, net.core.somaxconn, socket.listen.backlog.size; KIP-764, KAFKA-9648)",
];

/// KAFKA-14904; KIP-890.
const TXN_VERIFICATION: &[&str] = &[
    "an append of a transaction waited until the transaction's coordinator had confirmed the partition (KIP-890): look at that broker and at the disk under its __transaction_state partitions",
    "transaction.partition.verification.enable=false turns it off, and with it the protection from hanging transactions (KAFKA-14904)",
];

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::advice;

    #[test]
    fn whatever_can_be_changed_has_advice_and_none_twice() {
        let mut told = std::collections::HashSet::new();
        for cause in Cause::ALL {
            let nothing_to_change = matches!(cause, Cause::LongPoll | Cause::Unobserved);
            assert_eq!(advice(cause).is_empty(), nothing_to_change, "{cause}");
            assert!(advice(cause).iter().all(|sentence| told.insert(sentence)), "{cause}");
        }
    }
}
