//! The body of a Fetch request (`FetchRequest.json`; versions 0 to 3 as of 3.9).

use super::{FIRST_WITH_SESSION, check_version, is_flexible, topic};
use crate::Error;
use crate::produce::Topic;
use crate::reader::Reader;

/// First versions with each field, and the last that names the replica outside of tagged fields (KIP-903).
const FIRST_WITH_MAX_BYTES: i16 = 3;
const FIRST_WITH_ISOLATION: i16 = 4;
const FIRST_WITH_LOG_START_OFFSET: i16 = 5;
const FIRST_WITH_LEADER_EPOCH: i16 = 9;
const FIRST_WITH_RACK: i16 = 11;
const FIRST_WITH_LAST_FETCHED_EPOCH: i16 = 12;
const LAST_WITH_REPLICA: i16 = 14;

/// A whole Fetch request body.
#[derive(Clone, Debug)]
pub struct FetchRequest<'a> {
    /// The follower that asks, or -1 for a consumer; none where it would be a tagged field (version 15 and
    /// later).
    pub replica_id: Option<i32>,
    /// How long the broker may wait for `min_bytes`, in milliseconds.
    pub max_wait_ms: i32,
    /// How many bytes the broker shall wait for.
    pub min_bytes: i32,
    /// The most bytes wanted in all (version 3 and later).
    pub max_bytes: Option<i32>,
    /// 0 reads uncommitted, 1 committed records (version 4 and later).
    pub isolation_level: i8,
    /// The fetch session, 0 for none (version 7 and later).
    pub session_id: i32,
    /// The number of this request in its session; 0 starts one, -1 (always, before version 7) is without.
    pub session_epoch: i32,
    /// The consumer's rack (version 11 and later).
    pub rack_id: &'a str,
    partitions: Fetched<'a>,
    forgotten: Forgotten<'a>,
}

/// One partition that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionRequest<'a> {
    /// The topic.
    pub topic: Topic<'a>,
    /// The partition's number.
    pub partition: i32,
    /// The first offset wanted.
    pub fetch_offset: i64,
    /// The most bytes wanted of it.
    pub max_bytes: i32,
}

impl<'a> FetchRequest<'a> {
    /// Reads and checks a whole body of that version.
    ///
    /// # Errors
    /// `UnsupportedVersion` outside 0 to 18, and whatever is wrong with the body.
    pub fn parse(body: &'a [u8], version: i16) -> Result<Self, Error> {
        check_version(version)?;
        let flexible = is_flexible(version);
        let mut reader = Reader::new(body);
        let replica_id = if version <= LAST_WITH_REPLICA { Some(reader.i32()?) } else { None };
        let max_wait_ms = reader.i32()?;
        let min_bytes = reader.i32()?;
        let max_bytes = if version >= FIRST_WITH_MAX_BYTES { Some(reader.i32()?) } else { None };
        let isolation_level = if version >= FIRST_WITH_ISOLATION { reader.i8()? } else { 0 };
        let has_session = version >= FIRST_WITH_SESSION;
        let session_id = if has_session { reader.i32()? } else { 0 };
        let session_epoch = if has_session { reader.i32()? } else { -1 };
        let partitions = Fetched(Nested::begin(&mut reader, version)?);
        let mut reader = partitions.clone().end()?;
        let forgotten = if has_session {
            Nested::begin(&mut reader, version)?
        } else {
            Nested { reader, version, topic: None, partitions_left: 0, topics_left: 0 }
        };
        let forgotten = Forgotten(forgotten);
        let mut reader = forgotten.clone().end()?;
        let rack_id = if version >= FIRST_WITH_RACK { reader.string(flexible)? } else { "" };
        reader.tagged_fields(flexible)?;
        reader.finish()?;
        Ok(Self {
            replica_id,
            max_wait_ms,
            min_bytes,
            max_bytes,
            isolation_level,
            session_id,
            session_epoch,
            rack_id,
            partitions,
            forgotten,
        })
    }

