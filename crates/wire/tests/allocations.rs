//! Once warm, decoding Produce and Fetch frames allocates nothing. Alone in its binary: it counts its allocations.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may panic")]

#[path = "fixtures/kafka.rs"]
mod kafka;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use kafka_protocol::records::Compression;
use wire::ApiKey;
use wire::stream::{Options, RequestBody, RequestStream, ResponseStream, Start};

struct Counting;

thread_local! {
    /// Allocations of this thread: the test harness has other threads, which allocate at any time.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.set(ALLOCATIONS.get() + 1);
}

// SAFETY: every call goes to the system's allocator unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller keeps GlobalAlloc's contract, which is System's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Feeds both streams in chunks of this size and returns the number of frames.
fn feed(requests: &mut RequestStream<u32>, bytes: &[u8], chunk_bytes: usize) -> usize {
    let mut frames = 0;
    for chunk in bytes.chunks(chunk_bytes) {
        let mut rest = chunk;
        while !rest.is_empty() {
            let (used, frame) = requests.advance(rest, 1);
            frames += usize::from(frame.is_some());
            rest = &rest[used..];
        }
    }
    frames
}

fn feed_responses(responses: &mut ResponseStream<u32>, bytes: &[u8], chunk_bytes: usize) -> usize {
    let mut frames = 0;
    for chunk in bytes.chunks(chunk_bytes) {
        let mut rest = chunk;
        while !rest.is_empty() {
            let (used, frame) = responses.advance(rest, 1, &mut |id| {
                Some(if id == 1 { (ApiKey::PRODUCE, 9) } else { (ApiKey::FETCH, 17) })
            });
            frames += usize::from(frame.is_some());
            rest = &rest[used..];
        }
    }
    frames
}

#[test]
fn warm_streams_do_not_allocate() {
    let records = kafka::batch(Compression::None, &["a", "b"], 3000);
    let request = |partitions: &[(&str, i32, Vec<u8>)]| kafka::produce_request(9, 1, partitions);
    let few = request(&[("topicA", 0, records.clone())]);
    let many = request(&[
        ("topicA", 0, records.clone()),
        ("topicB", 1, records.clone()),
        ("topicC", 2, records.clone()),
    ]);
    let heartbeat = kafka::request(12, 4, 7, b"\x02g\0\0\0\x01\x02m\0\0");
    let fetch = kafka::request(1, 17, 8, &kafka::fetch_body(17));
    let bytes = [&many[..], &few, &fetch, &heartbeat, &many, &fetch, &few].concat();
    let produced = kafka::response(0, 9, 1, &kafka::produce_response_body(9));
    let fetched = kafka::response(1, 17, 2, &kafka::fetch_response_body(17));
    let answers = [&produced[..], &fetched, &fetched, &produced, &fetched].concat();
    for chunk_bytes in [usize::MAX, 1448, 100, 7, 1] {
        let mut requests = RequestStream::new(Options::default(), Start::Boundary);
        let mut responses = ResponseStream::new(Options::default(), Start::Boundary);
        assert_eq!(feed(&mut requests, &bytes, chunk_bytes), 7);
        assert_eq!(feed_responses(&mut responses, &answers, chunk_bytes), 5);
        let before = ALLOCATIONS.get();
        for _ in 0..20 {
            assert_eq!(feed(&mut requests, &bytes, chunk_bytes), 7);
            assert_eq!(feed_responses(&mut responses, &answers, chunk_bytes), 5);
        }
        let after = ALLOCATIONS.get();
        assert_eq!(after - before, 0, "allocations in chunks of {chunk_bytes}");
    }
}

#[test]
fn pooled_buffers_are_bounded_after_a_large_body() {
    let records = kafka::batch(Compression::None, &["a"], 10);
    let request = |records: &[u8]| {
        let partitions: Vec<_> = (0..2_000).map(|n| ("topicA", n, records.to_vec())).collect();
        kafka::produce_request(9, 1, &partitions)
    };
    let mut requests = RequestStream::new(Options::default(), Start::Boundary);
    assert_eq!(feed(&mut requests, &request(&records), usize::MAX), 1);
    let without = request(&[]);
    let (_, frame) = requests.advance(&without, 1);
    let RequestBody::Produce(body) = &frame.unwrap().body else { panic!("no Produce body") };
    assert_eq!(body.partitions.len(), 2_000);
    assert!(body.partitions[0].batches.capacity() > 0, "buffers are used again");
    assert_eq!(body.partitions[1_999].batches.capacity(), 0, "beyond the bound they are given back");
}
