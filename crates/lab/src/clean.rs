//! Takes down what an experiment set up, found by where it hangs rather than by what was remembered: so it
//! serves a lab that ended in order, one that failed half-way and one that was killed.
//!
//! Order matters: the processes that write to a file system go first, then the file system, the loop
//! device, the FUSE mount beneath it, the process that serves it, and the directory last.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::steps::Steps;
use crate::{cgroup, marked, site, sysctl, volume};

/// How long the kernel may take to let go of a mount or a loop device.
const PATIENCE: Duration = Duration::from_secs(60);

/// Takes down every site in the user's cache directory whose owner has gone; returns how many there were.
pub fn sweep(steps: Steps) -> Result<usize, Error> {
    sweep_in(&site::sites()?, steps)
}

/// Takes down every abandoned site in `root`.
///
/// # Errors
/// [`Error::Unusable`] naming what could not be removed.
pub fn sweep_in(root: &Path, steps: Steps) -> Result<usize, Error> {
    let (_entry, sites) = site::stale(root)?;
    let mut left = Vec::new();
    for site in &sites {
        let started = Instant::now();
        left.extend(take_down(site));
        steps.took(started, &format!("took down the remains of a killed lab, {}", site.display()));
    }
    if left.is_empty() { Ok(sites.len()) } else { Err(Error::Unusable(left.join("; "))) }
}

/// Takes down everything that hangs on `site` and the directory itself; returns what could not be removed.
pub(crate) fn take_down(site: &Path) -> Vec<String> {
    marked::end(site, marked::Which::Clients);
    let mut left = sysctl::put_all_back(site);
    unmount_beneath(site, |kind| !kind.starts_with("fuse"));
    for device in volume::loops_beneath(site) {
        let _ = volume::detach(&device);
    }
    unmount_beneath(site, |_| true);
    marked::end(site, marked::Which::All);
    let mounts: Vec<String> = mounts_beneath(site).into_iter().map(|mount| mount.describe()).collect();
    let loops = volume::loops_beneath(site);
    left.extend(mounts);
    left.extend(loops.iter().map(|device| format!("loop device {}", device.display())));
    left.extend(marked::processes(site, marked::Which::All).iter().map(|pid| format!("process {pid}")));
    left.extend(cgroup::remove_all(site).iter().map(|group| format!("cgroup {}", group.display())));
    // Never recurse into a file system that is still mounted.
    if left.is_empty() && site.exists() {
        if let Err(error) = fs::remove_dir_all(site) {
            left.push(format!("directory {}: {error}", site.display()));
        }
    }
    left
}

/// Unmounts `target`, waiting while it is busy; in the end lets the kernel finish it once it is free.
pub(crate) fn unmount(target: &Path) -> Result<(), Error> {
    use rustix::mount::UnmountFlags;
    let end = Instant::now() + PATIENCE;
    loop {
        match rustix::mount::unmount(target, UnmountFlags::empty()) {
            Ok(()) => return Ok(()),
            Err(rustix::io::Errno::BUSY) if Instant::now() < end => {
                thread::sleep(Duration::from_millis(50));
            }
            Err(rustix::io::Errno::BUSY) => break,
            Err(error) => return Err(Error::io("unmount", target)(error.into())),
        }
    }
    rustix::mount::unmount(target, UnmountFlags::DETACH)
        .map_err(|error| Error::io("unmount", target)(error.into()))
}

fn unmount_beneath(site: &Path, wanted: impl Fn(&str) -> bool) {
    for mount in mounts_beneath(site).into_iter().rev().filter(|mount| wanted(&mount.kind)) {
        let _ = unmount(&mount.target);
    }
}

/// One line of /proc/mounts.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    source: String,
    target: PathBuf,
    kind: String,
}

impl Mount {
    fn describe(&self) -> String {
        format!("mount of {} on {}", self.source, self.target.display())
    }
}

/// The mounts on `site` or beneath it, in the order they were made.
fn mounts_beneath(site: &Path) -> Vec<Mount> {
    let table = fs::read_to_string("/proc/mounts").unwrap_or_default();
    parse_mounts(&table).filter(|mount| mount.target.starts_with(site)).collect()
}

fn parse_mounts(table: &str) -> impl Iterator<Item = Mount> + '_ {
    table.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let source = unescape(fields.next()?);
        let target = PathBuf::from(unescape(fields.next()?));
        Some(Mount { source, target, kind: fields.next()?.to_owned() })
    })
}

/// Undoes the octal escapes (`\040` for a space) of /proc/mounts; see `mangle_path` in `fs/seq_file.c`.
fn unescape(field: &str) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let octal = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        if let Some(byte) =
            octal.filter(|_| first == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok())
        {
            bytes.push(byte);
            rest = after.get(3..).unwrap_or_default();
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_read_with_their_escapes() {
        let table = "proc /proc proc rw 0 0\n/dev/loop0 /a\\040b/c ext4 rw,commit=5 0 0\nbroken\n";
        let mounts: Vec<Mount> = parse_mounts(table).collect();
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[1].target, Path::new("/a b/c"));
        assert_eq!(mounts[1].kind, "ext4");
    }

    #[test]
    fn an_unfinished_escape_stays_as_it_is() {
        assert_eq!(unescape("a\\04"), "a\\04");
        assert_eq!(unescape("\\134\\011"), "\\\t");
    }

    #[test]
    fn a_plain_abandoned_directory_is_removed() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("site-x/data")).unwrap();
        assert_eq!(sweep_in(root.path(), Steps::silent()).unwrap(), 1);
        assert_eq!(sweep_in(root.path(), Steps::silent()).unwrap(), 0);
    }
}
