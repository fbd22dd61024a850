//! The block devices that hold the broker's log dirs, and what is beneath them: a partition's disk, the devices
//! under a volume or an array, the device that holds a loop device's file. Does not read their figures.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::text::{self, Kernel};
use crate::mountinfo::{self, DeviceNumber, Mount};
use crate::mounts::number;

/// A stack of volumes, arrays and disks has a few dozen devices at most.
const MAX_DEVICES: usize = 256;

/// Every device that a byte of these directories may pass on its way to the disk.
pub(super) fn beneath(kernel: &Kernel, log_dirs: &[PathBuf]) -> BTreeSet<DeviceNumber> {
    let mounts = mountinfo::parse(&text::read(&kernel.proc.join("self/mountinfo")).unwrap_or_default());
    let holding = |dir: &PathBuf| device_of(dir, &mounts, true);
    let mut open: Vec<DeviceNumber> = log_dirs.iter().filter_map(holding).collect();
    let mut found = BTreeSet::new();
    while let Some(device) = open.pop() {
        if found.len() < MAX_DEVICES && found.insert(device) {
            open.extend(under(kernel, device, &mounts));
        }
    }
    found
}

/// The device that holds a path.
pub(super) fn holding(path: &Path, mounts: &[Mount]) -> Option<DeviceNumber> {
    device_of(path, mounts, true)
}

/// How many devices are at the bottom beneath one: a disk is itself.
pub(super) fn disks(kernel: &Kernel, device: DeviceNumber, mounts: &[Mount]) -> u32 {
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
fn device_of(path: &Path, mounts: &[Mount], through_overlay: bool) -> Option<DeviceNumber> {
    let number = number(fs::metadata(path).ok()?.dev());
    if number.0 != 0 {
        return Some(number);
    }
    let mount = mounts.iter().find(|mount| mount.device == number)?;
    match mount.upper_directory() {
        Some(upper) if through_overlay => device_of(Path::new(upper), mounts, false),
        Some(_) => None,
        None => {
            let device = fs::metadata(&mount.source).ok().map(|source| source.rdev())?;
            (device != 0).then(|| self::number(device))
        }
    }
}

/// What is directly beneath a device. `/sys/dev/block/8:1` is a link to the device's directory.
fn under(kernel: &Kernel, (major, minor): DeviceNumber, mounts: &[Mount]) -> Vec<DeviceNumber> {
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

fn number_in(file: &Path) -> Option<DeviceNumber> {
    let text = text::read(file)?;
    let (major, minor) = text.trim().split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::{disks, under};
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
        assert_eq!(under(&kernel, (253, 0), &[]), [(8, 1)]);
        assert_eq!(under(&kernel, (8, 1), &[]), [(8, 0)]);
        assert_eq!(under(&kernel, (8, 0), &[]), []);
        assert_eq!(under(&kernel, (9, 9), &[]), []);
        fixture.file("sys/dev/block/253:0/slaves/sdb/dev", "8:16\n");
        assert_eq!((disks(&kernel, (253, 0), &[]), disks(&kernel, (8, 1), &[])), (2, 1));
    }
}
