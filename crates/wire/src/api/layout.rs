//! Declares layouts of bodies as lists of fields, and reads bytes by them.
//! Does not know which API has which layout.
//!
//! A layout lists a body's fields in the order of Kafka's message schemas, each with the versions that have it. Fields
//! without a use are skipped by their type; the others become [`Values`]. In flexible versions, structures in arrays
//! end with tagged fields (KIP-482).

use crate::reader::Reader;
use crate::{Error, ErrorKind};

/// The fields of a body or of a structure, in order.
pub(crate) type Layout = &'static [Field];

/// A field, and the versions that have it.
#[derive(Clone, Copy)]
pub(crate) struct Field {
    kind: Kind,
    since: i16,
    until: i16,
}

#[derive(Clone, Copy)]
enum Kind {
    /// This many bytes.
    Fixed(usize),
    String,
    Bytes,
    /// Tagged fields at the end of a structure inside another.
    Tags,
    /// An array.
    Array(Elements, Layout),
    /// A number of this many bytes.
    Number(Number, usize),
    Group,
    Transaction,
    Key,
    TopicName,
    NullableTopicName,
    TopicId,
    /// The ids of a partition's replicas, of which only the number is kept.
    Replicas,
    /// Record batches, or null.
    Records,
}

/// The elements of an array.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Elements {
    /// Plain values.
    Plain,
    /// Structures.
    Structs,
    /// Structures, each of which contains the rows of a topic. Not null.
    Topics,
    /// Structures, each of which is passed on once it is read.
    /// Not null. Nested rows come before the row that contains them.
    Rows,
}

/// A number that is read, by its meaning.
/// Numbers of requests and of responses have the same low bits: no body contains both, so they share slots in
/// [`Values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// The partition's number.
    Partition,
    /// The fetch session, 0 for none (KIP-227).
    SessionId,
    /// What the keys of `FindCoordinator` identify.
    KeyType,
    /// 0, 1 or -1 (all).
    Acks,
    /// How long the broker may wait for followers, in milliseconds.
    TimeoutMs,
    /// How long the broker may wait for `MinBytes`, in milliseconds.
    MaxWaitMs,
    /// How many bytes the broker waits for.
    MinBytes,
    /// The maximum number of bytes in all.
    MaxBytes,
    /// 0 reads uncommitted, 1 committed records.
    IsolationLevel,
    /// The number of the request in its session; 0 starts one, -1 means no session.
    SessionEpoch,
    /// The first requested offset.
    FetchOffset,
    /// How long the broker throttled the client, in milliseconds.
    ThrottleMs = 18,
    /// Kafka's error code for the request as a whole; 0 means none.
    ErrorCode,
    /// Kafka's error code for a partition or topic.
    PartitionError,
    /// Kafka's error code for the acknowledgements of a `ShareFetch`.
    AcknowledgeError,
    /// The offset of the first appended record, or -1.
    BaseOffset,
    /// When the broker appended the records, if the topic uses `LogAppendTime`; else -1.
    LogAppendTimeMs,
    /// The offset after the last record that all in-sync replicas have, or -1.
    HighWatermark,
    /// The partition's first offset, or -1.
    LogStartOffset,
}

impl Number {
    /// Slots for numbers in [`Values`].
    const PLACES: usize = 16;

    fn place(self) -> usize {
        self as usize % Self::PLACES
    }
}

/// The constants with which [`super::table`] declares layouts.
pub(super) mod spelling {
    use super::{Elements, Field, Kind, Layout, Number};

    const fn field(kind: Kind) -> Field {
        Field { kind, since: 0, until: i16::MAX }
    }

    impl Field {
        /// In this version and later ones.
        pub(in crate::api) const fn since(self, since: i16) -> Self {
            Self { since, ..self }
        }

        /// In this version and earlier ones.
        pub(in crate::api) const fn until(self, until: i16) -> Self {
            Self { until, ..self }
        }
    }

