//! The directory of one experiment, which is also how a killed lab's remains are recognised.
//!
//! Everything an experiment sets up hangs on its site: files, mounts and loop images lie beneath it, its
//! processes carry its path in their environment ([`MARK`]). The owner holds a lock on a file in it, which
//! the kernel releases however the owner ends; a site that nobody holds is stale, no matter what became of
//! process ids. What is found there is taken down by [`crate::clean`].

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use crate::error::Error;
use crate::{clean, files};

/// The environment variable that marks a process of an experiment with its site.
pub(crate) const MARK: &str = "BROKERSCOPE_LAB_SITE";
/// The file whose lock says that the owner lives; holds the owner's pid for the reader.
const OWNER: &str = "owner";
/// Overrides where jars are cached and sites are made.
const CACHE: &str = "BROKERSCOPE_LAB_CACHE";

/// A claimed directory for one experiment; dropping it takes down what still hangs on it.
#[derive(Debug)]
pub struct Site {
    path: PathBuf,
    _owner: File,
}

impl Site {
    /// Makes a new site in the user's cache directory.
    pub fn claim() -> Result<Self, Error> {
        Self::claim_in(&sites()?)
    }

    /// Makes a new site in `root`, which is made if missing.
    pub fn claim_in(root: &Path) -> Result<Self, Error> {
        // Held while the site is made, so that a `brokerscope-lab clean` at the same time sees it whole or not at all.
        let _entry = hold_root(root)?;
        let path = tempfile::Builder::new()
            .prefix("site-")
            .tempdir_in(root)
            .map_err(Error::io("make a directory in", root))?
            .keep();
        let owner = path.join(OWNER);
        let mut file = File::create(&owner).map_err(Error::io("write", &owner))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(Error::io("lock", &owner))?;
        writeln!(file, "{}", std::process::id()).map_err(Error::io("write", &owner))?;
        Ok(Self { path, _owner: file })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a directory of this name in it.
    pub fn directory(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        files::make(&path)?;
        Ok(path)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for left in clean::take_down(&self.path) {
            let _ = writeln!(std::io::stderr(), "lab: left behind: {left}; try `brokerscope-lab clean`");
        }
    }
}

/// The sites in `root` that nobody holds any more; the lock on `root` is held until the answer is dropped.
pub(crate) fn stale(root: &Path) -> Result<(File, Vec<PathBuf>), Error> {
    let entry = hold_root(root)?;
    let sites = files::list(root)?.into_iter().filter(|path| path.is_dir() && !held(path)).collect();
    Ok((entry, sites))
}

/// Where sites are made: beneath the cache directory, which belongs to the user alone (a name in /tmp
/// would be anybody's to prepare).
pub(crate) fn sites() -> Result<PathBuf, Error> {
    Ok(cache()?.join("sites"))
}

/// The lab's cache directory: `$BROKERSCOPE_LAB_CACHE`, else `brokerscope` in the XDG cache directory.
pub(crate) fn cache() -> Result<PathBuf, Error> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let found = set(CACHE)
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("brokerscope")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/brokerscope")));
    let path = found.ok_or_else(|| Error::Unusable(format!("no cache directory: set {CACHE} or HOME")))?;
    std::path::absolute(&path).map_err(Error::io("resolve", &path))
}

fn hold_root(root: &Path) -> Result<File, Error> {
    files::make(root)?;
    let path = root.join("lock");
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(Error::io("open", &path))?;
    flock(&file, FlockOperation::LockExclusive).map_err(Error::io("lock", &path))?;
    Ok(file)
}

fn held(site: &Path) -> bool {
    let Ok(owner) = File::open(site.join(OWNER)) else { return false };
    flock(&owner, FlockOperation::NonBlockingLockExclusive).is_err()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_living_site_is_not_stale_and_a_dropped_one_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let site = Site::claim_in(root.path()).unwrap();
        let path = site.path().to_owned();
        assert!(stale(root.path()).unwrap().1.is_empty());
        drop(site);
        assert!(!path.exists());
    }

    #[test]
    fn a_site_without_its_owner_s_lock_is_stale() {
        let root = tempfile::tempdir().unwrap();
        let abandoned = root.path().join("site-abandoned");
        fs::create_dir(&abandoned).unwrap();
        fs::write(abandoned.join(OWNER), "1\n").unwrap();
        assert_eq!(stale(root.path()).unwrap().1, vec![abandoned]);
    }
}
