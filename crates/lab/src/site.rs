//! The directory of one experiment. It also identifies the remains of a killed lab.
//!
//! Everything that an experiment sets up belongs to its site: files, mounts and loop images are below it, and its
//! processes carry its path in their environment ([`MARK`]). The owner holds a lock on a file in it, which the kernel
//! releases no matter how the owner ends; a site whose lock is free is stale, no matter what became of process ids.
//!
//! A site is taken down by where things are and not by what was remembered: that works for a lab that ended normally,
//! one that failed half-way and one that was killed. Order matters: the processes that write to a file system go first,
//! then the file system, the loop device, the FUSE mount below it, the process that serves it, and the directory last.

use std::fs;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::{Error, Result};
use crate::session::{poll, print_elapsed};
use crate::{files, host, volume};

/// The environment variable that marks a process of an experiment with its site.
pub(crate) const MARK: &str = "BROKERSCOPE_LAB_SITE";
/// The file whose lock shows that the owner lives; holds the owner's pid for the reader.
const OWNER: &str = "owner";
/// Overrides the directory of cached jars and of sites.
const CACHE: &str = "BROKERSCOPE_LAB_CACHE";

/// A claimed directory for one experiment; dropping it takes down what still belongs to it.
#[derive(Debug)]
pub struct Site {
    path: PathBuf,
    _owner: File,
}

impl Site {
    /// Makes a new site in the user's cache directory.
    pub fn claim() -> Result<Self> {
        Self::claim_in(&sites()?)
    }

    /// Makes a new site in `root`, which is created if missing.
    pub fn claim_in(root: &Path) -> Result<Self> {
        // Held while the site is made, so that a `brokerscope-lab clean` at the same time sees all of it or nothing.
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

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a directory of this name in it.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.path.join(name);
        files::make(&path)?;
        Ok(path)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for left in take_down(&self.path) {
            let _ = writeln!(std::io::stderr(), "lab: left behind: {left}; try `brokerscope-lab clean`");
        }
    }
}

/// The stale sites in `root`, and the lock on `root`. The lock is held until the file is dropped.
pub(crate) fn stale(root: &Path) -> Result<(File, Vec<PathBuf>)> {
    let entry = hold_root(root)?;
    let sites = files::list(root)?.into_iter().filter(|path| path.is_dir() && !is_held(path)).collect();
    Ok((entry, sites))
}

/// The directory of sites: below the cache directory, which belongs to the user alone (anyone could prepare a name in
/// /tmp).
pub(crate) fn sites() -> Result<PathBuf> {
    Ok(cache()?.join("sites"))
}

/// The lab's cache directory: `$BROKERSCOPE_LAB_CACHE`, else `brokerscope` in the XDG cache directory. Created if
/// missing: jars are run from it, so that it must not belong to anyone else.
pub(crate) fn cache() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let found = set(CACHE)
        .or_else(|| set("XDG_CACHE_HOME").map(|cache| cache.join("brokerscope")))
        .or_else(|| set("HOME").map(|home| home.join(".cache/brokerscope")));
    let path = found.ok_or_else(|| Error::Unusable(format!("no cache directory: set {CACHE} or HOME")))?;
    let path = std::path::absolute(&path).map_err(Error::io("resolve", &path))?;
    files::make(&path)?;
    check_owner(&path)?;
    Ok(path)
}

fn check_owner(path: &Path) -> Result<()> {
    let found = fs::metadata(path).map_err(Error::io("look at", path))?;
    if found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o002 == 0 {
        return Ok(());
    }
    let path = path.display();
    Err(Error::Unusable(format!(
        "{path} belongs to another user, or all may write to it: set {CACHE} to a directory of yours"
    )))
}

fn hold_root(root: &Path) -> Result<File> {
    files::make(root)?;
    let path = root.join("lock");
    let file = OpenOptions::new().create(true).append(true).open(&path).map_err(Error::io("open", &path))?;
    flock(&file, FlockOperation::LockExclusive).map_err(Error::io("lock", &path))?;
    Ok(file)
}

fn is_held(site: &Path) -> bool {
    let Ok(owner) = File::open(site.join(OWNER)) else { return false };
    flock(&owner, FlockOperation::NonBlockingLockExclusive).is_err()
}

