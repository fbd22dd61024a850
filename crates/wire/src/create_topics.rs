//! `CreateTopics` requests, versions 0 to 7. Passes over assignments and configurations; does not read the answers.
//!
//! `CreateTopicsRequest.json` of Apache Kafka 4.1; versions 0 and 1 as of 3.9.

use crate::api::check_version;
use crate::reader::Reader;
use crate::{ApiKey, Error};

/// A whole `CreateTopics` request body.
#[derive(Clone, Debug)]
pub struct CreateTopicsRequest<'a> {
    /// How long the broker may take, in milliseconds.
    pub timeout_ms: i32,
    /// Whether the broker shall only say if it could (version 1 and later).
    pub validate_only: bool,
    topics: NewTopics<'a>,
}

/// A topic to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewTopic<'a> {
    /// Its name.
    pub name: &'a str,
    /// How many partitions it shall have; -1 is the broker's default.
    pub partitions: i32,
    /// How many replicas each shall have; -1 is the broker's default.
    pub replication_factor: i16,
}

impl<'a> CreateTopicsRequest<'a> {
    /// Reads and checks a whole body of that version.
    ///
    /// # Errors
    /// `UnsupportedVersion` outside 0 to 7, and whatever is wrong with the body.
    pub fn parse(body: &'a [u8], version: i16) -> Result<Self, Error> {
        let flexible = check_version(ApiKey::CREATE_TOPICS, version)?;
        let mut reader = Reader::new(body);
        let left = reader.array_length(flexible)?;
        let topics = NewTopics { reader, flexible, left };
        let mut walk = topics.clone();
        while walk.read_next()?.is_some() {}
        let mut reader = walk.reader;
        let timeout_ms = reader.i32()?;
        let validate_only = version >= 1 && reader.i8()? != 0;
        reader.tagged_fields(flexible)?;
        reader.finish()?;
        Ok(Self { timeout_ms, validate_only, topics })
    }

    /// The topics in order.
    pub fn topics(&self) -> NewTopics<'a> {
        self.topics.clone()
    }
}

/// Iterates over the topics of a [`CreateTopicsRequest`].
#[derive(Clone, Debug)]
pub struct NewTopics<'a> {
    reader: Reader<'a>,
    flexible: bool,
    left: u32,
}

impl<'a> NewTopics<'a> {
    fn read_next(&mut self) -> Result<Option<NewTopic<'a>>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let (reader, flexible) = (&mut self.reader, self.flexible);
        let name = reader.string(flexible)?;
        let partitions = reader.i32()?;
        let replication_factor = reader.i16()?;
        for _ in 0..reader.array_length(flexible)? {
            reader.i32()?;
            reader.skip_array(4, flexible)?; // replicas
            reader.tagged_fields(flexible)?;
        }
        for _ in 0..reader.array_length(flexible)? {
            reader.string(flexible)?;
            reader.nullable_string(flexible)?;
            reader.tagged_fields(flexible)?;
        }
        reader.tagged_fields(flexible)?;
        Ok(Some(NewTopic { name, partitions, replication_factor }))
    }
}

impl<'a> Iterator for NewTopics<'a> {
    type Item = NewTopic<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        // CreateTopicsRequest::parse has walked the same bytes without an error.
        self.read_next().ok().flatten()
    }
}
