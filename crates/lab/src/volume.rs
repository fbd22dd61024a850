//! A file system on a loop device on a [`Device`] with injected latency, and where its journal or log lies.

mod block_device;
mod file_system;
mod journal;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;

use crate::clean;
use crate::device::{Delay, Device, DeviceOptions, Direction};
use crate::error::Error;
use crate::site::Site;

use block_device::LoopDevice;
pub(crate) use block_device::{DirtyLimit, detach, loops_beneath};
pub use file_system::FileSystem;
pub use journal::Extent;

/// How a volume is made.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// Its size (the image is sparse) and the seed of its delays.
    pub device: DeviceOptions,
    /// What is made on it.
    pub file_system: FileSystem,
    /// Its mount options, such as `commit=1`; empty for the kernel's defaults.
    pub mount_options: String,
}

/// A mounted volume; dropping it unmounts, detaches and ends the device, in that order.
#[derive(Debug)]
pub struct Volume {
    mounted: Mount,
    loop_device: LoopDevice,
    device: Device,
    journal: Vec<Extent>,
}

impl Volume {
    /// Makes the device, the loop device and the file system, and mounts it in `site`.
    ///
    /// # Errors
    /// What is not permitted here (FUSE, loop devices, mount) or not installed; nothing stays behind.
    pub fn prepare(site: &Site, options: &VolumeOptions) -> Result<Self, Error> {
        Self::prepare_another(site, 1, options)
    }

    /// As [`Volume::prepare`], where a site has several: each has a `number`.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn prepare_another(site: &Site, number: u32, options: &VolumeOptions) -> Result<Self, Error> {
        let device = Device::start(site, number, options.device)?;
        let loop_device = LoopDevice::attach(&device.image())?;
        let (path, file_system) = (&loop_device.path, options.file_system);
        file_system.make(path)?;
        let journal = file_system.journal_extents(path)?;
        let directory = site.directory(&format!("volume-{number}"))?;
        let mounted = Mount::new(path, &directory, file_system, &options.mount_options)?;
        let volume = Self { mounted, loop_device, device, journal };
        DirtyLimit::lift(volume.device_number()?);
        Ok(volume)
    }

    /// Where it is mounted.
    pub fn directory(&self) -> &Path {
        &self.mounted.0
    }

    /// The loop device, such as `/dev/loop0`.
    pub fn loop_device(&self) -> &Path {
        &self.loop_device.path
    }

    /// The loop device's number.
    ///
    /// # Errors
    /// Where the mount is gone.
    pub(crate) fn device_number(&self) -> Result<(u32, u32), Error> {
        let about = fs::metadata(self.directory()).map_err(Error::io("look at", self.directory()))?;
        Ok((rustix::fs::major(about.dev()), rustix::fs::minor(about.dev())))
    }

    /// The byte ranges of the file system's journal (XFS calls it its log) on the device; none without one.
    pub fn journal(&self) -> &[Extent] {
        &self.journal
    }

    /// The device beneath, to inject other delays and read its trace.
    pub fn device(&mut self) -> &mut Device {
        &mut self.device
    }

    /// Makes every write into the journal take `least_ms..=most_ms` longer from now on.
    pub fn inject_journal_delay(&mut self, least_ms: u64, most_ms: u64) -> Result<(), Error> {
        self.delay(&self.journal.clone(), Direction::Write, (least_ms, most_ms))
    }

    /// Makes everything of one direction but the journal take so much longer from now on.
    pub(crate) fn inject_data_delay(&mut self, direction: Direction, ms: u64) -> Result<(), Error> {
        self.delay(&journal::between(&self.journal), direction, (ms, ms))
    }

    /// The byte ranges of a file of its ext4 file system on the device, as far as it has been written back.
    ///
    /// # Errors
    /// Where there is no such file, or debugfs is not installed.
    pub(crate) fn extents_of(&self, file: &Path) -> Result<Vec<Extent>, Error> {
        let about = fs::metadata(file).map_err(Error::io("look at", file))?;
        journal::inode_extents(self.loop_device(), about.ino())
    }

    /// Makes every operation of one direction on these ranges take `least_ms..=most_ms` longer from now on.
    pub(crate) fn delay(
        &mut self,
        ranges: &[Extent],
        direction: Direction,
        (least_ms, most_ms): (u64, u64),
    ) -> Result<(), Error> {
        for &Extent { offset, length } in ranges {
            self.device.delay(Delay { direction, offset, length, least_ms, most_ms })?;
        }
        Ok(())
    }
}

/// A mounted file system; dropping it unmounts.
#[derive(Debug)]
struct Mount(PathBuf);

impl Mount {
    fn new(device: &Path, directory: &Path, kind: FileSystem, options: &str) -> Result<Self, Error> {
        let options = std::ffi::CString::new(options)
            .map_err(|_| Error::Unusable("mount options with a NUL byte".to_owned()))?;
        let name = kind.name();
        rustix::mount::mount(device, directory, name, MountFlags::empty(), Some(options.as_c_str()))
            .map_err(Error::io(&format!("mount {name} on"), directory))?;
        let mounted = Self(directory.to_owned());
        // A Kafka log directory may hold nothing but partitions. XFS makes none.
        let lost_and_found = directory.join("lost+found");
        if lost_and_found.exists() {
            fs::remove_dir(&lost_and_found).map_err(Error::io("remove", &lost_and_found))?;
        }
        Ok(mounted)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = clean::unmount(&self.0);
    }
}
