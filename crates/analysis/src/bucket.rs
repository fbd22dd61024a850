//! Recordings in an object store: lists those below a URL, and copies what a command reads of one to this disk for as long as it
//! is read. Only lists and reads objects; caches nothing.
//!
//! Copies are files because recordings are read by offset, several parts at a time and more than once, and are larger than a
//! reader's memory may be. A copy for figures has holes in place of the columns that no figure needs: they are not fetched.

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

/// A URL that the user named.
pub struct Bucket {
    location: Location,
    store: Store,
    /// Bytes fetched, and the total size of their objects.
    fetched_bytes: Cell<(u64, u64)>,
}

impl Bucket {
    /// Opens the object store if the path is a URL. Sends no request yet.
    ///
    /// # Errors
    /// The URL is not supported, or the environment's settings contradict each other.
    pub fn open(path: &Path) -> Result<Option<Self>, Error> {
        let Some(url) = input::url(path) else { return Ok(None) };
        let location = Location::parse(url)?;
        let store = Store::open(&location)?;
        Ok(Some(Self { location, store, fetched_bytes: Cell::default() }))
    }

    /// Sorted paths of the recordings below the URL; "" if it is a recording itself.
    /// At most one more than `most`.
    ///
    /// # Errors
    /// The store fails.
    pub fn recordings(&self, most: usize) -> Result<Vec<String>, Error> {
        let mut found = BTreeSet::new();
        self.store.each(&self.location, &mut |object| {
            let place = self.location.place_of(&object.key);
            if let Some(recording) = place.and_then(recording_of).filter(|_| found.len() <= most) {
                found.insert(recording.to_owned());
            }
        })?;
        // As in a directory, a recording does not contain other recordings.
        let is_within = |place: &str| above(place).any(|above| found.contains(above));
        Ok(found.iter().filter(|place| !is_within(place.as_str())).cloned().collect())
    }

    /// Copies the needed columns of a recording, by its URL.
    ///
    /// # Errors
    /// The store fails, there is no recording, or there is not enough space for it.
    pub fn fetch(&self, recording: &Path, columns: Columns) -> Result<Copy, Error> {
        let url = recording.display();
        let location = Location::parse(&url.to_string())?;
        let copy = Copy::new(&location)?;
        let (fetched, total) = fetch::fetch(&self.store, &location, copy.path(), columns)?;
        if !copy.path().join(MANIFEST).is_file() {
            return Err(Error::input(format!(
                "{url}: it is not a recording (it has no {MANIFEST}): name the recording's own folder; for a folder above it, use `brokerscope fleet`"
            )));
        }
        let (before, total_before) = self.fetched_bytes.get();
        tracing::debug!("{url}: {fetched} of {total} bytes fetched");
        self.fetched_bytes.set((before.saturating_add(fetched), total_before.saturating_add(total)));
        Ok(copy)
    }

    /// Formats how much was fetched.
    pub fn describe_fetched(&self) -> String {
        let (fetched, total) = self.fetched_bytes.get();
        format!("{} of {} fetched", format_bytes(fetched), format_bytes(total))
    }
}

/// The folder of the recording, if the path is a manifest's.
fn recording_of(place: &str) -> Option<&str> {
    if place == MANIFEST { Some("") } else { place.strip_suffix(MANIFEST)?.strip_suffix('/') }
}

/// The folders above a path, up to the URL's.
fn above(place: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(parent(place), |place| parent(place))
}

fn parent(place: &str) -> Option<&str> {
    (!place.is_empty()).then(|| place.rsplit_once('/').map_or("", |(parent, _)| parent))
}

/// Whether all further fetches would fail as well: the error is about the store or this disk, not about one object.
pub fn is_fatal(error: &Error) -> bool {
    match error {
        Error::Store(error) => !error.is_of_one_object(),
        error => matches!(
            error,
            Error::Disk { .. } | Error::System(..) | Error::Recording(recording::Error::Io { .. })
        ),
    }
}

/// Copies the recording, if the path is a URL.
///
/// # Errors
/// Those of [`Bucket::fetch`].
pub fn copy(path: &Path) -> Result<Option<Copy>, Error> {
    Bucket::open(path)?.map(|bucket| bucket.fetch(path, Columns::All)).transpose()
}

#[cfg(test)]
mod tests {
    use super::{above, recording_of};

    #[test]
    fn recording_is_the_folder_of_its_manifest() {
        assert_eq!(recording_of("a=1/b/manifest.json"), Some("a=1/b"));
        assert_eq!(recording_of("manifest.json"), Some(""));
        for other in ["a/manifest.json/x", "a/my-manifest.json", "requests/part-00001.parquet", ""] {
            assert_eq!(recording_of(other), None, "{other}");
        }
        assert_eq!(above("a/b/c").collect::<Vec<_>>(), ["a/b", "a", ""]);
        assert_eq!(above("").count(), 0);
    }
}
