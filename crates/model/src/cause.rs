//! What can make a request slow, by name. Does not know how a cause is found or what to do about it.

use std::fmt;

/// A cause. The names are a contract: scripts read them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// A write waited for a jbd2 commit.
    JournalCommit,
    /// An operation waited for one of ext4's fast commits.
    FastCommit,
    /// A change of a file waited for room in XFS's log.
    XfsLogSpace,
    /// An operation waited for an XFS inode that another thread was reading or writing.
    XfsInodeLock,
    /// The append waited for the partition's log, or another lock on its way, held by another thread.
    LogLock,
    /// Whoever held the log waited until a file was on the device.
    RollFsync,
    /// The kernel paused a writer because too many pages were dirty.
    DirtyThrottling,
    /// A write waited for a page that must not change while the device writes it.
    StablePage,
    /// An operation waited for a page that another thread had locked.
    PageLock,
    /// The thread had to free memory before it could have some.
    MemoryReclaim,
    /// An operation waited for the block device.
    SlowDevice,
    /// A network thread read from the device for one of its connections, and all of them waited.
    DiskReadInNetworkThread,
    /// What was read had been in the page cache and no longer was.
    CacheEviction,
    /// A page of a mapped index had to be read from the device.
    IndexPageFault,
    /// Reads of tiered storage's state files kept the device busy.
    TierStateIo,
    /// All request handlers were busy with other requests.
    HandlersBusy,
    /// The connection's network thread was busy while bytes waited in the socket.
    NetworkThreadsBusy,
    /// The request waited behind an earlier one of its connection.
    HeadOfLine,
    /// The request waited for a follower to have its records.
    ReplicationWait,
    /// A fetch waited for data as it had asked to: not slowness.
    LongPoll,
    /// The broker muted the connection for a quota.
    Quota,
    /// The JVM stopped its threads to collect garbage.
    GcPause,
    /// The JVM stopped its threads for something else, or waited long until they had stopped.
    Safepoint,
    /// The broker's cgroup had used up its CPU quota.
    CpuThrottled,
    /// The thread could run and had no CPU.
    RunQueue,
    /// The log cleaner's own reads and writes kept the device busy.
    LogCleaner,
    /// The broker converted records for a client that knows only an older format.
    DownConversion,
    /// The broker wrote another batch than it was sent: it compressed or converted the records itself.
    Recompression,
    /// Bytes of the request or the response came or went slowly.
    SlowClient,
    /// The append waited until the transaction's coordinator had confirmed the partition.
    TxnVerification,
    /// Nothing that was seen explains it.
    Unobserved,
}

impl Cause {
    /// Every cause.
    pub const ALL: [Self; 31] = [
        Self::JournalCommit,
        Self::FastCommit,
        Self::XfsLogSpace,
        Self::XfsInodeLock,
        Self::LogLock,
        Self::RollFsync,
        Self::DirtyThrottling,
        Self::StablePage,
        Self::PageLock,
        Self::MemoryReclaim,
        Self::SlowDevice,
        Self::DiskReadInNetworkThread,
        Self::CacheEviction,
        Self::IndexPageFault,
        Self::TierStateIo,
        Self::HandlersBusy,
        Self::NetworkThreadsBusy,
        Self::HeadOfLine,
        Self::ReplicationWait,
        Self::LongPoll,
        Self::Quota,
        Self::GcPause,
        Self::Safepoint,
        Self::CpuThrottled,
        Self::RunQueue,
        Self::LogCleaner,
        Self::DownConversion,
        Self::Recompression,
        Self::SlowClient,
        Self::TxnVerification,
        Self::Unobserved,
    ];

    /// The name in tables and JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::JournalCommit => "journal-commit",
            Self::FastCommit => "fast-commit",
            Self::XfsLogSpace => "xfs-log-space",
            Self::XfsInodeLock => "xfs-inode-lock",
            Self::LogLock => "log-lock",
            Self::RollFsync => "roll-fsync",
            Self::DirtyThrottling => "dirty-throttling",
            Self::StablePage => "stable-page",
            Self::PageLock => "page-lock",
            Self::MemoryReclaim => "memory-reclaim",
            Self::SlowDevice => "slow-device",
            Self::DiskReadInNetworkThread => "disk-read-in-network-thread",
            Self::CacheEviction => "cache-eviction",
            Self::IndexPageFault => "index-page-fault",
            Self::TierStateIo => "tier-state-io",
            Self::HandlersBusy => "handlers-busy",
            Self::NetworkThreadsBusy => "network-threads-busy",
            Self::HeadOfLine => "head-of-line",
            Self::ReplicationWait => "replication-wait",
            Self::LongPoll => "long-poll",
            Self::Quota => "quota",
            Self::GcPause => "gc-pause",
            Self::Safepoint => "safepoint",
            Self::CpuThrottled => "cpu-throttled",
            Self::RunQueue => "run-queue",
            Self::LogCleaner => "log-cleaner",
            Self::DownConversion => "down-conversion",
            Self::Recompression => "recompression",
            Self::SlowClient => "slow-client",
            Self::TxnVerification => "txn-verification",
            Self::Unobserved => "unobserved",
        }
    }

    /// The cause of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|cause| cause.as_str() == name)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::Cause;

    #[test]
    fn every_cause_is_listed_once_and_known_by_its_name() {
        for (at, cause) in Cause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, at, "{cause}");
            assert_eq!(Cause::parse(cause.as_str()), Some(cause));
        }
        assert_eq!(Cause::parse("journal"), None);
    }
}
