//! A folder that holds many chunks from before the recording.

use std::fs::File;
use std::io::Write as _;

use jvm::jfr::Tail;
use model::Nanos;
use model::clock::{ClockOffset, ClockPair};

use super::writer::recording;

const NOW: ClockPair = ClockPair { monotonic_ns: 100_000_000_000, realtime_ns: 1_700_001_000_000_000_000 };
/// Offset of the time of the beginning in a chunk's header, and that of its generation.
const START: usize = 32;
const GENERATION: usize = 64;

/// A chunk that began this long ago.
fn chunk(age_ns: i64, generation: u8) -> File {
    let mut bytes = recording();
    bytes[START..START + 8].copy_from_slice(&(NOW.realtime_ns - age_ns).to_be_bytes());
    bytes[GENERATION] = generation;
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    file
}

#[test]
fn old_chunks_are_no_loss_while_the_live_one_is_read() {
    let mut tail = Tail::of(7, ClockOffset::at(NOW), Nanos(NOW.realtime_ns - 5_000_000));
    let mut events = 0;
    tail.add("live".to_owned(), chunk(1_000_000, 1));
    for batch in 0..5 {
        tail.poll(NOW, &mut |_| events += 1).unwrap();
        for number in 0..64 {
            tail.add(format!("{batch}-{number}"), chunk(1_000_000_000_000, 0));
        }
    }
    assert_eq!((events > 0, tail.summary().lost), (true, 0));
}
