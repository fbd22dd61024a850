//! Recordings in an object store: which there are below a URL, and copies of what a command reads of one, on this disk for as long
//! as it is read. Asks for nothing but lists and objects, and keeps nothing.
//!
//! Files, not memory, because recordings are read by offset, several parts at a time and more than once, and are larger than
//! what a reader may take. A copy for figures has holes where columns lie that no figure is made of: they are not fetched.

mod copies;
mod fetch;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;

use recording::MANIFEST;
use report::quantity::format_bytes;
use stores::{Location, Store};

use crate::{Error, input};
pub use copies::{Copy, with_urls};
pub use fetch::Columns;

/// A URL that was named.
pub struct Bucket {
    location: Location,
    store: Store,
    /// Bytes that came, and those of the objects they are parts of.
    fetched_bytes: Cell<(u64, u64)>,
}

impl Bucket {
    /// What is behind a path, where that is a URL. Nothing is asked for yet.
    ///
    /// # Errors
    /// It is not one that is read, or the environment's settings contradict each other.
    pub fn open(path: &Path) -> Result<Option<Self>, Error> {
        let Some(url) = input::url(path) else { return Ok(None) };
        let location = Location::parse(url)?;
        let store = Store::open(&location)?;
        Ok(Some(Self { location, store, fetched_bytes: Cell::default() }))
    }

    /// Where recordings lie below it, in order; "" where it is one itself. One more than `most` where there are more.
    ///
    /// # Errors
    /// What the store says.
    pub fn recordings(&self, most: usize) -> Result<Vec<String>, Error> {
        let mut found = BTreeSet::new();
        self.store.each(&self.location, &mut |object| {
            let place = self.location.place_of(&object.key);
            if let Some(recording) = place.and_then(recording_of).filter(|_| found.len() <= most) {
                found.insert(recording.to_owned());
            }
        })?;
        // As in a directory: what lies within a recording is its own.
        let is_within = |place: &str| above(place).any(|above| found.contains(above));
        Ok(found.iter().filter(|place| !is_within(place.as_str())).cloned().collect())
    }

    /// Copies what is needed of a recording below it, by its URL.
    ///
    /// # Errors
    /// What the store says; there is no recording; or there is no room for it.
    pub fn fetch(&self, recording: &Path, columns: Columns) -> Result<Copy, Error> {
        let shown = recording.display();
        let location = Location::parse(&shown.to_string())?;
        let copy = Copy::new(&location)?;
        let (came, there) = fetch::fetch(&self.store, &location, copy.path(), columns)?;
        if !copy.path().join(MANIFEST).is_file() {
            return Err(Error::input(format!(
                "{shown}: it is not a recording (it has no {MANIFEST}): name the recording's own folder; for a folder above it, use `brokerscope fleet`"
            )));
        }
        let (before, before_there) = self.fetched_bytes.get();
        tracing::debug!("{shown}: {came} of {there} bytes fetched");
        self.fetched_bytes.set((before.saturating_add(came), before_there.saturating_add(there)));
        Ok(copy)
    }

    /// How much came, in words.
    pub fn fetched(&self) -> String {
        let (came, there) = self.fetched_bytes.get();
        format!("{} of {} fetched", format_bytes(came), format_bytes(there))
    }
}

/// The folder of the recording whose manifest this is.
fn recording_of(place: &str) -> Option<&str> {
    if place == MANIFEST { Some("") } else { place.strip_suffix(MANIFEST)?.strip_suffix('/') }
}

/// The folders that a place lies in, up to where it was looked.
fn above(place: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(parent(place), |place| parent(place))
}

fn parent(place: &str) -> Option<&str> {
    (!place.is_empty()).then(|| place.rsplit_once('/').map_or("", |(parent, _)| parent))
}

/// Whether all that follows would fail as well: the error is about the store, or about this disk, not about one object.
pub fn ends_all(error: &Error) -> bool {
    match error {
        Error::Store(error) => !error.is_of_one_object(),
        error => matches!(
            error,
            Error::Disk { .. } | Error::System(..) | Error::Recording(recording::Error::Io { .. })
        ),
    }
}

/// A copy of the recording, if the path is a URL.
///
/// # Errors
/// As [`Bucket::fetch`].
pub fn copy(path: &Path) -> Result<Option<Copy>, Error> {
    Bucket::open(path)?.map(|bucket| bucket.fetch(path, Columns::All)).transpose()
}

#[cfg(test)]
mod tests {
    use super::{above, recording_of};

    #[test]
    fn a_recording_is_where_its_manifest_is() {
        assert_eq!(recording_of("a=1/b/manifest.json"), Some("a=1/b"));
        assert_eq!(recording_of("manifest.json"), Some(""));
        for other in ["a/manifest.json/x", "a/my-manifest.json", "requests/part-00001.parquet", ""] {
            assert_eq!(recording_of(other), None, "{other}");
        }
        assert_eq!(above("a/b/c").collect::<Vec<_>>(), ["a/b", "a", ""]);
        assert_eq!(above("").count(), 0);
    }
}
