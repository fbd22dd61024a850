//! A file system on a device with injected latency. Between them is a loop device on the [`Device`]. Knows the location
//! of the file system's journal or log.

mod journal;

pub use journal::Extent;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::mount::MountFlags;

use crate::device::{Delay, Device, DeviceOptions, Direction};
use crate::error::{Error, Result};
use crate::session::poll;
use crate::site::Site;
use crate::{files, process, site};

/// Options of a volume.
#[derive(Clone, Debug)]
pub struct VolumeOptions {
    /// Its size (the image is sparse) and the seed of its delays.
    pub device: DeviceOptions,
    /// The file system on it.
    pub file_system: FileSystem,
    /// Its mount options, such as `commit=1`; empty for the kernel's defaults.
    pub mount_options: String,
}

impl VolumeOptions {
    pub(crate) fn new(file_system: FileSystem, mount_options: &str, size_bytes: u64, seed: u64) -> Self {
        let device = DeviceOptions { size_bytes, seed };
        Self { device, file_system, mount_options: mount_options.to_owned() }
    }
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
    /// Something is not permitted here (FUSE, loop devices, mount) or not installed; nothing is left behind.
    pub fn prepare(site: &Site, options: &VolumeOptions) -> Result<Self> {
        Self::prepare_another(site, 1, options)
    }

    /// Like [`Volume::prepare`], for a site with several volumes: each has a `number`.
    ///
    /// # Errors
    /// Like [`Volume::prepare`].
    pub(crate) fn prepare_another(site: &Site, number: u32, options: &VolumeOptions) -> Result<Self> {
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

    /// Its mount point.
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
    /// The mount is gone.
    pub fn device_number(&self) -> Result<(u32, u32)> {
        let about = fs::metadata(self.directory()).map_err(Error::io("look at", self.directory()))?;
        Ok((rustix::fs::major(about.dev()), rustix::fs::minor(about.dev())))
    }

    /// The byte ranges of the journal on the device; empty without one. XFS calls it its log.
    pub fn journal(&self) -> &[Extent] {
        &self.journal
    }

    /// The device below, to inject other delays and read its trace.
    pub fn device(&mut self) -> &mut Device {
        &mut self.device
    }

    /// Makes every write to the journal take `least_ms..=most_ms` longer from now on.
    pub fn inject_journal_delay(&mut self, least_ms: u64, most_ms: u64) -> Result<()> {
        self.delay(&self.journal.clone(), Direction::Write, (least_ms, most_ms))
    }

    /// Makes everything of one direction but the journal take `ms` longer from now on.
    pub fn inject_data_delay(&mut self, direction: Direction, ms: u64) -> Result<()> {
        self.delay(&journal::between(&self.journal), direction, (ms, ms))
    }

    /// The byte ranges of a file on the device. The file is on its ext4 file system, and counts as far as it has been
    /// written back.
    ///
    /// # Errors
    /// There is no such file, or debugfs is not installed.
    pub(crate) fn extents_of(&self, file: &Path) -> Result<Vec<Extent>> {
        let about = fs::metadata(file).map_err(Error::io("look at", file))?;
        journal::inode_extents(self.loop_device(), about.ino())
    }

    /// Delays every operation of one direction on these ranges from now on. Each takes `least_ms..=most_ms` longer.
    pub(crate) fn delay(
        &mut self,
        ranges: &[Extent],
        direction: Direction,
        (least_ms, most_ms): (u64, u64),
    ) -> Result<()> {
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
    fn new(device: &Path, directory: &Path, kind: FileSystem, options: &str) -> Result<Self> {
        let options = std::ffi::CString::new(options)
            .map_err(|_| Error::Unusable("mount options with a NUL byte".to_owned()))?;
        let name = kind.name();
        rustix::mount::mount(device, directory, name, MountFlags::empty(), Some(options.as_c_str()))
            .map_err(Error::io(&format!("mount {name} on"), directory))?;
        let mounted = Self(directory.to_owned());
        // A Kafka log directory may hold nothing but partitions. XFS does not create this one.
        let lost_and_found = directory.join("lost+found");
        if lost_and_found.exists() {
            fs::remove_dir(&lost_and_found).map_err(Error::io("remove", &lost_and_found))?;
        }
        Ok(mounted)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = site::unmount(&self.0);
    }
}

/// Few inodes: making them takes as long as writing them does.
const EXT4: &[&str] = &["-q", "-F", "-b", "4096", "-N", "16384"];

/// The file system of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum FileSystem {
    /// ext4 with a journal of 64 MiB.
    Ext4,
    /// ext4 with a journal of 64 MiB and room for fast commits beside it (Linux 5.10).
    Ext4FastCommit,
    /// ext4 without a journal.
    Ext4WithoutJournal,
    /// XFS with the smallest log that mkfs.xfs makes: it fills soonest.
    Xfs,
    /// btrfs.
    Btrfs,
}

impl FileSystem {
    /// Its name for mount(2).
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 | Self::Ext4FastCommit | Self::Ext4WithoutJournal => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    fn make(self, device: &Path) -> Result<()> {
        // Initialised now rather than by a kernel thread later, whose writes would be in the measurements.
        let initialised = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
        let (all, own): (&[&str], &[&str]) = match self {
            Self::Ext4 => (EXT4, &["-J", "size=64", "-E", initialised]),
            Self::Ext4FastCommit => (EXT4, &["-O", "fast_commit", "-J", "size=64", "-E", initialised]),
            Self::Ext4WithoutJournal => (EXT4, &["-O", "^has_journal", "-E", "nodiscard,lazy_itable_init=0"]),
            Self::Xfs => (&["-q", "-f", "-K"], &["-l", journal::XFS_LOG]),
            Self::Btrfs => (&["-q", "-f", "-K"], &[]),
        };
        let mut command = Command::new(format!("mkfs.{}", self.name()));
        process::output(command.args(all).args(own).arg(device)).map(drop)
    }

