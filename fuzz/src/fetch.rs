//! Bodies of Fetch requests and responses of every version. Requests are looked at as a whole and read from a
//! stream, which must agree; responses have only the stream, which must not mind how they are cut.
//!
//! Input: a byte whose lowest bit says response and whose others are the version; for a response one for the
//! cuts; then the body.

use wire::fetch::FetchRequest;
use wire::produce::Topic;
use wire::stream::{RequestBody, ResponseFrame, TopicRef};
use wire::{ApiKey, Error, ErrorKind};

use crate::Target;
use crate::bodies;
use crate::chunks::Cuts;
use crate::frame::Frame;

/// The target.
pub const TARGET: Target = Target { name: "fetch", check, spare_bytes: 4 << 20 };

fn check(data: &[u8]) {
    let Some((&choice, body)) = data.split_first() else { return };
    let version = i16::from(choice >> 1) % (wire::fetch::MAX_VERSION + 2) - 1;
    if version < 0 {
        assert!(FetchRequest::parse(body, version).is_err());
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
    let Ok(request) = FetchRequest::parse(body, version) else {
        assert_eq!(streamed, None, "a stream read what cannot be read as a whole");
        return;
    };
    let streamed = streamed.expect("a stream reads what can be read as a whole");
    assert_eq!(
        (Some(request.max_wait_ms), Some(request.min_bytes)),
        (streamed.max_wait_ms, streamed.min_bytes)
    );
    assert_eq!(request.max_bytes, streamed.max_bytes);
    assert_eq!((request.session_id, request.session_epoch), (streamed.session_id, streamed.session_epoch));
    let partitions = request.partitions().map(|p| (owned(p.topic), p.partition, Some(p.fetch_offset)));
    let from_stream = streamed.partitions.iter().map(|p| (p.topic.clone(), p.partition, p.fetch_offset));
    assert!(partitions.eq(from_stream), "as a whole and from a stream");
    assert!(request.partitions().count() + request.forgotten().count() <= body.len());
    bodies::check_prefixes(body, |bytes| FetchRequest::parse(bytes, version).map(drop));
}

fn owned(topic: Topic<'_>) -> TopicRef {
    match topic {
        Topic::Name(name) => TopicRef::Name(name.to_owned()),
        Topic::Id(id) => TopicRef::Id(id),
    }
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
