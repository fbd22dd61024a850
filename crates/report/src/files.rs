//! Reads and writes by file, kind of file, topic or partition; what devices did meanwhile, and what the broker sent. Holds a
//! bounded number of each. Does not print.

mod device_load;
pub(crate) mod egress;
mod output;
mod purpose;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{
    BlockIo, Direction, FileKind, FileOp, FileOpKind, HostSample, Nanos, SocketOp, SocketOpKind,
    TopicPartition,
};

pub use device_load::DeviceLoad;
pub use egress::ReadsWithoutEgress;
pub use output::write;
pub use purpose::{FilePurpose, WatchedPurposes};

use crate::bounded_map::BoundedMap;
use device_load::DeviceLoads;

/// Limit on groups (files, kinds, topics, partitions); further ones are added up as others.
/// A group takes about 300 bytes.
const MAX_GROUPS: usize = 50_000;
/// Limit on known inodes, which attribute block requests to files.
const MAX_INODES: usize = 100_000;

/// Key of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKey {
    /// A file, and what its name implies.
    File {
        /// Its name in operations.
        file: Arc<str>,
        /// Its device's name.
        device: Arc<str>,
        /// What kind of file it is.
        kind: &'static str,
        /// Its topic and partition.
        of: Option<(Arc<str>, i32)>,
    },
    /// A kind of file.
    Kind(&'static str),
    /// A topic; `None` for files of no topic.
    Topic(Option<Arc<str>>),
    /// A partition; `None` for files of no partition.
    Partition(Option<(Arc<str>, i32)>),
    /// Groups beyond the limit.
    Others,
}

/// What is known of a file.
#[derive(Clone, Debug)]
struct Known {
    file: Arc<str>,
    kind: FileKind,
    topic_partition: Option<TopicPartition>,
    device: Arc<str>,
}

/// A device's number, and an inode's number on it.
type Inode = ((u32, u32), u64);

/// Adds up operations and block requests. A copy of it can be finished while it goes on.
#[derive(Clone)]
pub struct Files {
    by: GroupBy,
    groups: BoundedMap<GroupKey, (), Traffic>,
    inodes: HashMap<Inode, Known>,
    /// Block requests of inodes that no operation has named yet.
    unnamed: HashMap<Inode, Traffic>,
    /// Block requests of no known file.
    unknown: Traffic,
    /// The same operations and requests by kind of file, independent of the grouping.
    kinds: BTreeMap<&'static str, Traffic>,
    loads: DeviceLoads,
    /// Whether a block request named the file whose pages it holds.
    knows_inodes: bool,
    /// Bytes that the broker wrote to connections; `None` if no operation on them was seen.
    sent_bytes: Option<u64>,
}

/// The interval of a count, and its conditions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// Its length; without it there are no rates.
    pub span: Option<Nanos>,
    /// Requests per second that each device is rated for.
    pub rated_iops: Option<u64>,
    /// Whether some operations were left out on purpose: then totals do not measure what the broker did.
    pub partial: bool,
    /// Purposes that were watched meanwhile.
    pub watched: WatchedPurposes,
}

/// Totals of operations and block requests.
#[derive(Clone, Debug)]
pub struct FileTotals {
    /// The grouping.
    pub by: GroupBy,
    /// The groups, in order.
    pub groups: Vec<(GroupKey, Traffic)>,
    /// Block requests of no known file of the broker: journals, metadata, other programs.
    pub unknown: Traffic,
    /// By kind of file.
    pub kinds: BTreeMap<&'static str, Traffic>,
    /// Load of devices, the busiest first.
    pub loads: Vec<DeviceLoad>,
    /// Whether the files of block requests are known.
    pub knows_files_of_blocks: bool,
    /// Bytes that the broker wrote to connections; `None` if no operation on them was seen.
    pub sent_bytes: Option<u64>,
    /// The interval of the count.
    pub interval: Interval,
}

impl Files {
    /// Groups by this.
    pub fn new(by: GroupBy) -> Self {
        Self::with_capacity(by, MAX_GROUPS)
    }

    /// Like [`Self::new`], with at most `most` groups.
    pub fn with_capacity(by: GroupBy, most: usize) -> Self {
        Self {
            by,
            groups: BoundedMap::new(most),
            inodes: HashMap::new(),
            unnamed: HashMap::new(),
            unknown: Traffic::default(),
            kinds: BTreeMap::new(),
            loads: DeviceLoads::default(),
            knows_inodes: false,
            sent_bytes: None,
        }
    }

    /// Counts an operation.
    pub fn file_op(&mut self, op: &FileOp) {
        let known = Known {
            file: op.renamed_to.as_ref().unwrap_or(&op.file).clone(),
            kind: op.kind,
            topic_partition: op.topic_partition.clone(),
            device: op.device.to_string().into(),
        };
        let traffic = self.groups.of(known.group_key(self.by), ());
        let of_kind = self.kinds.entry(known.kind.as_str()).or_default();
        traffic.op(op);
        of_kind.op(op);
        let inode = (op.device.number(), op.inode);
        if let Some(blocks) = self.unnamed.remove(&inode) {
            traffic.add_blocks(&blocks);
            of_kind.add_blocks(&blocks);
        }
        if self.inodes.len() < MAX_INODES || self.inodes.contains_key(&inode) {
            self.inodes.insert(inode, known);
        }
    }

