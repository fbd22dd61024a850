//! Names block devices by number, and finds the partitions of disks. Looks up each device once.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use ahash::RandomState;
use model::Device;

use crate::mounts::{Mounts, parse_number};

/// Names of block devices, and the partitions of disks.
pub(crate) struct Devices {
    mounts: Mounts,
    known: HashMap<(u32, u32), Device, RandomState>,
    partitions: HashMap<(u32, u32), Vec<DiskPartition>>,
}

/// One partition of a disk.
struct DiskPartition {
    number: (u32, u32),
    /// In sectors of 512 bytes, the kernel's unit everywhere.
    sectors: std::ops::Range<u64>,
}

impl Devices {
    /// Creates a cache of devices, with the mounts of a process.
    pub(crate) fn new(mounts: Mounts) -> Self {
        Self { mounts, known: HashMap::default(), partitions: HashMap::new() }
    }

    /// Returns the device with this number and its kernel name, if it has one.
    /// For a file system without a block device number (btrfs, overlay), returns the device beneath it.
    pub(crate) fn device(&mut self, number: (u32, u32)) -> Device {
        let mounts = &self.mounts;
        let device = self.known.entry(number).or_insert_with(|| {
            // Major number 0 is for file systems without a device (fs/super.c, get_anon_bdev).
            let beneath = if number.0 == 0 { mounts.block_device(number) } else { None };
            let (major, minor) = beneath.unwrap_or(number);
            Device { major, minor, name: name_of(major, minor) }
        });
        device.clone()
    }

    /// Returns the partition of a disk that holds a sector, or else the disk: block requests name the disk, file systems the
    /// partition.
    pub(crate) fn partition_at(&mut self, disk: (u32, u32), sector: u64) -> Device {
        let partitions = self.partitions.entry(disk).or_insert_with(|| partitions_of(disk.0, disk.1));
        let found = partitions.iter().find(|partition| partition.sectors.contains(&sector));
        let number = found.map_or(disk, |partition| partition.number);
        self.device(number)
    }
}

/// `/sys/dev/block/7:0` is a link to `…/block/loop0`.
fn name_of(major: u32, minor: u32) -> Arc<str> {
    std::fs::read_link(format!("/sys/dev/block/{major}:{minor}"))
        .ok()
        .and_then(|target| target.file_name().map(|name| name.to_string_lossy().into()))
        .unwrap_or_default()
}

/// The partitions of a disk.
/// The disk's directory in sysfs holds one for each, with `dev`, `start` and `size` in it.
fn partitions_of(major: u32, minor: u32) -> Vec<DiskPartition> {
    let Ok(entries) = std::fs::read_dir(format!("/sys/dev/block/{major}:{minor}/")) else {
        return Vec::new();
    };
    entries.flatten().filter_map(|entry| partition_in(&entry.path())).collect()
}

#[allow(clippy::disallowed_methods, reason = "/proc or /sys")]
fn partition_in(dir: &Path) -> Option<DiskPartition> {
    let read = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
    read("partition")?;
    let dev = read("dev")?;
    let number = parse_number(dev.trim())?;
    let start: u64 = read("start")?.trim().parse().ok()?;
    let size: u64 = read("size")?.trim().parse().ok()?;
    Some(DiskPartition { number, sectors: start..start.saturating_add(size) })
}

#[cfg(test)]
mod tests {
    use super::partition_in;

    #[test]
    fn reads_a_partition_from_its_sysfs_directory() {
        let dir = std::env::temp_dir().join(format!("brokerscope-partition-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (name, text) in [("partition", "1\n"), ("dev", "8:1\n"), ("start", "2048\n"), ("size", "1000\n")]
        {
            std::fs::write(dir.join(name), text).unwrap();
        }
        let partition = partition_in(&dir);
        std::fs::remove_dir_all(&dir).unwrap();
        let partition = partition.unwrap();
        assert_eq!(partition.number, (8, 1));
        assert_eq!(partition.sectors, 2048..3048);
    }
}
