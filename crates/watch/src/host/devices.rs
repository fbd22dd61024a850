//! The block devices that hold the broker's log dirs, and what is beneath them: a partition's disk, the devices
//! under a volume or an array, the device that holds a loop device's file. Does not read their figures.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use super::text::{self, Kernel};

/// A stack of volumes, arrays and disks has a few dozen devices at most.
const MAX_DEVICES: usize = 256;

/// A device's major and minor number.
pub(super) type Number = (u32, u32);

/// Every device that a byte of these directories may pass on its way to the disk.
pub(super) fn beneath(kernel: &Kernel, log_dirs: &[PathBuf]) -> BTreeSet<Number> {
    let mounts = text::read(&kernel.proc.join("self/mountinfo")).unwrap_or_default();
    let holding = |dir: &PathBuf| device_of(dir, &mounts, true);
    let mut open: Vec<Number> = log_dirs.iter().filter_map(holding).collect();
    let mut found = BTreeSet::new();
    while let Some(device) = open.pop() {
        if found.len() < MAX_DEVICES && found.insert(device) {
            open.extend(under(kernel, device, &mounts));
        }
    }
    found
}

/// The device that holds a path.
pub(super) fn holding(path: &Path, mounts: &str) -> Option<Number> {
    device_of(path, mounts, true)
}

/// How many devices are at the bottom beneath one: a disk is itself.
pub(super) fn disks(kernel: &Kernel, device: Number, mounts: &str) -> u32 {
    let (mut open, mut seen, mut disks) = (vec![device], BTreeSet::new(), 0);
    while let Some(device) = open.pop() {
        if seen.len() >= MAX_DEVICES || !seen.insert(device) {
            continue;
        }
        let beneath = under(kernel, device, mounts);
        disks += u32::from(beneath.is_empty());
        open.extend(beneath);
    }
    disks
}

/// The device of the file system that holds a path. Btrfs and overlays have numbers that
/// are no device's: their mounts say which it is.
fn device_of(path: &Path, mounts: &str, through_overlay: bool) -> Option<Number> {
    let number = fs::metadata(path).ok()?.dev();
    let number = (major(number), minor(number));
    if number.0 != 0 {
        return Some(number);
    }
    let mount = Mount::numbered(mounts, number)?;
    match mount.upper {
        Some(upper) if through_overlay => device_of(&upper, mounts, false),
        Some(_) => None,
        None => {
            let device = fs::metadata(&mount.source).ok().map(|source| source.rdev())?;
            (device != 0).then(|| (major(device), minor(device)))
        }
    }
}

/// The part of a line of `/proc/PID/mountinfo` (`proc_pid_mountinfo(5)`) that leads to a device.
struct Mount {
    source: PathBuf,
    /// Where an overlay keeps what is written.
    upper: Option<PathBuf>,
}

impl Mount {
    fn numbered(mounts: &str, (major, minor): Number) -> Option<Self> {
        let number = format!("{major}:{minor}");
        let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&number))?;
        let (_, after) = line.split_once(" - ")?;
        let mut words = after.split(' ').skip(1);
        let (source, options) = (words.next()?, words.next().unwrap_or_default());
        let upper = options.split(',').find_map(|option| option.strip_prefix("upperdir="));
        Some(Self { source: unescaped(source), upper: upper.map(unescaped) })
    }
}

/// Blanks and backslashes are written as `\040` and `\134`.
pub(super) fn unescaped(word: &str) -> PathBuf {
    word.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\").into()
}

/// What is directly beneath a device. `/sys/dev/block/8:1` is a link to the device's directory.
fn under(kernel: &Kernel, (major, minor): Number, mounts: &str) -> Vec<Number> {
    let dir = kernel.sys.join(format!("dev/block/{major}:{minor}"));
    let mut found = Vec::new();
    if dir.join("partition").exists() {
        found.extend(number_in(&dir.join("../dev")));
    }
    let slaves = fs::read_dir(dir.join("slaves")).into_iter().flatten().flatten();
    found.extend(slaves.take(MAX_DEVICES).filter_map(|slave| number_in(&slave.path().join("dev"))));
    let backing = text::read(&dir.join("loop/backing_file"));
    found.extend(backing.and_then(|path| device_of(Path::new(path.trim_end()), mounts, true)));
    found
}

fn number_in(file: &Path) -> Option<Number> {
    let text = text::read(file)?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{Mount, disks, under};
    use crate::host::tests::fixture::Fixture;

    #[test]
    fn a_volume_lies_on_a_partition_that_lies_on_a_disk() {
        let fixture = Fixture::new("devices");
        fixture.file("sys/devices/sda/dev", "8:0\n");
        fixture.file("sys/devices/sda/sda1/dev", "8:1\n");
        fixture.file("sys/devices/sda/sda1/partition", "1\n");
        fixture.file("sys/dev/block/253:0/slaves/sda1/dev", "8:1\n");
        fixture.link("sys/dev/block/8:1", "../../devices/sda/sda1");
        fixture.link("sys/dev/block/8:0", "../../devices/sda");
        let kernel = fixture.kernel();
        assert_eq!(under(&kernel, (253, 0), ""), [(8, 1)]);
        assert_eq!(under(&kernel, (8, 1), ""), [(8, 0)]);
        assert_eq!(under(&kernel, (8, 0), ""), []);
        assert_eq!(under(&kernel, (9, 9), ""), []);
        fixture.file("sys/dev/block/253:0/slaves/sdb/dev", "8:16\n");
        assert_eq!((disks(&kernel, (253, 0), ""), disks(&kernel, (8, 1), "")), (2, 1));
    }

    #[test]
    fn a_mount_leads_to_its_source_or_to_an_overlays_upper_directory() {
        let mounts = "36 27 0:46 / /data rw - btrfs /dev/sd\\040b rw,space_cache\n\
                      37 27 0:47 / /o rw shared:1 - overlay overlay rw,lowerdir=/l,upperdir=/u/x,workdir=/w\n\
                      38 27 0:48\n";
        let btrfs = Mount::numbered(mounts, (0, 46)).unwrap();
        assert_eq!((btrfs.source, btrfs.upper), (PathBuf::from("/dev/sd b"), None));
        let overlay = Mount::numbered(mounts, (0, 47)).unwrap();
        assert_eq!(overlay.upper.as_deref(), Some(Path::new("/u/x")));
        assert!(Mount::numbered(mounts, (0, 48)).is_none());
        assert!(Mount::numbered(mounts, (0, 4)).is_none());
    }
}
