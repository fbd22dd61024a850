//! Both directions of a connection, in chunks of any size. With losses and with garbage.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "fixtures/kafka.rs"]
mod kafka;

use kafka_protocol::records::Compression;
use proptest::prelude::*;
use wire::stream::{
    FrameError, Options, Protocol, RequestBody, RequestFrame, RequestStream, ResponseBody, ResponseFrame,
    ResponseStream, Start, TopicRef,
};
use wire::{ApiKey, BatchHeader, Error, ErrorKind};

type Chunks<'a> = Vec<&'a [u8]>;

fn feed(stream: &mut RequestStream<u32>, chunks: &[&[u8]], from: u32) -> Vec<RequestFrame<u32>> {
    let mut frames = Vec::new();
    for (stamp, chunk) in chunks.iter().enumerate() {
        let mut rest = *chunk;
        while !rest.is_empty() {
            let (used, frame) = stream.advance(rest, from + stamp as u32);
            assert!(used > 0 || frame.is_some(), "no progress");
            frames.extend(frame.cloned());
            rest = &rest[used..];
        }
    }
    frames
}

fn feed_responses(stream: &mut ResponseStream<u32>, chunks: &[&[u8]]) -> Vec<ResponseFrame<u32>> {
    let mut frames = Vec::new();
    for (stamp, chunk) in chunks.iter().enumerate() {
        let mut rest = *chunk;
        while !rest.is_empty() {
            let (used, frame) = stream.advance(rest, stamp as u32, &mut pending_request);
            assert!(used > 0 || frame.is_some(), "no progress");
            frames.extend(frame.cloned());
            rest = &rest[used..];
        }
    }
    frames
}

/// Correlation ids 100-113: Produce of version id - 100; 200-213 Metadata; 300 `ListOffsets` 7; 318 `ApiVersions` 3;
/// 400-418 Fetch.
fn pending_request(correlation_id: i32) -> Option<(ApiKey, i16)> {
    match correlation_id {
        100..=113 => Some((ApiKey::PRODUCE, correlation_id as i16 - 100)),
        200..=213 => Some((ApiKey::METADATA, correlation_id as i16 - 200)),
        300 => Some((ApiKey(2), 7)),
        500 => Some((ApiKey::SASL_HANDSHAKE, 0)),
        400..=418 => Some((ApiKey::FETCH, correlation_id as i16 - 400)),
        318 => Some((ApiKey::API_VERSIONS, 3)),
        _ => None,
    }
}

fn requests() -> Vec<Vec<u8>> {
    let records = kafka::batch(Compression::None, &["a", "b", "c"], 100);
    let mut frames: Vec<_> = (3..=13)
        .map(|v| {
            let parts = [("topicA", 0, records.clone()), ("topicB", 1, records.clone())];
            kafka::produce_request(v, 100 + i32::from(v), &parts)
        })
        .collect();
    let set = [kafka::message(0, 0, 0, -1, b"one"), kafka::message(1, 1, 0, 5, b"two")].concat();
    frames.push(kafka::request(0, 3, 1, &kafka::produce_body(3, &[("old", 9, Some(set.clone()))])));
    frames.push(kafka::sized(
        &[&[0, 0, 0, 1, 0, 0, 0, 101, 0, 1, b'c'][..], &kafka::old_produce_body("topicA", 2, &set)].concat(),
    ));
    frames.push(kafka::request(2, 7, 300, &[7; 50]));
    frames.push(kafka::request(18, 0, 318, &[]));
    frames.push(kafka::request(12, 4, 7, b"\x02g\0\0\0\x01\x02m\0\0"));
    frames.push(kafka::request(1, 11, 411, &kafka::fetch_body(11)));
    frames.push(kafka::request(1, 17, 417, &kafka::fetch_body(17)));
    frames
}

fn cut(bytes: &[u8], mut at: Vec<usize>) -> Chunks<'_> {
    at.retain(|&i| i < bytes.len());
    at.extend([0, bytes.len()]);
    at.sort_unstable();
    at.windows(2).map(|w| &bytes[w[0]..w[1]]).collect()
}

fn without_stamps<T>(frames: Vec<RequestFrame<T>>) -> Vec<RequestFrame<()>> {
    let bare = |f: RequestFrame<T>| RequestFrame {
        first: (),
        last: (),
        stream_start: f.stream_start,
        stream_end: f.stream_end,
        size: f.size,
        api_key: f.api_key,
        api_version: f.api_version,
        correlation_id: f.correlation_id,
        client_id: f.client_id,
        body: f.body,
        error: f.error,
    };
    frames.into_iter().map(bare).collect()
}

fn produce(frame: &RequestFrame<u32>) -> &wire::stream::ProduceBody {
    match &frame.body {
        RequestBody::Produce(body) => body,
        _ => panic!("not a Produce request: {frame:?}"),
    }
}

fn with_message_ids() -> Options {
    Options { message_id_header: Some(b"id".to_vec().into()), ..Options::default() }
}

#[test]
fn reads_produce_frames_of_versions_3_to_13() {
    let records = kafka::batch(Compression::Zstd, &["a", "b", "c"], 100);
    let header = BatchHeader::parse(&records).unwrap();
    for version in 3..=13 {
        let bytes =
            kafka::produce_request(version, 5, &[("topicA", 0, records.clone()), ("topicB", 1, vec![])]);
        let mut stream = RequestStream::new(with_message_ids(), Start::Boundary);
        let frames = feed(&mut stream, &[&bytes], 0);
        assert_eq!(frames.len(), 1, "v{version}");
        let frame = &frames[0];
        assert_eq!((frame.error, frame.size as usize), (None, bytes.len() - 4));
        assert_eq!((frame.stream_start, frame.stream_end), (0, bytes.len() as u64));
        assert_eq!((frame.api_key, frame.api_version), (ApiKey::PRODUCE, version));
        assert_eq!((frame.correlation_id, frame.client_id.as_deref()), (5, Some("client-7")));
        let body = produce(frame);
        assert_eq!((body.acks, body.timeout_ms), (Some(-1), 1500));
        assert_eq!(body.transactional_id.as_deref(), Some("tx-1"));
        let first = &body.partitions[0];
        let topic =
            if version < 13 { TopicRef::Name("topicA".into()) } else { TopicRef::Id(kafka::TOPIC_ID) };
        assert_eq!((&first.topic, first.partition), (&topic, 0));
        assert_eq!((first.bytes as usize, first.records), (records.len(), Some(3)));
        assert_eq!(
            (&first.batches[..], &first.message_ids[..]),
            (&[header][..], &["a", "b", "c"].map(String::from)[..])
        );
        assert_eq!((body.partitions[1].bytes, body.partitions[1].batches.len()), (0, 0));
        assert_eq!(stream.protocol(), Protocol::Kafka);
    }
}

#[test]
fn reads_message_sets_by_their_lengths() {
    let set = [
        kafka::message(0, 0, 0, -1, b"one"),
        kafka::message(1, 1, 0, 5, b"two"),
        kafka::message(1, 3, 1, 6, b"pretends to be gzip"),
    ]
    .concat();
    for version in 0..=2u8 {
        let header = [0, 0, 0, version, 0, 0, 0, 9, 0xff, 0xff];
        let bytes = kafka::sized(&[&header[..], &kafka::old_produce_body("topicA", 2, &set)].concat());
        let frames = feed(&mut RequestStream::new(Options::default(), Start::Boundary), &[&bytes], 0);
        let partition = &produce(&frames[0]).partitions[0];
        assert_eq!((frames[0].error, partition.error, &frames[0].client_id), (None, None, &None));
        let seen: Vec<_> =
            partition.batches.iter().map(|b| (b.magic, b.base_offset, b.records_count)).collect();
        assert_eq!(seen, [(0, 0, 1), (1, 1, 1), (1, 3, -1)]);
        assert_eq!(partition.records, None);
    }
}