    /// Counts a block request for the file whose pages it holds.
    pub fn block_io(&mut self, io: &BlockIo) {
        self.loads.block_io(io);
        let Some(inode) = io.inode.map(|inode| (io.device.number(), inode)) else {
            self.unknown.block_io(io);
            return;
        };
        self.knows_inodes = true;
        if let Some(known) = self.inodes.get(&inode) {
            self.groups.of(known.group_key(self.by), ()).block_io(io);
            self.kinds.entry(known.kind.as_str()).or_default().block_io(io);
        } else if self.unnamed.len() < MAX_INODES || self.unnamed.contains_key(&inode) {
            self.unnamed.entry(inode).or_default().block_io(io);
        } else {
            self.unknown.block_io(io);
        }
    }

    /// Counts the bytes that the broker sends.
    pub fn socket_op(&mut self, op: &SocketOp) {
        let bytes = if op.op == SocketOpKind::Read { 0 } else { op.bytes.unwrap_or(0) };
        add_known(&mut self.sent_bytes, bytes);
    }

    /// Adds a sample of a device's own counters.
    pub fn host_sample(&mut self, sample: &HostSample) {
        self.loads.sample(sample);
    }

    /// The totals, with the groups in this order and the others last.
    pub fn finish(mut self, sort: Sort) -> FileTotals {
        for blocks in self.unnamed.values() {
            self.unknown.add_blocks(blocks);
        }
        let named =
            self.groups.into_groups().map(|(who, (), traffic)| (who.unwrap_or(GroupKey::Others), traffic));
        let mut groups = named.collect::<Vec<_>>();
        groups.sort_by(|(who, traffic), (other_who, other)| {
            let last = (*who == GroupKey::Others).cmp(&(*other_who == GroupKey::Others));
            let most = sort.key(other).cmp(&sort.key(traffic));
            last.then(most).then_with(|| who.cmp(other_who))
        });
        let (kinds, loads, sent_bytes) = (self.kinds, self.loads.finish(), self.sent_bytes);
        let (by, unknown, interval) = (self.by, self.unknown, Interval::default());
        // Block requests of older recordings have no inodes.
        let knows_files_of_blocks = self.knows_inodes || unknown.block_requests() == 0;
        FileTotals { by, groups, unknown, kinds, loads, knows_files_of_blocks, sent_bytes, interval }
    }
}

impl Known {
    fn group_key(&self, by: GroupBy) -> GroupKey {
        let of = self.topic_partition.as_ref().map(|of| (Arc::clone(&of.topic), of.partition));
        match by {
            GroupBy::File => GroupKey::File {
                file: Arc::clone(&self.file),
                device: Arc::clone(&self.device),
                kind: self.kind.as_str(),
                of,
            },
            GroupBy::Kind => GroupKey::Kind(self.kind.as_str()),
            GroupBy::Topic => GroupKey::Topic(of.map(|(topic, _)| topic)),
            GroupBy::Partition => GroupKey::Partition(of),
        }
    }
}

impl FileTotals {
    /// Sets the interval, which rates and their comparison need.
    #[must_use]
    pub fn over(self, interval: Interval) -> Self {
        Self { interval, ..self }
    }

    /// A count, if it is not 0 or any of these was watched; otherwise it is unknown.
    fn known(&self, purposes: &[FilePurpose], count: u64) -> Option<u64> {
        (count > 0 || self.interval.watched.has_any(purposes)).then_some(count)
    }

    /// Like [`Self::known`], for block requests of a file.
    fn known_of_blocks(&self, count: u64) -> Option<u64> {
        self.known(&[FilePurpose::BlockIo], count).filter(|_| count > 0 || self.knows_files_of_blocks)
    }

    /// Requests that a device is rated for over the interval.
    fn rated(&self) -> Option<f64> {
        Some(self.interval.rated_iops? as f64 * self.seconds()?)
    }
}

/// Sums of operations and block requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads: `read` and similar calls, and `sendfile`.
    pub reads: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Reads that read from the device, readahead included.
    pub disk_reads: u64,
    /// Bytes of reads that were in the page cache; `None` if no operation reported them.
    pub cached_bytes: Option<u64>,
    /// Bytes that `sendfile` sent to connections.
    pub sent_bytes: u64,
    /// Bytes of reads, and of faults on mapped pages, that came from the device; `None` if no operation reported them.
    pub disk_bytes: Option<u64>,
    /// Bytes read ahead beyond what was requested.
    pub readahead_bytes: u64,
    /// Faults on mapped pages that had to be read.
    pub faults: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// `fsync`, `fdatasync` and `msync`.
    pub fsyncs: u64,
    /// Operations of any other kind.
    pub others: u64,
    /// Operations of any kind that failed.
    pub errors: u64,
    /// Block requests that read.
    pub block_reads: u64,
    /// Bytes that they read.
    pub block_read_bytes: u64,
    /// Block requests that wrote.
    pub block_writes: u64,
    /// Bytes that they wrote.
    pub block_written_bytes: u64,
    /// Total time of the operations.
    pub time: Nanos,
}

