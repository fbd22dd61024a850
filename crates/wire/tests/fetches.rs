//! Fetch byte by byte: sessions without news, several topics and optional fields, false lengths.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "fixtures/kafka.rs"]
mod kafka;

use wire::stream::{
    FetchResponseBody, FrameError, Options, RequestBody, RequestStream, ResponseBody, ResponseFrame,
    ResponseStream, Start, TopicRef,
};
use wire::{ApiKey, ErrorKind};

/// The answer with this body, fed byte by byte.
fn answer(version: i16, body: &[u8]) -> ResponseFrame<u32> {
    let bytes = kafka::response(1, version, 7, body);
    let mut stream = ResponseStream::new(Options::default(), Start::Boundary);
    let mut answer = None;
    for mut rest in bytes.chunks(1) {
        while !rest.is_empty() {
            let (used, frame) = stream.advance(rest, 0, &mut |_| Some((ApiKey::FETCH, version)));
            answer = frame.cloned().or(answer);
            rest = &rest[used..];
        }
    }
    answer.unwrap()
}

fn fetched(frame: &ResponseFrame<u32>) -> &FetchResponseBody {
    let ResponseBody::Fetch(body) = &frame.body else { panic!("{frame:?}") };
    body
}

/// No prefix of the body is valid.
fn every_prefix_is_an_error(version: i16, body: &[u8]) {
    for end in 0..body.len() {
        assert!(answer(version, &body[..end]).error.is_some(), "v{version}, {end} bytes");
    }
}

fn malformed(frame: &ResponseFrame<u32>) -> Option<ErrorKind> {
    match frame.error {
        Some(FrameError::Malformed(error)) => Some(error.kind),
        _ => None,
    }
}

/// KIP-227: a fetch in a session names what changed, and is answered with the partitions that have news.
#[test]
fn reads_an_empty_fetch_session_and_a_lost_one() {
    // Throttle time, error code, session, topics.
    let cases: [(i16, &[u8], i16, i32); 4] = [
        (7, b"\0\0\0\x05\0\0\0\0\0\x63\0\0\0\0", 0, 99),
        (13, b"\0\0\0\x05\0\0\0\0\0\x63\x01\0", 0, 99),
        // FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH.
        (7, b"\0\0\0\x05\0\x46\0\0\0\0\0\0\0\0", 70, 0),
        (13, b"\0\0\0\x05\0\x47\0\0\0\0\x01\0", 71, 0),
    ];
    for (version, body, error_code, session_id) in cases {
        let frame = answer(version, body);
        assert_eq!((frame.error, frame.throttle_ms, frame.error_code), (None, Some(5), Some(error_code)));
        assert_eq!(*fetched(&frame), FetchResponseBody { session_id, partitions: Vec::new() });
        every_prefix_is_an_error(version, body);
    }
}

#[test]
fn reads_a_fetch_of_only_forgotten_topics() {
    // Replica, max wait, min bytes, max bytes, isolation level, session, epoch; topics; forgotten ones; (11:) rack.
    let top = b"\xff\xff\xff\xff\0\0\x01\xf4\0\0\0\x01\0\x10\0\0\0\0\0\0\x63\0\0\0\x04";
    let cases: [(i16, &[u8]); 3] = [
        (7, b"\0\0\0\0\0\0\0\x01\0\x01a\0\0\0\x02\0\0\0\x08\0\0\0\x09"),
        (12, b"\x01\x02\x02a\x03\0\0\0\x08\0\0\0\x09\0\x01\0"),
        (13, b"\x01\x02\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x4d\x03\0\0\0\x08\0\0\0\x09\0\x01\0"),
    ];
    for (version, lists) in cases {
        let bytes = kafka::request(1, version, 7, &[&top[..], lists].concat());
        let mut stream = RequestStream::new(Options::default(), Start::Boundary);
        let (used, frame) = stream.advance(&bytes, 0);
        let frame = frame.unwrap();
        assert_eq!((used, frame.error), (bytes.len(), None), "v{version}");
        let RequestBody::Fetch(body) = &frame.body else { panic!("{frame:?}") };
        assert_eq!((body.session_id, body.session_epoch, body.isolation_level), (99, 4, 0));
        // Forgotten partitions are not fetched.
        assert_eq!(body.partitions, []);
    }
}