#[test]
fn malformed_batch_affects_only_its_partition() {
    let good = kafka::batch(Compression::None, &["a"], 10);
    for (at, value) in [(11, 0xff), (8, 0x7f), (11, 0), (16, 9)] {
        let mut bad = good.clone();
        bad[at] = value;
        let parts = [("x", 0, bad), ("y", 1, good.clone())];
        for options in [Options::default(), with_message_ids()] {
            let bytes = kafka::produce_request(9, 5, &parts);
            let mut stream = RequestStream::new(options, Start::Boundary);
            let frames = feed(&mut stream, &[&bytes], 0);
            let partitions = &produce(&frames[0]).partitions;
            assert_eq!(frames[0].error, None);
            assert!(matches!(partitions[0].error, Some(FrameError::Malformed(_))), "byte {at}");
            assert_eq!((partitions[1].error, partitions[1].batches.len()), (None, 1));
            assert_eq!(stream.counts().undecodable, 1);
        }
    }
}

#[test]
fn short_frame_gives_the_same_error_in_any_chunks() {
    let request = kafka::request(1, 17, 417, &kafka::fetch_body(17));
    let response = kafka::response(1, 17, 417, &kafka::fetch_response_body(17));
    for end in 30..request.len() {
        let bytes = kafka::sized(&request[4..end]);
        let single: Vec<_> = bytes.chunks(1).collect();
        let whole = feed(&mut RequestStream::new(Options::default(), Start::Boundary), &[&bytes], 0);
        let cut = feed(&mut RequestStream::new(Options::default(), Start::Boundary), &single, 0);
        assert_eq!(whole[0].error, cut[0].error, "{end} bytes");
    }
    for records in 1..61 {
        let batch = kafka::batch(Compression::None, &["a"], 9);
        let bytes = kafka::produce_request(9, 5, &[("topicA", 0, batch[..records].to_vec())]);
        let single: Vec<_> = bytes.chunks(1).collect();
        let whole = feed(&mut RequestStream::new(Options::default(), Start::Boundary), &[&bytes], 0);
        let cut = feed(&mut RequestStream::new(Options::default(), Start::Boundary), &single, 0);
        assert!(matches!(produce(&whole[0]).partitions[0].error, Some(FrameError::Malformed(_))));
        assert_eq!(produce(&whole[0]), produce(&cut[0]), "{records} bytes");
    }
    for end in 30..response.len() {
        let bytes = kafka::sized(&response[4..end]);
        let single: Vec<_> = bytes.chunks(1).collect();
        let whole = feed_responses(&mut ResponseStream::new(Options::default(), Start::Boundary), &[&bytes]);
        let cut = feed_responses(&mut ResponseStream::new(Options::default(), Start::Boundary), &single);
        assert_eq!((whole[0].error, &whole[0].body), (cut[0].error, &cut[0].body), "{end} bytes");
    }
}

#[test]
fn every_truncated_body_is_an_error() {
    for frame in requests().into_iter().take(13) {
        let header_end = 4 + 8 + 2 + if frame[13] == 1 { 1 } else { 8 } + usize::from(frame[7] >= 9);
        for end in header_end..frame.len() {
            let bytes = kafka::sized(&frame[4..end]);
            let frames = feed(&mut RequestStream::new(Options::default(), Start::Boundary), &[&bytes], 0);
            assert_eq!(frames.len(), 1, "{end} bytes");
            let RequestBody::Produce(body) = &frames[0].body else { panic!("a Produce request") };
            let partition_failed = body.partitions.iter().any(|p| p.error.is_some());
            assert!(frames[0].error.is_some() || partition_failed, "{end} of {} bytes", frame.len());
        }
    }
}

#[test]
fn stamps_are_those_of_the_first_and_last_byte() {
    let one = kafka::produce_request(9, 1, &[("t", 0, kafka::batch(Compression::None, &["a"], 10))]);
    let bytes = [one.clone(), one.clone()].concat();
    let chunks = cut(&bytes, vec![2, 10, one.len() + 1, one.len() + 40]);
    let frames = feed(&mut RequestStream::new(Options::default(), Start::Boundary), &chunks, 0);
    let stamps: Vec<_> = frames.iter().map(|f| (f.first, f.last)).collect();
    assert_eq!(stamps, [(0, 2), (2, 4)]);
}

#[test]
fn lost_records_do_not_fail_the_frame() {
    let records = kafka::batch(Compression::None, &["a"], 5000);
    let bytes = kafka::produce_request(9, 1, &[("t", 0, records)]);
    let next = kafka::produce_request(9, 2, &[("t", 0, kafka::batch(Compression::None, &["b"], 10))]);
    let mut stream = RequestStream::new(Options::default(), Start::Boundary);
    assert_eq!(feed(&mut stream, &[&bytes[..1000]], 0), []);
    assert_eq!(stream.lost(3000, 1), None);
    let frames = feed(&mut stream, &[&bytes[4000..], &next], 2);
    assert_eq!(frames.len(), 2);
    assert_eq!((frames[0].error, frames[0].stream_end), (None, bytes.len() as u64));
    assert_eq!((produce(&frames[0]).partitions[0].error, frames[1].correlation_id), (None, 2));
    assert_eq!((stream.counts().lost_bytes, stream.counts().resyncs), (3000, 0));
    // With message ids the records matter, but only to this partition, and its header is known.
    let mut stream = RequestStream::new(with_message_ids(), Start::Boundary);
    feed(&mut stream, &[&bytes[..1000]], 0);
    assert_eq!(stream.lost(3000, 1), None);
    let frames = feed(&mut stream, &[&bytes[4000..], &next], 2);
    let partition = &produce(&frames[0]).partitions[0];
    assert_eq!((partition.error, partition.batches.len()), (Some(FrameError::Lost(3000)), 1));
    assert_eq!((frames.len(), frames[0].error), (2, None));
}

#[test]
fn lost_structure_fails_only_its_frame() {
    let batch = kafka::batch(Compression::None, &["a"], 50);
    let one = kafka::produce_request(9, 1, &[("t", 0, batch.clone()), ("u", 0, batch.clone())]);
    let two = kafka::produce_request(9, 2, &[("t", 0, batch)]);
    for at in 23..one.len() - 1 {
        for n in [1, 7, one.len() - at] {
            let n = n.min(one.len() - at);
            let mut stream = RequestStream::new(Options::default(), Start::Boundary);
            let mut frames = feed(&mut stream, &[&one[..at]], 0);
            frames.extend(stream.lost(n as u64, 1).cloned());
            frames.extend(feed(&mut stream, &[&one[at + n..], &two], 2));
            let ids: Vec<_> = frames.iter().map(|f| f.correlation_id).collect();
            assert_eq!(ids, [1, 2], "{n} bytes lost at {at}");
            assert_eq!((frames[1].error, stream.counts().resyncs), (None, 0));
        }
    }
}

