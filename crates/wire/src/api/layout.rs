//! Layouts of bodies as declared fields, and reading bytes by them. Does not know which API has which.
//!
//! A layout lists a body's fields in the order of Kafka's message schemas, each with the versions that have it. Fields
//! that nobody wants are passed over by their type; the others are [`Values`]. Structures in arrays end with tagged
//! fields (KIP-482) in flexible versions.

use crate::Error;
use crate::reader::Reader;

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
    /// That many bytes.
    Fixed(usize),
    String,
    Bytes,
    /// Tagged fields that end a structure inside another.
    Tags,
    /// An array of plain values.
    Array(Layout),
    /// An array of structures.
    Structs(Layout),
    /// The same, of which one holds the rows of a topic.
    Topics(Layout),
    /// The same, each of which is handed over when it was read.
    Rows(Layout),
    /// A number of that many bytes.
    Number(Number, usize),
    Group,
    Transaction,
    Key,
    TopicName,
    NullableTopicName,
    TopicId,
    /// Record batches, or null.
    Records,
}

/// A number that is read, by what it means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    /// How long the broker throttled the client, in milliseconds.
    ThrottleMs,
    /// Kafka's error code for the request as a whole; 0 is none.
    ErrorCode,
    /// What a coordinator's key names (`FindCoordinator`).
    KeyType,
    /// 0, 1 or -1 (all).
    Acks,
    /// How long the broker may wait for followers, in milliseconds.
    TimeoutMs,
    /// How long the broker may wait for `MinBytes`, in milliseconds.
    MaxWaitMs,
    /// How many bytes the broker shall wait for.
    MinBytes,
    /// The most bytes wanted in all.
    MaxBytes,
    /// 0 reads uncommitted, 1 committed records.
    IsolationLevel,
    /// The fetch session, 0 for none (KIP-227).
    SessionId,
    /// The number of the request in its session; 0 starts one, -1 is without.
    SessionEpoch,
    /// The partition's number.
    Partition,
    /// Kafka's error code for a partition or topic.
    PartitionError,
    /// Kafka's error code for what a `ShareFetch` acknowledged.
    AcknowledgeError,
    /// The first offset wanted.
    FetchOffset,
    /// The offset of the first record as appended, or -1.
    BaseOffset,
    /// When the broker appended the records, if the topic uses `LogAppendTime`; else -1.
    LogAppendTimeMs,
    /// The offset after the last that all in-sync replicas have, or -1.
    HighWatermark,
    /// The partition's first offset, or -1.
    LogStartOffset,
}

const NUMBERS: usize = Number::LogStartOffset as usize + 1;

/// The constants that [`super::table`] spells layouts with.
pub(super) mod spelling {
    use super::{Field, Kind, Layout, Number};

    const fn field(kind: Kind) -> Field {
        Field { kind, since: 0, until: i16::MAX }
    }

    const fn number(number: Number, bytes: usize) -> Field {
        field(Kind::Number(number, bytes))
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

        pub(in crate::api) const fn between(self, since: i16, until: i16) -> Self {
            Self { since, until, ..self }
        }
    }

    pub(in crate::api) const fn array(element: Layout) -> Field {
        field(Kind::Array(element))
    }

    pub(in crate::api) const fn structs(element: Layout) -> Field {
        field(Kind::Structs(element))
    }

    pub(in crate::api) const fn topics(element: Layout) -> Field {
        field(Kind::Topics(element))
    }

    pub(in crate::api) const fn rows(element: Layout) -> Field {
        field(Kind::Rows(element))
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
    pub(in crate::api) const KEY_TYPE: Field = number(Number::KeyType, 1);
    pub(in crate::api) const TOPIC_NAME: Field = field(Kind::TopicName);
    pub(in crate::api) const NULLABLE_TOPIC_NAME: Field = field(Kind::NullableTopicName);
    pub(in crate::api) const TOPIC_ID: Field = field(Kind::TopicId);
    pub(in crate::api) const RECORDS: Field = field(Kind::Records);
    pub(in crate::api) const THROTTLE: Field = number(Number::ThrottleMs, 4);
    pub(in crate::api) const ERROR: Field = number(Number::ErrorCode, 2);
    pub(in crate::api) const ACKS: Field = number(Number::Acks, 2);
    pub(in crate::api) const TIMEOUT: Field = number(Number::TimeoutMs, 4);
    pub(in crate::api) const MAX_WAIT: Field = number(Number::MaxWaitMs, 4);
    pub(in crate::api) const MIN_BYTES: Field = number(Number::MinBytes, 4);
    pub(in crate::api) const MAX_BYTES: Field = number(Number::MaxBytes, 4);
    pub(in crate::api) const ISOLATION_LEVEL: Field = number(Number::IsolationLevel, 1);
    pub(in crate::api) const SESSION_ID: Field = number(Number::SessionId, 4);
    pub(in crate::api) const SESSION_EPOCH: Field = number(Number::SessionEpoch, 4);
    pub(in crate::api) const PARTITION: Field = number(Number::Partition, 4);
    pub(in crate::api) const PARTITION_ERROR: Field = number(Number::PartitionError, 2);
    pub(in crate::api) const ACKNOWLEDGE_ERROR: Field = number(Number::AcknowledgeError, 2);
    pub(in crate::api) const FETCH_OFFSET: Field = number(Number::FetchOffset, 8);
    pub(in crate::api) const BASE_OFFSET: Field = number(Number::BaseOffset, 8);
    pub(in crate::api) const LOG_APPEND_TIME: Field = number(Number::LogAppendTimeMs, 8);
    pub(in crate::api) const HIGH_WATERMARK: Field = number(Number::HighWatermark, 8);
    pub(in crate::api) const LOG_START_OFFSET: Field = number(Number::LogStartOffset, 8);
}

/// What was read of a body so far. Of what stands in every row, the last one's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Values<'a> {
    numbers: [i64; NUMBERS],
    /// Which of them were read: a bit each.
    known: u32,
    /// The topic's name, where the version has one.
    pub topic_name: Option<&'a str>,
    /// The topic's id (KIP-516), where the version has one.
    pub topic_id: Option<[u8; 16]>,
    /// Record batches.
    pub records: Option<&'a [u8]>,
    group: Name<'a>,
    transaction: Name<'a>,
    key: Name<'a>,
}