/// How long the kernel may take to release a mount or a loop device.
const UNMOUNT_TIMEOUT: Duration = Duration::from_secs(60);

/// Takes down every site in the user's cache directory whose owner is gone; returns how many there were.
pub(crate) fn sweep() -> Result<usize> {
    sweep_in(&sites()?)
}

/// Takes down every abandoned site in `root`.
///
/// # Errors
/// [`Error::Unusable`] naming what could not be removed.
pub fn sweep_in(root: &Path) -> Result<usize> {
    let (_entry, sites) = stale(root)?;
    let mut left = Vec::new();
    for site in &sites {
        let started = Instant::now();
        left.extend(take_down(site));
        print_elapsed(started, &format!("took down the remains of a killed lab, {}", site.display()));
    }
    if left.is_empty() { Ok(sites.len()) } else { Err(Error::Unusable(left.join("; "))) }
}

/// Takes down everything that belongs to `site`, and the directory itself; returns what could not be removed.
pub(crate) fn take_down(site: &Path) -> Vec<String> {
    end(site, Which::Clients);
    let mut left = host::restore_all(site);
    unmount_beneath(site, |kind| !kind.starts_with("fuse"));
    for device in volume::loops_beneath(site) {
        let _ = volume::detach(&device);
    }
    unmount_beneath(site, |_| true);
    end(site, Which::All);
    match mounts_beneath(site) {
        Ok(mounts) => {
            let each = mounts.iter();
            left.extend(each.map(|mount| format!("mount of {} on {}", mount.source, mount.target.display())));
        }
        Err(error) => left.push(format!("mounts, if there are any: {error}")),
    }
    left.extend(volume::loops_beneath(site).iter().map(|device| format!("loop device {}", device.display())));
    left.extend(processes(site, Which::All).iter().map(|pid| format!("process {pid}")));
    left.extend(host::remove_cgroups(site).iter().map(|group| format!("cgroup {}", group.display())));
    // Never recurse into a file system that is still mounted.
    if left.is_empty() && site.exists() {
        if let Err(error) = fs::remove_dir_all(site) {
            left.push(format!("directory {}: {error}", site.display()));
        }
    }
    left
}

/// Unmounts `target`, waiting while it is busy; in the end lets the kernel finish once it is free.
pub(crate) fn unmount(target: &Path) -> Result<()> {
    let mut result = Err(Errno::BUSY);
    poll(UNMOUNT_TIMEOUT, || {
        result = rustix::mount::unmount(target, UnmountFlags::empty());
        result != Err(Errno::BUSY)
    });
    if result == Err(Errno::BUSY) {
        result = rustix::mount::unmount(target, UnmountFlags::DETACH);
    }
    result.map_err(Error::io("unmount", target))
}