#[test]
fn header_truncated_after_the_correlation_id_makes_a_frame() {
    let batch = kafka::batch(Compression::None, &["a"], 50);
    let two = kafka::produce_request(9, 2, &[("t", 0, batch.clone())]);
    for (version, tags) in [(8, 0), (9, 1)] {
        let one = kafka::produce_request(version, 1, &[("t", 0, batch.clone())]);
        let body = 22 + tags;
        for at in 1..body + 12 {
            // The client id, the header, the transactional id's six or seven bytes, acks.
            let transactional_id_end = body + 6 - tags;
            let lost = FrameError::Lost((one.len() - at) as u64);
            let head_lost = FrameError::HeadLost((one.len() - at) as u64);
            let mut stream = RequestStream::new(Options::default(), Start::Boundary);
            assert_eq!(feed(&mut stream, &[&one[..at]], 3), []);
            let frame = stream.lost((one.len() - at) as u64, 4).cloned();
            assert_eq!(frame.is_some(), at >= 12, "cut at {at}");
            if let Some(frame) = frame {
                assert_eq!((frame.api_key, frame.api_version), (ApiKey::PRODUCE, version));
                assert_eq!((frame.correlation_id, frame.first, frame.last), (1, 3, 4));
                assert_eq!((frame.stream_start, frame.stream_end), (0, one.len() as u64));
                assert_eq!(frame.client_id.is_some(), at >= 22, "cut at {at}");
                assert_eq!(frame.error, Some(if at < body { head_lost } else { lost }), "cut at {at}");
                let acks = if at >= transactional_id_end + 2 { Some(-1) } else { None };
                assert_eq!(
                    (produce(&frame).acks, produce(&frame).partitions.len()),
                    (acks, 0),
                    "cut at {at}"
                );
            }
            let next = feed(&mut stream, &[&two], 5);
            if at >= 4 {
                assert_eq!((next.len(), next[0].error, stream.counts().resyncs), (1, None, 0));
                assert_eq!((stream.counts().undecodable, stream.protocol()), (1, Protocol::Kafka));
            }
        }
    }
}

#[test]
fn loss_beyond_a_truncated_header_returns_the_frame_and_resyncs() {
    let one = kafka::request(3, 12, 1, &[0; 40]);
    let two = kafka::produce_request(9, 2, &[("t", 0, kafka::batch(Compression::None, &["a"], 50))]);
    let mut stream = RequestStream::new(Options::default(), Start::Boundary);
    feed(&mut stream, &[&one[..15]], 0);
    let frame = stream.lost((one.len() - 15 + 10) as u64, 1).cloned().unwrap();
    assert_eq!((frame.correlation_id, frame.client_id), (1, None));
    assert_eq!(frame.error, Some(FrameError::HeadLost(one.len() as u64 - 15)));
    let frames = feed(&mut stream, &[&two[10..], &two], 2);
    assert_eq!(frames.iter().map(|f| f.correlation_id).collect::<Vec<_>>(), [2]);
    assert_eq!(stream.counts().resyncs, 1);
}

/// Packets of which a snap length left this many bytes each.
fn snapped(stream: &mut RequestStream<u32>, packets: &[&[u8]], snaplen: usize) -> Vec<RequestFrame<u32>> {
    let mut frames = Vec::new();
    for packet in packets {
        let kept = &packet[..packet.len().min(snaplen)];
        frames.extend(feed(stream, &[kept], 0));
        frames.extend(stream.lost((packet.len() - kept.len()) as u64, 0).cloned());
    }
    frames
}

#[test]
fn snap_length_within_headers_preserves_correlation_ids() {
    let produce =
        |id| kafka::produce_request(9, id, &[("t", 0, kafka::batch(Compression::None, &["a"], 900))]);
    let other = |id| kafka::request(12, 4, id, &[1; 30]);
    let pair = [other(4), produce(5)].concat();
    let (one, two, three, six, seven) = (produce(1), other(2), produce(3), produce(6), other(7));
    let packets: [&[u8]; 7] = [&one, &two, &three[..700], &three[700..], &pair, &six, &seven];
    for snaplen in 12..=30 {
        let mut stream = RequestStream::new(Options::default(), Start::Boundary);
        let frames = snapped(&mut stream, &packets, snaplen);
        let ids: Vec<_> = frames.iter().map(|f| f.correlation_id).collect();
        // The start of a packet's second request is cut off; the next packet is found again.
        assert_eq!(ids, [1, 2, 3, 4, 6, 7], "snap length {snaplen}");
        assert_eq!(stream.counts().resyncs, 1, "snap length {snaplen}");
    }
}

#[test]
fn accepts_a_lone_truncated_header_if_its_packet_ends_with_it() {
    for (request, key) in [
        (kafka::request(12, 4, 7, b"\x02g\0\0\0\x01\x02m\0\0"), ApiKey(12)),
        (
            kafka::produce_request(9, 7, &[("t", 0, kafka::batch(Compression::None, &["a"], 50))]),
            ApiKey::PRODUCE,
        ),
    ] {
        let mut stream = RequestStream::new(Options::default(), Start::Midstream);
        let frames = snapped(&mut stream, &[&request], 18);
        assert_eq!(frames.iter().map(|f| (f.api_key, f.correlation_id)).collect::<Vec<_>>(), [(key, 7)]);
        let mut stream = RequestStream::new(Options::default(), Start::Midstream);
        let longer = [&request[..], &[0]].concat();
        assert_eq!(snapped(&mut stream, &[&longer], 18), []);
    }
}

#[test]
fn detects_tls_from_its_middle() {
    let record =
        |length: usize| [&[0x17, 3, 3, (length >> 8) as u8, length as u8][..], &vec![0xc3; length]].concat();
    let bytes = [record(700), record(5_000), record(30), record(16_000)].concat();
    for chunks in [&bytes.chunks(1_448).collect::<Vec<_>>(), &vec![&bytes[..]]] {
        let mut stream = RequestStream::new(Options::default(), Start::Midstream);
        assert_eq!(feed(&mut stream, chunks, 0), []);
        assert_eq!(stream.protocol(), Protocol::Tls);
        assert_eq!(stream.lost(1 << 30, 0), None);
        let counts = stream.counts();
        assert_eq!((counts.skipped_bytes, counts.lost_bytes), (bytes.len() as u64, 1 << 30));
        let mut stream = RequestStream::new(Options::default(), Start::Boundary);
        stream.lost(517, 0);
        assert_eq!(feed(&mut stream, chunks, 0), []);
        assert_eq!(stream.protocol(), Protocol::Tls);
    }
}

#[test]
fn loss_beyond_the_frame_abandons_it_and_finds_the_next() {
    let batch = kafka::batch(Compression::None, &["a"], 500);
    let frame = |id| kafka::produce_request(9, id, &[("t", 0, batch.clone())]);
    let (one, two, three) = (frame(1), frame(2), frame(3));
    let mut stream = RequestStream::new(Options::default(), Start::Boundary);
    feed(&mut stream, &[&one[..300]], 0);
    let lost = one.len() - 300 + 40;
    let abandoned = stream.lost(lost as u64, 1).cloned().unwrap();
    assert_eq!(abandoned.error, Some(FrameError::Lost((one.len() - 300) as u64)));
    assert_eq!((abandoned.correlation_id, abandoned.stream_end), (1, one.len() as u64));
    assert_eq!(produce(&abandoned).partitions[0].batches.len(), 1);
    let frames = feed(&mut stream, &[&[&two[40..], &three[..]].concat()], 2);
    assert_eq!((frames.len(), frames[0].correlation_id), (1, 3));
    assert_eq!(frames[0].stream_start, (one.len() + two.len()) as u64);
    let counts = stream.counts();
    assert_eq!((counts.resyncs, counts.skipped_bytes), (1, two.len() as u64 - 40));
    assert_eq!((counts.frames, counts.undecodable, counts.lost_bytes), (2, 1, lost as u64));
}