    macro_rules! arrays {
        ($($name:ident $elements:ident;)*) => {
            $(pub(in crate::api) const fn $name(element: Layout) -> Field {
                field(Kind::Array(Elements::$elements, element))
            })*
        };
    }
    arrays! { array Plain; structs Structs; topics Topics; rows Rows; }

    macro_rules! numbers {
        ($($name:ident $number:ident $bytes:literal;)*) => {
            $(pub(in crate::api) const $name: Field = field(Kind::Number(Number::$number, $bytes));)*
        };
    }
    numbers! {
        KEY_TYPE KeyType 1;
        THROTTLE ThrottleMs 4;
        ERROR ErrorCode 2;
        ACKS Acks 2;
        TIMEOUT TimeoutMs 4;
        MAX_WAIT MaxWaitMs 4;
        MIN_BYTES MinBytes 4;
        MAX_BYTES MaxBytes 4;
        ISOLATION_LEVEL IsolationLevel 1;
        SESSION_ID SessionId 4;
        SESSION_EPOCH SessionEpoch 4;
        PARTITION Partition 4;
        PARTITION_ERROR PartitionError 2;
        ACKNOWLEDGE_ERROR AcknowledgeError 2;
        FETCH_OFFSET FetchOffset 8;
        BASE_OFFSET BaseOffset 8;
        LOG_APPEND_TIME LogAppendTimeMs 8;
        HIGH_WATERMARK HighWatermark 8;
        LOG_START_OFFSET LogStartOffset 8;
    }

    pub(in crate::api) const INT8: Field = field(Kind::Fixed(1));
    pub(in crate::api) const INT16: Field = field(Kind::Fixed(2));
    pub(in crate::api) const INT32: Field = field(Kind::Fixed(4));
    pub(in crate::api) const INT64: Field = field(Kind::Fixed(8));
    pub(in crate::api) const UUID: Field = field(Kind::Fixed(16));
    pub(in crate::api) const STRING: Field = field(Kind::String);
    pub(in crate::api) const BYTES: Field = field(Kind::Bytes);
    pub(in crate::api) const TAGS: Field = field(Kind::Tags);
    pub(in crate::api) const GROUP: Field = field(Kind::Group);
    pub(in crate::api) const TRANSACTION: Field = field(Kind::Transaction);
    pub(in crate::api) const KEY: Field = field(Kind::Key);
    pub(in crate::api) const TOPIC_NAME: Field = field(Kind::TopicName);
    pub(in crate::api) const NULLABLE_TOPIC_NAME: Field = field(Kind::NullableTopicName);
    pub(in crate::api) const TOPIC_ID: Field = field(Kind::TopicId);
    pub(in crate::api) const REPLICAS: Field = field(Kind::Replicas);
    pub(in crate::api) const RECORDS: Field = field(Kind::Records);
}

/// The values read from a body so far. Values that every row has are the last row's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values<'a> {
    numbers: [i64; Number::PLACES],
    /// Which numbers were read: one bit each.
    known: u32,
    /// The topic's name, if the version has one.
    pub topic_name: Option<&'a str>,
    /// The topic's id (KIP-516), if the version has one.
    pub topic_id: Option<[u8; 16]>,
    /// The partition's replica count; `None` if the row is not a partition with replicas.
    pub replicas: Option<u32>,
    /// Record batches.
    pub records: Option<&'a [u8]>,
    group: Name<'a>,
    transaction: Name<'a>,
    key: Name<'a>,
}

/// A name that occurs once, never, or more than once.
#[derive(Clone, Copy, Debug, Default)]
enum Name<'a> {
    #[default]
    Never,
    Once(&'a str),
    Often,
}

impl<'a> Name<'a> {
    fn add(&mut self, name: Option<&'a str>) {
        *self = match (*self, name) {
            (Self::Never, Some(name)) => Self::Once(name),
            (known, None) => known,
            _ => Self::Often,
        };
    }

