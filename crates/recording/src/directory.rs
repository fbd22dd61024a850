//! Writes to a directory through its descriptor.
//! No link that another user prepared leads out of it, and no other user can read what is written. Does not know the
//! tables.

use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags};
use rustix::io::Errno;

use crate::{Error, MANIFEST};

/// An open directory.
pub struct Directory {
    path: PathBuf,
    descriptor: OwnedFd,
    /// Operations so far, in order.
    #[cfg(test)]
    pub(crate) log: std::sync::Mutex<Vec<String>>,
}

impl Directory {
    /// Creates a directory for a recording, or takes an empty one of this user.
    /// Others have no access to it from then on.
    ///
    /// # Errors
    /// [`Error::Exists`] if the directory holds a recording, [`Error::Occupied`] if it holds something else,
    /// [`Error::Foreign`] if it belongs to another user, [`Error::Io`] if it cannot be created.
    pub fn create(path: &Path) -> Result<Self, Error> {
        // A trailing slash would follow a symbolic link.
        let path = path.components().as_path();
        fs::create_dir_all(path.parent().unwrap_or(path)).map_err(Error::io("create", path))?;
        match DirBuilder::new().mode(0o700).create(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.map_err(Error::io("create", path))?,
        }
        let descriptor = open(CWD, path, OFlags::NOFOLLOW).map_err(failed("open", path))?;
        let directory = Self::at(path, descriptor);
        let owner = rustix::fs::fstat(&directory.descriptor).map_err(failed("read", path))?.st_uid;
        if owner != rustix::process::geteuid().as_raw() {
            return Err(Error::Foreign { path: path.to_owned(), owner });
        }
        directory.check_empty()?;
        rustix::fs::fchmod(&directory.descriptor, Mode::RWXU).map_err(failed("change", path))?;
        // Others may have had access until now.
        directory.check_empty()?;
        Ok(directory)
    }

    /// Opens a directory of any owner.
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let descriptor = open(CWD, path, OFlags::empty()).map_err(failed("open", path))?;
        Ok(Self::at(path, descriptor))
    }

    /// Opens a folder in it; creates the folder if it does not exist.
    pub(crate) fn folder(&self, name: &str) -> Result<Self, Error> {
        match rustix::fs::mkdirat(&self.descriptor, name, Mode::RWXU) {
            Err(Errno::EXIST) => {}
            made => made.map_err(failed("create", self.path.join(name)))?,
        }
        let path = self.path.join(name);
        match open(&self.descriptor, Path::new(name), OFlags::NOFOLLOW) {
            Err(Errno::NOTDIR | Errno::LOOP) => Err(Error::NoFolder { path }),
            Err(error) => Err(failed("open", path)(error)),
            Ok(descriptor) => Ok(Self::at(&path, descriptor)),
        }
    }

    fn at(path: &Path, descriptor: OwnedFd) -> Self {
        Self {
            path: path.to_owned(),
            descriptor,
            #[cfg(test)]
            log: std::sync::Mutex::default(),
        }
    }

    /// Its path when it was opened.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Creates a file to append to, which must not exist yet.
    pub(crate) fn create_file(&self, name: impl AsRef<Path>) -> Result<File, Error> {
        let name = name.as_ref();
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::EXCL;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let created = rustix::fs::openat(&self.descriptor, name, flags, Mode::RUSR | Mode::WUSR);
        created.map(File::from).map_err(failed("create", self.path.join(name)))
    }

    /// Like [`Directory::create_file`], but replaces an existing file. A killed process may have left one.
    pub(crate) fn create_temporary(&self, name: impl AsRef<Path>) -> Result<File, Error> {
        self.remove(&name)?;
        self.create_file(name)
    }

    /// Opens a file for reading.
    pub(crate) fn open_file(&self, name: impl AsRef<Path>) -> Result<File, Error> {
        let name = name.as_ref();
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&self.descriptor, name, flags, Mode::empty());
        opened.map(File::from).map_err(failed("read", self.path.join(name)))
    }

    /// Renames a file, replacing the file that has the new name.
    pub(crate) fn rename(&self, from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<(), Error> {
        let to = to.as_ref();
        self.note("rename to", to);
        rustix::fs::renameat(&self.descriptor, from.as_ref(), &self.descriptor, to)
            .map_err(failed("write", self.path.join(to)))
    }

    /// Removes a file, if there is one.
    pub(crate) fn remove(&self, name: impl AsRef<Path>) -> Result<(), Error> {
        let name = name.as_ref();
        self.note("remove", name);
        match rustix::fs::unlinkat(&self.descriptor, name, AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            removed => removed.map_err(failed("remove", self.path.join(name))),
        }
    }

    /// Waits until a file's data is on the disk. This can delay every writer to the same file system.
    pub(crate) fn sync_file(&self, file: &File, name: impl AsRef<Path>) -> Result<(), Error> {
        let name = name.as_ref();
        self.note("sync", name);
        file.sync_data().map_err(Error::io("sync", self.path.join(name)))
    }

    /// Waits until the names of the files in a folder are on the disk; with no name, those in the directory itself.
    pub(crate) fn sync_folder(&self, name: &str) -> Result<(), Error> {
        self.note("sync", name);
        let path = self.path.join(name);
        let folder = if name.is_empty() { "." } else { name };
        let descriptor =
            open(&self.descriptor, Path::new(folder), OFlags::NOFOLLOW).map_err(failed("open", &path))?;
        match rustix::fs::fsync(descriptor) {
            // This file system cannot sync a folder.
            Err(Errno::INVAL) => Ok(()),
            synced => synced.map_err(failed("sync", path)),
        }
    }

    #[cfg(test)]
    fn note(&self, what: &str, name: impl AsRef<Path>) {
        self.log.lock().unwrap().push(format!("{what} {}", name.as_ref().display()));
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, reason = "only tests keep a log")]
    fn note(&self, _: &str, _: impl AsRef<Path>) {}

    /// Free and total bytes of its file system, for users other than root.
    /// The total is the free plus the used bytes, as `df` counts them.
    pub(crate) fn free_bytes(&self) -> Result<(u64, u64), Error> {
        let found = rustix::fs::fstatvfs(&self.descriptor).map_err(failed("read", &self.path))?;
        let used = found.f_blocks.saturating_sub(found.f_bfree);
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok((bytes(found.f_bavail), bytes(used.saturating_add(found.f_bavail))))
    }

    fn check_empty(&self) -> Result<(), Error> {
        let found = rustix::fs::statat(&self.descriptor, MANIFEST, AtFlags::SYMLINK_NOFOLLOW);
        if found.is_ok() {
            return Err(Error::Exists { path: self.path.clone() });
        }
        for entry in Dir::read_from(&self.descriptor).map_err(failed("read", &self.path))? {
            let entry = entry.map_err(failed("read", &self.path))?;
            if ![c".", c".."].contains(&entry.file_name()) {
                return Err(Error::Occupied { path: self.path.clone() });
            }
        }
        Ok(())
    }
}

fn open(parent: impl AsFd, name: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let flags = flags | OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
    rustix::fs::openat(parent, name, flags, Mode::empty())
}

fn failed(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(Errno) -> Error {
    let error_at = Error::io(action, path);
    move |error| error_at(error.into())
}