/// Something named once, never, or more than once.
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
    /// A number; none where the version has no such field.
    #[inline]
    pub fn number(&self, number: Number) -> Option<i64> {
        let known = self.known & 1 << number as u32 != 0;
        self.numbers.get(number as usize).copied().filter(|_| known)
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

    /// The group's id; none also where several are named. `FindCoordinator`'s keys are groups (type 0, and before there
    /// were types) or transactions (type 1); those of share groups (type 2) hold more than a group.
    pub fn group_id(&self) -> Option<&'a str> {
        self.group.once().or(self.key.once().filter(|_| self.number(Number::KeyType).unwrap_or(0) == 0))
    }

    /// The transaction's id; none also where several are named (a broker's `AddPartitionsToTxn`, KIP-890).
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

    /// Reads the fields of a layout; hands over the values at the end of each row.
    pub(crate) fn read<F: FnMut(&Values<'a>)>(&mut self, layout: Layout, row: &mut F) -> Result<(), Error> {
        let version = self.version;
        for field in layout.iter().filter(|field| field.is_in(version)) {
            let (reader, values, flexible) = (&mut self.reader, &mut self.values, self.flexible);
            match field.kind {
                Kind::Fixed(bytes) => drop(reader.take(bytes)?),
                Kind::String => drop(reader.nullable_string(flexible)?),
                Kind::Bytes => drop(reader.nullable_bytes(flexible)?),
                Kind::Tags => reader.tagged_fields(flexible)?,
                Kind::Array(element) => {
                    // Every element takes at least a byte: a count that lies ends with the bytes.
                    for _ in 0..reader.nullable_array(flexible)?.unwrap_or(0) {
                        self.read(element, row)?;
                    }
                }
                Kind::Structs(element) => {
                    let count = reader.nullable_array(flexible)?.unwrap_or(0);
                    self.structs(count, element, row)?;
                }
                Kind::Topics(element) => {
                    let count = reader.array_length(flexible)?;
                    self.structs(count, element, row)?;
                }
                Kind::Rows(element) => {
                    for _ in 0..reader.array_length(flexible)? {
                        self.structs(1, element, row)?;
                        row(&self.values);
                    }
                }
                Kind::Number(number, bytes) => {
                    let value = reader.int(bytes)?;
                    if let Some(place) = values.numbers.get_mut(number as usize) {
                        *place = value;
                        values.known |= 1 << number as u32;
                    }
                }
                Kind::Group => values.group.add(reader.nullable_string(flexible)?),
                Kind::Transaction => values.transaction.add(reader.nullable_string(flexible)?),
                Kind::Key => values.key.add(reader.nullable_string(flexible)?),
                Kind::TopicName => values.topic_name = Some(reader.string(flexible)?),
                Kind::NullableTopicName => values.topic_name = reader.nullable_string(flexible)?,
                Kind::TopicId => values.topic_id = Some(reader.uuid()?),
                Kind::Records => values.records = reader.nullable_bytes(flexible)?,
            }
        }
        Ok(())
    }

    fn structs<F: FnMut(&Values<'a>)>(
        &mut self,
        count: u32,
        element: Layout,
        row: &mut F,
    ) -> Result<(), Error> {
        for _ in 0..count {
            self.read(element, row)?;
            self.reader.tagged_fields(self.flexible)?;
        }
        Ok(())
    }
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

/// Whether a layout is of a whole body, and not only of as much of it as somebody wants.
pub(super) fn has_rows(layout: Layout) -> bool {
    layout.iter().any(|field| matches!(field.kind, Kind::Topics(_) | Kind::Rows(_)))
}

/// The layout of a body that lists topics and their partitions, cut where it can be read piece by piece.
#[derive(Clone, Copy)]
pub(crate) struct Levels {
    pub(crate) version: i16,
    pub(crate) flexible: bool,
    /// Before the topics, of a topic before its partitions, and of a partition before its records.
    pub(crate) top: Layout,
    pub(crate) topic: Layout,
    pub(crate) partition: Layout,
    pub(crate) has_records: bool,
    /// After the records, and after the topics.
    pub(crate) partition_end: Layout,
    pub(crate) end: Layout,
}

impl Levels {
    /// Of no body.
    pub(crate) const NONE: Self = Self {
        version: 0,
        flexible: false,
        top: &[],
        topic: &[],
        partition: &[],
        has_records: false,
        partition_end: &[],
        end: &[],
    };

    pub(super) fn of(layout: Layout, version: i16, flexible: bool) -> Option<Self> {
        let split = |layout: Layout, at: usize| Some((layout.get(..at)?, layout.get(at + 1..)?));
        let inner = |layout: Layout| {
            layout.iter().enumerate().find_map(|(at, field)| match field.kind {
                Kind::Topics(inner) | Kind::Rows(inner) => Some((at, inner)),
                _ => None,
            })
        };
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
