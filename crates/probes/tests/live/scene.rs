//! A file system for the live tests, on a loop device. It is in a mount namespace of this thread, so that even a killed
//! test leaves neither mount nor device behind.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// A mounted file system, unmounted on drop.
pub(crate) struct FileSystem {
    mount: PathBuf,
    image: PathBuf,
    _directory: TempDir,
}

/// How to make and mount a file system.
#[derive(Clone, Copy)]
pub(crate) struct Making<'a> {
    pub(crate) kind: &'a str,
    /// Arguments of `mkfs`.
    pub(crate) arguments: &'a [&'a str],
    pub(crate) bytes: u64,
    /// Options of `mount`.
    pub(crate) options: &'a str,
}

/// A journaled ext4.
pub(crate) const EXT4: Making<'static> =
    Making { kind: "ext4", arguments: &["-q", "-F", "-O", "has_journal"], bytes: 64 << 20, options: "loop" };

impl FileSystem {
    /// A journaled ext4.
    pub(crate) fn new() -> Self {
        Self::make(EXT4)
    }

    /// Makes another file system on another image.
    pub(crate) fn make(making: Making<'_>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let image = directory.path().join("image");
        Self::on(image, directory, making)
    }

    /// Makes a file system on a file of this one: what delays this one delays that device.
    pub(crate) fn inside(&self, making: Making<'_>) -> Self {
        let image = self.path().join(format!("{}.image", making.kind));
        Self::on(image, tempfile::tempdir().unwrap(), making)
    }

    fn on(image: PathBuf, directory: TempDir, making: Making<'_>) -> Self {
        unshare_mounts();
        let mount = directory.path().join("mount");
        fs::create_dir(&mount).unwrap();
        let Making { kind, arguments, bytes, options } = making;
        File::create(&image).unwrap().set_len(bytes).unwrap();
        run(Command::new(format!("mkfs.{kind}")).args(arguments).arg(&image));
        run(Command::new("mount").args(["-t", kind, "-o", options]).arg(&image).arg(&mount));
        Self { mount, image, _directory: directory }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.mount
    }

    /// Device number in the kernel and in `stat` (btrfs shows another).
    pub(crate) fn device(&self) -> (u32, u32) {
        let device = fs::metadata(&self.mount).unwrap().dev();
        (libc::major(device), libc::minor(device))
    }

    /// Writes the image to the disk below the loop device. On tmpfs there is no disk.
    pub(crate) fn sync_image(&self) {
        File::open(&self.image).unwrap().sync_all().unwrap();
    }

    /// Whether this kernel can limit the dirty pages of one device.
    pub(crate) fn limit_dirty_bytes(&self, bytes: u64) -> bool {
        let bdi = self.bdi();
        if !bdi.join("max_bytes").exists() {
            return false;
        }
        fs::write(bdi.join("strict_limit"), "1").unwrap();
        fs::write(bdi.join("max_bytes"), bytes.to_string()).unwrap();
        true
    }

    fn bdi(&self) -> PathBuf {
        let (major, minor) = self.device();
        PathBuf::from(format!("/sys/class/bdi/{major}:{minor}"))
    }
}

/// Makes this thread's later mounts private; they end with the thread.
pub(crate) fn unshare_mounts() {
    // SAFETY: the call takes a number only.
    assert_eq!(unsafe { libc::unshare(libc::CLONE_NEWNS) }, 0, "{}", io::Error::last_os_error());
    run(Command::new("mount").args(["--make-rprivate", "/"]));
}

impl Drop for FileSystem {
    fn drop(&mut self) {
        // A loop device outlives the file system on it, and so would its limit.
        for (file, value) in [("strict_limit", "0"), ("max_ratio", "100")] {
            let _ = fs::write(self.bdi().join(file), value);
        }
        let result = Command::new("umount").arg(&self.mount).status();
        if !result.is_ok_and(|status| status.success()) {
            eprintln!("could not unmount {}", self.mount.display());
        }
    }
}

fn run(command: &mut Command) {
    let status = command.status().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(status.success(), "{command:?}: {status}");
}

/// `include/uapi/linux/fs.h`.
const FIFREEZE: libc::c_ulong = 0xc004_5877;
const FITHAW: libc::c_ulong = 0xc004_5878;

/// A frozen file system, thawed on drop.
pub(crate) struct Freeze(File);

impl Freeze {
    pub(crate) fn new(file_system: &FileSystem) -> Self {
        Self::attempt(file_system).unwrap()
    }

    /// Fails if the kernel refuses it, for example because it is already frozen.
    pub(crate) fn attempt(file_system: &FileSystem) -> io::Result<Self> {
        let root = File::open(file_system.path())?;
        // SAFETY: the request's argument is ignored.
        let result = unsafe { libc::ioctl(root.as_raw_fd(), FIFREEZE as _, 0) };
        if result == 0 { Ok(Self(root)) } else { Err(io::Error::last_os_error()) }
    }
}

impl Drop for Freeze {
    fn drop(&mut self) {
        // SAFETY: the request's argument is ignored.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), FITHAW as _, 0) };
        if result != 0 {
            eprintln!("could not thaw: {}", io::Error::last_os_error());
        }
    }
}

/// A mapped, clean file of one page: the next store into it notifies the file system.
pub(crate) struct MappedFile(*mut u8);

// SAFETY: the mapping belongs to this value alone.
unsafe impl Send for MappedFile {}

impl MappedFile {
    pub(crate) fn new(path: &Path) -> Self {
        fs::write(path, [0; 4096]).unwrap();
        let file = File::options().read(true).write(true).open(path).unwrap();
        file.sync_all().unwrap();
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let (whole, shared) = (4096, libc::MAP_SHARED);
        // SAFETY: a new mapping of a file of that length, at an address of the kernel's choice.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), whole, access, shared, file.as_raw_fd(), 0) };
        assert_ne!(at, libc::MAP_FAILED, "{}", io::Error::last_os_error());
        Self(at.cast())
    }

    pub(crate) fn store(&mut self, byte: u8) {
        // SAFETY: the mapping has 4096 bytes and lives as long as this value.
        unsafe { self.0.write_volatile(byte) }
    }

    /// Writes the page to the device.
    pub(crate) fn sync(&mut self) {
        // SAFETY: the mapping has 4096 bytes and lives as long as this value.
        assert_eq!(unsafe { libc::msync(self.0.cast(), 4096, libc::MS_SYNC) }, 0);
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        // SAFETY: this value made the mapping and is being dropped.
        unsafe { libc::munmap(self.0.cast(), 4096) };
    }
}

/// The clock of the probes.
pub(crate) fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes one timespec.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) }, 0);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

pub(crate) fn current_tid() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() as u32 }
}

/// Returns once the thread is in uninterruptible sleep.
pub(crate) fn wait_until_blocked(tid: u32) {
    let path = format!("/proc/self/task/{tid}/stat");
    let end = Instant::now() + Duration::from_secs(30);
    while Instant::now() < end {
        let stat = fs::read_to_string(&path).unwrap();
        if stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('D')) {
            return;
        }
        std::thread::yield_now();
    }
    panic!("thread {tid} does not block");
}
