//! Direct writes, one block request each, and a device that takes few of them.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::scene::{self, FileSystem};

/// Requests that the device takes at once: the minimum setting (`BLKDEV_MIN_RQ`, block/blk.h).
pub(crate) const DEPTH: usize = 4;
/// Bytes of one write.
pub(crate) const BYTES: u32 = 4096;

#[repr(align(4096))]
struct Block([u8; BYTES as usize]);

/// Sets the number of requests that a device takes at once; restored on drop, because loop devices are reused.
struct Depth {
    file: String,
    before: String,
}

impl Depth {
    fn of((major, minor): (u32, u32)) -> Self {
        let file = format!("/sys/dev/block/{major}:{minor}/queue/nr_requests");
        let before = fs::read_to_string(&file).unwrap();
        fs::write(&file, DEPTH.to_string()).unwrap();
        Self { file, before }
    }
}

impl Drop for Depth {
    fn drop(&mut self) {
        if let Err(error) = fs::write(&self.file, &self.before) {
            eprintln!("could not put back {}: {error}", self.file);
        }
    }
}

/// Files whose blocks are allocated, so that writing them changes nothing else.
pub(crate) struct Writers {
    files: Vec<File>,
    depth: Depth,
}

impl Writers {
    pub(crate) fn new(file_system: &FileSystem, count: usize) -> Self {
        let files = (0..count).map(|number| {
            let path = file_system.path().join(format!("direct-{number}"));
            fs::write(&path, [0; BYTES as usize]).unwrap();
            let file = OpenOptions::new().write(true).custom_flags(libc::O_DIRECT).open(path).unwrap();
            file.sync_all().unwrap();
            file
        });
        Self { files: files.collect(), depth: Depth::of(file_system.device()) }
    }

    /// Starts the writers; returns once all wait.
    pub(crate) fn start(self) -> Running {
        let (sender, receiver) = std::sync::mpsc::channel();
        let threads: Vec<_> = self
            .files
            .into_iter()
            .map(|file| {
                let sender = sender.clone();
                thread::spawn(move || {
                    sender.send(scene::current_tid()).unwrap();
                    let start = Instant::now();
                    file.write_all_at(&Block([1; BYTES as usize]).0, 0).unwrap();
                    start.elapsed()
                })
            })
            .collect();
        for _ in &threads {
            scene::wait_until_blocked(receiver.recv().unwrap());
        }
        Running { threads, _depth: self.depth }
    }
}

pub(crate) struct Running {
    threads: Vec<JoinHandle<Duration>>,
    _depth: Depth,
}

impl Running {
    /// Joins the writers; returns the longest duration.
    pub(crate) fn join(self) -> Duration {
        self.threads.into_iter().map(|thread| thread.join().unwrap()).max().unwrap()
    }
}

/// `include/uapi/linux/btrfs.h`
const BTRFS_IOC_START_SYNC: libc::c_ulong = 0x8008_9418;

/// Requests a commit by btrfs's own thread; does not wait for it.
pub(crate) fn ask_for_commit(file_system: &FileSystem) {
    let root = File::open(file_system.path()).unwrap();
    let mut transaction = 0_u64;
    // SAFETY: the request writes one number of 64 bits to its argument.
    let result = unsafe { libc::ioctl(root.as_raw_fd(), BTRFS_IOC_START_SYNC as _, &raw mut transaction) };
    assert_eq!(result, 0, "{}", io::Error::last_os_error());
}
