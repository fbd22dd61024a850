//! What an experiment wants to know of a response: its error, and how far a fetch came. Bytes come from a broker of
//! ours and are read within bounds all the same.

/// The error code of the first partition of a Produce 7 response, of the first topic of `CreateTopics` 2, or of the
/// first entry of `AlterClientQuotas` 0; the body begins after the correlation id. None where it is cut.
#[must_use]
pub fn first_error(api: &str, body: &[u8]) -> Option<i16> {
    let mut reader = Reader(body);
    if api == "CREATE_TOPICS" || api == "ALTER_CLIENT_QUOTAS" {
        reader.int32()?; // throttle
    }
    reader.int32()?;
    if api == "ALTER_CLIENT_QUOTAS" {
        return reader.int16();
    }
    reader.text()?;
    if api == "PRODUCE" {
        reader.int32()?;
        reader.int32()?;
    }
    reader.int16()
}

/// What a fetch of one partition brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// The partition's error code.
    pub error: i16,
    /// Bytes of records.
    pub bytes: u32,
    /// The offset to go on from, where a whole batch came.
    pub next_offset: Option<i64>,
}

/// Reads a Fetch 4 response of one partition. None where it is cut.
#[must_use]
pub fn fetched(body: &[u8]) -> Option<Fetched> {
    let mut reader = Reader(body);
    reader.int32()?; // throttle
    reader.int32()?;
    reader.text()?;
    reader.int32()?;
    reader.int32()?; // partition
    let error = reader.int16()?;
    reader.take(16)?; // high watermark, last stable offset
    let aborted = usize::try_from(reader.int32()?).unwrap_or(0);
    reader.take(aborted.checked_mul(16)?)?;
    let bytes = usize::try_from(reader.int32()?).unwrap_or(0);
    let records = reader.take(bytes)?;
    Some(Fetched { error, bytes: bytes as u32, next_offset: after(records) })
}

/// The offset after the last whole batch: base offset 8 bytes, length 4, last offset delta at 23.
fn after(mut records: &[u8]) -> Option<i64> {
    let mut next = None;
    while let Some((head, _)) = records.split_first_chunk::<27>() {
        let mut reader = Reader(head);
        let base = i64::from_be_bytes(*reader.take(8)?.first_chunk()?);
        let length = usize::try_from(reader.int32()?).ok()?;
        reader.take(11)?;
        let Some(rest) = records.get(length.checked_add(12)?..) else { break };
        next = base.checked_add(i64::from(reader.int32()?))?.checked_add(1);
        records = rest;
    }
    next
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(head)
    }

    fn int16(&mut self) -> Option<i16> {
        self.take(2)?.first_chunk().map(|bytes| i16::from_be_bytes(*bytes))
    }

    fn int32(&mut self) -> Option<i32> {
        self.take(4)?.first_chunk().map(|bytes| i32::from_be_bytes(*bytes))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let length = self.int16()?;
        self.take(usize::try_from(length).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::batch;

    #[test]
    fn errors_are_found_and_cut_responses_are_none() {
        let produce = b"\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\x03\0\x06";
        assert_eq!(first_error("PRODUCE", produce), Some(6));
        assert_eq!(first_error("CREATE_TOPICS", b"\0\0\0\0\0\0\0\x01\0\x01t\0\x24"), Some(36));
        for length in 0..produce.len() {
            assert_eq!(first_error("PRODUCE", &produce[..length]), None);
        }
    }

    #[test]
    fn a_fetch_goes_on_after_the_last_whole_batch() {
        let mut first = batch(&[b"a", b"b"], 1);
        first[..8].copy_from_slice(&10_i64.to_be_bytes());
        let cut = &batch(&[b"c"], 1)[..40];
        let records = [first.as_slice(), cut].concat();
        let mut body = b"\0\0\0\0\0\0\0\x01\0\x01t\0\0\0\x01\0\0\0\0\0\0".to_vec();
        body.extend([0; 16]);
        body.extend(0_i32.to_be_bytes());
        body.extend((records.len() as i32).to_be_bytes());
        body.extend(&records);
        let expected = Fetched { error: 0, bytes: records.len() as u32, next_offset: Some(12) };
        assert_eq!(fetched(&body), Some(expected));
        assert_eq!(fetched(&body[..body.len() - 1]), None);
    }
}
