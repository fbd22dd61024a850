//! `ApiVersions`: what a client says it is, and the versions a broker offers. Features are passed over.
//!
//! `ApiVersionsRequest.json` and `ApiVersionsResponse.json` (versions 0 to 4) of Apache Kafka 4.1.

use crate::reader::Reader;
use crate::{ApiKey, Error, ErrorKind};

/// The highest version known here.
pub const MAX_VERSION: i16 = 4;
/// The broker does not know the version of the request; it then answers in version 0 (KIP-511).
const UNSUPPORTED_VERSION: i16 = 35;

fn check_version(version: i16) -> Result<bool, Error> {
    if (0..=MAX_VERSION).contains(&version) {
        Ok(ApiKey::API_VERSIONS.is_flexible(version))
    } else {
        Err(Error::new(ErrorKind::UnsupportedVersion { version }, 0))
    }
}

/// What a client says it is (version 3 and later; KIP-511).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ApiVersionsRequest<'a> {
    /// The client library's name, or empty.
    pub client_software_name: &'a str,
    /// Its version, or empty.
    pub client_software_version: &'a str,
}

impl<'a> ApiVersionsRequest<'a> {
    /// Reads a whole body of that version.
    ///
    /// # Errors
    /// `UnsupportedVersion` outside 0 to 4, and whatever is wrong with the body.
    pub fn parse(body: &'a [u8], version: i16) -> Result<Self, Error> {
        let flexible = check_version(version)?;
        let mut reader = Reader::new(body);
        let mut request = Self::default();
        if flexible {
            request.client_software_name = reader.string(true)?;
            request.client_software_version = reader.string(true)?;
            reader.tagged_fields(true)?;
        }
        reader.finish()?;
        Ok(request)
    }
}

/// The versions of one API that a broker offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionRange {
    /// The API.
    pub api_key: ApiKey,
    /// The lowest version.
    pub min_version: i16,
    /// The highest version.
    pub max_version: i16,
}

/// A whole `ApiVersions` response body.
#[derive(Clone, Debug)]
pub struct ApiVersionsResponse<'a> {
    /// Kafka's error code; 0 is none.
    pub error_code: i16,
    /// How long the broker throttled the client, in milliseconds (version 1 and later).
    pub throttle_ms: Option<i32>,
    ranges: Ranges<'a>,
}

impl<'a> ApiVersionsResponse<'a> {
    /// Reads and checks a whole body that answers a request of that version.
    ///
    /// # Errors
    /// `UnsupportedVersion` outside 0 to 4, and whatever is wrong with the body.
    pub fn parse(body: &'a [u8], version: i16) -> Result<Self, Error> {
        let asked = check_version(version)?;
        let mut reader = Reader::new(body);
        let error_code = reader.i16()?;
        let version = if error_code == UNSUPPORTED_VERSION { 0 } else { version };
        let flexible = asked && version > 0;
        let left = reader.array_length(flexible)?;
        let ranges = Ranges { reader, flexible, left };
        let mut walk = ranges.clone();
        while walk.read_next()?.is_some() {}
        let mut reader = walk.reader;
        let throttle_ms = if version >= 1 { Some(reader.i32()?) } else { None };
        reader.tagged_fields(flexible)?;
        reader.finish()?;
        Ok(Self { error_code, throttle_ms, ranges })
    }

    /// The APIs in order.
    pub fn ranges(&self) -> Ranges<'a> {
        self.ranges.clone()
    }
}

/// Iterates over the APIs of an [`ApiVersionsResponse`].
#[derive(Clone, Debug)]
pub struct Ranges<'a> {
    reader: Reader<'a>,
    flexible: bool,
    left: u32,
}

impl Ranges<'_> {
    fn read_next(&mut self) -> Result<Option<VersionRange>, Error> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        let range = VersionRange {
            api_key: ApiKey(self.reader.i16()?),
            min_version: self.reader.i16()?,
            max_version: self.reader.i16()?,
        };
        self.reader.tagged_fields(self.flexible)?;
        Ok(Some(range))
    }
}

impl Iterator for Ranges<'_> {
    type Item = VersionRange;

    fn next(&mut self) -> Option<Self::Item> {
        // ApiVersionsResponse::parse has walked the same bytes without an error.
        self.read_next().ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::{ApiVersionsRequest, ApiVersionsResponse, VersionRange};
    use crate::ApiKey;

    #[test]
    fn responses_of_every_version() {
        let produce = VersionRange { api_key: ApiKey(0), min_version: 0, max_version: 13 };
        for (version, bytes, throttle_ms) in [
            (0, &[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 13][..], None),
            (1, &[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 13, 0, 0, 0, 9], Some(9)),
            (2, &[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 13, 0, 0, 0, 9], Some(9)),
            (3, &[0, 0, 2, 0, 0, 0, 0, 0, 13, 0, 0, 0, 0, 9, 0], Some(9)),
            (4, &[0, 0, 2, 0, 0, 0, 0, 0, 13, 0, 0, 0, 0, 9, 1, 3, 1, 1], Some(9)),
        ] {
            let response = ApiVersionsResponse::parse(bytes, version).unwrap();
            assert_eq!(response.throttle_ms, throttle_ms);
            assert_eq!(response.ranges().collect::<Vec<_>>(), [produce]);
            for end in 0..bytes.len() {
                assert!(
                    ApiVersionsResponse::parse(&bytes[..end], version).is_err(),
                    "v{version} of {end} bytes"
                );
            }
        }
    }

    #[test]
    fn a_refusal_is_in_version_0() {
        let bytes = [0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4];
        let response = ApiVersionsResponse::parse(&bytes, 4).unwrap();
        assert_eq!(response.error_code, 35);
        let range = VersionRange { api_key: ApiKey(18), min_version: 0, max_version: 4 };
        assert_eq!(response.ranges().collect::<Vec<_>>(), [range]);
    }

    #[test]
    fn requests_of_every_version() {
        for version in 0..=2 {
            assert_eq!(ApiVersionsRequest::parse(&[], version), Ok(ApiVersionsRequest::default()));
        }
        let bytes = [2, b'n', 2, b'1', 0];
        for version in 3..=4 {
            let request = ApiVersionsRequest::parse(&bytes, version).unwrap();
            assert_eq!((request.client_software_name, request.client_software_version), ("n", "1"));
            for end in 0..bytes.len() {
                assert!(ApiVersionsRequest::parse(&bytes[..end], version).is_err());
            }
        }
        assert!(ApiVersionsRequest::parse(&bytes, 5).is_err());
    }
}
