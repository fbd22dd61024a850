//! Files and directories, with errors that name them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Makes a directory and its parents.
pub(crate) fn make(directory: &Path) -> Result<()> {
    fs::create_dir_all(directory).map_err(Error::io("make", directory))
}

/// Makes an empty directory in place of what is there.
pub(crate) fn make_empty(directory: &Path) -> Result<()> {
    remove(directory)?;
    make(directory)
}

/// Removes a directory with everything in it, if it is there.
pub(crate) fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(Error::io("remove", directory)(error)),
        _ => Ok(()),
    }
}

/// The entries of a directory.
pub(crate) fn list(directory: &Path) -> Result<Vec<PathBuf>> {
    let listing = fs::read_dir(directory).map_err(Error::io("list", directory))?;
    Ok(listing.filter_map(|entry| Some(entry.ok()?.path())).collect())
}

/// Reads a text file.
pub(crate) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).map_err(Error::io("read", path))
}

/// Writes a file.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    fs::write(path, bytes).map_err(Error::io("write", path))
}

/// Writes a value as JSON, atomically.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let fresh = path.with_extension("json.new");
    let text = serde_json::to_vec_pretty(value);
    write(&fresh, text.map_err(|error| Error::Unusable(format!("{}: {error}", path.display())))?)?;
    fs::rename(&fresh, path).map_err(Error::io("write", path))
}

/// Reads what [`write_json`] has written; `None` if there is no file.
///
/// # Errors
/// The file cannot be parsed.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, serde_json::Error> {
    fs::read(path).ok().map(|text| serde_json::from_slice(&text)).transpose()
}
