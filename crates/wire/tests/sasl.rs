//! Authenticates to a broker, against another implementation of the protocol.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

use kafka_protocol::messages::{
    RequestHeader, SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
    SaslHandshakeResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use wire::sasl::{self, AUTHENTICATE_VERSION, HANDSHAKE_VERSION, authenticate_request, handshake_request};

/// The body of a request frame, after checking its header.
fn body(frame: &[u8], api: i16, version: i16, correlation_id: i32) -> &[u8] {
    assert_eq!(frame[..4], ((frame.len() - 4) as u32).to_be_bytes());
    let mut rest = &frame[4..];
    let header = RequestHeader::decode(&mut rest, 1).unwrap();
    let of = (header.request_api_key, header.request_api_version, header.correlation_id);
    assert_eq!(of, (api, version, correlation_id));
    rest
}

#[test]
fn another_implementation_reads_the_requests() {
    let frame = handshake_request(9, "brokerscope", "SCRAM-SHA-256");
    let mut rest = body(&frame, 17, HANDSHAKE_VERSION, 9);
    let handshake = SaslHandshakeRequest::decode(&mut rest, HANDSHAKE_VERSION).unwrap();
    assert!(rest.is_empty() && &*handshake.mechanism == "SCRAM-SHA-256");
    let frame = authenticate_request(10, "brokerscope", b"\0user\0password");
    let mut rest = body(&frame, 36, AUTHENTICATE_VERSION, 10);
    let token = SaslAuthenticateRequest::decode(&mut rest, AUTHENTICATE_VERSION).unwrap();
    assert!(rest.is_empty() && &*token.auth_bytes == b"\0user\0password");
}

#[test]
fn reads_the_answers_of_another_implementation() {
    let text = StrBytes::from_static_str;
    let handshake = SaslHandshakeResponse::default()
        .with_error_code(33)
        .with_mechanisms(vec![text("PLAIN"), text("GSSAPI")]);
    let mut written = Vec::new();
    handshake.encode(&mut written, HANDSHAKE_VERSION).unwrap();
    let read = sasl::HandshakeResponse::parse(&written).unwrap();
    assert_eq!((read.error_code, read.mechanisms().collect::<Vec<_>>()), (33, vec!["PLAIN", "GSSAPI"]));
    let refusal = SaslAuthenticateResponse::default()
        .with_error_code(58)
        .with_error_message(Some(text("no")))
        .with_auth_bytes(b"token".as_slice().into());
    let mut written = Vec::new();
    refusal.encode(&mut written, AUTHENTICATE_VERSION).unwrap();
    let read = sasl::AuthenticateResponse::parse(&written).unwrap();
    assert_eq!((read.error_code, read.error_message, read.token), (58, Some("no"), &b"token"[..]));
}
