//! Requests of group members: `FindCoordinator`, `JoinGroup`, `SyncGroup`, Heartbeat. Passes over subscriptions
//! and assignments; does not read the answers.
//!
//! `FindCoordinatorRequest.json`, `JoinGroupRequest.json`, `SyncGroupRequest.json` and `HeartbeatRequest.json` of
//! Apache Kafka 4.1.

use crate::api::check_version;
use crate::reader::Reader;
use crate::{ApiKey, Error, ErrorKind};

/// `FindCoordinator`: who coordinates a group or a transaction.
#[derive(Clone, Debug)]
pub struct FindCoordinatorRequest<'a> {
    /// 0 for groups (always, in version 0), 1 for transactions, 2 for share groups.
    pub key_type: i8,
    keys: Keys<'a>,
}

impl<'a> FindCoordinatorRequest<'a> {
    /// Reads and checks a whole body of that version.
    ///
    /// # Errors
    /// `UnsupportedVersion` outside 0 to 6, and whatever is wrong with the body.
    pub fn parse(body: &'a [u8], version: i16) -> Result<Self, Error> {
        let flexible = check_version(ApiKey::FIND_COORDINATOR, version)?;
        let mut reader = Reader::new(body);
        // Version 4 and later ask for several keys (KIP-699).
        let one = if version <= 3 { Some(reader.string(flexible)?) } else { None };
        let key_type = if version >= 1 { reader.i8()? } else { 0 };
        let left = if version >= 4 { reader.array_length(flexible)? } else { 0 };
        let keys = Keys { reader, one, left };
        let mut walk = keys.clone();
        while walk.read_next()?.is_some() {}
        let mut reader = walk.reader;
        reader.tagged_fields(flexible)?;
        reader.finish()?;
        Ok(Self { key_type, keys })
    }

    /// The group ids or transactional ids.
    pub fn keys(&self) -> Keys<'a> {
        self.keys.clone()
    }
}

/// Iterates over the keys of a [`FindCoordinatorRequest`].
#[derive(Clone, Debug)]
pub struct Keys<'a> {
    reader: Reader<'a>,
    one: Option<&'a str>,
    left: u32,
}

impl<'a> Keys<'a> {
    fn read_next(&mut self) -> Result<Option<&'a str>, Error> {
        if self.left == 0 {
            return Ok(self.one.take());
        }
        self.left -= 1;
        self.reader.string(true).map(Some)
    }
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<Self::Item> {
        // FindCoordinatorRequest::parse has walked the same bytes without an error.
        self.read_next().ok().flatten()
    }
}

/// `JoinGroup`, `SyncGroup` or Heartbeat: what they have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberRequest<'a> {
    /// The group.
    pub group_id: &'a str,
    /// The group's generation; none in `JoinGroup`.
    pub generation: Option<i32>,
    /// The member, empty before it is given an id.
    pub member_id: &'a str,
    /// The static member's id (KIP-345; `JoinGroup` version 5, the others version 3 and later).
    pub group_instance_id: Option<&'a str>,
}

impl<'a> MemberRequest<'a> {
    /// Reads and checks a whole body of that API and version.
    ///
    /// # Errors
    /// `BadValue` for another API, `UnsupportedVersion`, and whatever is wrong with the body.
    pub fn parse(api_key: ApiKey, body: &'a [u8], version: i16) -> Result<Self, Error> {
        let flexible = check_version(api_key, version)?;
        let mut reader = Reader::new(body);
        let member = match api_key {
            ApiKey::JOIN_GROUP => join_group(&mut reader, version, flexible)?,
            ApiKey::SYNC_GROUP => sync_group(&mut reader, version, flexible)?,
            ApiKey::HEARTBEAT => member(&mut reader, version, flexible)?,
            _ => return Err(Error::new(ErrorKind::BadValue, 0)),
        };
        reader.tagged_fields(flexible)?;
        reader.finish()?;
        Ok(member)
    }
}

/// The fields that `SyncGroup` and Heartbeat begin with.
fn member<'a>(reader: &mut Reader<'a>, version: i16, flexible: bool) -> Result<MemberRequest<'a>, Error> {
    Ok(MemberRequest {
        group_id: reader.string(flexible)?,
        generation: Some(reader.i32()?),
        member_id: reader.string(flexible)?,
        group_instance_id: if version >= 3 { reader.nullable_string(flexible)? } else { None },
    })
}

fn join_group<'a>(reader: &mut Reader<'a>, version: i16, flexible: bool) -> Result<MemberRequest<'a>, Error> {
    let group_id = reader.string(flexible)?;
    reader.i32()?; // session timeout
    if version >= 1 {
        reader.i32()?; // rebalance timeout
    }
    let member_id = reader.string(flexible)?;
    let group_instance_id = if version >= 5 { reader.nullable_string(flexible)? } else { None };
    reader.string(flexible)?; // protocol type
    skip_members_bytes(reader, flexible)?;
    if version >= 8 {
        reader.nullable_string(flexible)?; // reason (KIP-800)
    }
    Ok(MemberRequest { group_id, generation: None, member_id, group_instance_id })
}

fn sync_group<'a>(reader: &mut Reader<'a>, version: i16, flexible: bool) -> Result<MemberRequest<'a>, Error> {
    let member = member(reader, version, flexible)?;
    if version >= 5 {
        reader.nullable_string(flexible)?; // protocol type
        reader.nullable_string(flexible)?; // protocol name
    }
    skip_members_bytes(reader, flexible)?;
    Ok(member)
}

/// Passes over `JoinGroup`'s protocols or `SyncGroup`'s assignments: a name and bytes each.
fn skip_members_bytes(reader: &mut Reader<'_>, flexible: bool) -> Result<(), Error> {
    for _ in 0..reader.array_length(flexible)? {
        reader.string(flexible)?;
        reader.nullable_bytes(flexible)?;
        reader.tagged_fields(flexible)?;
    }
    Ok(())
}
