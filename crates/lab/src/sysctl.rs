//! Settings of the whole kernel (sysctl) that an experiment changes: the old value is kept in the site before, so that
//! it is put back when dropped, and by `brokerscope-lab clean` after a lab was killed.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::files;

/// Where the old values are, in a site: a file each.
const KEPT: &str = "sysctl";

/// A changed setting; put back when dropped.
#[derive(Debug)]
pub(crate) struct Sysctl {
    kept: PathBuf,
}

impl Sysctl {
    /// Sets `name`, such as `vm.dirty_expire_centisecs`.
    ///
    /// # Errors
    /// Where there is no such setting, or it may not be changed.
    pub(crate) fn set(site: &Path, name: &str, value: &str) -> Result<Self, Error> {
        Self::set_in(Path::new("/proc/sys"), site, name, value)
    }

    fn set_in(root: &Path, site: &Path, name: &str, value: &str) -> Result<Self, Error> {
        let file = root.join(name.replace('.', "/"));
        let before = files::read(&file)?;
        files::make(&site.join(KEPT))?;
        let changed = Self { kept: site.join(KEPT).join(name) };
        files::write(&changed.kept, format!("{}\n{before}", file.display()))?;
        files::write(&file, value)?;
        Ok(changed)
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        put_back(&self.kept);
    }
}

/// Puts back what experiments of `site` had changed; returns what could not be.
pub(crate) fn put_all_back(site: &Path) -> Vec<String> {
    let Ok(listing) = fs::read_dir(site.join(KEPT)) else { return Vec::new() };
    let kept = listing.filter_map(|entry| Some(entry.ok()?.path()));
    kept.filter(|kept| !put_back(kept)).map(|kept| format!("the setting {}", kept.display())).collect()
}

/// Whether it is as it was.
fn put_back(kept: &Path) -> bool {
    let Ok(text) = fs::read_to_string(kept) else { return !kept.exists() };
    let Some((file, before)) = text.split_once('\n') else { return false };
    fs::write(file, before).is_ok() && fs::remove_file(kept).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("vm")).unwrap();
        let file = root.path().join("vm/dirty_expire_centisecs");
        fs::write(&file, "3000\n").unwrap();
        (root, file)
    }

    #[test]
    fn a_dropped_setting_is_as_it_was() {
        let ((root, file), site) = (machine(), tempfile::tempdir().unwrap());
        let set = Sysctl::set_in(root.path(), site.path(), "vm.dirty_expire_centisecs", "200").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "200");
        drop(set);
        assert_eq!(fs::read_to_string(&file).unwrap(), "3000\n");
        assert!(put_all_back(site.path()).is_empty());
    }

    #[test]
    fn what_a_killed_lab_set_is_put_back_from_its_site() {
        let ((root, file), site) = (machine(), tempfile::tempdir().unwrap());
        let set = Sysctl::set_in(root.path(), site.path(), "vm.dirty_expire_centisecs", "200").unwrap();
        std::mem::forget(set);
        assert!(put_all_back(site.path()).is_empty());
        assert_eq!(fs::read_to_string(&file).unwrap(), "3000\n");
        assert!(Sysctl::set_in(root.path(), site.path(), "vm.no_such_thing", "1").is_err());
    }
}
