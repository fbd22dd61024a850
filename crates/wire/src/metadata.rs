//! Metadata responses, versions 0 to 13: topics, their ids and names. Passes over brokers and partitions.
//!
//! `MetadataResponse.json` of Apache Kafka 4.1.

use crate::reader::Reader;
use crate::{ApiKey, Error, ErrorKind};

/// The highest version known here.
pub const MAX_VERSION: i16 = 13;

/// A whole Metadata response body.
#[derive(Clone, Debug)]
pub struct MetadataResponse<'a> {
    /// How long the broker throttled the client, in milliseconds (version 3 and later).
    pub throttle_ms: Option<i32>,
    /// The cluster's id (version 2 and later).
    pub cluster_id: Option<&'a str>,
    /// The controller's node id, or -1 (version 1 and later).
    pub controller_id: i32,
    /// Kafka's error code for the request as a whole (version 13 and later); 0 is none.
    pub error_code: Option<i16>,
    topics: Topics<'a>,
}

/// A topic of a Metadata response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataTopic<'a> {
    /// Kafka's error code; 0 is none.
    pub error_code: i16,
    /// Its name; null where an id was asked for that the broker does not know (version 12 and later).
    pub name: Option<&'a str>,
    /// Its id (version 10 and later), else zero.
    pub topic_id: [u8; 16],
    /// The number of its partitions.
    pub partitions: u32,
}

impl<'a> MetadataResponse<'a> {
    /// Reads and checks a whole body of that version.
    ///
    /// # Errors
    /// `UnsupportedVersion` outside 0 to 13, and whatever is wrong with the body.
    pub fn parse(body: &'a [u8], version: i16) -> Result<Self, Error> {
        if !(0..=MAX_VERSION).contains(&version) {
            return Err(Error::new(ErrorKind::UnsupportedVersion { version }, 0));
        }
        let flexible = ApiKey::METADATA.is_flexible(version);
        let mut reader = Reader::new(body);
        let throttle_ms = if version >= 3 { Some(reader.i32()?) } else { None };
        skip_brokers(&mut reader, version, flexible)?;
        let cluster_id = if version >= 2 { reader.nullable_string(flexible)? } else { None };
        let controller_id = if version >= 1 { reader.i32()? } else { -1 };
        let left = reader.array_length(flexible)?;
        let topics = Topics { reader, version, left };
        let mut walk = topics.clone();
        while walk.read_next()?.is_some() {}
        let mut reader = walk.reader;
        if (8..=10).contains(&version) {
            reader.i32()?; // what the client may do to the cluster (KIP-430, KIP-700)
        }
        let error_code = if version >= 13 { Some(reader.i16()?) } else { None };
        reader.tagged_fields(flexible)?;
        reader.finish()?;
        Ok(Self { throttle_ms, cluster_id, controller_id, error_code, topics })
    }

    /// The topics in order.
    pub fn topics(&self) -> Topics<'a> {
        self.topics.clone()
    }
}

fn skip_brokers(reader: &mut Reader<'_>, version: i16, flexible: bool) -> Result<(), Error> {
    for _ in 0..reader.array_length(flexible)? {
        reader.i32()?;
        reader.string(flexible)?;
        reader.i32()?;
        if version >= 1 {
            reader.nullable_string(flexible)?;
        }
        reader.tagged_fields(flexible)?;
    }
    Ok(())
}

/// Iterates over the topics of a [`MetadataResponse`].
#[derive(Clone, Debug)]
pub struct Topics<'a> {
    reader: Reader<'a>,
    version: i16,
    left: u32,
}

impl<'a> Topics<'a> {
    fn read_next(&mut self) -> Result<Option<MetadataTopic<'a>>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let (version, flexible) = (self.version, ApiKey::METADATA.is_flexible(self.version));
        let reader = &mut self.reader;
        let error_code = reader.i16()?;
        let name =
            if version >= 12 { reader.nullable_string(flexible)? } else { Some(reader.string(flexible)?) };
        let topic_id = if version >= 10 { reader.uuid()? } else { [0; 16] };
        if version >= 1 {
            reader.i8()?; // whether it is internal
        }
        let partitions = reader.array_length(flexible)?;
        for _ in 0..partitions {
            skip_partition(reader, version, flexible)?;
        }
        if version >= 8 {
            reader.i32()?; // what the client may do to the topic
        }
        reader.tagged_fields(flexible)?;
        Ok(Some(MetadataTopic { error_code, name, topic_id, partitions }))
    }
}

fn skip_partition(reader: &mut Reader<'_>, version: i16, flexible: bool) -> Result<(), Error> {
    // Error code, index, leader; leader epoch.
    reader.take(if version >= 7 { 2 + 4 + 4 + 4 } else { 2 + 4 + 4 })?;
    reader.skip_array(4, flexible)?; // replicas
    reader.skip_array(4, flexible)?; // in sync
    if version >= 5 {
        reader.skip_array(4, flexible)?; // offline
    }
    reader.tagged_fields(flexible)
}

impl<'a> Iterator for Topics<'a> {
    type Item = MetadataTopic<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        // MetadataResponse::parse has walked the same bytes without an error.
        self.read_next().ok().flatten()
    }
}
