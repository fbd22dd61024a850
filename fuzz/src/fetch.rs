//! Bodies of Fetch requests and responses of every version. Requests are parsed as a whole and from a stream, which must
//! agree; responses only from a stream, which must not depend on the pieces.
//!
//! Input: a byte whose lowest bit selects a response and whose other bits are the version; for a response, a byte for the
//! cuts; then the body.

use wire::api::Number;
use wire::stream::{RequestBody, ResponseFrame};
use wire::{ApiKey, Error, ErrorKind};

use crate::Target;
use crate::bodies;
use crate::chunks::Cuts;
use crate::frame::Frame;
use crate::produce::topic_and_partition;

/// The target.
pub const TARGET: Target = Target { name: "fetch", check, spare_bytes: 4 << 20 };

fn check(data: &[u8]) {
    let Some((&choice, body)) = data.split_first() else { return };
    let max_version = ApiKey::FETCH.max_version().expect("Fetch is known");
    let version = i16::from(choice >> 1) % (max_version + 2) - 1;
    if version < 0 {
        assert!(ApiKey::FETCH.read_request(body, version, |_| {}).is_err());
    } else if choice & 1 == 0 {
        check_request(body, version);
    } else if let Some((&cuts, body)) = body.split_first() {
        check_response(body, version, &Cuts::new(cuts));
    }
}

fn check_request(body: &[u8], version: i16) {
    let frame = bodies::request(ApiKey::FETCH, version, body);
    let streamed = match (frame.body, frame.error) {
        (RequestBody::Fetch(fetch), None) => Some(fetch),
        _ => None,
    };
    let mut partitions = Vec::new();
    let read = ApiKey::FETCH.read_request(body, version, |row| {
        partitions.push((topic_and_partition(row), row.number(Number::FetchOffset)));
    });
    let Ok(request) = read else {
        assert_eq!(streamed, None, "a stream read what cannot be read as a whole");
        return;
    };
    let streamed = streamed.expect("a stream reads what can be read as a whole");
    let numbers = [Number::MaxWaitMs, Number::MinBytes, Number::MaxBytes].map(|number| request.int(number));
    assert_eq!(numbers, [streamed.max_wait_ms, streamed.min_bytes, streamed.max_bytes]);
    let session = [Number::SessionId, Number::SessionEpoch].map(|number| request.int(number));
    let expected =
        if version >= 7 { [streamed.session_id, streamed.session_epoch].map(Some) } else { [None; 2] };
    assert_eq!(session, expected);
    let from_stream = streamed.partitions.iter().map(|p| ((p.topic.clone(), p.partition), p.fetch_offset));
    assert!(partitions.iter().cloned().eq(from_stream), "as a whole and from a stream");
    assert!(partitions.len() <= body.len());
    bodies::check_prefixes(body, |bytes| ApiKey::FETCH.read_request(bytes, version, |_| {}).map(drop));
}

fn check_response(body: &[u8], version: i16, cuts: &Cuts) {
    let whole = bodies::response(ApiKey::FETCH, version, body, |_| Vec::new());
    let cut = bodies::response(ApiKey::FETCH, version, body, |bytes| {
        cuts.clone().of(bytes).map(<[u8]>::len).collect()
    });
    assert_eq!(whole, cut, "the cuts made a difference");
    if Frame::from(whole).is_damaged() {
        return;
    }
    bodies::check_prefixes(body, |bytes| {
        sound(bodies::response(ApiKey::FETCH, version, bytes, |_| Vec::new()))
    });
}

fn sound(frame: ResponseFrame<u64>) -> Result<(), Error> {
    if Frame::from(frame).is_damaged() { Err(Error::new(ErrorKind::BadValue, 0)) } else { Ok(()) }
}