fn unmount_beneath(site: &Path, is_selected: impl Fn(&str) -> bool) {
    // If they cannot be read, the directory stays.
    let mounts = mounts_beneath(site).unwrap_or_default();
    for mount in mounts.iter().rev().filter(|mount| is_selected(&mount.kind)) {
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

/// The mounts on `site` or below it, in the order in which they were made.
fn mounts_beneath(site: &Path) -> io::Result<Vec<Mount>> {
    let table = fs::read_to_string("/proc/mounts")?;
    Ok(parse_mounts(&table).filter(|mount| mount.target.starts_with(site)).collect())
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

/// The environment variable that marks the device's server. It distinguishes the server from the processes that use the
/// device.
pub(crate) const ROLE: &str = "BROKERSCOPE_LAB_ROLE";
/// Its value in the device's server.
pub(crate) const DEVICE: &str = "device";
/// How long processes may take to end after SIGTERM, and again after SIGKILL.
const END_TIMEOUT: Duration = Duration::from_secs(10);

/// Selects processes of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Everything but the device's server, which must outlive the file system on it.
    Clients,
    /// Everything.
    All,
}

/// The processes of `site`, except this one.
pub(crate) fn processes(site: &Path, which: Which) -> Vec<u32> {
    let Ok(listing) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = listing.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id() && belongs(*pid, site, which)).collect()
}

/// Ends the processes of `site`: SIGTERM, then SIGKILL for those that stay.
pub(crate) fn end(site: &Path, which: Which) {
    for signal in [Signal::TERM, Signal::KILL] {
        for pid in processes(site, which) {
            send(pid, site, which, signal);
        }
        poll(END_TIMEOUT, || processes(site, which).is_empty());
    }
}

/// Signals `pid` if it belongs to the site. Opens a handle before it checks that, so that a reused id is never hit.
fn send(pid: u32, site: &Path, which: Which, signal: Signal) {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(handle) = pidfd_open(number, PidfdFlags::empty()) else { return };
    if belongs(pid, site, which) {
        let _ = pidfd_send_signal(&handle, signal);
    }
}

/// Whether a process belongs to `site`. One that has ended, or that we may not inspect, shows no environment and
/// belongs to none.
fn belongs(pid: u32, site: &Path, which: Which) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    let value = |name: &str| {
        let prefix = format!("{name}=");
        environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(prefix.as_bytes()))
    };
    value(MARK) == Some(site.as_os_str().as_bytes())
        && (which == Which::All || value(ROLE) != Some(DEVICE.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_site_is_not_stale_and_drop_removes_it() {
        let root = tempfile::tempdir().unwrap();
        let site = Site::claim_in(root.path()).unwrap();
        let path = site.path().to_owned();
        assert!(stale(root.path()).unwrap().1.is_empty());
        drop(site);
        assert!(!path.exists());
    }

    #[test]
    fn refuses_directories_that_others_own_or_can_write() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        check_owner(dir.path()).unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        check_owner(dir.path()).unwrap_err();
        let others = if rustix::process::geteuid().is_root() {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
            std::os::unix::fs::chown(dir.path(), Some(1), None).unwrap();
            dir.path()
        } else {
            Path::new("/")
        };
        check_owner(others).unwrap_err();
    }

    #[test]
    fn site_without_a_held_lock_is_stale() {
        let root = tempfile::tempdir().unwrap();
        let abandoned = root.path().join("site-abandoned");
        fs::create_dir(&abandoned).unwrap();
        fs::write(abandoned.join(OWNER), "1\n").unwrap();
        assert_eq!(stale(root.path()).unwrap().1, vec![abandoned]);
    }
}

#[cfg(test)]
mod clean_tests {
    use super::*;

    #[test]
    fn parses_mounts_with_escapes() {
        let table = "proc /proc proc rw 0 0\n/dev/loop0 /a\\040b/c ext4 rw,commit=5 0 0\nbroken\n";
        let mounts: Vec<Mount> = parse_mounts(table).collect();
        assert_eq!(mounts.len(), 2);
        assert_eq!(mounts[1].target, Path::new("/a b/c"));
        assert_eq!(mounts[1].kind, "ext4");
    }

    #[test]
    fn leaves_incomplete_escapes_unchanged() {
        assert_eq!(unescape("a\\04"), "a\\04");
        assert_eq!(unescape("\\134\\011"), "\\\t");
    }

    #[test]
    fn sweep_removes_an_abandoned_directory() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("site-x/data")).unwrap();
        assert_eq!(sweep_in(root.path()).unwrap(), 1);
        assert_eq!(sweep_in(root.path()).unwrap(), 0);
    }
}

#[cfg(test)]
mod marked_tests {
    use std::process::Command;

    use super::*;
    use crate::process::Process;

    #[test]
    fn ends_only_processes_of_the_site_and_clients_before_the_device() {
        let ours = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let sleep = |site: &Path, role: &str| {
            let mut command = Command::new("sleep");
            Process::spawn(command.arg("600").env(ROLE, role), Some(site)).unwrap()
        };
        let (mut client, mut device) = (sleep(ours.path(), ""), sleep(ours.path(), DEVICE));
        let mut bystander = sleep(other.path(), "");
        // The environment goes before the process can be waited for.
        let ends = |process: &mut Process| poll(END_TIMEOUT, || process.exit_status().unwrap().is_some());
        end(ours.path(), Which::Clients);
        assert!(ends(&mut client));
        assert!(device.exit_status().unwrap().is_none());
        end(ours.path(), Which::All);
        assert!(ends(&mut device));
        assert!(bystander.exit_status().unwrap().is_none());
    }
}
