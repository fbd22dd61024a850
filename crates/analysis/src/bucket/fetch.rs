//! Fetches of a recording what a command reads: whole parts, or of Parquet the footer and the columns that figures are made of.
//! Reads none of it but footers.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

use recording::{MANIFEST, folder_of, footer_range, has_summaries, summary_ranges};
use report::quantity::format_bytes;
use stores::{Location, Object, ObjectRanges, Store};

use crate::Error;

/// A smaller part comes whole: to ask twice takes longer.
const WHOLE_BYTES: u64 = 1 << 20;
/// Of a larger one its end comes first, in which most footers are.
const END_BYTES: u64 = 64 << 10;
/// A recorder's parts of years.
const MAX_OBJECTS: usize = 100_000;
/// Parts that are fetched side by side: each is an open file.
const MAX_PARALLEL_PARTS: usize = 16;

/// What is read of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// What figures of many brokers are made of.
    Figures,
    /// Everything.
    All,
}

/// Fetches it into a new directory; how many bytes came, and how many the objects have that they are of.
///
/// # Errors
/// What the store says; there are too many objects; or it would take more than half of the room that there is.
pub(super) fn fetch(
    store: &Store,
    location: &Location,
    into: &Path,
    columns: Columns,
) -> Result<(u64, u64), Error> {
    let objects = objects(store, location, columns)?;
    let free = stores::free_bytes(into)
        .map_err(Error::disk(format!("{}: cannot read its free space", into.display())))?;
    let mut fetching = Fetching { store, location, into, columns, most: free / 2, came: 0 };
    for objects in objects.chunks(MAX_PARALLEL_PARTS) {
        fetching.parts(objects)?;
    }
    Ok((fetching.came, objects.iter().map(|(_, object)| object.bytes).fold(0, u64::saturating_add)))
}

/// The objects of a recording that are its own, with their places in it.
fn objects(store: &Store, location: &Location, columns: Columns) -> Result<Vec<(String, Object)>, Error> {
    let mut objects = Vec::new();
    store.each(location, &mut |object| {
        let place =
            location.place_of(&object.key).filter(|place| is_needed(place, columns)).map(str::to_owned);
        if let Some(place) = place.filter(|_| objects.len() <= MAX_OBJECTS) {
            objects.push((place, object));
        }
    })?;
    if objects.len() > MAX_OBJECTS {
        return Err(Error::input(format!("{location}: it has more than {MAX_OBJECTS} parts")));
    }
    Ok(objects)
}

/// Nothing else is given a name on this disk, no matter what keys the bucket has.
fn is_needed(place: &str, columns: Columns) -> bool {
    place == MANIFEST
        || folder_of(place).is_some_and(|folder| columns == Columns::All || has_summaries(folder))
}

struct Fetching<'a> {
    store: &'a Store,
    location: &'a Location,
    into: &'a Path,
    columns: Columns,
    /// Bytes that may come.
    most: u64,
    came: u64,
}

impl Fetching<'_> {
    /// Three times they are asked side by side, since each answer says what to ask for next.
    fn parts<'o>(&mut self, objects: &'o [(String, Object)]) -> Result<(), Error> {
        let part = |(place, object): &'o (String, Object)| {
            let part = Part::new(self.into, place, object, self.columns);
            part.map_err(Error::disk(format!("{}: cannot write a copy of {place}", self.location)))
        };
        let parts = objects.iter().map(part).collect::<Result<Vec<Part<'o>>, _>>()?;
        self.take(&parts, Part::first)?;
        self.take(&parts, Part::footer)?;
        self.take(&parts, Part::columns)
    }

    fn take<'o>(
        &mut self,
        parts: &[Part<'o>],
        asked: fn(&Part<'o>) -> Result<Vec<Range<u64>>, Error>,
    ) -> Result<(), Error> {
        let mut wanted = Vec::new();
        for part in parts {
            let ranges = stores::merged(asked(part)?);
            self.came =
                ranges.iter().map(|range| range.end - range.start).fold(self.came, u64::saturating_add);
            wanted.push(ObjectRanges { object: part.object, ranges, to: &part.file });
        }
        if self.came > self.most {
            return Err(Error::input(format!(
                "{}: the copy takes more than {}, half of the free space: set TMPDIR to a larger file system",
                self.location,
                format_bytes(self.most)
            )));
        }
        Ok(self.store.fetch(&wanted)?)
    }
}

/// An object, and its copy.
struct Part<'a> {
    object: &'a Object,
    path: PathBuf,
    file: File,
    /// The table, where not all of its columns are fetched.
    table: Option<&'static str>,
}

impl<'a> Part<'a> {
    /// One that is all a hole, which takes no room.
    fn new(into: &Path, place: &str, object: &'a Object, columns: Columns) -> io::Result<Self> {
        let path = into.join(place);
        // Not `into` itself: where that is gone, a signal ends us.
        match std::fs::create_dir(path.parent().unwrap_or(into)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let file = File::create_new(&path)?;
        file.set_len(object.bytes)?;
        let of_columns =
            columns == Columns::Figures && place.ends_with(".parquet") && object.bytes > WHOLE_BYTES;
        Ok(Self { object, path, file, table: folder_of(place).filter(|_| of_columns) })
    }

    /// Where its end begins that is fetched first.
    fn end(&self) -> u64 {
        if self.table.is_some() { self.object.bytes.saturating_sub(END_BYTES) } else { 0 }
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the others")]
    fn first(&self) -> Result<Vec<Range<u64>>, Error> {
        Ok(std::iter::once(self.end()..self.object.bytes).collect())
    }

    /// What of its footer lies before its end.
    fn footer(&self) -> Result<Vec<Range<u64>>, Error> {
        let Some(_) = self.table else { return Ok(Vec::new()) };
        let footer = unless_damaged(footer_range(&self.path))?;
        Ok(footer.map(|footer| footer.start..self.end().max(footer.start)).into_iter().collect())
    }

    fn columns(&self) -> Result<Vec<Range<u64>>, Error> {
        let Some(table) = self.table else { return Ok(Vec::new()) };
        let ranges = unless_damaged(summary_ranges(table, &self.path))?.unwrap_or_default();
        // What its end has is there.
        Ok(ranges.into_iter().map(|range| range.start..range.end.min(self.end())).collect())
    }
}

/// What is wrong with a part is said when it is read.
fn unless_damaged<T>(found: Result<T, recording::Error>) -> Result<Option<T>, recording::Error> {
    match found {
        Err(recording::Error::Part { .. }) => Ok(None),
        found => found.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::{Columns, is_needed};

    #[test]
    fn only_what_is_read_is_fetched_and_no_key_leads_elsewhere() {
        for (place, figures, all) in [
            ("manifest.json", true, true),
            ("requests/part-00001.parquet", true, true),
            ("requests/part-00002.arrows", true, true),
            ("verdicts/part-00001.parquet", true, true),
            ("off_cpu/part-00001.parquet", false, true),
            ("notes.txt", false, false),
            ("requests/../../part-00001.parquet", false, false),
            ("sub/manifest.json", false, false),
        ] {
            assert_eq!(
                (is_needed(place, Columns::Figures), is_needed(place, Columns::All)),
                (figures, all),
                "{place}"
            );
        }
    }
}
