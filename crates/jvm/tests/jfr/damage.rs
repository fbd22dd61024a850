//! Cut, changed and invented recordings: yield events or an error, never a panic.

use jvm::jfr::{ErrorKind, Source};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::samples::{self, NAMES};
use crate::writer;

/// The fields of a header for the chunk's size and the offset of its description.
const SIZE: std::ops::Range<usize> = 8..16;
const METADATA: std::ops::Range<usize> = 24..32;

/// A real recording with its description of events first. A cut version still has the description.
fn described_first(name: &str) -> (Vec<u8>, usize) {
    let whole = samples::recording(name);
    let at = u64::from_be_bytes(whole[METADATA].try_into().unwrap()) as usize;
    let size = varint(&whole[at..]);
    let mut bytes = [&whole[..68], &whole[at..at + size], &whole[68..at], &whole[at + size..]].concat();
    bytes[METADATA].copy_from_slice(&68u64.to_be_bytes());
    (bytes, 68 + size)
}

fn varint(bytes: &[u8]) -> usize {
    let last = bytes.iter().position(|byte| byte & 0x80 == 0).unwrap();
    bytes[..=last].iter().rev().fold(0, |value, byte| value << 7 | usize::from(byte & 0x7f))
}

fn patch_size(bytes: &mut [u8]) {
    let size = bytes.len() as u64;
    bytes[SIZE].copy_from_slice(&size.to_be_bytes());
}

#[test]
fn truncated_recording_is_an_error_without_extra_events() {
    for name in NAMES {
        let whole = samples::recording(name);
        let all = samples::read(&whole[..]).0.len();
        for end in (0..100).chain((100..whole.len()).step_by(997)).chain(whole.len() - 50..whole.len()) {
            let (cut, _, read) = samples::read(&whole[..end]);
            assert!(read.is_err() && cut.len() <= all, "{end}");
        }
    }
}

#[test]
fn truncated_recording_yields_events_before_the_cut() {
    let (whole, events_at) = described_first(NAMES[0]);
    let all = samples::read(&whole[..]).0.len();
    let mut counts = Vec::new();
    for end in (events_at..whole.len()).step_by(197) {
        for patched in [false, true] {
            let mut cut = whole[..end].to_vec();
            if patched {
                patch_size(&mut cut);
            }
            let (cut, _, read) = samples::read(&cut[..]);
            assert!(cut.len() <= all, "{end}");
            assert!(patched || read.is_err_and(|error| error.kind == ErrorKind::UnexpectedEnd), "{end}");
            counts.push(cut.len());
        }
    }
    assert!(counts.iter().any(|&count| count > 0), "no cut recording has events");
}

#[test]
fn every_prefix_yields_no_extra_events() {
    let whole = writer::recording();
    let all = samples::read(&whole[..]);
    all.2.unwrap();
    assert_eq!((all.0.len(), all.1.damaged), (writer::EVENTS, 0));
    for end in 0..whole.len() {
        let mut cut = whole[..end].to_vec();
        assert!(samples::read(&cut[..]).2.is_err(), "{end}");
        if end >= 68 {
            writer::set_size(&mut cut);
            let (events, _, _) = samples::read(&cut[..]);
            assert!(events.len() <= writer::EVENTS, "{end}");
        }
    }
}

#[test]
fn changed_byte_adds_at_most_one_event() {
    let whole = writer::recording();
    for place in 0..whole.len() {
        for byte in [0, 0x7f, 0x80, 0xff] {
            let mut changed = whole.clone();
            changed[place] = byte;
            let (events, summary, _) = samples::read(&changed[..]);
            assert!(events.len() <= writer::EVENTS + 1, "{summary:?}");
        }
    }
}

#[test]
fn refuses_other_files_and_unknown_versions() {
    for bytes in [
        &b"PK\x03\x04 something else entirely, of some length, and more than a header of it...."[..],
        &[0; 99],
    ] {
        assert_eq!(samples::read(bytes).2.unwrap_err().kind, ErrorKind::NotAChunk);
    }
    let mut old = samples::recording(NAMES[0]);
    old[5] = 9;
    assert_eq!(samples::read(&old[..]).2.unwrap_err().kind, ErrorKind::UnknownVersion(9));
}

