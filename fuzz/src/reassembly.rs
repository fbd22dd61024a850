//! TCP reassembly against a model of the stream. The model stores, for every place in the stream, the first captured
//! copy of its byte, under any order, overlap, loss, snap length, acknowledgement and bound.
//!
//! Input: the first sequence number (4 bytes) and the bound on held bytes (1), then steps of 5 bytes: kind, place (2),
//! length, captured length.

use capture::reassembly::{Chunk, Content, Pool, Reassembly};
use model::Nanos;

use crate::Target;

/// The target.
pub const TARGET: Target = Target { name: "reassembly", check, spare_bytes: 1 << 20 };

/// Length of the stream in bytes.
const STREAM_BYTES: usize = 4096;
const STEP_BYTES: usize = 5;

fn check(data: &[u8]) {
    let Some((head, steps)) = data.split_first_chunk::<5>() else { return };
    let first_seq = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    let mut bench = Bench::new(first_seq, usize::from(head[4]) * 64);
    for step in steps.chunks_exact(STEP_BYTES) {
        bench.step(step);
    }
    bench.finish();
}

/// The state of one place in the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Unseen,
    /// Its first copy was cut off by a snap length.
    Cut,
    Seen(u8),
}

struct Model {
    places: Vec<Place>,
    /// The start of the next chunk.
    next: usize,
    /// The position up to which the receiver has acknowledged.
    acked: usize,
    /// The number of abandoned gaps.
    gaps: u64,
}

impl Model {
    /// Whether a segment is a keep-alive: one byte, acknowledged and never captured; its probe may carry garbage (RFC
    /// 9293, 3.8.4).
    fn is_keep_alive(&self, place: usize, len: usize) -> bool {
        len == 1 && place >= self.next && place + 1 == self.acked
    }

    /// Stores the first copy of every byte.
    fn see(&mut self, place: usize, len: usize, bytes: &[u8]) {
        if self.is_keep_alive(place, len) {
            return;
        }
        for (i, there) in self.places.iter_mut().skip(place).take(len).enumerate() {
            if *there == Place::Unseen {
                *there = bytes.get(i).map_or(Place::Cut, |byte| Place::Seen(*byte));
            }
        }
    }

    /// Checks that the next chunk has the captured bytes of its place.
    fn take(&mut self, chunk: Chunk<'_>) {
        let len = match chunk.content {
            Content::Data(bytes, _) => {
                for (place, byte) in self.places[self.next..].iter().zip(bytes) {
                    assert_eq!(*place, Place::Seen(*byte), "after byte {}", self.next);
                }
                bytes.len()
            }
            Content::Cut(n, _) => self.miss(n, Place::Cut),
            Content::Gap(n, _) => self.miss(n, Place::Unseen),
        };
        assert!(len > 0, "an empty chunk");
        self.next += len;
    }

    fn miss(&mut self, n: u64, place: Place) -> usize {
        self.gaps += 1;
        // An acknowledgement may cover bytes after the last segment.
        let all = self.places[self.next..].iter().take(n as usize).all(|there| *there == place);
        assert!(all, "{n} bytes at {} are not {place:?}", self.next);
        n as usize
    }
}

struct Bench {
    stream: Reassembly,
    pool: Pool,
    model: Model,
    first_seq: u32,
    clock: i64,
}

impl Bench {
    fn new(first_seq: u32, limit: usize) -> Self {
        Self {
            stream: Reassembly::starting_at(first_seq),
            pool: Pool::new(limit, limit * 2),
            model: Model { places: vec![Place::Unseen; STREAM_BYTES + 1], next: 0, acked: 0, gaps: 0 },
            first_seq,
            clock: 0,
        }
    }

    fn step(&mut self, step: &[u8]) {
        let place = usize::from(u16::from_be_bytes([step[1], step[2]])) % STREAM_BYTES;
        self.clock += 1;
        let at = Nanos(self.clock);
        let Self { stream, pool, model, .. } = self;
        match step[0] & 7 {
            0 => {
                model.acked = model.acked.max(place);
                let ack = self.first_seq.wrapping_add(place as u32);
                stream.acknowledge(ack, at, &mut (pool, |chunk: Chunk<'_>| model.take(chunk)));
            }
            1 => stream.give_up_unseen(at, &mut (pool, |chunk: Chunk<'_>| model.take(chunk))),
            // At the current position of the stream, or a little after it.
            what => {
                let place = if what < 4 { self.model.next + place % 64 } else { place };
                self.segment(place, usize::from(step[3]), usize::from(step[4]), step[0] & 0x80 != 0);
            }
        }
        assert_eq!(self.stream.next_offset(), self.model.next as u64);
        assert!(self.pool.used <= self.pool.stream_limit, "more is held than allowed");
        assert_eq!(self.pool.counts.gaps, self.model.gaps);
    }

    fn segment(&mut self, place: usize, len: usize, kept: usize, fin: bool) {
        let len = len.min(STREAM_BYTES.saturating_sub(place));
        let kept = kept.min(len);
        let fill = self.clock as u8;
        let bytes: Vec<u8> = (0..kept).map(|i| fill.wrapping_add(i as u8)).collect();
        self.model.see(place, len, &bytes);
        // A gap abandoned before its bytes arrive stays abandoned.
        let seq = self.first_seq.wrapping_add(place as u32);
        let Self { stream, pool, model, .. } = self;
        let missing = (len - kept) as u32;
        stream.segment(
            (seq, fin),
            (&bytes, missing),
            Nanos(self.clock),
            &mut (pool, |chunk: Chunk<'_>| model.take(chunk)),
        );
    }

    fn finish(&mut self) {
        let Self { stream, pool, model, .. } = self;
        stream.finish(Nanos(self.clock), &mut (pool, |chunk: Chunk<'_>| model.take(chunk)));
        assert_eq!(self.pool.used, 0, "bytes held after the end");
        let rest = self.model.places.get(self.model.next..).unwrap_or_default();
        assert!(rest.iter().all(|place| *place == Place::Unseen), "bytes were seen and not delivered");
    }
}