    /// The partitions of all topics in order; those that changed, in a session.
    pub fn partitions(&self) -> Fetched<'a> {
        self.partitions.clone()
    }

    /// The partitions that leave the session.
    pub fn forgotten(&self) -> Forgotten<'a> {
        self.forgotten.clone()
    }
}

/// Where a walk over topics and their partitions is.
#[derive(Clone, Debug)]
struct Nested<'a> {
    reader: Reader<'a>,
    version: i16,
    topic: Option<Topic<'a>>,
    partitions_left: u32,
    topics_left: u32,
}

impl<'a> Nested<'a> {
    fn begin(reader: &mut Reader<'a>, version: i16) -> Result<Self, Error> {
        let topics_left = reader.array_length(is_flexible(version))?;
        Ok(Self { reader: *reader, version, topic: None, partitions_left: 0, topics_left })
    }

    /// The topic of the next partition, which the reader stands at.
    fn next_topic(&mut self) -> Result<Option<Topic<'a>>, Error> {
        let flexible = is_flexible(self.version);
        loop {
            match self.topic {
                Some(topic) if self.partitions_left > 0 => {
                    self.partitions_left -= 1;
                    return Ok(Some(topic));
                }
                Some(_) => {
                    self.topic = None;
                    self.reader.tagged_fields(flexible)?;
                }
                None if self.topics_left > 0 => {
                    self.topics_left -= 1;
                    self.topic = Some(topic(&mut self.reader, self.version)?);
                    self.partitions_left = self.reader.array_length(flexible)?;
                }
                None => return Ok(None),
            }
        }
    }
}

/// Iterates over the partitions of a [`FetchRequest`].
#[derive(Clone, Debug)]
pub struct Fetched<'a>(Nested<'a>);

impl<'a> Fetched<'a> {
    fn read_next(&mut self) -> Result<Option<PartitionRequest<'a>>, Error> {
        let Some(topic) = self.0.next_topic()? else { return Ok(None) };
        let (version, reader) = (self.0.version, &mut self.0.reader);
        let partition = reader.i32()?;
        if version >= FIRST_WITH_LEADER_EPOCH {
            reader.i32()?;
        }
        let fetch_offset = reader.i64()?;
        if version >= FIRST_WITH_LAST_FETCHED_EPOCH {
            reader.i32()?;
        }
        if version >= FIRST_WITH_LOG_START_OFFSET {
            reader.i64()?;
        }
        let max_bytes = reader.i32()?;
        // ReplicaDirectoryId (KIP-853) and HighWatermark (KIP-1166) are tagged fields.
        reader.tagged_fields(is_flexible(version))?;
        Ok(Some(PartitionRequest { topic, partition, fetch_offset, max_bytes }))
    }

    /// The reader after the last partition.
    fn end(mut self) -> Result<Reader<'a>, Error> {
        while self.read_next()?.is_some() {}
        Ok(self.0.reader)
    }
}

impl<'a> Iterator for Fetched<'a> {
    type Item = PartitionRequest<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        // FetchRequest::parse has walked the same bytes without an error.
        self.read_next().ok().flatten()
    }
}

/// Iterates over the partitions that leave a session.
#[derive(Clone, Debug)]
pub struct Forgotten<'a>(Nested<'a>);

impl<'a> Forgotten<'a> {
    fn read_next(&mut self) -> Result<Option<(Topic<'a>, i32)>, Error> {
        let Some(topic) = self.0.next_topic()? else { return Ok(None) };
        Ok(Some((topic, self.0.reader.i32()?)))
    }

    fn end(mut self) -> Result<Reader<'a>, Error> {
        while self.read_next()?.is_some() {}
        Ok(self.0.reader)
    }
}

impl<'a> Iterator for Forgotten<'a> {
    type Item = (Topic<'a>, i32);

    fn next(&mut self) -> Option<Self::Item> {
        // As above.
        self.read_next().ok().flatten()
    }
}
