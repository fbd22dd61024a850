//! The bodies of `ShareFetch` and `ShareAcknowledge` requests.

use super::{FIRST_WITH_RENEWAL, check_version};
use crate::reader::Reader;
use crate::{ApiKey, Error};

/// A whole request body of either API.
#[derive(Clone, Debug)]
pub struct ShareRequest<'a> {
    /// The share group.
    pub group_id: Option<&'a str>,
    /// `ShareFetch`: how long the broker may wait for `min_bytes`, in milliseconds.
    pub max_wait_ms: Option<i32>,
    /// `ShareFetch`: how many bytes the broker shall wait for.
    pub min_bytes: Option<i32>,
    partitions: Shared<'a>,
}

impl<'a> ShareRequest<'a> {
    /// Reads and checks a whole body of that version.
    ///
    /// # Errors
    /// `UnknownApi` for any other API, `UnsupportedVersion` outside 1 and 2, and whatever is wrong with the body.
    pub fn parse(api_key: ApiKey, body: &'a [u8], version: i16) -> Result<Self, Error> {
        check_version(api_key, version)?;
        let fetches = api_key == ApiKey::SHARE_FETCH;
        let mut reader = Reader::new(body);
        let group_id = reader.nullable_string(true)?;
        reader.nullable_string(true)?; // member id
        reader.i32()?; // session epoch
        let max_wait_ms = if fetches { Some(reader.i32()?) } else { None };
        let min_bytes = if fetches { Some(reader.i32()?) } else { None };
        if fetches {
            reader.take(4 + 4 + 4)?; // most bytes, most records, batch size
        }
        if version >= FIRST_WITH_RENEWAL {
            reader.take(if fetches { 2 } else { 1 })?; // acquire mode of ShareFetch; whether it renews
        }
        let partitions = Shared { topics_left: reader.array_length(true)?, reader, topic: None };
        let mut walk = partitions.clone();
        while walk.read_next()?.is_some() {}
        let mut reader = walk.reader;
        if fetches {
            skip_forgotten(&mut reader)?;
        }
        reader.tagged_fields(true)?;
        reader.finish()?;
        Ok(Self { group_id, max_wait_ms, min_bytes, partitions })
    }

    /// Topic ids and numbers of the partitions, in order; those that changed, in a session.
    pub fn partitions(&self) -> Shared<'a> {
        self.partitions.clone()
    }
}

fn skip_forgotten(reader: &mut Reader<'_>) -> Result<(), Error> {
    for _ in 0..reader.array_length(true)? {
        reader.uuid()?;
        reader.skip_array(4, true)?;
        reader.tagged_fields(true)?;
    }
    Ok(())
}

/// Iterates over the partitions of a [`ShareRequest`].
#[derive(Clone, Debug)]
pub struct Shared<'a> {
    reader: Reader<'a>,
    topics_left: u32,
    /// The current topic and how many of its partitions are left.
    topic: Option<([u8; 16], u32)>,
}

impl Shared<'_> {
    fn read_next(&mut self) -> Result<Option<([u8; 16], i32)>, Error> {
        loop {
            match &mut self.topic {
                Some((id, left)) if *left > 0 => {
                    *left -= 1;
                    let id = *id;
                    return Ok(Some((id, read_partition(&mut self.reader)?)));
                }
                Some(_) => {
                    self.topic = None;
                    self.reader.tagged_fields(true)?;
                }
                None if self.topics_left > 0 => {
                    self.topics_left -= 1;
                    self.topic = Some((self.reader.uuid()?, self.reader.array_length(true)?));
                }
                None => return Ok(None),
            }
        }
    }
}

/// Its number; what of it is acknowledged is passed over.
fn read_partition(reader: &mut Reader<'_>) -> Result<i32, Error> {
    let partition = reader.i32()?;
    for _ in 0..reader.array_length(true)? {
        reader.take(8 + 8)?; // first and last offset
        reader.skip_array(1, true)?; // accepted, released, rejected …
        reader.tagged_fields(true)?;
    }
    reader.tagged_fields(true)?;
    Ok(partition)
}

impl Iterator for Shared<'_> {
    type Item = ([u8; 16], i32);

    fn next(&mut self) -> Option<Self::Item> {
        // ShareRequest::parse has walked the same bytes without an error.
        self.read_next().ok().flatten()
    }
}
