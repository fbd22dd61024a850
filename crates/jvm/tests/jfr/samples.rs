//! The recordings beside this file, and their events as lines of text. A line is one wait, pause or call.

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use jvm::jfr::{Error, JfrEvent, Recording, Source, Summary};

/// One for each JDK: see README.md.
pub(crate) const NAMES: [&str; 2] = ["jdk17", "jdk25"];

/// The process id that the tests use.
const PID: u32 = 7;

/// A file of this folder.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/jfr").join(name)
}

/// A recording, decompressed.
pub(crate) fn recording(name: &str) -> Vec<u8> {
    let packed = fs::read(path(&format!("{name}.jfr.gz"))).unwrap();
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    bytes
}

/// All events of a recording.
pub(crate) fn read<S: Source + ?Sized>(source: &S) -> (Vec<JfrEvent>, Summary, Result<(), Error>) {
    let mut all = Vec::new();
    let mut reader = Recording::of(PID);
    let read = reader.read(source, &mut |observed| all.push(observed));
    (all, reader.summary(), read)
}

/// The events as lines, in time order.
pub(crate) fn lines(all: &[JfrEvent]) -> String {
    let mut lines: Vec<_> = all.iter().map(line).collect();
    lines.sort();
    lines.join("\n") + "\n"
}

fn line(observed: &JfrEvent) -> String {
    let mut line = String::new();
    match observed {
        JfrEvent::LockWait(wait) => {
            assert_eq!(wait.pid, PID);
            let lock = &wait.lock;
            write!(line, "{} {} {} ", wait.start.0, wait.length().0, lock.kind).unwrap();
            write!(line, "{} {:x} by {} {}", lock.class, lock.address, wait.tid, wait.thread).unwrap();
            let holder = wait
                .holder
                .as_ref()
                .map_or("?".to_owned(), |holder| format!("{} {}", holder.tid.unwrap_or(0), holder.thread));
            write!(line, " held by {holder}").unwrap();
            write!(line, " at {}", wait.stack).unwrap();
        }
        JfrEvent::HandlerCall(call) => {
            assert_eq!(call.pid, PID);
            write!(line, "{} {} {} ", call.start.0, call.length().0, call.method).unwrap();
            write!(line, "by {} {}", call.tid, call.thread).unwrap();
        }
        JfrEvent::Pause(pause) => {
            assert_eq!(pause.pid, PID);
            write!(line, "{} {} {} ", pause.start.0, pause.length().0, pause.kind).unwrap();
            write!(line, "{} for {} ", or_none(&pause.operation), or_none(&pause.cause)).unwrap();
            write!(
                line,
                "gc {:?} reached in {:?}",
                pause.gc_id,
                pause.time_to_safepoint.map(|reach| reach.0)
            )
            .unwrap();
        }
    }
    line
}

pub(crate) fn or_none(text: &str) -> &str {
    if text.is_empty() { "?" } else { text }
}
