//! Reassembly against a model that has every byte of the stream in an array.

use model::Nanos;
use proptest::prelude::*;

use super::{Chunk, Content, Pool, Reassembly, Stamp};

/// An output: data with its stamp, or a number of missing bytes.
#[derive(Clone, Debug, PartialEq)]
enum Out {
    Data(Vec<u8>, Stamp),
    Gap(u64),
}

struct Bench {
    stream: Reassembly,
    pool: Pool,
    out: Vec<Out>,
    clock: i64,
}

fn collect(out: &mut Vec<Out>) -> impl FnMut(Chunk<'_>) + '_ {
    |chunk| {
        out.push(match chunk.content {
            Content::Data(bytes, stamp) => Out::Data(bytes.to_vec(), stamp),
            Content::Gap(bytes, _) | Content::Cut(bytes, _) => Out::Gap(bytes),
        });
    }
}

impl Bench {
    fn new(first_seq: u32, stream_limit: usize) -> Self {
        let pool = Pool::new(stream_limit, 1 << 20);
        Self { stream: Reassembly::starting_at(first_seq), pool, out: Vec::new(), clock: 0 }
    }

    /// Passes in a segment at the next clock tick.
    fn segment(&mut self, seq: u32, bytes: &[u8]) -> &mut Self {
        self.cut_segment(seq, bytes, 0)
    }

    fn cut_segment(&mut self, seq: u32, bytes: &[u8], missing: u32) -> &mut Self {
        self.clock += 1;
        let at = Nanos(self.clock);
        self.stream.segment(
            (seq, false),
            (bytes, missing),
            at,
            &mut (&mut self.pool, collect(&mut self.out)),
        );
        self
    }

    fn acknowledge(&mut self, ack: u32) -> &mut Self {
        self.clock += 1;
        self.stream.acknowledge(ack, Nanos(self.clock), &mut (&mut self.pool, collect(&mut self.out)));
        self
    }

    fn finish(&mut self) -> &mut Self {
        self.stream.finish(Nanos(self.clock), &mut (&mut self.pool, collect(&mut self.out)));
        self
    }

    fn take_output(&mut self) -> Vec<Out> {
        std::mem::take(&mut self.out)
    }
}

fn data(bytes: &[u8], seen: i64) -> Out {
    overtaken(bytes, seen, seen)
}

fn overtaken(bytes: &[u8], seen: i64, complete: i64) -> Out {
    Out::Data(bytes.to_vec(), Stamp { seen: Nanos(seen), complete: Nanos(complete) })
}

#[test]
fn reordered_bytes_have_capture_and_completion_times() {
    let mut bench = Bench::new(10, 4096);
    bench.segment(10, b"ab").segment(14, b"ef").segment(12, b"cd");
    assert_eq!(bench.take_output(), [data(b"ab", 1), data(b"cd", 3), overtaken(b"ef", 2, 3)]);
    assert_eq!(bench.pool.used, 0);
}

#[test]
fn abandons_an_acknowledged_gap_once_later_bytes_are_held() {
    let mut bench = Bench::new(0, 4096);
    bench.segment(4, b"ef").acknowledge(2);
    assert_eq!(bench.take_output(), [], "acknowledged short of what is held: the rest may still come");
    bench.acknowledge(4);
    assert_eq!(bench.take_output(), [Out::Gap(4), data(b"ef", 1)]);
    bench.acknowledge(20);
    assert_eq!(bench.take_output(), [], "nothing later is held");
    bench.segment(20, b"x");
    assert_eq!(bench.take_output(), [Out::Gap(14), data(b"x", 5)]);
    assert_eq!((bench.pool.counts.gaps, bench.pool.counts.gap_bytes), (2, 18));
}

#[test]
fn sequence_numbers_wrap() {
    let first = u32::MAX - 2;
    let mut bench = Bench::new(first, 4096);
    bench.segment(first, b"abcd").segment(first.wrapping_add(6), b"gh").segment(first.wrapping_add(4), b"ef");
    bench.segment(first, b"abcd").acknowledge(first.wrapping_add(8));
    assert_eq!(bench.take_output(), [data(b"abcd", 1), data(b"ef", 3), overtaken(b"gh", 2, 3)]);
    assert_eq!(bench.pool.counts.repeated_bytes, 4);
}

#[test]
fn uses_the_first_copy_of_a_byte() {
    let mut bench = Bench::new(0, 4096);
    bench.segment(2, b"CD").segment(0, b"abcdef").segment(0, b"xxxxxx");
    assert_eq!(bench.take_output(), [data(b"ab", 2), overtaken(b"CD", 1, 2), data(b"ef", 2)]);
    assert_eq!(bench.pool.counts.repeated_bytes, 2 + 6);
    bench.segment(8, b"ij").segment(7, b"hIJk").segment(6, b"g");
    assert_eq!(
        bench.take_output(),
        [data(b"g", 6), overtaken(b"h", 5, 6), overtaken(b"ij", 4, 6), overtaken(b"k", 5, 6)]
    );
}

#[test]
fn keep_alives_are_not_retransmissions() {
    let mut bench = Bench::new(0, 4096);
    bench.segment(0, b"abc").segment(2, b"c").segment(2, b"");
    assert_eq!(bench.take_output(), [data(b"abc", 1)]);
    assert_eq!((bench.pool.counts.keep_alives, bench.pool.counts.repeated_bytes), (1, 0));
}

#[test]
fn bytes_cut_by_a_snap_length_become_a_gap_in_place() {
    let mut bench = Bench::new(0, 4096);
    bench.cut_segment(0, b"ab", 3).cut_segment(8, b"ij", 1).cut_segment(5, b"f", 2).segment(11, b"k");
    assert_eq!(
        bench.take_output(),
        [
            data(b"ab", 1),
            Out::Gap(3),
            data(b"f", 3),
            Out::Gap(2),
            overtaken(b"ij", 2, 3),
            Out::Gap(1),
            data(b"k", 4)
        ]
    );
}

#[test]
fn full_buffer_abandons_the_gap() {
    let mut bench = Bench::new(0, 1_000);
    for i in 1..100u32 {
        bench.segment(i * 200, &[i as u8; 100]);
        assert!(bench.pool.used <= 1_000);
    }
    bench.finish();
    assert!(bench.pool.counts.overflows > 0);
    assert_eq!(bench.pool.used, 0);
    let seen: usize = bench
        .take_output()
        .iter()
        .map(|out| if let Out::Data(bytes, _) = out { bytes.len() } else { 0 })
        .sum();
    assert_eq!(seen, 99 * 100, "every captured byte is delivered");
}

#[test]
fn midstream_start_begins_at_the_first_captured_byte() {
    let mut bench = Bench { stream: Reassembly::new(), ..Bench::new(0, 4096) };
    bench.acknowledge(500).segment(700, b"ab").segment(600, b"old").segment(702, b"cd");
    assert_eq!(bench.take_output(), [data(b"ab", 2), data(b"cd", 4)]);
}

#[test]
fn jump_beyond_any_window_becomes_a_gap() {
    let mut bench = Bench::new(0, 4096);
    bench.segment(0, b"ab").segment(10, b"k").segment(0x4000_0000, b"far").segment(0x4000_0003, b"on");
    assert_eq!(
        bench.take_output(),
        [
            data(b"ab", 1),
            Out::Gap(8),
            data(b"k", 2),
            Out::Gap(0x4000_0000 - 11),
            data(b"far", 3),
            data(b"on", 4)
        ]
    );
}

#[test]
fn acknowledged_uncaptured_bytes_are_a_final_gap_except_a_fin() {
    let mut bench = Bench::new(0, 4096);
    bench.segment(0, b"ab").acknowledge(3).finish();
    assert_eq!(bench.take_output(), [data(b"ab", 1)]);
    bench.acknowledge(9).finish();
    assert_eq!(bench.take_output(), [Out::Gap(7)]);
}

#[test]
fn stream_finishes_after_all_bytes_before_its_fin() {
    let mut bench = Bench::new(0, 4096);
    bench.stream.segment((2, true), (b"cd", 0), Nanos(1), &mut (&mut bench.pool, |_: Chunk<'_>| ()));
    assert!(!bench.stream.is_finished());
    bench.segment(0, b"ab");
    assert!(bench.stream.is_finished());
}

#[test]
fn segment_split_by_held_pieces_respects_the_limit() {
    let mut bench = Bench::new(0, 1_300);
    for i in 1..9 {
        bench.segment(i * 10, b"x");
    }
    assert_eq!(bench.pool.used, 8 * 129);
    bench.segment(5, &[b'y'; 80]);
    assert!(bench.pool.used <= bench.pool.stream_limit, "{} bytes held", bench.pool.used);
    assert_eq!(bench.pool.counts.overflows, 1);
}

/// A segment of the model's stream: its start, its length, whether the capture has it, and how many bytes a snap length
/// left of it.
#[derive(Clone, Debug)]
struct TestSegment {
    start: usize,
    len: usize,
    kept: usize,
}

fn any_segment(total: usize) -> impl Strategy<Value = TestSegment> {
    (0..total, 1..40usize, prop_oneof![4 => Just(usize::MAX), 1 => 0..40usize])
        .prop_map(move |(start, len, kept)| TestSegment { start, len: len.min(total - start), kept })
}

/// The bytes sent between two acknowledgements.
#[derive(Clone, Debug)]
struct Round {
    bytes: usize,
    /// What packets carry (from, to), in capture order.
    pieces: Vec<(usize, usize)>,
    keep_alive: Option<Vec<u8>>,
}

fn round() -> impl Strategy<Value = Round> {
    let piece = (0..400usize, 1..120usize).prop_map(|(from, len)| (from, from + len));
    let keep_alive = prop::option::of(prop::collection::vec(any::<u8>(), 0..=1));
    (2..400usize, prop::collection::vec(piece, 0..12), keep_alive)
        .prop_map(|(bytes, pieces, keep_alive)| Round { bytes, pieces, keep_alive })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// For any segments in any order, the output is the model's stream. It lacks the bytes that were not captured, and
    /// has each byte from its first captured copy. Bytes cannot come after their hole was abandoned, because there are
    /// no acknowledgements and there is enough room.
    #[test]
    fn handles_any_order_overlap_and_loss(first_seq: u32, segments in prop::collection::vec(any_segment(300), 1..60)) {
        let mut bench = Bench::new(first_seq, 1 << 20);
        // Per byte of the stream: the value in the first segment that contains it. A cut-off byte stays missing,
        // because the segment that lost it has filled its place in the stream.
        let mut seen: Vec<Option<Option<u8>>> = vec![None; 300];
        for (i, sent) in segments.iter().enumerate() {
            let fill = i as u8;
            let kept = sent.kept.min(sent.len);
            for (n, slot) in seen[sent.start..sent.start + sent.len].iter_mut().enumerate() {
                slot.get_or_insert((n < kept).then_some(fill));
            }
            bench.cut_segment(first_seq.wrapping_add(sent.start as u32), &vec![fill; kept], (sent.len - kept) as u32);
        }
        bench.finish();
        let mut expected = seen;
        while expected.last().is_some_and(Option::is_none) {
            expected.pop();
        }
        let expected: Vec<Option<u8>> = expected.into_iter().map(Option::flatten).collect();
        let mut actual = Vec::new();
        for out in bench.take_output() {
            match out {
                Out::Data(bytes, _) => actual.extend(bytes.into_iter().map(Some)),
                Out::Gap(bytes) => actual.extend(std::iter::repeat_n(None, bytes as usize)),
            }
        }
        prop_assert_eq!(actual, expected);
        prop_assert_eq!(bench.pool.used, 0);
    }

    /// Network behaviour: the stream is sent in rounds, in each of which packets overlap, change places and come twice,
    /// the capture misses some, the receiver acknowledges the round, and keep-alives repeat the last byte (RFC 9293,
    /// 3.8.4: with a byte of garbage or none). The output is the stream without the bytes that no packet carried in
    /// time.
    #[test]
    fn handles_rounds_of_damaged_traffic(
        first_seq in prop_oneof![any::<u32>(), u32::MAX - 600..=u32::MAX],
        rounds in prop::collection::vec(round(), 1..12),
    ) {
        let mut bench = Bench::new(first_seq, 1 << 20);
        let mut expected = Vec::new();
        let seq = |at: usize| first_seq.wrapping_add(at as u32);
        for Round { bytes, pieces, keep_alive } in rounds {
            let start = expected.len();
            let byte = |at: usize| (at * 7 % 251) as u8;
            expected.resize(start + bytes, None);
            for (from, to) in pieces {
                let (from, to) = (start + from.min(bytes), start + to.min(bytes));
                if from < to {
                    let data: Vec<u8> = (from..to).map(byte).collect();
                    bench.segment(seq(from), &data);
                    expected[from..to].iter_mut().zip(data).for_each(|(slot, byte)| *slot = Some(byte));
                }
            }
            bench.acknowledge(seq(expected.len()));
            if let Some(garbage) = keep_alive {
                bench.segment(seq(expected.len() - 1), &garbage).acknowledge(seq(expected.len()));
            }
        }
        bench.finish();
        let mut actual = Vec::new();
        for out in bench.take_output() {
            match out {
                Out::Data(bytes, _) => actual.extend(bytes.into_iter().map(Some)),
                Out::Gap(bytes) => actual.extend(std::iter::repeat_n(None, bytes as usize)),
            }
        }
        // A single byte acknowledged at the very end may also be the FIN, and is not reported.
        for bytes in [&mut actual, &mut expected] {
            bytes.truncate(bytes.iter().rposition(Option::is_some).map_or(0, |last| last + 1));
        }
        prop_assert_eq!(actual, expected);
        prop_assert_eq!(bench.pool.used, 0);
    }

    /// With acknowledgements and hardly any room, offsets still add up: every delivered byte was sent at its offset,
    /// and none is delivered twice.
    #[test]
    fn offsets_add_up_with_tight_limits_and_wild_acknowledgements(
        first_seq: u32,
        limit in 200..2_000usize,
        steps in prop::collection::vec((any_segment(4_000), prop::option::of(0..4_100u32)), 1..80),
    ) {
        let mut bench = Bench::new(first_seq, limit);
        for (sent, ack) in &steps {
            let bytes: Vec<u8> = (sent.start..sent.start + sent.len).map(|i| (i % 251) as u8).collect();
            bench.segment(first_seq.wrapping_add(sent.start as u32), &bytes);
            if let Some(ack) = ack {
                bench.acknowledge(first_seq.wrapping_add(*ack));
            }
        }
        bench.finish();
        let mut offset = 0;
        for out in bench.take_output() {
            match out {
                Out::Data(bytes, _) => {
                    for byte in bytes {
                        prop_assert_eq!(byte, (offset % 251) as u8);
                        offset += 1;
                    }
                }
                Out::Gap(bytes) => offset += bytes,
            }
        }
        prop_assert_eq!(offset, bench.stream.next_offset());
        prop_assert_eq!(bench.pool.used, 0);
    }
}