    fn once(self) -> Option<&'a str> {
        if let Self::Once(name) = self { Some(name) } else { None }
    }
}

impl<'a> Values<'a> {
    /// A number; `None` if the version has no such field.
    #[inline]
    pub fn number(&self, number: Number) -> Option<i64> {
        let known = self.known & 1 << number as u32 != 0;
        self.numbers.get(number.place()).copied().filter(|_| known)
    }

    /// A number of at most four bytes.
    #[inline]
    pub fn int(&self, number: Number) -> Option<i32> {
        self.number(number).map(|value| value as i32)
    }

    /// A number of at most two bytes.
    #[inline]
    pub fn short(&self, number: Number) -> Option<i16> {
        self.number(number).map(|value| value as i16)
    }

    /// The group's id; `None` also if there are several.
    /// `FindCoordinator`'s keys are groups (type 0, and before there were types) or transactions (type 1); keys of
    /// share groups (type 2) contain more than a group.
    pub fn group_id(&self) -> Option<&'a str> {
        self.group.once().or(self.key.once().filter(|_| self.number(Number::KeyType).unwrap_or(0) == 0))
    }

    /// The transaction's id; `None` also if there are several (a broker's `AddPartitionsToTxn`, KIP-890).
    pub fn transactional_id(&self) -> Option<&'a str> {
        self.transaction.once().or(self.key.once().filter(|_| self.number(Number::KeyType) == Some(1)))
    }
}

/// Reads fields of a body of one version.
pub(crate) struct BodyReader<'a> {
    pub(crate) reader: Reader<'a>,
    pub(crate) values: Values<'a>,
    version: i16,
    flexible: bool,
}

impl<'a> BodyReader<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], version: i16, flexible: bool) -> Self {
        Self { reader: Reader::new(bytes), values: Values::default(), version, flexible }
    }

    /// Reads the fields of a layout that has no rows.
    #[inline]
    pub(crate) fn read_fields(&mut self, layout: Layout) -> Result<(), Error> {
        if layout.is_empty() { Ok(()) } else { self.read(layout, &mut |_| {}) }
    }

    /// Reads the fields of a layout; passes the values to `row` at the end of each row.
    pub(crate) fn read<F: FnMut(&Values<'a>)>(&mut self, layout: Layout, row: &mut F) -> Result<(), Error> {
        let Self { mut reader, version, flexible, .. } = *self;
        for field in layout.iter().filter(|field| field.is_in(version)) {
            match field.kind {
                Kind::Fixed(bytes) => drop(reader.take(bytes)?),
                Kind::String => drop(reader.nullable_string(flexible)?),
                Kind::Bytes => drop(reader.nullable_bytes(flexible)?),
                Kind::Tags => reader.tagged_fields(flexible)?,
                Kind::Array(Elements::Plain, [Field { kind: Kind::Fixed(bytes), .. }]) => {
                    let count = reader.bytes_length(flexible)?.unwrap_or(0) as usize;
                    reader.take(count * bytes)?;
                }
                Kind::Array(elements, layout) => {
                    let count = match elements {
                        Elements::Plain | Elements::Structs => reader.bytes_length(flexible)?.unwrap_or(0),
                        Elements::Topics | Elements::Rows => reader.array_length(flexible)?,
                    };
                    self.reader = reader;
                    // Every element takes at least a byte, so a false count ends with the bytes.
                    for _ in 0..count {
                        self.read(layout, row)?;
                        self.reader.tagged_fields(flexible && elements != Elements::Plain)?;
                        if elements == Elements::Rows {
                            row(&self.values);
                            self.values.replicas = None;
                        }
                    }
                    reader = self.reader;
                }
                Kind::Number(number, bytes) => {
                    let value = reader.int(bytes)?;
                    if let Some(place) = self.values.numbers.get_mut(number.place()) {
                        *place = value;
                        self.values.known |= 1 << number as u32;
                    }
                }
                Kind::Group => self.values.group.add(reader.nullable_string(flexible)?),
                Kind::Transaction => self.values.transaction.add(reader.nullable_string(flexible)?),
                Kind::Key => self.values.key.add(reader.nullable_string(flexible)?),
                Kind::TopicName => {
                    let name = reader.string(flexible)?;
                    self.values.topic_name = Some(topic_name(name, &reader)?);
                }
                Kind::NullableTopicName => {
                    let name = reader.nullable_string(flexible)?;
                    self.values.topic_name = name.map(|name| topic_name(name, &reader)).transpose()?;
                }
                Kind::TopicId => self.values.topic_id = Some(reader.uuid()?),
                Kind::Replicas => {
                    let count = reader.bytes_length(flexible)?.unwrap_or(0);
                    reader.take(count as usize * size_of::<i32>())?;
                    self.values.replicas = Some(count);
                }
                Kind::Records => self.values.records = reader.nullable_bytes(flexible)?,
            }
        }
        self.reader = reader;
        Ok(())
    }
}

