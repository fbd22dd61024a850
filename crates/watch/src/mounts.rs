//! Converts between paths as a process sees them and what the probes report: a device and a path inside its file system. Handles
//! containers, bind mounts and subvolumes. Does not know what the files are for.

#![allow(clippy::disallowed_methods, reason = "/proc")]

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

/// Location of a file or directory in its file system: components joined by `/`, without a leading one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Inside {
    pub(crate) device: DeviceNumber,
    pub(crate) path: String,
}

/// The mounts of a process and of this one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Mounts {
    pub(crate) pid: u32,
    own: Vec<Mount>,
    theirs: Vec<Mount>,
}

impl Mounts {
    /// Reads the mounts of a process and of this one. Empty if they cannot be read.
    pub(crate) fn of(pid: u32) -> Self {
        let read = |process: &str| fs::read_to_string(format!("/proc/{process}/mountinfo"));
        let parse = |text: String| parse(&text);
        Self {
            pid,
            own: read("self").map(parse).unwrap_or_default(),
            theirs: read(&pid.to_string()).map(parse).unwrap_or_default(),
        }
    }

    /// Locates a directory by its path in this process.
    pub(crate) fn locate(&self, directory: &Path) -> Option<Inside> {
        let opened = rustix::fs::openat(CWD, directory, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
        self.inside(&opened.ok()?)
    }

    /// Locates a directory by its path in the watched process; follows symbolic links below that process's root.
    pub(crate) fn locate_theirs(&self, directory: &str) -> Option<Inside> {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, format!("/proc/{}/root", self.pid), flags, Mode::empty()).ok()?;
        let opened = rustix::fs::openat2(&root, directory, flags, Mode::empty(), ResolveFlags::IN_ROOT);
        self.inside(&opened.ok()?)
    }

    fn inside(&self, directory: &OwnedFd) -> Option<Inside> {
        let fd = directory.as_fd().as_raw_fd();
        let info = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
        let id: u64 = info.lines().find_map(|line| line.strip_prefix("mnt_id:"))?.trim().parse().ok()?;
        // The path as seen from here, or from the root of the mounts that it is in.
        let path = fs::read_link(format!("/proc/self/fd/{fd}")).ok()?.to_str()?.to_owned();
        let mount = self.own.iter().chain(&self.theirs).find(|mount| mount.id == id)?;
        inside(mount, &path)
    }

    /// Locates a path of the watched process by its names alone.
    pub(crate) fn inside_by_name(&self, path: &str) -> Option<Inside> {
        let above = self.theirs.iter().filter(|mount| below(path, &mount.point).is_some());
        // Of several mounts at one point, the last hides the others.
        inside(above.max_by_key(|mount| mount.point.len())?, path)
    }

    /// The path of a file in the watched process, if it is visible there.
    pub(crate) fn visible_path(&self, device: DeviceNumber, path: &str) -> Option<String> {
        let showing =
            self.theirs.iter().filter(|mount| mount.device == device && below(path, &mount.root).is_some());
        let mount = showing.max_by_key(|mount| mount.root.len())?;
        Some(join(&mount.point, below(path, &mount.root)?))
    }

    /// The file system's type; empty if it is not mounted.
    pub(crate) fn fs_of(&self, device: DeviceNumber) -> &str {
        self.mount_of(device).map_or("", |mount| &mount.fs)
    }

    /// The block device of a file system without a device number (btrfs, overlay).
    /// It is the mount's source, or the device of the directory that an overlay writes to.
    pub(crate) fn block_device(&self, device: DeviceNumber) -> Option<DeviceNumber> {
        let mount = self.mount_of(device)?;
        if mount.fs == "overlay" {
            let upper = mount.upper_directory()?;
            return Some(number(fs::metadata(upper).ok()?.dev()));
        }
        if !mount.source.starts_with("/dev/") {
            return None;
        }
        let named = fs::metadata(&mount.source).ok()?.rdev();
        (named != 0).then(|| number(named))
    }

    fn mount_of(&self, device: DeviceNumber) -> Option<&Mount> {
        self.theirs.iter().chain(&self.own).find(|mount| mount.device == device)
    }