#[test]
fn reads_consecutive_topics_and_skips_optional_fields() {
    // Number, error code, high watermark, last stable offset, log start.
    let head = |number: u8, high_watermark: u8| {
        [&[0, 0, 0, number, 0, 0][..], &[0, 0, 0, 0, 0, 0, 0, high_watermark], &[0xff; 8], &[0; 8]].concat()
    };
    let top = b"\0\0\0\0\0\0\0\0\0\0";
    // Aborted transactions, preferred replica, records, tagged fields: null, none, and one aborted transaction with
    // tagged fields; a tagged diverging epoch, leader and snapshot (0, 1, 2), and one from the future.
    let null = b"\0\xff\xff\xff\xff\0\0";
    let none = b"\x01\0\0\0\x03\x01\x02\0\x02ab\x02\x01c";
    let aborted =
        b"\x02\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x08\x01\x05\x01z\xff\xff\xff\xff\0\x02\x01\x03xyz\x63\0";
    let (id, other) = ([1; 16], [2; 16]);
    let v13 = [
        &top[..],
        b"\x03",
        &id,
        b"\x03",
        &head(4, 40),
        null,
        &head(5, 50),
        none,
        b"\x01\x07\x01t",
        &other,
        b"\x02",
        &head(6, 60),
        aborted,
        b"\0\0",
    ]
    .concat();
    let v11 = [
        &top[..],
        b"\0\0\0\x02\0\x05first\0\0\0\x02",
        &head(4, 40),
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
        &head(5, 50),
        b"\0\0\0\0\0\0\0\x03\0\0\0\0",
        b"\0\x01b\0\0\0\x01",
        &head(6, 60),
        b"\0\0\0\x01\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x08\xff\xff\xff\xff\xff\xff\xff\xff",
    ]
    .concat();
    let named = |name: &str| TopicRef::Name(name.into());
    for (version, body, [first, second]) in
        [(13, v13, [TopicRef::Id(id), TopicRef::Id(other)]), (11, v11, [named("first"), named("b")])]
    {
        let frame = answer(version, &body);
        assert_eq!(frame.error, None, "v{version}");
        let partitions: Vec<_> = fetched(&frame)
            .partitions
            .iter()
            .map(|p| (&p.topic, p.partition, p.high_watermark, p.log_start_offset, p.bytes))
            .collect();
        assert_eq!(partitions, [(&first, 4, 40, 0, 0), (&first, 5, 50, 0, 0), (&second, 6, 60, 0, 0)]);
        every_prefix_is_an_error(version, &body);
    }
}

#[test]
fn reports_wrong_lengths_in_a_fetch_response() {
    // One topic, one partition of version 4, up to the length of its records.
    let top = b"\0\0\0\0\0\0\0\x01\0\x01a\0\0\0\x01\0\0\0\x02\0\0\0\0\0\0\0\0\0\x09\0\0\0\0\0\0\0\x09\xff\xff\xff\xff";
    let with = |records: &[u8]| answer(4, &[top, records].concat());

    assert_eq!(malformed(&with(b"\0\0\0\x05abcd")), Some(ErrorKind::BadLength(5)));
    assert_eq!(malformed(&with(b"\xff\xff\xff\xfe")), Some(ErrorKind::BadLength(-2)));
    // Topics and partitions are never null.
    assert_eq!(malformed(&answer(4, b"\0\0\0\0\xff\xff\xff\xff")), Some(ErrorKind::BadLength(-1)));
    assert_eq!(malformed(&answer(13, b"\0\0\0\0\0\0\0\0\0\0\0\0")), Some(ErrorKind::BadLength(-1)));
    assert_eq!(malformed(&answer(4, b"\0\0\0\0\0\0\0\0!")), Some(ErrorKind::TrailingBytes));

    // A broker sends as much of the log as fits: a truncated batch is neither an error nor counted.
    let batch = kafka::batch(kafka::CODECS[0], &["a"], 9);
    for kept in 1..batch.len() {
        let frame = with(&[&(kept as u32).to_be_bytes()[..], &batch[..kept]].concat());
        let partition = &fetched(&frame).partitions[0];
        assert_eq!((frame.error, partition.error), (None, None), "{kept} bytes");
        assert_eq!(
            (partition.bytes as usize, partition.batches.len(), partition.records),
            (kept, 0, Some(0))
        );
    }
    // Invalid batches cost their partition, not the frame.
    let mut unknown = batch.clone();
    unknown[16] = 9;
    let frame = with(&[&(batch.len() as u32).to_be_bytes()[..], &unknown].concat());
    assert_eq!(frame.error, None);
    assert!(matches!(fetched(&frame).partitions[0].error, Some(FrameError::Malformed(_))));
}
