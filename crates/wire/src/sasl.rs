//! Client side of `SaslHandshake` and `SaslAuthenticate`. Encodes the requests and parses the answers, for a tool that
//! authenticates itself to a broker. Knows no mechanism, and sends nothing.
//!
//! Versions 1 and 0, which Kafka 1.0 to 4.x support (`SaslHandshakeRequest.json` of 4.1: versions 0 and 1, where 0 is
//! followed by tokens without frames; `SaslAuthenticateRequest.json`: versions 0 to 2):
//!
//! ```text
//! handshake     request   mechanism STRING
//!               response  error_code INT16, mechanisms ARRAY of STRING
//! authenticate  request   auth_bytes BYTES
//!               response  error_code INT16, error_message NULLABLE_STRING, auth_bytes BYTES
//! ```

use crate::frame_writer::FrameWriter;
use crate::reader::Reader;
use crate::{ApiKey, Error, ErrorKind};

/// The version of `SaslHandshake` used.
pub const HANDSHAKE_VERSION: i16 = 1;
/// The version of `SaslAuthenticate` used.
pub const AUTHENTICATE_VERSION: i16 = 0;

/// Encodes a whole frame that announces the mechanism of the tokens. The frame includes its length.
pub fn handshake_request(correlation_id: i32, client_id: &str, mechanism: &str) -> Vec<u8> {
    let mut frame = FrameWriter::new(ApiKey::SASL_HANDSHAKE, HANDSHAKE_VERSION, correlation_id, client_id);
    frame.string(mechanism);
    frame.finish()
}

/// Encodes a whole frame, including its length, with a token of the mechanism.
pub fn authenticate_request(correlation_id: i32, client_id: &str, token: &[u8]) -> Vec<u8> {
    let mut frame =
        FrameWriter::new(ApiKey::SASL_AUTHENTICATE, AUTHENTICATE_VERSION, correlation_id, client_id);
    frame.bytes(token);
    frame.finish()
}

/// A broker's answer to the choice of a mechanism.
#[derive(Clone, Debug)]
pub struct HandshakeResponse<'a> {
    /// Kafka's error code; 0 means none.
    pub error_code: i16,
    reader: Reader<'a>,
    left: u32,
}

impl<'a> HandshakeResponse<'a> {
    /// Parses and checks a whole body.
    ///
    /// # Errors
    /// Errors in the body.
    pub fn parse(body: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(body);
        let error_code = reader.i16()?;
        let left = reader.array_length(false)?;
        let response = Self { error_code, reader, left };
        for _ in 0..left {
            reader.string(false)?;
        }
        reader.finish()?;
        Ok(response)
    }

    /// The mechanisms that the broker accepts.
    pub fn mechanisms(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let mut reader = self.reader;
        // All of them were validated by `parse`.
        (0..self.left).map_while(move |_| reader.string(false).ok())
    }
}

/// A broker's answer to a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AuthenticateResponse<'a> {
    /// Kafka's error code; 0 means none.
    pub error_code: i16,
    /// The broker's error message.
    pub error_message: Option<&'a str>,
    /// The broker's own token.
    pub token: &'a [u8],
}

impl<'a> AuthenticateResponse<'a> {
    /// Parses a whole body.
    ///
    /// # Errors
    /// Errors in the body.
    pub fn parse(body: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(body);
        let error_code = reader.i16()?;
        let error_message = reader.nullable_string(false)?;
        let null = reader.error(ErrorKind::BadLength(-1));
        let token = reader.nullable_bytes(false)?.ok_or(null)?;
        reader.finish()?;
        Ok(Self { error_code, error_message, token })
    }
}

#[cfg(test)]
mod tests {
    use super::{AuthenticateResponse, HandshakeResponse, authenticate_request, handshake_request};
    use crate::ErrorKind;

    #[test]
    fn encodes_requests_as_in_the_protocol() {
        let handshake = [&[0, 0, 0, 19, 0, 17, 0, 1, 0, 0, 0, 7, 0, 2][..], b"bs", &[0, 5], b"PLAIN"];
        assert_eq!(handshake_request(7, "bs", "PLAIN"), handshake.concat());
        let authenticate =
            [&[0, 0, 0, 19, 0, 36, 0, 0, 0, 0, 0, 8, 0, 2][..], b"bs", &[0, 0, 0, 3], b"\0u\0"];
        assert_eq!(authenticate_request(8, "bs", b"\0u\0"), authenticate.concat());
    }

    #[test]
    fn parses_the_mechanisms_of_a_handshake_response() {
        let body = [&[0, 33, 0, 0, 0, 2, 0, 5][..], b"PLAIN", &[0, 2], b"XX"].concat();
        let answer = HandshakeResponse::parse(&body).unwrap();
        assert_eq!((answer.error_code, answer.mechanisms().collect::<Vec<_>>()), (33, vec!["PLAIN", "XX"]));
        for end in 0..body.len() {
            HandshakeResponse::parse(&body[..end]).unwrap_err();
        }
        let one_more = HandshakeResponse::parse(&[&body[..], &[0]].concat()).unwrap_err();
        assert_eq!(one_more.kind, ErrorKind::TrailingBytes);
        let many = HandshakeResponse::parse(&[0, 0, 0x7f, 0xff, 0xff, 0xff]).unwrap_err();
        assert!(matches!(many.kind, ErrorKind::UnexpectedEnd { .. }));
    }

    #[test]
    fn parses_the_token_and_error_of_an_authenticate_response() {
        let body = [&[0, 58, 0, 2][..], b"no", &[0, 0, 0, 1], b"t"].concat();
        let answer = AuthenticateResponse::parse(&body).unwrap();
        assert_eq!((answer.error_code, answer.error_message, answer.token), (58, Some("no"), &b"t"[..]));
        for end in 0..body.len() {
            AuthenticateResponse::parse(&body[..end]).unwrap_err();
        }
        AuthenticateResponse::parse(&[&body[..], &[0]].concat()).unwrap_err();
        AuthenticateResponse::parse(&[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).unwrap_err();
    }
}