    fn journal_extents(self, device: &Path) -> Result<Vec<Extent>> {
        match self {
            Self::Ext4 | Self::Ext4FastCommit => journal::journal_extents(device),
            Self::Ext4WithoutJournal | Self::Btrfs => Ok(Vec::new()),
            Self::Xfs => Ok(vec![journal::xfs_log(device)?]),
        }
    }
}

/// How long the kernel may take to release a detached device.
const DETACH_TIMEOUT: Duration = Duration::from_secs(30);

/// An attached loop device; dropping it detaches.
#[derive(Debug)]
struct LoopDevice {
    /// Such as `/dev/loop0`.
    path: PathBuf,
}

impl LoopDevice {
    /// Attaches the first free loop device to `file`. Uses direct I/O, so that requests go to the file concurrently:
    /// buffered, the loop driver's only worker would make all wait for a delayed one.
    fn attach(file: &Path) -> Result<Self> {
        let mut command = Command::new("losetup");
        let output = process::output(command.args(["--find", "--show", "--direct-io=on"]).arg(file))?;
        let path = output.lines().map(str::trim).find(|line| line.starts_with("/dev/loop"));
        let path = path.ok_or_else(|| Error::Tool { tool: "losetup".to_owned(), output: output.clone() })?;
        Ok(Self { path: PathBuf::from(path) })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = detach(&self.path);
    }
}

/// Detaches `device` and waits until the kernel has released its file.
pub(crate) fn detach(device: &Path) -> Result<()> {
    process::output(Command::new("losetup").arg("--detach").arg(device))?;
    poll(DETACH_TIMEOUT, || backing_file(device).is_none());
    Ok(())
}

/// The loop devices whose file is below `site`.
pub(crate) fn loops_beneath(site: &Path) -> Vec<PathBuf> {
    let Ok(listing) = fs::read_dir("/sys/block") else { return Vec::new() };
    let names = listing.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let devices = names.filter(|name| name.starts_with("loop")).map(|name| Path::new("/dev").join(name));
    devices.filter(|device| backing_file(device).is_some_and(|file| file.starts_with(site))).collect()
}

fn backing_file(device: &Path) -> Option<PathBuf> {
    let name = device.file_name()?;
    let file = Path::new("/sys/block").join(name).join("loop/backing_file");
    fs::read_to_string(file).ok().map(|path| PathBuf::from(path.trim_end()))
}

/// A limit on a device's dirty pages; lifted when dropped.
#[derive(Debug)]
pub struct DirtyLimit(PathBuf);

impl DirtyLimit {
    /// Limits device `major:minor` to this many bytes.
    pub fn set(device: (u32, u32), bytes: u64) -> Result<Self> {
        let this = Self(path(device));
        this.write("strict_limit", "1")?;
        this.write("max_bytes", &bytes.to_string())?;
        Ok(this)
    }

    /// Lifts a limit that a killed lab left on the loop device. Does nothing if this kernel has no such limits.
    fn lift(device: (u32, u32)) {
        drop(Self(path(device)));
    }

    fn write(&self, file: &str, value: &str) -> Result<()> {
        files::write(&self.0.join(file), value)
    }
}

impl Drop for DirtyLimit {
    fn drop(&mut self) {
        // Fails if the device is gone; otherwise the next use of it reports why.
        let _ = self.write("strict_limit", "0");
        let _ = self.write("max_ratio", "100");
    }
}

fn path((major, minor): (u32, u32)) -> PathBuf {
    PathBuf::from(format!("/sys/class/bdi/{major}:{minor}"))
}
