//! The causes that can make a request slow, by name. Does not know how a cause is found or what to do about it.

/// Declares the causes: their names, and a one-line description of each.
macro_rules! causes {
    ($($(#[doc = $doc:literal])+ $Cause:ident = $name:literal,)+) => {
        named! {
            /// A cause. The names are a contract: scripts read them.
            pub enum Cause { $($(#[doc = $doc])+ $Cause = $name,)+ }
        }

        impl Cause {
            /// Its description, in one line.
            pub fn doc(self) -> &'static str {
                match self { $(Self::$Cause => concat!($($doc,)+).trim_start(),)+ }
            }
        }
    };
}

causes! {
    /// A write waited for a jbd2 commit.
    JournalCommit = "journal-commit",
    /// An operation waited for one of ext4's fast commits.
    FastCommit = "fast-commit",
    /// A file change waited for space in the XFS log.
    XfsLogSpace = "xfs-log-space",
    /// The file system was frozen, as snapshots do, and writes waited until it was thawed.
    FsFrozen = "fs-frozen",
    /// An operation waited for an NFS server.
    NfsWait = "nfs-wait",
    /// An operation waited for an XFS inode that another thread was reading or writing.
    XfsInodeLock = "xfs-inode-lock",
    /// The append waited for the partition's log lock, or another lock that it needs, held by another thread.
    LogLock = "log-lock",
    /// The thread that held the log lock waited for the fsync of a file.
    RollFsync = "roll-fsync",
    /// The controller waited until the device had what it appended to the cluster's metadata.
    MetadataFsync = "metadata-fsync",
    /// The kernel paused a writer because too many pages were dirty.
    DirtyThrottling = "dirty-throttling",
    /// A write waited for a page under writeback, which must not change (stable page).
    StablePage = "stable-page",
    /// An operation waited for a page that another thread had locked.
    PageLock = "page-lock",
    /// The thread had to reclaim memory before it could allocate some.
    MemoryReclaim = "memory-reclaim",
    /// The broker's cgroup was over `memory.high`, and the kernel put the thread to sleep for it.
    MemoryThrottled = "memory-throttled",
    /// The I/O controller of the broker's cgroup held the thread back.
    IoThrottled = "io-throttled",
    /// An operation waited for the block device.
    SlowDevice = "slow-device",
    /// A network thread read from the device for one of its connections, and all of them waited.
    DiskReadInNetworkThread = "disk-read-in-network-thread",
    /// The data that was read had been evicted from the page cache.
    CacheEviction = "cache-eviction",
    /// A page of a mapped index had to be read from the device.
    IndexPageFault = "index-page-fault",
    /// Reads of tiered storage's state files kept the device busy.
    TierStateIo = "tier-state-io",
    /// A fetch waited for tiered storage to deliver records that the broker's own disk no longer has.
    RemoteTierRead = "remote-tier-read",
    /// All request handlers were busy with other requests.
    HandlersBusy = "handlers-busy",
    /// The threads of the group coordinator were busy with other requests.
    CoordinatorBusy = "coordinator-busy",
    /// The controller was busy with other changes of the cluster's metadata.
    ControllerBusy = "controller-busy",
    /// The connection's network thread was busy while bytes waited in the socket.
    NetworkThreadsBusy = "network-threads-busy",
    /// The request waited behind an earlier one of its connection.
    HeadOfLine = "head-of-line",
    /// The request waited for a follower to replicate its records.
    ReplicationWait = "replication-wait",
    /// A fetch waited for data as long as it allowed (long poll): not slowness.
    LongPoll = "long-poll",
    /// The broker muted the connection for a quota.
    Quota = "quota",
    /// The JVM stopped its threads to collect garbage.
    GcPause = "gc-pause",
    /// The JVM stopped its threads for something else, or waited long until they had stopped.
    Safepoint = "safepoint",
    /// A signal, the freezer of its cgroup or a tracer had stopped the broker's process.
    ProcessStopped = "process-stopped",
    /// The whole machine was paused: its hypervisor ran none of its CPUs.
    HostPaused = "host-paused",
    /// The hypervisor gave the CPU to others (steal time).
    CpuSteal = "cpu-steal",
    /// The broker's cgroup had used up its CPU quota.
    CpuThrottled = "cpu-throttled",
    /// The thread was runnable and waited for a CPU.
    RunQueue = "run-queue",
    /// The log cleaner's own reads and writes kept the device busy.
    LogCleaner = "log-cleaner",
    /// The broker converted records for a client that knows only an older format.
    DownConversion = "down-conversion",
    /// The broker compressed or converted the records itself before it wrote them.
    Recompression = "recompression",
    /// The client or the network sent the request, or took the response, slowly.
    SlowClient = "slow-client",
    /// The append waited until the transaction's coordinator had confirmed the partition.
    TxnVerification = "txn-verification",
    /// A thread waited in a kernel function, and nothing says why.
    KernelWait = "kernel-wait",
    /// A thread waited in Java for a lock or a condition, and nothing says why.
    JavaWait = "java-wait",
    /// Nothing that was observed explains it.
    Unobserved = "unobserved",
}

#[cfg(test)]
mod tests {
    use super::Cause;

    #[test]
    fn causes_are_listed_in_order_and_parse_by_name() {
        for (at, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, at, "{cause}");
            assert_eq!(Cause::parse(cause.as_str()), Some(cause));
        }
        assert_eq!(Cause::parse("journal"), None);
    }
}