#[test]
fn midstream_start_finds_the_first_whole_frame() {
    let frames = requests();
    let bytes: Vec<u8> = frames.concat();
    for skipped in [1, 5, 50, 300] {
        let all =
            feed(&mut RequestStream::new(Options::default(), Start::Midstream), &[&bytes[skipped..]], 0);
        let starts: Vec<_> = all.iter().map(|f| f.stream_start as usize + skipped).collect();
        assert_eq!(starts.len(), frames.len() - 1, "from byte {skipped}");
        assert_eq!(starts[0], frames[0].len());
    }
}

#[test]
fn accepts_a_lone_request_only_if_it_fills_its_chunk() {
    let heartbeat = kafka::request(12, 4, 7, b"\x02g\0\0\0\x01\x02m\0\0");
    let mut stream = RequestStream::new(Options::default(), Start::Midstream);
    assert_eq!(feed(&mut stream, &[&heartbeat], 0).len(), 1);
    // In the middle of a chunk, it is held until another one follows.
    let mut stream = RequestStream::new(Options::default(), Start::Midstream);
    let tail = [&[0xaa; 20][..], &heartbeat].concat();
    assert_eq!(feed(&mut stream, &[&tail], 0).len(), 0);
    assert_eq!(feed(&mut stream, &[&heartbeat], 1).len(), 2);
    // If something else follows, it is never returned.
    let mut stream = RequestStream::new(Options::default(), Start::Midstream);
    assert_eq!(feed(&mut stream, &[&tail, b"not a frame at all, but text"], 0).len(), 0);
}

#[test]
fn skips_an_unreadable_frame() {
    let good = kafka::request(12, 4, 7, b"\x02g\0\0\0\x01\x02m\0\0");
    let mut stream = RequestStream::new(Options::default(), Start::Boundary);
    let token = kafka::sized(b"\0user\0password-of-a-raw-token");
    let frames = feed(&mut stream, &[&good, &token, &good, &good], 0);
    assert_eq!(frames.len(), 3);
    assert_eq!((stream.counts().undecodable, stream.counts().resyncs), (1, 0));
}

type Tokens = Vec<Vec<u8>>;

