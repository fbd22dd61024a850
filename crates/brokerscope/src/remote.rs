//! Recordings in an object store: which there are below a URL, and copies of what a command reads of one, on this disk for as long
//! as it is read. Asks for nothing but lists and objects, and keeps nothing.
//!
//! Files, not memory, because recordings are read by offset, several parts at a time and more than once, and are larger than
//! what a reader may take. A copy for figures has holes where columns lie that no figure is made of: they are not fetched.

mod kept;
mod needed;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;

use report::quantity::format_bytes;
use stores::{Location, Store};

use crate::cli::Command;
use crate::failure::Usage;
use crate::input;
pub(crate) use kept::{Kept, with_urls};
pub(crate) use needed::Needed;

const MANIFEST: &str = "manifest.json";

/// A URL that was named.
pub(crate) struct Source {
    location: Location,
    store: Store,
    /// Bytes that came, and those of the objects they are parts of.
    fetched: Cell<(u64, u64)>,
}

impl Source {
    /// What is behind a path, where that is a URL. Nothing is asked for yet.
    ///
    /// # Errors
    /// It is not one that is read, or the environment's settings contradict each other.
    pub(crate) fn of(path: &Path) -> anyhow::Result<Option<Self>> {
        let Some(url) = input::url(path) else { return Ok(None) };
        let location = Location::parse(url)?;
        let store = Store::open(&location)?;
        Ok(Some(Self { location, store, fetched: Cell::default() }))
    }

    /// Where recordings lie below it, in order; "" where it is one itself. One more than `most` where there are more.
    ///
    /// # Errors
    /// What the store says.
    pub(crate) fn recordings(&self, most: usize) -> anyhow::Result<Vec<String>> {
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
    pub(crate) fn fetch(&self, recording: &Path, needed: Needed) -> anyhow::Result<Kept> {
        let shown = recording.display();
        let location = Location::parse(&shown.to_string())?;
        let kept = Kept::new(&location)?;
        let (came, there) = needed::fetch(&self.store, &location, kept.path(), needed)?;
        anyhow::ensure!(
            kept.path().join(MANIFEST).is_file(),
            "{shown}: it is not a recording (it has no {MANIFEST}): name its own folder; `brokerscope fleet` takes one above"
        );
        let (before, before_there) = self.fetched.get();
        self.fetched.set((before.saturating_add(came), before_there.saturating_add(there)));
        Ok(kept)
    }

    /// How much came, in words.
    pub(crate) fn said(&self) -> String {
        let (came, there) = self.fetched.get();
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

/// Whether all that follows would fail as well: it is about the store, or about this disk, not about one object.
pub(crate) fn ends_all(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<stores::Error>() {
        Some(error) => !error.is_of_one_object(),
        None => error.root_cause().is::<std::io::Error>(),
    }
}

/// Copies the recordings that a command was given by URL, and gives it the copies' paths instead.
///
/// # Errors
/// As [`Source::fetch`]; what was copied before stays with `kept`.
pub(crate) fn bring(command: &mut Command, kept: &mut Vec<Kept>) -> anyhow::Result<()> {
    check_reads(command)?;
    for input in command.recordings() {
        if let Some(source) = Source::of(input)? {
            let copy = source.fetch(input, Needed::All)?;
            copy.path().clone_into(input);
            kept.push(copy);
        }
    }
    Ok(())
}

/// Of a copy, neither an end nor a change would reach the recording.
fn check_reads(command: &Command) -> Result<(), Usage> {
    match command {
        Command::Explain(args)
            if (args.follow || args.save) && args.inputs.iter().any(|input| input::url(input).is_some()) =>
        {
            Err(Usage("--follow and --save are for a directory; an object store is only read".to_owned()))
        }
        _ => Ok(()),
    }
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