/// Checks a topic's name (`Topic.MAX_NAME_LENGTH`).
fn topic_name<'a>(name: &'a str, reader: &Reader<'_>) -> Result<&'a str, Error> {
    const MAX_BYTES: usize = 249;
    let is_one = name.len() <= MAX_BYTES;
    if is_one { Ok(name) } else { Err(reader.error(ErrorKind::BadLength(name.len() as i64))) }
}

impl Field {
    #[inline]
    fn is_in(&self, version: i16) -> bool {
        (self.since..=self.until).contains(&version)
    }
}

/// Whether all fields of a version have a fixed length.
pub(super) fn is_fixed(layout: Layout, version: i16) -> bool {
    let is_fixed = |field: &Field| matches!(field.kind, Kind::Fixed(_) | Kind::Number(..));
    layout.iter().filter(|field| field.is_in(version)).all(is_fixed)
}

/// Whether a version has none of the fields.
pub(super) fn is_empty(layout: Layout, version: i16) -> bool {
    !layout.iter().any(|field| field.is_in(version))
}

/// Whether a layout describes a whole body, not only the beginning of one.
pub(super) fn has_rows(layout: Layout) -> bool {
    inner(layout).is_some()
}

/// The index and the element layout of the array of topics or of their rows.
fn inner(layout: Layout) -> Option<(usize, Layout)> {
    layout.iter().enumerate().find_map(|(at, field)| match field.kind {
        Kind::Array(Elements::Topics | Elements::Rows, inner) => Some((at, inner)),
        _ => None,
    })
}

/// The layout of a body that lists topics and their partitions. It is split where it can be read piece by piece.
#[derive(Clone, Copy, Default)]
pub(crate) struct Levels {
    pub(crate) version: i16,
    pub(crate) flexible: bool,
    /// The fields before the topics.
    pub(crate) top: Layout,
    /// The fields of a topic before its partitions.
    pub(crate) topic: Layout,
    /// The fields of a partition before its records.
    pub(crate) partition: Layout,
    pub(crate) has_records: bool,
    /// The fields after the records, and after the topics.
    pub(crate) partition_end: Layout,
    pub(crate) end: Layout,
}

impl Levels {
    pub(super) fn of(layout: Layout, version: i16, flexible: bool) -> Option<Self> {
        let split = |layout: Layout, at: usize| Some((layout.get(..at)?, layout.get(at + 1..)?));
        let (at, topics) = inner(layout)?;
        let (top, end) = split(layout, at)?;
        let (at, rows) = inner(topics)?;
        let (topic, _) = split(topics, at)?;
        let records = rows.iter().position(|field| matches!(field.kind, Kind::Records));
        let (partition, partition_end) = records.map_or(Some((rows, &[][..])), |at| split(rows, at))?;
        let has_records = records.is_some();
        Some(Self { version, flexible, top, topic, partition, has_records, partition_end, end })
    }
}