    /// Whether any of these mounts has this device.
    pub(crate) fn knows(&self, device: DeviceNumber) -> bool {
        self.mount_of(device).is_some()
    }
}

fn inside(mount: &Mount, path: &str) -> Option<Inside> {
    let rest = below(path, &mount.point)?;
    Some(Inside { device: mount.device, path: join(&mount.root, rest).trim_start_matches('/').to_owned() })
}

/// The path relative to a directory: empty for the directory itself, `None` if it is not below it.
pub(crate) fn below<'p>(path: &'p str, directory: &str) -> Option<&'p str> {
    let rest = path.strip_prefix(directory.trim_end_matches('/'))?;
    if rest.is_empty() { Some(rest) } else { below_root(rest, directory) }
}

fn below_root<'p>(rest: &'p str, directory: &str) -> Option<&'p str> {
    let rest = if directory.is_empty() { rest } else { rest.strip_prefix('/')? };
    Some(rest.trim_start_matches('/'))
}

fn join(directory: &str, rest: &str) -> String {
    match (directory.trim_end_matches('/'), rest) {
        ("", "") => "/".to_owned(),
        (directory, "") => directory.to_owned(),
        (directory, rest) => format!("{directory}/{rest}"),
    }
}

/// The device number of a directory, as in operations on its files.
pub fn device_of(directory: &Path) -> Option<(u32, u32)> {
    fs::metadata(directory).ok().map(|found| number(found.dev()))
}

pub(crate) fn number(device: u64) -> DeviceNumber {
    (rustix::fs::major(device), rustix::fs::minor(device))
}

/// Parses `8:16`.
pub(crate) fn parse_number(text: &str) -> Option<DeviceNumber> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// A file system's device number: major and minor.
pub(crate) type DeviceNumber = (u32, u32);

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) id: u64,
    pub(crate) device: DeviceNumber,
    /// The mounted part of the file system, without a leading `/`.
    pub(crate) root: String,
    /// The mount point.
    pub(crate) point: String,
    /// Options of this mount.
    pub(crate) own_options: String,
    pub(crate) fs: String,
    pub(crate) source: String,
    /// Options of the file system.
    pub(crate) options: String,
}

impl Mount {
    /// The directory that an overlay writes to.
    pub(crate) fn upper_directory(&self) -> Option<&str> {
        self.options.split(',').find_map(|option| option.strip_prefix("upperdir="))
    }
}

/// Parses mounts in their order: of several at one point, the last hides the others.
/// Skips invalid lines.
pub(crate) fn parse(text: &str) -> Vec<Mount> {
    text.lines().filter_map(parse_line).collect()
}

/// Parses a line of `mountinfo`.
/// Example: `36 35 98:0 /root /point rw,noatime master:1 - ext4 /dev/sda rw,errors=continue`.
fn parse_line(line: &str) -> Option<Mount> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ');
    let id = front.next()?.parse().ok()?;
    let device = parse_number(front.nth(1)?)?;
    let (root, point) = (unescape(front.next()?), unescape(front.next()?));
    let mut back = back.split(' ');
    Some(Mount {
        id,
        device,
        root: root.trim_start_matches('/').to_owned(),
        point,
        own_options: front.next()?.to_owned(),
        fs: back.next()?.to_owned(),
        source: unescape(back.next()?),
        options: unescape(back.next().unwrap_or_default()),
    })
}

