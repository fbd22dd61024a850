//! Requests of clients that authenticate: `SaslHandshake` and `SaslAuthenticate`. Never hands out a token. Does not
//! read the raw tokens that follow a handshake of version 0: they are no requests.
//!
//! `SaslHandshakeRequest.json` and `SaslAuthenticateRequest.json` of Apache Kafka 4.1.

use crate::api::check_version;
use crate::reader::Reader;
use crate::{ApiKey, Error};

/// `SaslHandshake`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaslHandshakeRequest<'a> {
    /// The mechanism the client chose, as `PLAIN` or `SCRAM-SHA-512`.
    pub mechanism: &'a str,
}

impl<'a> SaslHandshakeRequest<'a> {
    /// Reads and checks a whole body of that version.
    ///
    /// # Errors
    /// `UnsupportedVersion` outside 0 and 1, and whatever is wrong with the body.
    pub fn parse(body: &'a [u8], version: i16) -> Result<Self, Error> {
        let flexible = check_version(ApiKey::SASL_HANDSHAKE, version)?;
        let mut reader = Reader::new(body);
        let mechanism = reader.string(flexible)?;
        reader.finish()?;
        Ok(Self { mechanism })
    }
}

/// `SaslAuthenticate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaslAuthenticateRequest {
    /// Bytes of the token; what is in it stays there.
    pub token_bytes: usize,
}

impl SaslAuthenticateRequest {
    /// Reads and checks a whole body of that version.
    ///
    /// # Errors
    /// `UnsupportedVersion` outside 0 to 2, and whatever is wrong with the body.
    pub fn parse(body: &[u8], version: i16) -> Result<Self, Error> {
        let flexible = check_version(ApiKey::SASL_AUTHENTICATE, version)?;
        let mut reader = Reader::new(body);
        let token_bytes = reader.nullable_bytes(flexible)?.map_or(0, <[u8]>::len);
        reader.tagged_fields(flexible)?;
        reader.finish()?;
        Ok(Self { token_bytes })
    }
}
