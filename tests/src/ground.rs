//! A file system to inject faults in: a journaled ext4 on a loop device on a device with injected latency
//! (`lab`'s), and a directory elsewhere for what the tests write themselves.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use lab::Site;
use lab::device::{Delay, DeviceOptions, Direction};
use lab::volume::{Extent, FileSystem, Volume, VolumeOptions};

use crate::first::ahead;
use crate::traffic;

/// Sparse.
const SIZE_BYTES: u64 = 1 << 30;

/// The file system; unmounted when dropped.
#[derive(Debug)]
pub struct Ground {
    volume: Volume,
    // Dropped after it.
    _site: Site,
    directory: PathBuf,
}

impl Ground {
    /// Makes one, with these mount options.
    ///
    /// # Panics
    /// Where that is not permitted.
    pub fn prepare(name: &str, mount_options: &str) -> Self {
        let site = Site::claim().unwrap_or_else(|error| panic!("{error}"));
        let device = DeviceOptions { size_bytes: SIZE_BYTES, seed: 1 };
        let options =
            VolumeOptions { device, file_system: FileSystem::Ext4, mount_options: mount_options.to_owned() };
        // Its server: a device is to be as quick as is injected.
        let volume = ahead(|| Volume::prepare(&site, &options)).unwrap_or_else(|error| panic!("{error}"));
        let this = Self { volume, _site: site, directory: traffic::directory(name) };
        // A loop device keeps the limits of what it stood for before: those of a killed test.
        drop(DirtyLimit(this.bdi()));
        this
    }

    fn bdi(&self) -> PathBuf {
        let (major, minor) = self.device_number();
        PathBuf::from(format!("/sys/class/bdi/{major}:{minor}"))
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
    /// Where the mount is gone.
    pub fn device_number(&self) -> (u32, u32) {
        let device = fs::metadata(self.path()).unwrap().dev();
        (rustix::fs::major(device), rustix::fs::minor(device))
    }

    /// Makes everything on the device of one direction take this much longer, the journal as well.
    ///
    /// # Panics
    /// Where the device is gone.
    pub fn delay(&mut self, direction: Direction, ms: u64) {
        let everywhere = (0, u64::MAX);
        let (offset, length) = everywhere;
        let delay = Delay { direction, offset, length, least_ms: ms, most_ms: ms };
        self.volume.device().delay(delay).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Makes writes into the journal take this much longer, and nothing else.
    ///
    /// # Panics
    /// Where the device is gone.
    pub fn delay_journal(&mut self, ms: u64) {
        self.volume.inject_journal_delay(ms, ms).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Makes everything of one direction but the journal take this much longer.
    ///
    /// # Panics
    /// Where the device is gone.
    pub fn delay_all_but_the_journal(&mut self, direction: Direction, ms: u64) {
        let mut from = 0;
        let mut journal = self.volume.journal().to_vec();
        journal.sort_by_key(|extent| extent.offset);
        // A device has no bytes there, so this range is the last.
        journal.push(Extent { offset: SIZE_BYTES, length: 0 });
        for Extent { offset, length } in journal {
            let range = (from, offset - from);
            if range.1 > 0 {
                let (offset, length) = range;
                let delay = Delay { direction, offset, length, least_ms: ms, most_ms: ms };
                self.volume.device().delay(delay).unwrap_or_else(|error| panic!("{error}"));
            }
            from = offset + length;
        }
    }

    /// Takes all delays back.
    ///
    /// # Panics
    /// Where the device is gone.
    pub fn clear(&mut self) {
        self.volume.device().clear().unwrap_or_else(|error| panic!("{error}"));
    }

    /// Limits the dirty pages of this device alone (Linux 6.2), so that who writes more has to pause.
    ///
    /// # Panics
    /// Where the kernel cannot.
    pub fn limit_dirty_bytes(&self, bytes: u64) -> DirtyLimit {
        DirtyLimit::new(self.bdi(), bytes)
    }
}

/// A limit on a device's dirty pages. Loop devices outlive what they stand for, and their limits do: lifted when
/// dropped.
#[derive(Debug)]
pub struct DirtyLimit(PathBuf);

impl DirtyLimit {
    fn new(bdi: PathBuf, bytes: u64) -> Self {
        let this = Self(bdi);
        fs::write(this.0.join("strict_limit"), "1").unwrap();
        fs::write(this.0.join("max_bytes"), bytes.to_string()).unwrap();
        this
    }
}

impl Drop for DirtyLimit {
    fn drop(&mut self) {
        for (file, value) in [("strict_limit", "0"), ("max_ratio", "100")] {
            if let Err(error) = fs::write(self.0.join(file), value) {
                eprintln!("the limit of {} stays: {error}", self.0.display());
            }
        }
    }
}

/// A memory cgroup (of version 1) with a limit; removed when dropped, when nobody is in it any more.
#[derive(Debug)]
pub struct MemoryLimit(PathBuf);

impl MemoryLimit {
    /// Makes one that may have so many bytes, page cache included.
    ///
    /// # Panics
    /// Where that is not permitted.
    pub fn new(bytes: u64) -> Self {
        let name = format!("brokerscope-test-{}", std::process::id());
        let path = Path::new("/sys/fs/cgroup/memory").join(name);
        fs::create_dir_all(&path).expect("a memory cgroup of version 1");
        let this = Self(path);
        fs::write(this.0.join("memory.limit_in_bytes"), bytes.to_string()).unwrap();
        this
    }

    /// Puts a process in it. What it has already counts elsewhere.
    ///
    /// # Panics
    /// Where that is not permitted.
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

/// A limit on what is written to a device (cgroup v1, the root group, so that it holds for write-back too); lifted
/// when dropped.
#[derive(Debug)]
pub struct WriteLimit(String);

impl WriteLimit {
    const FILE: &str = "/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device";

    /// Limits a device to so many bytes a second.
    ///
    /// # Panics
    /// Where that is not permitted.
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
