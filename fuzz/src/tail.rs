//! A Flight Recorder chunk that is read while a JVM writes it: one that says how much of it is complete, or one that
//! lies.
//!
//! Input: a byte (bit 0: it lies; the other bits: how it grows); then the chunk.

use std::iter::once;

use jvm::jfr::{ChunkFolder, Header, Recording, Summary, Tail};
use model::Nanos;
use model::clock::{ClockOffset, ClockPair};

use crate::chunks::Cuts;
use crate::{Target, files, jfr};

/// The target. The window for reading a file takes 256 KiB, and the chunk is held as it grows.
pub const TARGET: Target = Target { name: "tail", check, spare_bytes: 2 << 20 };

const NOW: ClockPair = ClockPair { monotonic_ns: 1_000_000_000, realtime_ns: 1_700_000_001_000_000_000 };
const HEADER_BYTES: usize = 68;
/// Maximum number of polls of a chunk before it is finished.
const MAX_LOOKS: usize = 4;
/// Generation of a header that is being written.
const UPDATING: u8 = 255;

fn check(data: &[u8]) {
    let Some((&mode, chunk)) = data.split_first() else { return };
    if mode & 1 != 0 {
        let ends = Cuts::new(mode).of(chunk).map(<[u8]>::len).take(MAX_LOOKS);
        let ends = ends.scan(0, |end, length| Some(*end + length).inspect(|next| *end = *next));
        follow(ends.map(|end| chunk[..end].to_vec()).chain(once(chunk.to_vec())), chunk.len());
        return;
    }
    let (events, summary, is_sound) = read(chunk);
    let (events_at_once, _) = follow(once(chunk.to_vec()), chunk.len());
    let is_one = Header::parse(chunk, 0)
        .is_ok_and(|header| header.size_bytes >= chunk.len() as u64 && chunk[64] != UPDATING);
    assert!(
        !is_one || events == events_at_once,
        "{events} events of a file, {events_at_once} of the same in a folder"
    );
    let growing = ends(chunk, usize::from(mode >> 1)).into_iter().map(|end| growing(chunk, end));
    let (_, grown) = follow(growing.chain(once(chunk.to_vec())), chunk.len());
    if is_one && is_sound {
        assert_eq!((grown.events, grown.bytes), (summary.events, summary.bytes), "as it grew, and whole");
    }
}

/// A file's number of events, the counts, and whether all of it is well-formed.
fn read(chunk: &[u8]) -> (usize, Summary, bool) {
    let (mut events, mut recording) = (0, Recording::of(1));
    let read = recording.read(chunk, &mut |_| events += 1);
    (events, recording.summary(), read.is_ok())
}

/// Like `read`, for a file that is polled each time it has grown.
fn follow(contents: impl Iterator<Item = Vec<u8>>, bytes: usize) -> (usize, Summary) {
    let folder = files::directory();
    let mut chunks = ChunkFolder::of(folder.path());
    let mut tail = Tail::of(1, ClockOffset::at(NOW), Nanos::MIN);
    let mut events = 0;
    let mut count_event = |event| {
        jfr::check_event(&event);
        events += 1;
    };
    for content in contents {
        files::write(&folder, "chunk.jfr", &content);
        for (name, file) in chunks.open_new().expect("the folder can be listed") {
            tail.add(name, file);
        }
        // A file that is not a chunk is not read further, and it is the only one.
        let _ = tail.poll(NOW, &mut count_event);
    }
    tail.finish(&mut count_event);
    let summary = tail.summary();
    assert!(summary.chunks <= 1 && summary.bytes <= bytes as u64, "more than there is: {summary:?}");
    (events, summary)
}

/// The chunk as the JVM leaves it after a flush.
fn growing(chunk: &[u8], end: usize) -> Vec<u8> {
    let mut chunk = chunk[..end].to_vec();
    chunk[8..16].copy_from_slice(&(end as u64).to_be_bytes());
    chunk[64] = 1;
    chunk
}

/// Ends of events from the end of the type description on, every `step`th.
fn ends(chunk: &[u8], step: usize) -> Vec<usize> {
    let described = Header::parse(chunk, 0).ok().and_then(|header| {
        let at = usize::try_from(header.metadata_at).ok().filter(|at| *at >= HEADER_BYTES)?;
        event_end(chunk, at)
    });
    let Some(described) = described else { return Vec::new() };
    let ends = std::iter::successors(event_end(chunk, HEADER_BYTES), |end| event_end(chunk, *end));
    ends.filter(|end| *end >= described).step_by(1 + step).take(MAX_LOOKS).collect()
}

/// The end of an event, which starts with its size, seven bits per byte.
fn event_end(chunk: &[u8], at: usize) -> Option<usize> {
    let rest = chunk.get(at..)?;
    let length = 1 + rest.iter().take(4).position(|byte| byte & 0x80 == 0)?;
    let size = rest[..length].iter().rev().fold(0, |size, byte| size << 7 | usize::from(byte & 0x7f));
    Some(at + size).filter(|end| size > 0 && *end <= chunk.len())
}
