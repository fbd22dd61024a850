//! Request and response headers. Reads neither bodies nor the size field before a header.
//!
//! `RequestHeader.json` (versions 0 to 2) and `ResponseHeader.json` (0 and 1) of Apache Kafka.

use crate::reader::Reader;
use crate::{ApiKey, Error};

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// The API.
    pub api_key: ApiKey,
    /// The body's version, which determines the header's version.
    pub api_version: i16,
    /// The client's number for this request.
    pub correlation_id: i32,
    /// The client's name for itself; header version 0 has none.
    pub client_id: Option<&'a str>,
}

impl<'a> RequestHeader<'a> {
    /// Reads a header and leaves `reader` at the body.
    #[inline]
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let api_key = ApiKey(reader.i16()?);
        let api_version = reader.i16()?;
        let correlation_id = reader.i32()?;
        let version = api_key.request_header_version(api_version);
        // The client id keeps its two-byte length in flexible versions, so that any broker can read it.
        let client_id = if version >= 1 { reader.nullable_string(false)? } else { None };
        // In an unknown version, nothing after the client id is read.
        reader.tagged_fields(version >= 2 && !api_key.is_newer(api_version))?;
        Ok(Self { api_key, api_version, correlation_id, client_id })
    }
}

impl<'a> RequestHeader<'a> {
    /// Parses the beginning of a header whose rest is missing; `None` if it does not reach the end of the correlation
    /// id. An incomplete client id is left out.
    pub fn of_start(bytes: &'a [u8]) -> Option<Self> {
        let mut reader = Reader::new(bytes);
        let api_key = ApiKey(reader.i16().ok()?);
        let api_version = reader.i16().ok()?;
        let correlation_id = reader.i32().ok()?;
        let has_client_id = api_key.request_header_version(api_version) >= 1;
        let client_id = reader.nullable_string(false).ok().flatten().filter(|_| has_client_id);
        Some(Self { api_key, api_version, correlation_id, client_id })
    }
}

/// The header of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseHeader {
    /// The number of the request that it answers.
    pub correlation_id: i32,
}

impl ResponseHeader {
    /// Reads the header of an answer to a request of this API and version. Leaves `reader` at the body.
    pub fn read(reader: &mut Reader<'_>, api_key: ApiKey, api_version: i16) -> Result<Self, Error> {
        let correlation_id = reader.i32()?;
        let is_tagged = api_key.response_header_version(api_version) >= 1;
        reader.tagged_fields(is_tagged && !api_key.is_newer(api_version))?;
        Ok(Self { correlation_id })
    }
}

#[cfg(test)]
mod tests {
    use super::{RequestHeader, ResponseHeader};
    use crate::ApiKey;
    use crate::reader::Reader;

    fn every_prefix_fails(bytes: &[u8], mut read: impl FnMut(&mut Reader<'_>) -> bool) {
        for end in 0..bytes.len() {
            assert!(!read(&mut Reader::new(&bytes[..end])), "a prefix of {end} bytes was accepted");
        }
        assert!(read(&mut Reader::new(bytes)));
    }

    #[test]
    fn reads_request_headers_of_every_version() {
        for (bytes, key, version, correlation, client, body) in [
            // ControlledShutdown version 0 has no client id.
            (&[0, 7, 0, 0, 0, 0, 0, 9][..], 7, 0, 9, None, 8),
            (&[0, 0, 0, 3, 0, 0, 0, 1, 0, 1, b'c'], 0, 3, 1, Some("c"), 11),
            (&[0, 0, 0, 3, 0, 0, 0, 1, 0xff, 0xff], 0, 3, 1, None, 10),
            (&[0, 0, 0, 9, 0, 0, 0, 1, 0, 1, b'c', 0], 0, 9, 1, Some("c"), 12),
            (&[0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 1, 5, 2, 7, 7], 0, 9, 1, Some(""), 15),
        ] {
            let mut reader = Reader::new(bytes);
            let header = RequestHeader::read(&mut reader).unwrap();
            let expected = RequestHeader {
                api_key: ApiKey(key),
                api_version: version,
                correlation_id: correlation,
                client_id: client,
            };
            assert_eq!((header, reader.at()), (expected, body));
            every_prefix_fails(bytes, |reader| RequestHeader::read(reader).is_ok());
        }
    }

    #[test]
    fn reads_the_available_fields_of_a_truncated_header() {
        let bytes = [0, 0, 0, 9, 0, 0, 0, 1, 0, 2, b'c', b'd', 0];
        for end in 0..bytes.len() {
            let client_id = if end >= 12 { Some("cd") } else { None };
            let expected = RequestHeader { api_key: ApiKey(0), api_version: 9, correlation_id: 1, client_id };
            let expected = if end >= 8 { Some(expected) } else { None };
            assert_eq!(RequestHeader::of_start(&bytes[..end]), expected, "{end} bytes");
        }
        // Version 0 of ControlledShutdown has no client id: what follows is its body.
        let header = RequestHeader::of_start(&[0, 7, 0, 0, 0, 0, 0, 9, 0, 1, b'c']).unwrap();
        assert_eq!(header.client_id, None);
    }

    #[test]
    fn reads_response_headers_of_both_versions() {
        for (bytes, key, version) in [
            (&[0, 0, 0, 7][..], 0, 8),
            (&[0, 0, 0, 7, 0], 0, 9),
            (&[0, 0, 0, 7], 18, 4),
            (&[0, 0, 0, 7], 18, 0),
        ] {
            let mut reader = Reader::new(bytes);
            let header = ResponseHeader::read(&mut reader, ApiKey(key), version).unwrap();
            assert_eq!((header.correlation_id, reader.is_empty()), (7, true));
            every_prefix_fails(bytes, |reader| ResponseHeader::read(reader, ApiKey(key), version).is_ok());
        }
    }
}