/// Adds to a sum that is unknown until its first part.
pub(crate) fn add_known(sum: &mut Option<u64>, bytes: u64) {
    let sum = sum.get_or_insert(0);
    *sum = sum.saturating_add(bytes);
}

impl Traffic {
    fn op(&mut self, op: &FileOp) {
        let bytes = op.bytes.unwrap_or(0);
        match op.op {
            FileOpKind::Read | FileOpKind::Sendfile => {
                self.read(op, bytes);
            }
            FileOpKind::Write => {
                self.writes += 1;
                self.written_bytes = self.written_bytes.saturating_add(bytes);
            }
            FileOpKind::Fsync | FileOpKind::Fdatasync | FileOpKind::Msync => self.fsyncs += 1,
            FileOpKind::MmapFault => self.faults += 1,
            FileOpKind::Splice
            | FileOpKind::Copy
            | FileOpKind::Truncate
            | FileOpKind::Allocate
            | FileOpKind::Rename
            | FileOpKind::Unlink
            | FileOpKind::Open => self.others += 1,
        }
        if let Some(bytes) = op.disk_bytes {
            add_known(&mut self.disk_bytes, bytes);
        }
        self.readahead_bytes = self.readahead_bytes.saturating_add(op.readahead_bytes.unwrap_or(0));
        self.errors += u64::from(op.errno.is_some());
        self.time += op.latency().at_least_zero();
    }

    fn read(&mut self, op: &FileOp, bytes: u64) {
        self.reads += 1;
        self.read_bytes = self.read_bytes.saturating_add(bytes);
        if op.op == FileOpKind::Sendfile {
            self.sent_bytes = self.sent_bytes.saturating_add(bytes);
        }
        let Some(disk_bytes) = op.disk_bytes else { return };
        self.disk_reads += u64::from(disk_bytes > 0 || op.readahead_bytes.is_some_and(|bytes| bytes > 0));
        add_known(&mut self.cached_bytes, bytes.saturating_sub(disk_bytes));
    }

    /// Bytes read from the device, readahead included: as operations report them, else by block requests.
    pub fn from_device(&self) -> u64 {
        self.disk_bytes.map_or(self.block_read_bytes, |bytes| bytes.saturating_add(self.readahead_bytes))
    }

    /// Requests to devices.
    pub fn block_requests(&self) -> u64 {
        self.block_reads + self.block_writes
    }

    fn block_io(&mut self, io: &BlockIo) {
        match io.direction {
            Direction::Read => {
                self.block_reads += 1;
                self.block_read_bytes += u64::from(io.bytes);
            }
            Direction::Write => {
                self.block_writes += 1;
                self.block_written_bytes += u64::from(io.bytes);
            }
            Direction::Other => {}
        }
    }

    /// Adds the block requests of another one.
    fn add_blocks(&mut self, other: &Self) {
        self.block_reads += other.block_reads;
        self.block_read_bytes += other.block_read_bytes;
        self.block_writes += other.block_writes;
        self.block_written_bytes += other.block_written_bytes;
    }
}

model::named! {
    /// What to group by.
    pub enum GroupBy {
        /// Files, on each device.
        File = "file",
        /// Kinds of files.
        Kind = "kind",
        /// Topics.
        Topic = "topic",
        /// Partitions.
        Partition = "partition",
    }
}

model::named! {
    /// What to sort by, the highest first.
    pub enum Sort {
        /// What moved the most bytes to and from devices: read from disk and written.
        Bytes = "bytes",
        /// The most read operations.
        Reads = "reads",
        /// The most bytes read.
        Read = "read",
        /// The most bytes read from disk.
        Disk = "disk",
        /// The most reads that had to wait for the disk.
        DiskReads = "disk-reads",
        /// The most write operations.
        Writes = "writes",
        /// The most bytes written.
        Written = "written",
        /// The most fsyncs.
        Fsyncs = "fsyncs",
        /// The most block requests.
        Block = "block",
        /// The longest time.
        Time = "time",
    }
}

impl Sort {
    fn key(self, traffic: &Traffic) -> u64 {
        match self {
            Self::Bytes => traffic.disk_bytes.unwrap_or(0).saturating_add(traffic.written_bytes),
            Self::Reads => traffic.reads,
            Self::Read => traffic.read_bytes,
            Self::Disk => traffic.disk_bytes.unwrap_or(0),
            Self::DiskReads => traffic.disk_reads,
            Self::Writes => traffic.writes,
            Self::Written => traffic.written_bytes,
            Self::Fsyncs => traffic.fsyncs,
            Self::Block => traffic.block_reads + traffic.block_writes,
            Self::Time => traffic.time.as_length_ns(),
        }
    }
}
