//! What was read and written of each file, or of each kind of file, topic or partition; what devices did meanwhile, and what
//! the broker sent. Holds a bounded number of each. Does not print.

mod choice;
mod device;
pub(crate) mod egress;
mod group;
mod heading;
mod table;
mod view;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::sync::Arc;

use model::{BlockIo, FileKind, FileOp, HostSample, Nanos, SocketOp, SocketOpKind, TopicPartition};

pub use choice::{GroupBy, Sort};
pub use device::Load;
pub use egress::ReadsWithoutEgress;
pub use group::Traffic;

use crate::Style;
use crate::bounded_map::BoundedMap;
use device::Loads;

/// Files (kinds, topics, partitions) told apart; what comes after them is with the others. A group takes some 300
/// bytes.
const MOST_GROUPS: usize = 50_000;
/// Files whose inodes are known, to tell whose a block request is.
const MOST_INODES: usize = 100_000;

/// Who a group is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum GroupKey {
    /// A file, and what else its name tells.
    File {
        /// As operations name it.
        file: Arc<str>,
        /// Its device's name.
        device: Arc<str>,
        /// What kind of file it is.
        kind: &'static str,
        /// The topic and the partition that it belongs to.
        of: Option<(Arc<str>, i32)>,
    },
    /// A kind of file.
    Kind(&'static str),
    /// A topic; none for files of no topic.
    Topic(Option<Arc<str>>),
    /// A partition; none for files of none.
    Partition(Option<(Arc<str>, i32)>),
    /// Those for which there was no room.
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

/// A device's number and an inode's on it.
type Inode = ((u32, u32), u64);

/// Adds up what operations and block requests move. A copy of it can be finished while it goes on.
#[derive(Clone)]
pub struct Files {
    by: GroupBy,
    groups: BoundedMap<GroupKey, (), Traffic>,
    inodes: HashMap<Inode, Known>,
    /// Block requests of inodes that no operation has named yet.
    unnamed: HashMap<Inode, Traffic>,
    /// Block requests that are of no file that is known.
    unknown: Traffic,
    /// The same operations and requests by kind of file, whatever else is told apart.
    kinds: BTreeMap<&'static str, Traffic>,
    loads: Loads,
    /// What the broker wrote to connections; none where no operation on them was seen.
    sent_bytes: Option<u64>,
}

/// Over what was counted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// How long; without it there are no rates.
    pub span: Option<Nanos>,
    /// Requests a second that each device is rated for.
    pub rated_iops: Option<u64>,
    /// Whether some operations were left out on purpose: then sums are no measure of what the broker did.
    pub partial: bool,
}

/// What was added up.
#[derive(Clone, Debug)]
pub struct FileTotals {
    /// What was told apart.
    pub by: GroupBy,
    /// The groups, in order.
    pub groups: Vec<(GroupKey, Traffic)>,
    /// Block requests that are of no file of the broker that is known: journals, metadata, other programs.
    pub unknown: Traffic,
    /// By kind of file.
    pub kinds: BTreeMap<&'static str, Traffic>,
    /// What devices did, the busiest first.
    pub loads: Vec<Load>,
    /// What the broker wrote to connections; none where no operation on them was seen.
    pub sent_bytes: Option<u64>,
    /// Over what it was counted.
    pub interval: Interval,
}

impl Files {
    /// Tells these apart.
    pub fn new(by: GroupBy) -> Self {
        Self::with_room_for(by, MOST_GROUPS)
    }

    /// The same, with room for so many.
    pub fn with_room_for(by: GroupBy, most: usize) -> Self {
        Self {
            by,
            groups: BoundedMap::new(most),
            inodes: HashMap::new(),
            unnamed: HashMap::new(),
            unknown: Traffic::default(),
            kinds: BTreeMap::new(),
            loads: Loads::default(),
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
        let traffic = self.groups.of(known.who(self.by), ());
        let of_kind = self.kinds.entry(known.kind.as_str()).or_default();
        traffic.op(op);
        of_kind.op(op);
        let inode = (op.device.number(), op.inode);
        if let Some(blocks) = self.unnamed.remove(&inode) {
            traffic.add_blocks(&blocks);
            of_kind.add_blocks(&blocks);
        }
        if self.inodes.len() < MOST_INODES || self.inodes.contains_key(&inode) {
            self.inodes.insert(inode, known);
        }
    }

    /// Counts a block request, for the file whose pages it holds.
    pub fn block_io(&mut self, io: &BlockIo) {
        self.loads.block_io(io);
        let Some(inode) = io.inode.map(|inode| (io.device.number(), inode)) else {
            self.unknown.block_io(io);
            return;
        };
        if let Some(known) = self.inodes.get(&inode) {
            self.groups.of(known.who(self.by), ()).block_io(io);
            self.kinds.entry(known.kind.as_str()).or_default().block_io(io);
        } else if self.unnamed.len() < MOST_INODES || self.unnamed.contains_key(&inode) {
            self.unnamed.entry(inode).or_default().block_io(io);
        } else {
            self.unknown.block_io(io);
        }
    }

    /// Counts what the broker sends.
    pub fn socket_op(&mut self, op: &SocketOp) {
        let bytes = if op.op == SocketOpKind::Read { 0 } else { op.bytes.unwrap_or(0) };
        self.sent_bytes = Some(self.sent_bytes.unwrap_or(0).saturating_add(bytes));
    }

    /// Takes what a device says of itself.
    pub fn host_sample(&mut self, sample: &HostSample) {
        self.loads.sample(sample);
    }

    /// The groups in this order, the others last.
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
        let (kinds, loads, sent_bytes) = (self.kinds, self.loads, self.sent_bytes);
        let (by, unknown, interval) = (self.by, self.unknown, Interval::default());
        FileTotals { by, groups, unknown, kinds, loads: loads.finish(), sent_bytes, interval }
    }
}

impl Known {
    fn who(&self, by: GroupBy) -> GroupKey {
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
    /// The same, with what it was counted over: rates, and what is compared with them.
    #[must_use]
    pub fn over(self, interval: Interval) -> Self {
        Self { interval, ..self }
    }

    /// Requests that a device is rated for over the interval.
    fn rated(&self) -> Option<f64> {
        Some(self.interval.rated_iops? as f64 * self.seconds()?)
    }

    /// Writes a table for people, with at most so many rows.
    pub fn write_table(&self, out: &mut impl Write, look: &Style, most: usize) -> io::Result<()> {
        table::write(out, look, self, most)
    }

    /// Writes one JSON object a group, at most so many, and a last one with the sums of all.
    pub fn write_json(&self, out: &mut impl Write, most: usize) -> io::Result<()> {
        let mut groups = self.groups.iter().take(most);
        groups.try_for_each(|(who, traffic)| view::fields(self, who, traffic).write_json(out))?;
        view::summary(self).write_json(out)?;
        out.flush()
    }

    /// Writes a line of CSV a group, at most so many.
    pub fn write_csv(&self, out: &mut impl Write, most: usize) -> io::Result<()> {
        view::fields(self, &GroupKey::Others, &Traffic::default()).write_csv_names(out)?;
        let mut groups = self.groups.iter().take(most);
        groups.try_for_each(|(who, traffic)| view::fields(self, who, traffic).write_csv(out))?;
        out.flush()
    }
}
