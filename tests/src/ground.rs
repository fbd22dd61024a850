//! A file system to inject faults in: a journaled ext4 on a loop device on a device with injected latency
//! (`lab`'s), and a directory elsewhere for what the tests write themselves.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use lab::Site;
use lab::device::{Delay, DeviceOptions, Direction};
use lab::volume::{DirtyLimit, FileSystem, Volume, VolumeOptions};

use crate::first::ahead;
use crate::traffic;

/// Size of the sparse image.
const SIZE_BYTES: u64 = 1 << 30;

/// The file system; unmounted when dropped.
#[derive(Debug)]
pub struct Ground {
    volume: Volume,
    // Dropped after the volume.
    _site: Site,
    directory: PathBuf,
}

impl Ground {
    /// Creates one, with these mount options.
    ///
    /// # Panics
    /// If that is not permitted.
    pub fn prepare(name: &str, mount_options: &str) -> Self {
        let site = Site::claim().unwrap_or_else(|error| panic!("{error}"));
        let device = DeviceOptions { size_bytes: SIZE_BYTES, seed: 1 };
        let options =
            VolumeOptions { device, file_system: FileSystem::Ext4, mount_options: mount_options.to_owned() };
        // Starts its server with priority: the device must be exactly as slow as is injected.
        let volume = ahead(|| Volume::prepare(&site, &options)).unwrap_or_else(|error| panic!("{error}"));
        Self { volume, _site: site, directory: traffic::directory(name) }
    }

    /// The root of the file system.
    pub fn path(&self) -> &Path {
        self.volume.directory()
    }

    /// A directory on another file system, for recordings and the like; it stays after the test.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The loop device's name, such as `loop0`.
    ///
    /// # Panics
    /// Never: it has one.
    pub fn device(&self) -> String {
        self.volume.loop_device().file_name().unwrap().to_string_lossy().into_owned()
    }

    /// The loop device's number.
    ///
    /// # Panics
    /// If the mount is gone.
    pub fn device_number(&self) -> (u32, u32) {
        self.volume.device_number().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Delays everything on the device in one direction by this much. That includes the journal.
    ///
    /// # Panics
    /// If the device is gone.
    pub fn delay(&mut self, direction: Direction, ms: u64) {
        let everywhere = (0, u64::MAX);
        let (offset, length) = everywhere;
        let delay = Delay { direction, offset, length, least_ms: ms, most_ms: ms };
        self.volume.device().delay(delay).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Delays only writes to the journal by this much.
    ///
    /// # Panics
    /// If the device is gone.
    pub fn delay_journal(&mut self, ms: u64) {
        self.volume.inject_journal_delay(ms, ms).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Delays everything in one direction except the journal by this much.
    ///
    /// # Panics
    /// If the device is gone.
    pub fn delay_all_but_the_journal(&mut self, direction: Direction, ms: u64) {
        self.volume.inject_data_delay(direction, ms).unwrap_or_else(|error| panic!("{error}"));
    }

    /// The times in which a write was delayed, in UTC nanoseconds. Covers the newest operations since the last call.
    ///
    /// # Panics
    /// If the device is gone.
    pub fn delayed_writes(&mut self) -> Vec<Range<i64>> {
        let served = self.volume.device().trace().unwrap_or_else(|error| panic!("{error}"));
        let delayed =
            served.into_iter().filter(|served| served.direction == Direction::Write && served.held_ms > 0);
        delayed.map(|served| served.start_ns..served.start_ns + served.held_ms as i64 * 1_000_000).collect()
    }

    /// Removes all delays.
    ///
    /// # Panics
    /// If the device is gone.
    pub fn clear(&mut self) {
        self.volume.device().clear().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Limits the dirty pages of this device alone (Linux 6.2). Threads that write more must pause.
    ///
    /// # Panics
    /// If the kernel cannot.
    pub fn limit_dirty_bytes(&self, bytes: u64) -> DirtyLimit {
        DirtyLimit::set(self.device_number(), bytes).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A memory cgroup (of version 1) with a limit; removed when dropped, once it is empty.
#[derive(Debug)]
pub struct MemoryLimit(PathBuf);

impl MemoryLimit {
    /// Creates one with a limit in bytes, including the page cache.
    ///
    /// # Panics
    /// If that is not permitted.
    pub fn new(bytes: u64) -> Self {
        let name = format!("brokerscope-test-{}", std::process::id());
        let path = Path::new("/sys/fs/cgroup/memory").join(name);
        fs::create_dir_all(&path).expect("a memory cgroup of version 1");
        let this = Self(path);
        fs::write(this.0.join("memory.limit_in_bytes"), bytes.to_string()).unwrap();
        this
    }

    /// Moves a process into it. Memory it already has stays charged elsewhere.
    ///
    /// # Panics
    /// If that is not permitted.
    pub fn put(&self, pid: u32) {
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).unwrap();
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            eprintln!("{} stays: {error}", self.0.display());
        }
    }
}

/// A limit on writes to a device; removed when dropped. It is in the root group of cgroup v1, so that it applies to
/// write-back too.
#[derive(Debug)]
pub struct WriteLimit(String);

impl WriteLimit {
    const FILE: &str = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";

    /// Limits a device to this many bytes per second.
    ///
    /// # Panics
    /// If that is not permitted.
    pub fn new(major: u32, minor: u32, bytes_per_second: u64) -> Self {
        let device = format!("{major}:{minor}");
        fs::write(Self::FILE, format!("{device} {bytes_per_second}")).expect("a blkio cgroup of version 1");
        Self(device)
    }
}

impl Drop for WriteLimit {
    fn drop(&mut self) {
        if let Err(error) = fs::write(Self::FILE, format!("{} 0", self.0)) {
            eprintln!("the limit on {} stays: {error}", self.0);
        }
    }
}