/// Replaces escapes such as `\040` for blanks and backslashes.
/// See `mangle_path`, `fs/seq_file.c`.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits.filter(|_| byte == b'\\').and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(byte));
        rest = if code.is_some() { after.get(3..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::{Inside, Mounts, below, parse};

    const MOUNTINFO: &str = "21 1 8:1 / / rw - ext4 /dev/sda1 rw
22 21 0:45 /@data /srv rw,noatime shared:5 - btrfs /dev/loop7 rw,subvol=/@data
23 21 8:1 /var/lib/kafka/d1 /data\\0401 rw - ext4 /dev/sda1 rw
24 23 8:16 / /data\\0401 rw - xfs /dev/sdb rw
25 21 0:50 / /merged rw - overlay overlay rw,lowerdir=/l,upperdir=/u,workdir=/w
";

    fn mounts() -> Mounts {
        Mounts { pid: 1, own: Vec::new(), theirs: parse(MOUNTINFO) }
    }

    fn inside(device: (u32, u32), path: &str) -> Inside {
        Inside { device, path: path.to_owned() }
    }

    #[test]
    fn path_is_in_the_mount_that_hides_the_others() {
        let mounts = mounts();
        assert_eq!(mounts.theirs.len(), 5);
        assert_eq!(mounts.inside_by_name("/etc/passwd"), Some(inside((8, 1), "etc/passwd")));
        assert_eq!(mounts.inside_by_name("/srv/t-0/0.log"), Some(inside((0, 45), "@data/t-0/0.log")));
        assert_eq!(mounts.inside_by_name("/srv"), Some(inside((0, 45), "@data")));
        assert_eq!(mounts.inside_by_name("/srvx/a"), Some(inside((8, 1), "srvx/a")));
        assert_eq!(mounts.inside_by_name("/data 1/t-0"), Some(inside((8, 16), "t-0")));
    }

    #[test]
    fn file_is_visible_through_the_nearest_mount() {
        let mounts = mounts();
        assert_eq!(mounts.visible_path((8, 1), "etc/passwd").as_deref(), Some("/etc/passwd"));
        assert_eq!(mounts.visible_path((0, 45), "@data/t-0").as_deref(), Some("/srv/t-0"));
        assert_eq!(mounts.visible_path((0, 45), "@other/t-0"), None, "of another subvolume");
        assert_eq!(mounts.visible_path((8, 16), "t").as_deref(), Some("/data 1/t"));
        assert_eq!(mounts.visible_path((9, 9), "t"), None);
        assert_eq!((mounts.fs_of((0, 50)), mounts.fs_of((9, 9))), ("overlay", ""));
    }

    #[test]
    fn below_compares_whole_components() {
        assert_eq!(below("a/b", "a"), Some("b"));
        assert_eq!(below("ab", "a"), None);
        assert_eq!(below("a", "a"), Some(""));
        assert_eq!(below("a/b", ""), Some("a/b"));
        assert_eq!(below("/a", "/"), Some("a"));
    }

    #[test]
    fn finds_its_own_directory_by_descriptor_and_by_root() {
        let mounts = Mounts::of(std::process::id());
        let directory = std::env::temp_dir();
        let found = mounts.locate(&directory).expect("the directory of temporary files is mounted");
        assert_eq!(mounts.locate_theirs(directory.to_str().unwrap()), Some(found.clone()));
        assert!(mounts.knows(found.device));
        assert_eq!(mounts.locate_theirs("/no/such/directory"), None);
    }

    #[test]
    fn refuses_malformed_lines() {
        for line in ["", "1 2 3", "21 1 8 / / rw - ext4 /dev/sda1 rw", "21 1 8:1 / / rw ext4 /dev/sda1 rw"] {
            assert_eq!(parse(line), [], "{line}");
        }
    }
}

#[cfg(test)]
mod mountinfo_tests {
    use super::parse;

    #[test]
    fn reads_the_source_and_an_overlays_upper_directory() {
        let mounts = parse(
            "36 27 0:46 / /data rw - btrfs /dev/sd\\040b rw,space_cache\n\
             37 27 0:47 / /o rw shared:1 - overlay overlay rw,lowerdir=/l,upperdir=/u/x,workdir=/w\n\
             38 27 0:48\n",
        );
        assert_eq!(mounts.len(), 2);
        assert_eq!((mounts[0].source.as_str(), mounts[0].upper_directory()), ("/dev/sd b", None));
        assert_eq!((mounts[1].device, mounts[1].upper_directory()), ((0, 47), Some("/u/x")));
    }

    #[test]
    fn refuses_lines_without_options() {
        assert_eq!(parse("21 1 8:1 / / rw"), []);
        assert_eq!(parse("21 1 8:1 / / - ext4 /dev/sda1 rw"), []);
    }
}
