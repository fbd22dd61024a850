//! Puts files out of the page cache, so that they have to be read from the device again.

use std::fs::{self, File};
use std::path::Path;

use rustix::fs::{Advice, fadvise};

use crate::error::Error;

/// Writes back what is dirty of a file and forgets its pages. What somebody dirties meanwhile stays.
pub(super) fn forget(path: &Path) -> Result<(), Error> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    file.sync_data().map_err(Error::io("write back", path))?;
    fadvise(&file, 0, None, Advice::DontNeed).map_err(|error| Error::io("forget", path)(error.into()))
}

/// The same of all segments in a partition's directory.
pub(super) fn forget_segments(directory: &Path) -> Result<(), Error> {
    let listing = fs::read_dir(directory).map_err(Error::io("list", directory))?;
    let paths = listing.filter_map(Result::ok).map(|entry| entry.path());
    paths.filter(|path| path.extension().is_some_and(|end| end == "log")).try_for_each(|path| forget(&path))
}