/// Tokens as mechanisms send them (RFC 4616, RFC 5802, RFC 7628, RFC 4121): the client's, the broker's.
fn exchanges_of_tokens() -> Vec<(Tokens, Tokens)> {
    let sized = |tokens: &[&[u8]]| tokens.iter().map(|token| kafka::sized(token)).collect::<Vec<_>>();
    let initial = [&[0x60, 0x82, 2, 0x4a, 6, 9][..], &[0x2a; 500]].concat();
    vec![
        (sized(&[b"\0user\0password"]), sized(&[b""])),
        (sized(&[b"\0A\0\0"]), sized(&[b""])),
        (
            sized(&[b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL", b"c=biws,r=fyko,p=v0X8v3Bz2T0CJGbJQyF0X"]),
            sized(&[b"r=fyko,s=QSXCR+Q6sek8bf92,i=4096", b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ="]),
        ),
        (sized(&[b"n,,\x01auth=Bearer ey.J.x\x01\x01"]), sized(&[b""])),
        (
            sized(&[&initial, b"", b"\x05\x04\x04\xff0123456789"]),
            sized(&[b"\x60\x20ab", b"\x05\x04\x05\xff012", b""]),
        ),
    ]
}

#[test]
fn counts_and_skips_raw_sasl_tokens_after_handshake_version_0() {
    let handshake = |version| kafka::request(17, version, 500, &[0, 5, b'P', b'L', b'A', b'I', b'N']);
    for (asked, answered) in exchanges_of_tokens() {
        let after =
            [kafka::request(3, 1, 1, &[0, 0, 0, 0]), kafka::request(12, 4, 2, b"\x02g\0\0\0\x01\x02m\0\0")]
                .concat();
        let bytes = [kafka::request(18, 0, 318, &[]), handshake(0), asked.concat(), after].concat();
        let back = [&[0, 0, 0, 10, 0, 0, 1, 0xf4, 0, 0, 0, 0, 0, 0][..], &answered.concat()].concat();
        let back = [back, kafka::response(2, 7, 300, &[5; 40])].concat();
        for size in [1, 7, 64, 100_000] {
            let mut stream = RequestStream::new(Options::default(), Start::Boundary);
            let frames = feed(&mut stream, &bytes.chunks(size).collect::<Vec<_>>(), 0);
            let keys: Vec<_> = frames.iter().map(|frame| frame.api_key.0).collect();
            assert_eq!(keys, [18, 17, 3, 12], "{asked:?} by {size} bytes");
            let counts = stream.counts();
            assert_eq!(
                (counts.sasl_tokens as usize, counts.undecodable, counts.resyncs),
                (asked.len(), 0, 0)
            );
            assert_eq!((counts.skipped_bytes, stream.protocol()), (0, Protocol::Kafka));
            let mut stream = ResponseStream::new(Options::default(), Start::Boundary);
            let frames = feed_responses(&mut stream, &back.chunks(size).collect::<Vec<_>>());
            let ids: Vec<_> = frames.iter().map(|frame| frame.correlation_id).collect();
            assert_eq!(ids, [500, 300], "{answered:?} by {size} bytes");
            let counts = stream.counts();
            assert_eq!(
                (counts.sasl_tokens as usize, counts.undecodable, counts.resyncs),
                (answered.len(), 0, 0)
            );
        }
    }
    // From version 1 on, there are none.
    let bytes = [handshake(1), kafka::sized(b"\0user\0password"), handshake(1)].concat();
    let mut stream = RequestStream::new(Options::default(), Start::Boundary);
    feed(&mut stream, &[&bytes], 0);
    assert_eq!((stream.counts().sasl_tokens, stream.counts().undecodable), (0, 1));
}

#[test]
fn lost_tokens_cause_no_resync_and_large_ones_are_rejected() {
    let handshake = kafka::request(17, 0, 500, &[0, 5, b'P', b'L', b'A', b'I', b'N']);
    let (token, after) = (kafka::sized(&[b'x'; 300]), kafka::request(12, 4, 2, b"\x02g\0\0\0\x01\x02m\0\0"));
    for at in 4..token.len() {
        let mut stream = RequestStream::new(Options::default(), Start::Boundary);
        feed(&mut stream, &[&handshake, &token, &token[..at]], 0);
        stream.lost((token.len() - at) as u64, 0);
        let frames = feed(&mut stream, &[&token, &after], 0);
        assert_eq!((frames.len(), stream.counts().resyncs), (1, 0), "lost from byte {at} on");
    }
    let mut stream = RequestStream::new(Options::default(), Start::Boundary);
    feed(&mut stream, &[&handshake, &kafka::sized(&vec![b'x'; 524_289]), &after], 0);
    assert_eq!((stream.counts().sasl_tokens, stream.counts().undecodable), (0, 1));
}

#[test]
fn chunk_of_exactly_one_frame_replaces_a_guess() {
    // Lists of small numbers, as in Metadata answers, look like a size and an expected number.
    let lists = [&[1; 10][..], &[0, 0, 0x20, 0, 0, 0, 1, 0x2c], &[2; 60]].concat();
    let answer = kafka::response(2, 7, 300, &[5; 40]);
    let mut stream = ResponseStream::new(Options::default(), Start::Boundary);
    stream.lost(100, 0);
    let frames = feed_responses(&mut stream, &[&lists, &answer, &answer]);
    assert_eq!(frames.iter().map(|f| (f.correlation_id, f.size)).collect::<Vec<_>>(), [(300, 45), (300, 45)]);
    assert_eq!(frames[0].stream_start, 100 + lists.len() as u64);
    assert_eq!(stream.counts().skipped_bytes, lists.len() as u64);
    // The same with a frame in two chunks.
    let mut stream = ResponseStream::new(Options::default(), Start::Boundary);
    stream.lost(100, 0);
    let frames = feed_responses(&mut stream, &[&lists, &answer[..20], &answer[20..], &answer]);
    assert_eq!(frames.iter().map(|f| (f.correlation_id, f.size)).collect::<Vec<_>>(), [(300, 45), (300, 45)]);
}

#[test]
fn large_first_request_is_not_another_protocol() {
    let batch = kafka::batch(Compression::None, &["a"], 3 << 20);
    let big = kafka::produce_request(9, 1, &[("t", 0, batch)]);
    let mut stream = RequestStream::new(Options::default(), Start::Midstream);
    let mut frames = feed(&mut stream, &[&[0xaa; 100]], 0);
    for chunk in big.chunks(1_448) {
        frames.extend(feed(&mut stream, &[chunk], 1));
        assert_ne!(stream.protocol(), Protocol::Other);
    }
    assert_eq!((frames.len(), stream.protocol(), stream.counts().skipped_bytes), (1, Protocol::Kafka, 100));
}

#[test]
fn newer_versions_and_apis_produce_frames() {
    let first = kafka::request(18, 0, 1, &[]);
    let newer = kafka::sized(&[0, 0, 0, 20, 0, 0, 0, 2, 0, 1, b'c', 0, 1, 2, 3]);
    let newer_fetch = kafka::sized(&[0, 1, 0, 21, 0, 0, 0, 2, 0, 1, b'c', 0, 1, 2, 3]);
    let newer_other = kafka::sized(&[0, 18, 0, 9, 0, 0, 0, 2, 0, 1, b'c', 0, 1, 2, 3]);
    let unknown = kafka::sized(&[0, 120, 0, 0, 0, 0, 0, 3, 0, 1, b'c', 0]);
    let mut stream = RequestStream::new(Options::default(), Start::Boundary);
    let frames = feed(&mut stream, &[&first, &newer, &newer_fetch, &newer_other, &unknown], 0);
    let errors: Vec<_> = frames.iter().map(|frame| frame.error).collect();
    let version =
        |version| Some(FrameError::Malformed(Error { kind: ErrorKind::UnsupportedVersion(version), at: 6 }));
    let api = Some(FrameError::Malformed(Error { kind: ErrorKind::UnknownApi(120), at: 4 }));
    assert_eq!(errors, [None, version(20), version(21), version(9), api]);
    assert_eq!((frames[4].api_key.name(), frames[4].client_id.as_deref()), ("UNKNOWN", Some("c")));
    assert_eq!(stream.counts().resyncs, 0);
}

/// Made-up requests of every API, in versions `more` above the highest known. Each has the two headers that it may have
/// and one whose tagged fields are invalid.
fn requests_of_the_future(more: i16) -> Vec<(ApiKey, i16, Vec<u8>)> {
    let tails: [&[u8]; 3] = [&[0, 9, 9], &[1, 5, 2, 7, 7, 9], &[0xff; 9]];
    let of = |api: ApiKey, tail: &[u8]| {
        let version = api.max_version().unwrap() + more;
        let fixed = [api.0.to_be_bytes(), version.to_be_bytes()].concat();
        (api, version, kafka::sized(&[&fixed[..], &[0, 0, 0, 77, 0, 2, b'c', b'7'], tail].concat()))
    };
    ApiKey::known().flat_map(|api| tails.map(|tail| of(api, tail))).collect()
}

#[test]
fn unknown_versions_of_every_api_produce_frames() {
    let known = kafka::request(18, 0, 1, &[]);
    for (api, version, future) in [1, 7].into_iter().flat_map(requests_of_the_future) {
        let unknown = Error { kind: ErrorKind::UnsupportedVersion(version), at: 6 };
        let unknown = Some(FrameError::Malformed(unknown));
        // The first of its connection, in step, in one chunk with others, and when the recording began later.
        let joined = [&known[..], &future, &known].concat();
        let cases: [(Start, &[&[u8]], u64); 4] = [
            (Start::Boundary, &[&future, &known], 1),
            (Start::Boundary, &[&known, &future[..9], &future[9..], &known], 2),
            (Start::Boundary, &[&joined], 2),
            (Start::Midstream, &[&future, &known], 1),
        ];
        for (start, chunks, place) in cases {
            let mut stream = RequestStream::new(Options::default(), start);
            let frames = feed(&mut stream, chunks, 0);
            let case = format!("{api:?} v{version}, {start:?}, {chunks:?}");
            let frame = &frames[place as usize - 1];
            assert_eq!(
                (frame.api_key, frame.api_version, frame.correlation_id),
                (api, version, 77),
                "{case}"
            );
            assert_eq!((frame.client_id.as_deref(), frame.error), (Some("c7"), unknown), "{case}");
            assert_eq!((&frame.body, frame.size as usize + 4), (&RequestBody::Other, future.len()), "{case}");
            let rest: Vec<_> = frames.iter().filter(|f| f.correlation_id == 1).map(|f| f.error).collect();
            assert!(rest.len() + 1 == frames.len() && rest.iter().all(Option::is_none), "{case}");
            let counts = stream.counts();
            // An ApiVersions request has nothing to lose that could be known.
            let undecodable = u64::from(api != ApiKey::API_VERSIONS);
            assert_eq!((counts.frames, counts.undecodable), (place + 1, undecodable), "{case}");
            assert_eq!((counts.resyncs, counts.skipped_bytes), (0, 0), "{case}");
        }
    }
}

#[test]
fn search_accepts_an_unknown_version_only_if_it_fills_a_chunk() {
    for (api, version, future) in requests_of_the_future(1) {
        let inside = [&[0xaa; 20][..], &future, &future].concat();
        let longer = [&future[..], &[0xaa; 7]].concat();
        let cut = &future[..future.len() - 1];
        for chunks in [&[&inside[..]][..], &[&longer], &[cut, &[0xaa; 40]]] {
            let mut stream = RequestStream::new(Options::default(), Start::Midstream);
            assert_eq!(feed(&mut stream, chunks, 0), [], "{api:?} v{version}");
        }
    }
}

#[test]
fn token_is_not_an_unknown_version() {
    let handshake = kafka::request(17, 0, 1, b"\0\x05PLAIN");
    // The user A with the password p…: key 65, version 112.
    let token = kafka::sized(b"\0A\0password, and much more of it");
    let wide = kafka::sized(&[0, 65, 0, 112, 0, 0, 0, 1, 0, 1, b'c', 0]);
    let mut stream = RequestStream::new(Options::default(), Start::Boundary);
    let frames = feed(&mut stream, &[&handshake, &token, &wide, &kafka::request(18, 0, 2, &[])], 0);
    assert_eq!(frames.iter().map(|f| f.correlation_id).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((stream.counts().sasl_tokens, stream.counts().resyncs), (2, 0));
}

#[test]
fn distinguishes_tls_from_other_protocols() {
    let mut stream = RequestStream::new(Options::default(), Start::Boundary);
    assert_eq!(stream.protocol(), Protocol::Unknown);
    feed(&mut stream, &[&[0x16, 3, 1, 2, 0, 1], &[0; 5000]], 0);
    assert_eq!(stream.protocol(), Protocol::Tls);
    let mut stream = RequestStream::new(Options::default(), Start::Boundary);
    let page = b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n".repeat(40_000);
    let frames = feed(&mut stream, &page.chunks(1448).collect::<Vec<_>>(), 0);
    assert_eq!((frames.len(), stream.protocol()), (0, Protocol::Other));
}

/// Every row copies its topic's name: a name of 32 KiB and a thousand partitions of 16 bytes would become 32 MiB.
#[test]
fn rows_of_a_request_are_bounded_by_their_bytes() {
    const PARTITIONS: u32 = 20_000;
    let name = [b't'; 249];
    let mut body = [&[0xff; 4][..], &[0, 0, 1, 0], &[0, 0, 0, 1], &[0, 0, 0, 1]].concat();
    body.extend((name.len() as u16).to_be_bytes());
    body.extend(&name);
    body.extend(PARTITIONS.to_be_bytes());
    for partition in 0..PARTITIONS {
        body.extend(partition.to_be_bytes());
        body.extend([0; 12]);
    }
    let request = kafka::request(1, 0, 9, &body);
    let frames = feed(&mut RequestStream::new(Options::default(), Start::Boundary), &[&request], 0);
    let [frame] = &frames[..] else { panic!("{} frames", frames.len()) };
    let error = frame.error.as_ref().unwrap();
    assert!(matches!(error, FrameError::Malformed(Error { kind: ErrorKind::TooLarge(_), .. })), "{error:?}");
    assert!(!matches!(&frame.body, RequestBody::Fetch(body) if !body.partitions.is_empty()));
}

#[test]
fn counts_batches_over_the_limit_and_loses_no_partition() {
    let batch = kafka::batch(Compression::None, &["a"], 0);
    let partitions: Vec<_> = (0..30).map(|partition| ("t", partition, batch.repeat(2_000))).collect();
    let bytes = kafka::produce_request(9, 1, &partitions);
    let frames = feed(&mut RequestStream::new(Options::default(), Start::Boundary), &[&bytes], 0);
    let body = produce(&frames[0]);
    let (kept, omitted) = body.partitions.iter().fold((0, 0), |(kept, omitted), partition| {
        (kept + partition.batches.len(), omitted + partition.batches_omitted as usize)
    });
    assert_eq!((frames[0].error, body.partitions.len(), kept + omitted), (None, 30, 60_000));
    assert!(kept * size_of::<BatchHeader>() <= 4 << 20 && kept > 40_000, "{kept} heads");
}

#[test]
fn refuses_an_overlong_topic_name() {
    for (length, is_refused) in [(249, false), (250, true)] {
        let name = "t".repeat(length);
        let produce = kafka::produce_request(9, 1, &[(&name, 0, Vec::new())]);
        let frames = feed(&mut RequestStream::new(Options::default(), Start::Boundary), &[&produce], 0);
        let is_bad_length = |error: FrameError| {
            matches!(error, FrameError::Malformed(Error { kind: ErrorKind::BadLength(250), .. }))
        };
        assert_eq!(frames[0].error.is_some_and(is_bad_length), is_refused, "{:?}", frames[0].error);
    }
}

#[test]
fn releasing_buffers_changes_no_frame() {
    let all = requests().concat();
    let expected = feed(&mut RequestStream::new(Options::default(), Start::Boundary), &[&all], 0);
    let answers: Vec<u8> = (3..=13)
        .flat_map(|v| kafka::response(0, v, 100 + i32::from(v), &kafka::produce_response_body(v)))
        .collect();
    let answered = feed_responses(&mut ResponseStream::new(Options::default(), Start::Boundary), &[&answers]);
    for step in [1, 7, 100, 5_000] {
        let mut stream = RequestStream::new(Options::default(), Start::Boundary);
        let mut responses = ResponseStream::new(Options::default(), Start::Boundary);
        let (mut frames, mut response_frames, mut kept) = (Vec::new(), Vec::new(), 0);
        for chunk in all.chunks(step) {
            frames.extend(feed(&mut stream, &[chunk], 0));
            kept = kept.max(stream.kept_bytes());
            stream.release_buffers();
        }
        for chunk in answers.chunks(step) {
            response_frames.extend(feed_responses(&mut responses, &[chunk]));
            responses.release_buffers();
        }
        assert_eq!(without_stamps(frames), without_stamps(expected.clone()), "{step}");
        assert_eq!(response_frames.len(), answered.len());
        assert!(response_frames.iter().zip(&answered).all(|(one, other)| one.body == other.body));
        assert!(kept > 500, "{kept} bytes at most");
        assert_eq!((stream.kept_bytes(), responses.kept_bytes()), (0, 0));
    }
}

#[test]
fn message_ids_are_bounded() {
    let records = kafka::batch(Compression::Gzip, &["a", "b"], 100_000);
    let bytes = kafka::produce_request(9, 1, &[("t", 0, records.clone()), ("u", 0, records)]);
    for (options, kind) in [
        (Options { max_batch_buffer_bytes: 500, ..with_message_ids() }, ErrorKind::TooLarge(500)),
        (
            Options { max_decompressed_bytes: 150_000, ..with_message_ids() },
            ErrorKind::DecompressedTooLarge(150_000),
        ),
    ] {
        let frames = feed(&mut RequestStream::new(options, Start::Boundary), &[&bytes], 0);
        for partition in &produce(&frames[0]).partitions {
            let Some(FrameError::Malformed(error)) = partition.error else { panic!("no error") };
            assert_eq!((error.kind, partition.batches.len(), partition.message_ids.len()), (kind, 1, 0));
        }
    }
}

#[test]
fn reads_responses_and_reports_truncated_ones() {
    for version in 3..=13i16 {
        let bytes =
            kafka::response(0, version, 100 + i32::from(version), &kafka::produce_response_body(version));
        let frames = feed_responses(&mut ResponseStream::new(Options::default(), Start::Boundary), &[&bytes]);
        let ResponseBody::Produce(partitions) = &frames[0].body else { panic!("Produce") };
        assert_eq!((frames[0].error, frames[0].throttle_ms, partitions.len()), (None, Some(17), 2));
        assert_eq!((partitions[0].base_offset, partitions[1].error_code), (1234, 87));
        for end in 9..bytes.len() {
            let cut = kafka::sized(&bytes[4..end]);
            let frames =
                feed_responses(&mut ResponseStream::new(Options::default(), Start::Boundary), &[&cut]);
            assert!(frames[0].error.is_some(), "v{version}, {end} bytes");
        }
    }
    for version in 0..=13i16 {
        let body = kafka::metadata_response_body(version);
        let bytes = kafka::response(3, version, 200 + i32::from(version), &body);
        let frames = feed_responses(&mut ResponseStream::new(Options::default(), Start::Boundary), &[&bytes]);
        let ResponseBody::Metadata { topics, replicas } = &frames[0].body else { panic!("Metadata") };
        assert_eq!(*replicas, [(0, 0, 2), (0, 0, 2)]);
        let id = if version >= 10 { kafka::TOPIC_ID } else { [0; 16] };
        assert_eq!(topics[0], (id, Some("topicA".to_owned())));
    }
}

#[test]
fn reads_every_version_of_fetch_requests() {
    for version in 0..=18i16 {
        let body = kafka::fetch_body(version);
        let bytes = kafka::request(1, version, 5, &body);
        let frames = feed(&mut RequestStream::new(Options::default(), Start::Boundary), &[&bytes], 0);
        let RequestBody::Fetch(fetch) = &frames[0].body else { panic!("Fetch v{version}: {frames:?}") };
        assert_eq!((frames.len(), frames[0].error), (1, None), "v{version}");
        assert_eq!((fetch.max_wait_ms, fetch.min_bytes), (Some(500), Some(7)));
        assert_eq!(fetch.max_bytes, (version >= 3).then_some(50_000_000));
        assert_eq!((fetch.session_id, fetch.session_epoch), if version >= 7 { (99, 3) } else { (0, -1) });
        let partitions: Vec<_> =
            fetch.partitions.iter().map(|p| (&p.topic, p.partition, p.fetch_offset)).collect();
        let topic = fetch_topic(version);
        assert_eq!(partitions, [(&topic, 2, Some(1234)), (&topic, 3, Some(77))], "v{version}");
        let header = bytes.len() - body.len();
        for end in header..bytes.len() {
            let cut = kafka::sized(&bytes[4..end]);
            let frames = feed(&mut RequestStream::new(Options::default(), Start::Boundary), &[&cut], 0);
            assert!(frames[0].error.is_some(), "v{version}, {end} bytes");
            let mut stream = RequestStream::new(Options::default(), Start::Boundary);
            feed(&mut stream, &[&bytes[..end]], 0);
            let frame = stream.lost((bytes.len() - end) as u64, 0).unwrap();
            assert_eq!(frame.error, Some(FrameError::Lost((bytes.len() - end) as u64)));
        }
    }
}

fn fetch_topic(version: i16) -> TopicRef {
    if version < 13 { TopicRef::Name("topicA".into()) } else { TopicRef::Id(kafka::TOPIC_ID) }
}

#[test]
fn reads_every_version_of_fetch_responses() {
    let batches = kafka::fetched_batches();
    let header = BatchHeader::parse(&batches).unwrap();
    for version in 0..=18i16 {
        let id = 400 + i32::from(version);
        let bytes = kafka::response(1, version, id, &kafka::fetch_response_body(version));
        let read = |bytes: &[u8]| {
            feed_responses(&mut ResponseStream::new(Options::default(), Start::Boundary), &[bytes])
        };
        let frames = read(&bytes);
        assert_eq!((frames.len(), frames[0].error), (1, None), "v{version}");
        assert_eq!(frames[0].throttle_ms, (version >= 1).then_some(17), "v{version}");
        let ResponseBody::Fetch(fetch) = &frames[0].body else { panic!("Fetch") };
        assert_eq!(fetch.session_id, if version >= 7 { 99 } else { 0 });
        let [full, refused, empty] = &fetch.partitions[..] else { panic!("{:?}", fetch.partitions) };
        assert_eq!((&full.topic, full.partition, full.error_code), (&fetch_topic(version), 2, 0));
        assert_eq!((full.high_watermark, full.bytes as usize), (4321, batches.len()));
        assert_eq!(full.log_start_offset, if version >= 5 { 11 } else { -1 });
        // Two whole batches and the beginning of a third.
        assert_eq!((full.batches.len(), full.batches[0], full.records), (2, header, Some(3)));
        assert_eq!((full.error, refused.error, refused.error_code), (None, None, 6));
        assert_eq!((refused.partition, refused.bytes, empty.bytes, empty.records), (3, 0, 0, Some(0)));
        for end in (8 + usize::from(version >= 12) + 4)..bytes.len() {
            let frames = read(&kafka::sized(&bytes[4..end]));
            assert!(frames[0].error.is_some(), "v{version}, {end} bytes");
        }
    }
}

#[test]
fn lost_fetched_records_affect_only_their_partition() {
    let bytes = kafka::response(1, 13, 413, &kafka::fetch_response_body(13));
    let batches = kafka::fetched_batches();
    let records = bytes.windows(batches.len()).position(|window| window == batches).unwrap();
    for at in records..records + batches.len() {
        let mut stream = ResponseStream::new(Options::default(), Start::Boundary);
        assert_eq!(feed_responses(&mut stream, &[&bytes[..at]]), []);
        assert_eq!(stream.lost(1, 0), None);
        let frames = feed_responses(&mut stream, &[&bytes[at + 1..]]);
        let ResponseBody::Fetch(fetch) = &frames[0].body else { panic!("Fetch") };
        assert_eq!((frames[0].error, fetch.partitions.len()), (None, 3), "lost at {at}");
        let partition = &fetch.partitions[0];
        assert_eq!(partition.bytes as usize, batches.len());
        assert!(partition.error.is_some() || partition.records == Some(3), "lost at {at}");
        assert!(at - records > 60 || partition.error == Some(FrameError::Lost(1)), "lost at {at}");
    }
    // A loss before the records costs the frame its body, not its position.
    let mut stream = ResponseStream::new(Options::default(), Start::Boundary);
    feed_responses(&mut stream, &[&bytes[..20]]);
    stream.lost(5, 0);
    let frames = feed_responses(&mut stream, &[&bytes[25..]]);
    assert_eq!(frames[0].error, Some(FrameError::Lost(5)));
}

#[test]
fn reads_throttle_times_of_undecoded_bodies() {
    // FindCoordinator 4: the header's tagged fields, then the throttle time.
    let body = [&[0, 0, 0, 9][..], &[3; 40]].concat();
    let mut pending = |_| Some((ApiKey(10), 4));
    for chunk in [1, 3, 100] {
        let bytes = kafka::response(10, 4, 1, &body);
        let mut stream = ResponseStream::new(Options::default(), Start::Boundary);
        let mut seen = None;
        for chunk in bytes.chunks(chunk) {
            seen = stream.advance(chunk, 0, &mut pending).1.cloned();
        }
        let frame = seen.unwrap();
        assert_eq!((frame.throttle_ms, frame.error, frame.body), (Some(9), None, ResponseBody::Other));
    }
    // In a version from the future, its position is unknown.
    let bytes = kafka::response(10, 4, 1, &body);
    let mut stream = ResponseStream::new(Options::default(), Start::Boundary);
    let frame = stream.advance(&bytes, 0, &mut |_| Some((ApiKey(10), 99))).1.cloned().unwrap();
    assert_eq!(frame.throttle_ms, None);
    let bytes = kafka::response(10, 4, 1, &[0; 3]);
    let mut stream = ResponseStream::new(Options::default(), Start::Boundary);
    let frame = stream.advance(&bytes, 0, &mut pending).1.cloned().unwrap();
    assert!(frame.error.is_some());
}

#[test]
fn midstream_search_needs_a_pending_request() {
    let known = kafka::response(2, 7, 300, &[5; 2000]);
    let unknown = kafka::response(2, 7, 999, &[5; 20]);
    let mut stream = ResponseStream::new(Options::default(), Start::Midstream);
    assert_eq!(feed_responses(&mut stream, &[&[9; 100], &unknown]).len(), 0);
    let frames = feed_responses(&mut stream, &[&known[..1448], &known[1448..], &unknown]);
    assert_eq!(frames.iter().map(|f| f.correlation_id).collect::<Vec<_>>(), [300, 999]);
}

/// The answer to a client's first request is lost. The bytes of a later one repeatedly look like its header.
#[test]
fn zeros_after_a_gap_are_not_a_response() {
    let mut later = vec![0; 2_000];
    (52..2_000).step_by(260).for_each(|at| later[at] = 1);
    for api in ApiKey::known() {
        let versions = 0..=api.max_version().unwrap();
        for (version, size) in versions.flat_map(|version| [97, 700, 2_000].map(|size| (version, size))) {
            let mut stream = ResponseStream::new(Options::default(), Start::Boundary);
            assert_eq!(stream.lost(300, 0), None);
            for mut rest in later.chunks(size) {
                while !rest.is_empty() {
                    let (used, frame) =
                        stream.advance(rest, 0, &mut |id| (id == 0).then_some((api, version)));
                    assert_eq!(frame, None, "{api} v{version}, chunks of {size} bytes");
                    rest = &rest[used..];
                }
            }
        }
    }
}

#[test]
fn finds_a_lone_api_versions_response() {
    let apis = [[0, 0, 0, 3, 0, 13, 0], [0, 1, 0, 4, 0, 18, 0]].concat();
    let body = [&[0, 0, 3][..], &apis, &[0, 0, 0, 7, 0]].concat();
    let bytes = [&[0xaa; 20][..], &kafka::response(18, 3, 0, &body), &[0xaa]].concat();
    let mut stream = ResponseStream::new(Options::default(), Start::Midstream);
    let (used, frame) = stream.advance(&bytes, 0, &mut |id| (id == 0).then_some((ApiKey::API_VERSIONS, 3)));
    let found = frame.map(|frame| (frame.stream_start, frame.throttle_ms, frame.error));
    assert_eq!((used, found), (bytes.len() - 1, Some((20, Some(7), None))));
}

#[test]
fn response_is_not_confirmed_by_another_to_the_same_request() {
    let guess = kafka::response(2, 7, 300, &[5; 20]);
    let other = kafka::response(1, 13, 413, &kafka::fetch_response_body(13));
    let mut stream = ResponseStream::new(Options::default(), Start::Midstream);
    let twice = [&[0xaa; 20][..], &guess, &guess].concat();
    assert_eq!(feed_responses(&mut stream, &[&twice]), []);
    let frames = feed_responses(&mut stream, &[&other]);
    assert_eq!(frames.iter().map(|frame| frame.correlation_id).collect::<Vec<_>>(), [300, 413]);
}

#[test]
fn loss_does_not_affect_a_complete_frame_after_a_confirmed_one() {
    let (guess, whole) = (kafka::response(2, 7, 300, &[5; 20]), kafka::sized(&500_i32.to_be_bytes()));
    let mut stream = ResponseStream::new(Options::default(), Start::Midstream);
    let frames = feed_responses(&mut stream, &[&[guess, whole].concat()]);
    assert_eq!(frames.iter().map(|frame| frame.correlation_id).collect::<Vec<_>>(), [300]);
    let frame = stream.lost(7, 9).cloned().unwrap();
    assert_eq!((frame.correlation_id, frame.first, frame.last, frame.error), (500, 0, 0, None));
    assert_eq!((stream.counts().frames, stream.counts().undecodable), (2, 0));
}

#[test]
fn random_bytes_never_become_frames() {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = vec![0u8; 10 << 20];
    for word in noise.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    // A quarter of it looks like the small big-endian integers of which binary formats are full.
    for word in noise[..2 << 20].chunks_mut(4) {
        word[..3].fill(0);
        word[3] &= 0x1f;
    }
    for start in [Start::Boundary, Start::Midstream] {
        let mut stream = RequestStream::new(with_message_ids(), start);
        assert_eq!(feed(&mut stream, &noise.chunks(1448).collect::<Vec<_>>(), 0), []);
        let mut stream = ResponseStream::new(Options::default(), start);
        let frames = feed_responses(&mut stream, &noise.chunks(1448).collect::<Vec<_>>());
        assert_eq!(frames.len(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn request_frames_do_not_depend_on_chunks(
        order in proptest::collection::vec(0..18usize, 1..6),
        at in proptest::collection::vec(0..4000usize, 0..40),
        ids in any::<bool>(),
        midstream in any::<bool>(),
    ) {
        let all = requests();
        let bytes: Vec<u8> = order.iter().flat_map(|&i| all[i].clone()).collect();
        let options = if ids { with_message_ids() } else { Options::default() };
        let start = if midstream { Start::Midstream } else { Start::Boundary };
        // In the middle of a stream, only Produce requests prove themselves wherever chunks end.
        prop_assume!(!midstream || order.iter().all(|&i| i < 13));
        let whole = feed(&mut RequestStream::new(options.clone(), start), &[&bytes], 0);
        prop_assert_eq!(whole.len(), order.len());
        let cut = feed(&mut RequestStream::new(options.clone(), start), &cut(&bytes, at), 0);
        let single: Vec<_> = bytes.chunks(1).collect();
        let single = feed(&mut RequestStream::new(options, start), &single, 0);
        let whole = without_stamps(whole);
        prop_assert_eq!(&without_stamps(cut), &whole);
        prop_assert_eq!(&without_stamps(single), &whole);
    }

    #[test]
    fn response_frames_do_not_depend_on_chunks(
        order in proptest::collection::vec(0..45usize, 1..6),
        at in proptest::collection::vec(0..2000usize, 0..20),
    ) {
        let frame = |i: usize| match i as i16 {
            version @ 0..=2 => kafka::response(2, 7, 300, &[version as u8; 99]),
            version @ 3..=11 => kafka::response(0, version, 100 + i32::from(version), &kafka::produce_response_body(version)),
            version @ 26..=44 => kafka::response(1, version - 26, 374 + i32::from(version), &kafka::fetch_response_body(version - 26)),
            version => kafka::response(3, version - 12, 188 + i32::from(version), &kafka::metadata_response_body(version - 12)),
        };
        let bytes: Vec<u8> = order.iter().flat_map(|&i| frame(i)).collect();
        let bare = |frames: Vec<ResponseFrame<u32>>| -> Vec<_> {
            frames.into_iter().map(|f| (f.stream_start, f.stream_end, f.size, f.correlation_id, f.body, f.error)).collect()
        };
        let whole = bare(feed_responses(&mut ResponseStream::new(Options::default(), Start::Boundary), &[&bytes]));
        prop_assert_eq!(whole.len(), order.len());
        let cut = feed_responses(&mut ResponseStream::new(Options::default(), Start::Boundary), &cut(&bytes, at));
        prop_assert_eq!(bare(cut), whole);
    }

    #[test]
    fn damage_and_loss_never_panic(
        order in proptest::collection::vec(0..18usize, 1..8),
        damage in proptest::collection::vec((0..4000usize, any::<u8>()), 0..6),
        events in proptest::collection::vec((0..600usize, 0..900u64), 1..20),
        midstream in any::<bool>(),
    ) {
        let all = requests();
        let mut bytes: Vec<u8> = order.iter().flat_map(|&i| all[i].clone()).collect();
        for (at, value) in damage {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        let start = if midstream { Start::Midstream } else { Start::Boundary };
        let mut stream = RequestStream::new(with_message_ids(), start);
        let mut responses = ResponseStream::new(Options::default(), start);
        let mut rest = &bytes[..];
        let mut end = 0;
        for (length, lost) in events {
            let chunk = &rest[..length.min(rest.len())];
            for frame in feed(&mut stream, &[chunk], 0) {
                prop_assert!(frame.stream_start >= end && frame.stream_end > frame.stream_start);
                end = frame.stream_end;
            }
            feed_responses(&mut responses, &[chunk]);
            rest = &rest[chunk.len()..];
            let lost = lost.min(rest.len() as u64);
            if let Some(frame) = stream.lost(lost, 1) {
                prop_assert!(frame.stream_start >= end);
                end = frame.stream_end;
            }
            responses.lost(lost, 1);
            rest = &rest[lost as usize..];
        }
        let seen = (bytes.len() - rest.len()) as u64;
        prop_assert!(stream.counts().skipped_bytes + stream.counts().lost_bytes <= seen);
    }
}
