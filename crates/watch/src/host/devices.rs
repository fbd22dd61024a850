//! The block devices of the broker's log dirs, with those beneath them: a partition's disk, the devices of a volume or an array,
//! the device that holds a loop device's file. Samples their figures from `/proc/diskstats`.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use model::{HostScope, Nanos};

use super::cgroup::IoLimits;
use super::figures::{Counter, Figures};
use super::text::{self, Kernel};
use crate::mounts::number;
use crate::mounts::{self, DeviceNumber, Mount};

/// Limit of devices: a stack of volumes, arrays and disks has a few dozen at most.
const MAX_DEVICES: usize = 256;

/// All devices that data of these directories may pass on its way to disk.
pub(super) fn beneath(kernel: &Kernel, log_dirs: &[PathBuf]) -> BTreeSet<DeviceNumber> {
    let mounts = mounts::parse(&text::read(&kernel.proc.join("self/mountinfo")).unwrap_or_default());
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

/// Number of devices at the bottom of the stack below a device; 1 for a disk.
pub(super) fn disks(kernel: &Kernel, device: DeviceNumber, mounts: &[Mount]) -> u32 {
    let (mut open, mut visited, mut disks) = (vec![device], BTreeSet::new(), 0);
    while let Some(device) = open.pop() {
        if visited.len() >= MAX_DEVICES || !visited.insert(device) {
            continue;
        }
        let beneath = under(kernel, device, mounts);
        disks += u32::from(beneath.is_empty());
        open.extend(beneath);
    }
    disks
}

/// The device of the file system that holds a path.
/// Btrfs and overlays do not have a device's number: their mounts name the device.
pub(super) fn device_of(path: &Path, mounts: &[Mount], through_overlay: bool) -> Option<DeviceNumber> {
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

/// Devices directly beneath a device. `/sys/dev/block/8:1` is a link to the device's directory.
fn under(kernel: &Kernel, device: DeviceNumber, mounts: &[Mount]) -> Vec<DeviceNumber> {
    let dir = directory(kernel, device);
    let mut found: Vec<_> = disk_of(kernel, device).into_iter().collect();
    let slaves = fs::read_dir(dir.join("slaves")).into_iter().flatten().flatten();
    found.extend(slaves.take(MAX_DEVICES).filter_map(|slave| number_in(&slave.path().join("dev"))));
    let backing = text::read(&dir.join("loop/backing_file"));
    found.extend(backing.and_then(|path| device_of(Path::new(path.trim_end()), mounts, true)));
    found
}

fn directory(kernel: &Kernel, (major, minor): DeviceNumber) -> PathBuf {
    kernel.sys.join(format!("dev/block/{major}:{minor}"))
}

/// The disk of a partition; `None` if the device is not a partition.
fn disk_of(kernel: &Kernel, device: DeviceNumber) -> Option<DeviceNumber> {
    let dir = directory(kernel, device);
    if dir.join("partition").exists() { number_in(&dir.join("../dev")) } else { None }
}

fn number_in(file: &Path) -> Option<DeviceNumber> {
    mounts::parse_number(text::read(file)?.trim())
}

/// Adds the figures of these devices, and the limits of the broker's cgroup.
pub(super) fn sample(
    kernel: &Kernel,
    devices: &BTreeSet<DeviceNumber>,
    limits: &IoLimits,
    figures: &mut Figures,
    at: Nanos,
) {
    let Some(table) = kernel.text(&kernel.proc.join("diskstats")) else { return };
    for disk in table.lines().filter_map(Disk::parse).filter(|disk| devices.contains(&disk.number)) {
        let mut field = |number: &str| Some(Counter { value: disk.field(number.parse().ok()?)?, at });
        let mut figure = figures.of(HostScope::Device, disk.name);
        figure.sample(&mut field);
        if limits.is_empty() {
            continue;
        }
        // The kernel accepts limits only for whole disks.
        let whole = disk_of(kernel, disk.number).unwrap_or(disk.number);
        for ((_, metric), limit) in limits.iter().filter(|((device, _), _)| *device == whole) {
            figure.add_at(metric, at, *limit as f64);
        }
    }
}

/// A line of `/proc/diskstats`.
struct Disk<'t> {
    number: (u32, u32),
    name: &'t str,
    /// All fields that the kernel has: 11, 15 since 4.18, 17 since 5.5.
    fields: Vec<u64>,
}

impl<'t> Disk<'t> {
    fn parse(line: &'t str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let number = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
        let name = words.next()?;
        let fields = words.map_while(|word| word.parse().ok()).collect();
        Some(Self { number, name, fields })
    }

    /// Returns a field by its number in Documentation/admin-guide/iostats.rst.
    fn field(&self, number: usize) -> Option<u64> {
        self.fields.get(number.checked_sub(1)?).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::{disks, under};
    use crate::host::tests::fixture::Fixture;

    #[test]
    fn resolves_a_volume_to_its_partition_and_disks() {
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
