//! Fetches the bytes of a recording that a command reads: whole parts, or only the footers and the columns for figures of
//! Parquet parts. Parses only footers.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

use recording::{MANIFEST, folder_of, footer_range, has_summaries, summary_ranges};
use report::quantity::format_bytes;
use stores::{Location, Object, ObjectRanges, Store};

use crate::Error;

/// Parts up to this size are fetched whole: a second request would take longer.
const WHOLE_BYTES: u64 = 1 << 20;
/// Bytes of a larger part's end, fetched first: most footers fit in it.
const END_BYTES: u64 = 64 << 10;
/// More parts than a recorder writes in years.
const MAX_OBJECTS: usize = 100_000;
/// Parts that are fetched in parallel: each is an open file.
const MAX_PARALLEL_PARTS: usize = 16;

/// Columns to fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Columns {
    /// Columns that figures of many brokers need.
    Figures,
    /// Everything.
    All,
}

/// Fetches a recording into a new directory.
/// Returns the fetched bytes and the total size of its objects.
///
/// # Errors
/// The store fails, there are too many objects, or the copy would take more than half of the free space.
pub(super) fn fetch(
    store: &Store,
    location: &Location,
    into: &Path,
    columns: Columns,
) -> Result<(u64, u64), Error> {
    let objects = objects(store, location, columns)?;
    let free = stores::free_bytes(into)
        .map_err(Error::disk(format!("{}: cannot read its free space", into.display())))?;
    let mut fetching = Fetching { store, location, into, columns, max_bytes: free / 2, fetched_bytes: 0 };
    for objects in objects.chunks(MAX_PARALLEL_PARTS) {
        fetching.parts(objects)?;
    }
    Ok((fetching.fetched_bytes, objects.iter().map(|(_, object)| object.bytes).fold(0, u64::saturating_add)))
}

/// The objects that belong to a recording, with their paths in it.
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

/// Whether an object is fetched.
/// No other path is created on this disk, no matter which keys the bucket has.
fn is_needed(place: &str, columns: Columns) -> bool {
    place == MANIFEST
        || folder_of(place).is_some_and(|folder| columns == Columns::All || has_summaries(folder))
}

struct Fetching<'a> {
    store: &'a Store,
    location: &'a Location,
    into: &'a Path,
    columns: Columns,
    /// Limit of bytes to fetch.
    max_bytes: u64,
    fetched_bytes: u64,
}

impl Fetching<'_> {
    /// Fetches parts in three rounds, each in parallel. Every round depends on the response of the one before.
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
        ranges_of: fn(&Part<'o>) -> Result<Vec<Range<u64>>, Error>,
    ) -> Result<(), Error> {
        let mut requests = Vec::new();
        for part in parts {
            let ranges = stores::merge_ranges(ranges_of(part)?);
            self.fetched_bytes = ranges
                .iter()
                .map(|range| range.end - range.start)
                .fold(self.fetched_bytes, u64::saturating_add);
            requests.push(ObjectRanges { object: part.object, ranges, to: &part.file });
        }
        if self.fetched_bytes > self.max_bytes {
            return Err(Error::input(format!(
                "{}: the copy takes more than {}, half of the free space: set TMPDIR to a larger file system",
                self.location,
                format_bytes(self.max_bytes)
            )));
        }
        Ok(self.store.fetch(&requests)?)
    }
}

/// An object and its copy.
struct Part<'a> {
    object: &'a Object,
    path: PathBuf,
    file: File,
    /// The table, if only some of its columns are fetched.
    table: Option<&'static str>,
}

impl<'a> Part<'a> {
    /// Creates a sparse file of the object's size, which takes no disk space yet.
    fn new(into: &Path, place: &str, object: &'a Object, columns: Columns) -> io::Result<Self> {
        let path = into.join(place);
        // Do not create `into` itself: if it is gone, a signal is ending this process.
        match std::fs::create_dir(path.parent().unwrap_or(into)) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let file = File::create_new(&path)?;
        file.set_len(object.bytes)?;
        let only_columns =
            columns == Columns::Figures && place.ends_with(".parquet") && object.bytes > WHOLE_BYTES;
        Ok(Self { object, path, file, table: folder_of(place).filter(|_| only_columns) })
    }

    /// Offset of the end that is fetched first.
    fn end(&self) -> u64 {
        if self.table.is_some() { self.object.bytes.saturating_sub(END_BYTES) } else { 0 }
    }

    #[expect(clippy::unnecessary_wraps, reason = "same signature as the others")]
    fn first(&self) -> Result<Vec<Range<u64>>, Error> {
        Ok(std::iter::once(self.end()..self.object.bytes).collect())
    }

    /// The part of the footer that lies before the end that was fetched first.
    fn footer(&self) -> Result<Vec<Range<u64>>, Error> {
        let Some(_) = self.table else { return Ok(Vec::new()) };
        let footer = unless_damaged(footer_range(&self.path))?;
        Ok(footer.map(|footer| footer.start..self.end().max(footer.start)).into_iter().collect())
    }

    fn columns(&self) -> Result<Vec<Range<u64>>, Error> {
        let Some(table) = self.table else { return Ok(Vec::new()) };
        let ranges = unless_damaged(summary_ranges(table, &self.path))?.unwrap_or_default();
        // The end is there already.
        Ok(ranges.into_iter().map(|range| range.start..range.end.min(self.end())).collect())
    }
}

/// Ignores a damaged part: it is reported when it is read.
fn unless_damaged<T>(result: Result<T, recording::Error>) -> Result<Option<T>, recording::Error> {
    match result {
        Err(recording::Error::Part { .. }) => Ok(None),
        result => result.map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::{Columns, is_needed};

    #[test]
    fn fetches_only_needed_parts_and_ignores_other_keys() {
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
