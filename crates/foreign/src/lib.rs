//! Files and directories that other users write to: a broker's, a JVM's. Opens only regular files, so that neither
//! opening nor reading blocks. Does not know their contents; the reader bounds what is read.
//!
//! Below `/proc/PID/root`, paths resolve as that process resolves them: no link leads out of its root (`openat2(2)`,
//! Linux 5.6).

#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::DirEntryExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2};

/// Opens a file for reading. Refuses a symbolic link.
///
/// # Errors
/// The file cannot be opened, or is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    open_regular(&locate(path, OFlags::NOFOLLOW)?)
}

/// Opens a file that the user or the broker's configuration names.
/// Such a file may be a link.
///
/// # Errors
/// As [`open`].
pub fn open_named(path: &Path) -> io::Result<File> {
    open_regular(&locate(path, OFlags::empty())?)
}

/// Metadata of the file that has this name now, without opening it.
///
/// # Errors
/// Nothing has that name.
pub fn named(path: &Path) -> io::Result<Metadata> {
    fs::metadata(path_of(&locate(path, OFlags::empty())?))
}

/// Opens a directory, to look for or to create files in it.
///
/// # Errors
/// The directory cannot be opened, or is not one.
pub fn open_directory(path: &Path) -> io::Result<OwnedFd> {
    locate(path, OFlags::DIRECTORY)
}

/// Names and inodes of a directory's entries.
///
/// # Errors
/// As [`open_directory`].
pub fn list(directory: &Path) -> io::Result<impl Iterator<Item = (OsString, u64)> + use<>> {
    let found = open_directory(directory)?;
    Ok(fs::read_dir(path_of(&found))?.flatten().map(|entry| (entry.file_name(), entry.ino())))
}

/// The path by which this process reaches an open file.
pub fn path_of(open: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()))
}

/// Finds a file without opening it: opening a device or a pipe may block or have an effect.
fn locate(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::PATH | OFlags::CLOEXEC;
    let Some((root, below)) = split_root(path) else {
        return Ok(openat(CWD, path, flags, Mode::empty())?);
    };
    let root = openat(CWD, root, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
    Ok(openat2(&root, Path::new(".").join(below), flags, Mode::empty(), resolve)?)
}

fn open_regular(found: &OwnedFd) -> io::Result<File> {
    match FileType::from_raw_mode(fstat(found)?.st_mode) {
        FileType::RegularFile => {}
        FileType::Directory => return Err(io::ErrorKind::IsADirectory.into()),
        _ => return Err(io::Error::other("it is not a regular file")),
    }
    // Some regular files of /proc block all the same.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(File::from(openat(CWD, path_of(found), flags, Mode::empty())?))
}

/// Splits a path into a process's root and what is below it.
fn split_root(path: &Path) -> Option<(&Path, &Path)> {
    let root = path.ancestors().filter(|path| is_process_root(path)).last()?;
    Some((root, path.strip_prefix(root).ok()?))
}

/// `/proc/7/root`
fn is_process_root(path: &Path) -> bool {
    let mut names = path.iter().rev();
    let is_pid = |name: &std::ffi::OsStr| name.as_encoded_bytes().iter().all(u8::is_ascii_digit);
    names.next().is_some_and(|name| name == "root")
        && names.next().is_some_and(is_pid)
        && names.next().is_some_and(|name| name == "proc")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{ErrorKind, Read as _};
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::{list, named, open, open_named};

    fn text(file: std::io::Result<fs::File>) -> String {
        let mut text = String::new();
        file.unwrap().read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn opens_only_regular_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        mknodat(CWD, path("fifo"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        symlink("/dev/zero", path("device")).unwrap();
        for name in ["fifo", "socket", "device"] {
            for refused in [open(&path(name)), open_named(&path(name))] {
                assert_eq!(refused.unwrap_err().to_string(), "it is not a regular file", "{name}");
            }
        }
        assert_eq!(open(dir.path()).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(open(&path("none")).unwrap_err().kind(), ErrorKind::NotFound);
        fs::write(path("file"), "text").unwrap();
        symlink("file", path("link")).unwrap();
        assert_eq!(text(open(&path("file"))), "text");
        assert_eq!(text(open_named(&path("link"))), "text");
        open(&path("link")).unwrap_err();
    }

    #[test]
    fn links_resolve_below_the_process_root() {
        let dir = tempfile::tempdir().unwrap();
        let container = dir.path().join("container");
        for made in ["container/data", "proc/7", "host"] {
            fs::create_dir_all(dir.path().join(made)).unwrap();
        }
        symlink(&container, dir.path().join("proc/7/root")).unwrap();
        fs::write(container.join("data/file"), "inside").unwrap();
        fs::write(dir.path().join("host/file"), "outside").unwrap();
        symlink("/data/file", container.join("absolute")).unwrap();
        symlink("/data", container.join("directory")).unwrap();
        symlink("../host/file", container.join("out")).unwrap();
        symlink(dir.path().join("host"), container.join("host")).unwrap();
        let root = dir.path().join("proc/7/root");
        assert_eq!(text(open_named(&root.join("absolute"))), "inside");
        assert_eq!(named(&root.join("absolute")).unwrap().len(), "inside".len() as u64);
        assert_eq!(text(open(&root.join("directory/file"))), "inside");
        assert_eq!(
            list(&root.join("directory")).unwrap().map(|(name, _)| name).collect::<Vec<_>>(),
            ["file"]
        );
        for out in ["out", "host/file", "../../../host/file"] {
            assert_eq!(open_named(&root.join(out)).unwrap_err().kind(), ErrorKind::NotFound, "{out}");
        }
        assert!(list(&root.join("host")).is_err());
        assert!(list(&root).unwrap().count() > 3);
    }

    #[test]
    fn refuses_proc_links_that_leave_the_process_root() {
        let own = Path::new("/proc").join(std::process::id().to_string());
        open_named(&own.join("root/proc/self/exe")).unwrap_err();
        open_named(&own.join("exe")).unwrap();
    }
}
