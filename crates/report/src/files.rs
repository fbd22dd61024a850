//! What was read and written of each file, or of each kind of file, topic or partition. Holds a bounded number of them.
//! Does not print.

mod group;
mod table;
mod view;

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::Arc;

use model::{BlockIo, FileKind, FileOp, TopicPartition};

pub use group::Traffic;

use crate::Look;
use crate::bounded::Bounded;

/// Files (kinds, topics, partitions) told apart; what comes after them is with the others. A group takes some 300
/// bytes.
const MOST_GROUPS: usize = 50_000;
/// Files whose inodes are known, to tell whose a block request is.
const MOST_INODES: usize = 100_000;

/// What to tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// Files, on each device.
    File,
    /// Kinds of files.
    Kind,
    /// Topics.
    Topic,
    /// Partitions.
    Partition,
}

impl By {
    /// Every way.
    pub const ALL: [Self; 4] = [Self::File, Self::Kind, Self::Topic, Self::Partition];

    /// The name on the command line and in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Kind => "kind",
            Self::Topic => "topic",
            Self::Partition => "partition",
        }
    }

    /// The way of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|by| by.as_str() == name)
    }
}

/// What to put first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sort {
    /// What moved the most bytes to and from devices: read from disk and written.
    Bytes,
    /// The most read operations.
    Reads,
    /// The most bytes read.
    Read,
    /// The most bytes read from disk.
    Disk,
    /// The most write operations.
    Writes,
    /// The most bytes written.
    Written,
    /// The most fsyncs.
    Fsyncs,
    /// The most block requests.
    Block,
    /// The longest time.
    Time,
}

impl Sort {
    /// Every order.
    pub const ALL: [Self; 9] = [
        Self::Bytes,
        Self::Reads,
        Self::Read,
        Self::Disk,
        Self::Writes,
        Self::Written,
        Self::Fsyncs,
        Self::Block,
        Self::Time,
    ];

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Reads => "reads",
            Self::Read => "read",
            Self::Disk => "disk",
            Self::Writes => "writes",
            Self::Written => "written",
            Self::Fsyncs => "fsyncs",
            Self::Block => "block",
            Self::Time => "time",
        }
    }

    /// The order of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|sort| sort.as_str() == name)
    }

    fn key(self, traffic: &Traffic) -> u64 {
        match self {
            Self::Bytes => traffic.disk_bytes.unwrap_or(0).saturating_add(traffic.written_bytes),
            Self::Reads => traffic.reads,
            Self::Read => traffic.read_bytes,
            Self::Disk => traffic.disk_bytes.unwrap_or(0),
            Self::Writes => traffic.writes,
            Self::Written => traffic.written_bytes,
            Self::Fsyncs => traffic.fsyncs,
            Self::Block => traffic.block_reads + traffic.block_writes,
            Self::Time => u64::try_from(traffic.time.0).unwrap_or(0),
        }
    }
}

/// Who a group is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Who {
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

/// Adds up what operations and block requests move.
pub struct Files {
    by: By,
    groups: Bounded<Who, (), Traffic>,
    inodes: HashMap<Inode, Known>,
    /// Block requests of inodes that no operation has named yet.
    unnamed: HashMap<Inode, Traffic>,
    /// Block requests that are of no file that is known.
    unknown: Traffic,
}

/// What was added up.
#[derive(Clone, Debug)]
pub struct FileTotals {
    /// What was told apart.
    pub by: By,
    /// The groups, in order.
    pub groups: Vec<(Who, Traffic)>,
    /// Block requests that are of no file of the broker that is known: journals, metadata, other programs.
    pub unknown: Traffic,
}

impl Files {
    /// Tells these apart.
    pub fn new(by: By) -> Self {
        Self::with_room_for(by, MOST_GROUPS)
    }

    /// The same, with room for so many.
    pub fn with_room_for(by: By, most: usize) -> Self {
        Self {
            by,
            groups: Bounded::new(most),
            inodes: HashMap::new(),
            unnamed: HashMap::new(),
            unknown: Traffic::default(),
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
        traffic.op(op);
        let inode = (op.device.number(), op.inode);
        if let Some(blocks) = self.unnamed.remove(&inode) {
            traffic.add(&blocks);
        }
        if self.inodes.len() < MOST_INODES || self.inodes.contains_key(&inode) {
            self.inodes.insert(inode, known);
        }
    }

    /// Counts a block request, for the file whose pages it holds.
    pub fn block_io(&mut self, io: &BlockIo) {
        let Some(inode) = io.inode.map(|inode| (io.device.number(), inode)) else {
            self.unknown.block_io(io);
            return;
        };
        if let Some(known) = self.inodes.get(&inode) {
            self.groups.of(known.who(self.by), ()).block_io(io);
        } else if self.unnamed.len() < MOST_INODES || self.unnamed.contains_key(&inode) {
            self.unnamed.entry(inode).or_default().block_io(io);
        } else {
            self.unknown.block_io(io);
        }
    }

    /// The groups in this order, the others last.
    pub fn finish(mut self, sort: Sort) -> FileTotals {
        for blocks in self.unnamed.values() {
            self.unknown.add(blocks);
        }
        let named = self.groups.into_groups().map(|(who, (), traffic)| (who.unwrap_or(Who::Others), traffic));
        let mut groups = named.collect::<Vec<_>>();
        groups.sort_by(|(who, traffic), (other_who, other)| {
            let last = (*who == Who::Others).cmp(&(*other_who == Who::Others));
            let most = sort.key(other).cmp(&sort.key(traffic));
            last.then(most).then_with(|| who.cmp(other_who))
        });
        FileTotals { by: self.by, groups, unknown: self.unknown }
    }
}

impl Known {
    fn who(&self, by: By) -> Who {
        let of = self.topic_partition.as_ref().map(|of| (Arc::clone(&of.topic), of.partition));
        match by {
            By::File => Who::File {
                file: Arc::clone(&self.file),
                device: Arc::clone(&self.device),
                kind: self.kind.as_str(),
                of,
            },
            By::Kind => Who::Kind(self.kind.as_str()),
            By::Topic => Who::Topic(of.map(|(topic, _)| topic)),
            By::Partition => Who::Partition(of),
        }
    }
}

impl FileTotals {
    /// Writes a table for people, with at most so many rows.
    pub fn write_table(&self, out: &mut impl Write, look: &Look, most: usize) -> io::Result<()> {
        table::write(out, look, self, most)
    }

    /// Writes one JSON object a group, at most so many.
    pub fn write_json(&self, out: &mut impl Write, most: usize) -> io::Result<()> {
        self.groups
            .iter()
            .take(most)
            .try_for_each(|(who, traffic)| view::fields(self.by, who, traffic).write_json(out))?;
        out.flush()
    }

    /// Writes a line of CSV a group, at most so many.
    pub fn write_csv(&self, out: &mut impl Write, most: usize) -> io::Result<()> {
        view::fields(self.by, &Who::Others, &Traffic::default()).write_csv_names(out)?;
        self.groups
            .iter()
            .take(most)
            .try_for_each(|(who, traffic)| view::fields(self.by, who, traffic).write_csv(out))?;
        out.flush()
    }
}
