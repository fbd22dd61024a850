//! Bodies by themselves and as frames of a stream: builds frames around bodies, and checks that no part of a body is a
//! valid body. Knows no API's fields.

use wire::stream::{RequestFrame, RequestStream, ResponseFrame, ResponseStream, Start};
use wire::{ApiKey, Error};

use crate::frame::{correlation_id, options, request_of};

/// Asserts that no proper prefix of a valid body is valid. Nor may the body with an extra byte be. Tries only some
/// prefixes of a long body.
pub(crate) fn check_prefixes(body: &[u8], parse: impl Fn(&[u8]) -> Result<(), Error>) {
    let step = 1 + body.len() / 24;
    let ends = (0..body.len()).step_by(step).chain(body.len().checked_sub(1));
    for end in ends {
        assert!(parse(&body[..end]).is_err(), "{end} of {} bytes were accepted", body.len());
    }
    assert!(parse(&[body, &[0]].concat()).is_err(), "a byte too many was accepted");
}

/// The request with this body, as a stream reads it.
pub(crate) fn request(api_key: ApiKey, version: i16, body: &[u8]) -> RequestFrame<u64> {
    let mut frame = Vec::from(api_key.0.to_be_bytes());
    frame.extend(version.to_be_bytes());
    frame.extend(7i32.to_be_bytes());
    let header_version = api_key.request_header_version(version);
    let client_id: &[u8] = if header_version >= 1 { &[0, 1, b'c'] } else { &[] };
    frame.extend(client_id);
    frame.extend((header_version >= 2).then_some(0));
    let bytes = sized(&frame, body);
    let mut stream = RequestStream::new(options(false), Start::Boundary);
    let (used, frame) = stream.advance(&bytes, 0);
    assert_eq!(used, bytes.len(), "a frame ends with its body");
    frame.cloned().expect("a frame of a known version comes out")
}

/// The response with this body, as a stream reads it piece by piece.
pub(crate) fn response(
    api_key: ApiKey,
    version: i16,
    body: &[u8],
    pieces: impl FnOnce(&[u8]) -> Vec<usize>,
) -> ResponseFrame<u64> {
    let mut frame = Vec::from(correlation_id(api_key, version).to_be_bytes());
    frame.extend((api_key.response_header_version(version) >= 1).then_some(0));
    let bytes = sized(&frame, body);
    let mut stream = ResponseStream::new(options(false), Start::Boundary);
    let mut found = None;
    let mut rest = bytes.as_slice();
    for len in pieces(&bytes).into_iter().chain([usize::MAX]) {
        let (mut piece, after) = rest.split_at(len.min(rest.len()));
        while !piece.is_empty() {
            let (used, frame) = stream.advance(piece, 0, &mut request_of);
            found = found.or_else(|| frame.cloned());
            piece = &piece[used..];
        }
        rest = after;
    }
    found.expect("a frame that was asked for comes out")
}

fn sized(head: &[u8], body: &[u8]) -> Vec<u8> {
    [&((head.len() + body.len()) as u32).to_be_bytes()[..], head, body].concat()
}
