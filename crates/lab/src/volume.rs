//! An ext4 file system on a loop device on a [`Device`] with planted latency, and where its journal lies.

mod journal;
mod loop_device;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::MountFlags;

use crate::clean;
use crate::device::{Delay, Device, DeviceOptions, Direction};
use crate::error::Error;
use crate::site::Site;
use crate::tool;

pub use journal::{Extent, journal_extents};
use loop_device::LoopDevice;
pub(crate) use loop_device::{detach, loops_beneath};

/// How a volume is made.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// Its size (the image is sparse) and the seed of its delays.
    pub device: DeviceOptions,
    /// ext4's mount options, such as `commit=1`; empty for the kernel's defaults.
    pub mount_options: String,
}

/// A mounted volume; dropping it unmounts, detaches and ends the device, in that order.
#[derive(Debug)]
pub struct Volume {
    mounted: Mounted,
    loop_device: LoopDevice,
    device: Device,
    journal: Vec<Extent>,
}

impl Volume {
    /// Makes the device, the loop device and the file system, and mounts it in `site`.
    ///
    /// # Errors
    /// Whatever is not permitted here (FUSE, loop devices, mount) or not installed; nothing stays behind.
    pub fn prepare(exe: &Path, site: &Site, options: &VolumeOptions) -> Result<Self, Error> {
        let device = Device::start(exe, site, options.device)?;
        let loop_device = LoopDevice::attach(&device.image())?;
        make_file_system(loop_device.path())?;
        let journal = journal_extents(loop_device.path())?;
        let mounted = Mounted::mount(loop_device.path(), &site.directory("volume")?, &options.mount_options)?;
        Ok(Self { mounted, loop_device, device, journal })
    }

    /// Where it is mounted.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.mounted.0
    }

    /// The loop device, such as `/dev/loop0`.
    #[must_use]
    pub fn loop_device(&self) -> &Path {
        self.loop_device.path()
    }

    /// The byte ranges of the file system's journal on the device.
    #[must_use]
    pub fn journal(&self) -> &[Extent] {
        &self.journal
    }

    /// The device beneath, to plant other delays and read its trace.
    pub fn device(&mut self) -> &mut Device {
        &mut self.device
    }

    /// Makes every write into the journal take `least_ms..=most_ms` longer from now on.
    pub fn plant_journal_delay(&mut self, least_ms: u64, most_ms: u64) -> Result<(), Error> {
        for &Extent { offset, length } in &self.journal {
            let direction = Direction::Write;
            self.device.delay(Delay { direction, offset, length, least_ms, most_ms, window_ms: None })?;
        }
        Ok(())
    }
}

fn make_file_system(device: &Path) -> Result<(), Error> {
    let mut command = Command::new("mkfs.ext4");
    // Initialised now rather than by a kernel thread later, whose writes would be in the measurements.
    command.args(["-q", "-F", "-b", "4096", "-N", "16384", "-J", "size=64"]);
    command.args(["-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"]).arg(device);
    tool::output(&mut command).map(drop)
}

/// A mounted file system; dropping it unmounts.
#[derive(Debug)]
struct Mounted(PathBuf);

impl Mounted {
    fn mount(device: &Path, directory: &Path, options: &str) -> Result<Self, Error> {
        let options = std::ffi::CString::new(options)
            .map_err(|_| Error::Unusable("mount options with a NUL byte".to_owned()))?;
        rustix::mount::mount(device, directory, "ext4", MountFlags::empty(), Some(options.as_c_str()))
            .map_err(|error| Error::io("mount ext4 on", directory)(error.into()))?;
        let mounted = Self(directory.to_owned());
        // A Kafka log directory may hold nothing but partitions.
        let lost_and_found = directory.join("lost+found");
        fs::remove_dir(&lost_and_found).map_err(Error::io("remove", &lost_and_found))?;
        Ok(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = clean::unmount(&self.0);
    }
}