#[test]
fn two_recordings_in_one_file_are_two_chunks() {
    let (one, other) = (samples::recording(NAMES[0]), samples::recording(NAMES[1]));
    let (all, summary, read) = samples::read(&[&one[..], &other].concat()[..]);
    read.unwrap();
    assert_eq!(summary.chunks, 2);
    assert_eq!(all.len(), samples::read(&one[..]).0.len() + samples::read(&other[..]).0.len());
}

#[test]
fn refuses_a_chunk_size_beyond_the_file() {
    let mut bytes = samples::recording(NAMES[0]);
    bytes[SIZE].copy_from_slice(&u64::MAX.to_be_bytes());
    assert!(samples::read(&bytes[..]).2.is_err());
}

/// A description of empty strings of one byte each.
fn many_strings() -> Vec<u8> {
    const COUNT: usize = 4_000_000;
    let count = [0, 7, 14, 21].map(|shift| (COUNT >> shift) as u8 | 0x80);
    [&[0, 0, 0][..], &count, &[0], &vec![1; COUNT]].concat()
}

/// Pools of threads of a few bytes each, all with one name in the pool of strings.
fn many_threads() -> Vec<u8> {
    const COUNT: u64 = 400_000;
    let mut body = [&[0, 0, 0, 1, 2][..], &writer::TEXT_POOL, &[1, 1]].concat();
    body.extend(writer::text(&"t".repeat(1_000)));
    body.extend([&writer::THREAD_POOL[..], &writer::varint(COUNT)].concat());
    for key in 0..COUNT {
        // Its name in the system, its id, its name in Java.
        body.extend([&writer::varint(key)[..], &[0, 1, 2, 1]].concat());
    }
    body
}

#[test]
fn memory_for_shared_strings_is_bounded() {
    let whole = writer::recording();
    let described = writer::event(0, &many_strings());
    let strings = [&whole[..68], &described].concat();
    let threads = [&whole[..], &writer::event(1, &many_threads())].concat();
    for (mut bytes, most) in [(strings, 64 << 20), (threads, 128 << 20)] {
        writer::set_size(&mut bytes);
        let used = allocation_counter::measure(|| drop(samples::read(&bytes[..])));
        assert!(used.bytes_max < most, "{} bytes of memory for {}", used.bytes_max, bytes.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn changed_bytes_never_panic(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..40), name in 0..NAMES.len()) {
        let (mut bytes, _) = described_first(NAMES[name]);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        let _ = samples::read(&bytes[..]);
    }

    #[test]
    fn changed_events_never_panic(changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..40), name in 0..NAMES.len()) {
        let (mut bytes, events_at) = described_first(NAMES[name]);
        for (place, byte) in changes {
            let place = events_at + place.index(bytes.len() - events_at);
            bytes[place] = byte;
        }
        let _ = samples::read(&bytes[..]);
    }

    #[test]
    fn random_bytes_after_a_header_never_panic(mut tail in vec(any::<u8>(), 0..2000)) {
        let mut bytes = samples::recording(NAMES[0])[..68].to_vec();
        bytes.append(&mut tail);
        bytes[METADATA].copy_from_slice(&68u64.to_be_bytes());
        patch_size(&mut bytes);
        let _ = samples::read(&bytes[..]);
    }
}

/// A source that returns little at a time.
struct Dribble(Vec<u8>);

impl Source for Dribble {
    fn read_at(&self, into: &mut [u8], at: u64) -> std::io::Result<usize> {
        let few = into.len().min(4099);
        self.0[..].read_at(&mut into[..few], at)
    }

    fn size_bytes(&self) -> std::io::Result<u64> {
        self.0[..].size_bytes()
    }
}

#[test]
fn short_reads_change_nothing() {
    let bytes = samples::recording(NAMES[0]);
    let all = samples::read(&bytes[..]).0;
    assert_eq!(samples::read(&Dribble(bytes)).0, all);
}
