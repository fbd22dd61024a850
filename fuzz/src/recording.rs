//! A recording from an untrusted source: its manifest, or a part of one of its tables, as a stream or as Parquet.
//!
//! Input: a byte, 0 for the manifest, else twice the table's number (from 1), odd for Parquet; then the file.

use std::panic;
use std::path::Path;
use std::sync::Once;

use model::Table;
use recording::{Error, Manifest, Recording, Tail, Writer, WriterOptions};
use tempfile::TempDir;

use crate::{Target, files};

/// The target. A Parquet reader holds a window of each of a table's columns, a batch of their values, and the
/// decompressed pages of a row group.
pub const TARGET: Target = Target { name: "recording", check, spare_bytes: (48 + 64) << 20 };

/// Limit of events, because a few bytes of Parquet can encode any number of rows.
const MAX_EVENTS: usize = 10_000;

fn check(data: &[u8]) {
    let Some((&what, file)) = data.split_first() else { return };
    PANIC_HOOK.call_once(let_decoders_panic);
    let directory = files::directory();
    match usize::from(what >> 1).checked_sub(1) {
        None => check_manifest(&directory, file),
        Some(table) => check_part(&directory, Table::ALL[table % Table::ALL.len()], what & 1 == 1, file),
    }
}

static PANIC_HOOK: Once = Once::new();

/// libFuzzer ends with every panic. Panics of the Parquet and Arrow decoders become errors; any other still ends it.
fn let_decoders_panic() {
    let hook = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        let is_own = |file: &str| ["crates/", "fuzz/"].iter().any(|own| file.starts_with(own));
        if panic.location().is_none_or(|at| is_own(at.file())) {
            hook(panic);
        }
    }));
}

/// Checks that a readable manifest can be written and read again. An error must be one line.
fn check_manifest(directory: &TempDir, file: &[u8]) {
    files::write(directory, "manifest.json", file);
    match Recording::open(directory.path()) {
        Ok(recording) => {
            recording.notes().iter().for_each(|note| check_line(note));
            let text = serde_json::to_vec(recording.manifest()).expect("a manifest can be written");
            files::write(directory, "manifest.json", &text);
            let again = Recording::open(directory.path()).expect("what was written can be read");
            assert_eq!(recording.manifest(), again.manifest());
        }
        Err(error) => check_line(&error.to_string()),
    }
}

/// Checks that each row comes once: a reader that follows the growing recording gets the same rows as one that reads it
/// afterwards.
fn check_part(directory: &TempDir, table: Table, is_parquet: bool, file: &[u8]) {
    let manifest = Manifest { ended_ns: Some(1), ..Manifest::default() };
    let writer = Writer::create(directory.path(), &manifest, WriterOptions::default());
    writer.and_then(|writer| writer.finish(&manifest)).expect("an empty recording can be written");
    let name = if is_parquet { "part-00002.parquet" } else { "part-00002.arrows" };
    files::write(directory, Path::new(table.as_str()).join(name), file);
    let recording = Recording::open(directory.path()).expect("its manifest is sound");
    let read = count_events(recording.events());
    let followed = followed(&recording);
    assert!(
        read >= MAX_EVENTS || followed >= MAX_EVENTS || read == followed,
        "{read} read, {followed} followed"
    );
    recording.notes().iter().for_each(|note| check_line(note));
}

fn count_events<T>(events: impl Iterator<Item = Result<T, Error>>) -> usize {
    let events = events.take(MAX_EVENTS).inspect(|event| {
        if let Err(error) = event {
            check_line(&error.to_string());
        }
    });
    events.flatten().count()
}

/// The number of events that a following reader gets.
fn followed(recording: &Recording) -> usize {
    let mut tail = Tail::start(recording);
    let mut count = 0;
    while count < MAX_EVENTS && !tail.is_finished() {
        count += count_events(std::iter::from_fn(|| tail.next_event().transpose()));
    }
    count
}

fn check_line(text: &str) {
    assert!(!text.is_empty() && !text.contains('\n'), "not one line: {text:?}");
}
