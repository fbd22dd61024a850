//! The device's server process: mounts the image, reports `ready`, and obeys orders on stdin until it is unmounted. It
//! goes on when stdin closes: then its lab was killed, and the cleanup needs it to unmount properly.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use fuser::consts::{FOPEN_DIRECT_IO, FUSE_ASYNC_DIO};
use fuser::{
    FileAttr, FileType, Filesystem, KernelConfig, MountOption, ReplyAttr, ReplyData, ReplyEmpty, ReplyEntry,
    ReplyOpen, ReplyWrite, Request, Session,
};
use serde_json::json;

use super::delay::{DelayLine, Delays, Direction};
use super::{Answer, DeviceOperation, Order};
use crate::client::now_ns;
use crate::error::{Error, Result};

/// Length limit of an order.
const MAX_LINE_BYTES: u64 = 4096;

/// Arguments of the hidden `lab device` command.
#[derive(Clone, Debug, clap::Args)]
pub struct ServeArguments {
    /// File that holds the device's bytes; its size is the device's.
    #[arg(long)]
    pub image: PathBuf,
    /// Empty directory to mount on; the device is the file `image` in it.
    #[arg(long)]
    pub mount: PathBuf,
    /// Seed of the delays' chance.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Serves until the file system is unmounted.
///
/// # Errors
/// [`Error::Io`] if the image cannot be opened or FUSE is not available.
pub fn serve(arguments: &ServeArguments) -> Result<()> {
    let path = &arguments.image;
    let backing = OpenOptions::new().read(true).write(true).open(path).map_err(Error::io("open", path))?;
    let size = backing.metadata().map_err(Error::io("look at", path))?.len();
    let (delays, trace) = (Delays::new(arguments.seed), VecDeque::new());
    let steering = Steering { started: Instant::now(), delays, trace, log: None };
    let steering = Arc::new(Mutex::new(steering));
    let image = Image { backing, size, steering: Arc::clone(&steering), line: DelayLine::start() };
    let options = [MountOption::FSName("brokerscope-lab".to_owned()), MountOption::NoAtime];
    let mut session = Session::new(image, &arguments.mount, &options)
        .map_err(Error::io("mount a FUSE file system on", &arguments.mount))?;
    answer(&Answer::Ready);
    thread::spawn(move || obey(&steering));
    session.run().map_err(Error::io("serve", &arguments.mount))
}

fn obey(steering: &Mutex<Steering>) {
    let mut input = std::io::stdin().lock();
    let mut line = String::new();
    loop {
        line.clear();
        if let Ok(0) | Err(_) = input.by_ref().take(MAX_LINE_BYTES).read_line(&mut line) {
            return;
        }
        answer(&match serde_json::from_str(&line) {
            Ok(order) => match lock(steering).carry_out(order) {
                Ok(served) => Answer::Done(served),
                Err(error) => Answer::Refused(error.to_string()),
            },
            Err(error) => Answer::Refused(error.to_string()),
        });
    }
}

/// Ignores errors: the lab may be gone.
fn answer(answer: &Answer) {
    let mut output = std::io::stdout().lock();
    let _ = writeln!(output, "{}", json!(answer)).and_then(|()| output.flush());
}

/// The file's name in the mounted directory.
pub(crate) const NAME: &str = "image";
const ROOT: u64 = fuser::FUSE_ROOT_ID;
const IMAGE: u64 = 2;
/// Attributes never change, so the kernel may cache them.
const KEEP: Duration = Duration::from_secs(3600);
/// Enough for a loop device's whole queue: a delayed write must not keep others from being sent.
const BACKGROUND: u16 = 256;
/// Maximum number of operations in the trace.
const MAX_TRACE_OPERATIONS: usize = 65_536;

/// State shared by the file system and the thread that obeys orders.
struct Steering {
    started: Instant,
    delays: Delays,
    trace: VecDeque<DeviceOperation>,
    /// Receives all writes.
    log: Option<File>,
}

fn lock(steering: &Mutex<Steering>) -> MutexGuard<'_, Steering> {
    steering.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Steering {
    /// Carries out an order; returns the trace if that was the order.
    fn carry_out(&mut self, order: Order) -> std::io::Result<Vec<DeviceOperation>> {
        match order {
            Order::Clear => (self.delays.rules, self.delays.pace) = (Vec::new(), None),
            Order::Pace(pace) => (self.delays.pace, self.delays.busy_until_us) = (Some(pace), 0),
            Order::Delay(rule) => self.delays.rules.push(rule),
            Order::Trace => return Ok(std::mem::take(&mut self.trace).into()),
            Order::Log(path) => self.log = Some(File::create(path)?),
        }
        Ok(Vec::new())
    }

    fn log(&mut self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        let now_ns = now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64;
        let head = [now_ns, offset, data.len() as u64].map(u64::to_le_bytes);
        log.write_all(&head.concat())?;
        log.write_all(data)
    }

    fn hold(&mut self, direction: Direction, offset: u64, length: u64) -> Duration {
        let now_us = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let hold = self.delays.hold(direction, offset, length, now_us);
        let held_ms = u64::try_from(hold.as_millis()).unwrap_or(u64::MAX);
        if self.trace.len() == MAX_TRACE_OPERATIONS {
            self.trace.pop_front();
        }
        self.trace.push_back(DeviceOperation { direction, offset, length, start_ns: now_ns(), held_ms });
        hold
    }
}

/// The file system over one backing file.
struct Image {
    backing: File,
    size: u64,
    steering: Arc<Mutex<Steering>>,
    line: DelayLine,
}

impl Image {
    fn attributes(&self, inode: u64) -> Option<FileAttr> {
        let (kind, perm, size) = match inode {
            ROOT => (FileType::Directory, 0o700, 0),
            IMAGE => (FileType::RegularFile, 0o600, self.size),
            _ => return None,
        };
        Some(FileAttr {
            ino: inode,
            size,
            blocks: size.div_ceil(512),
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    /// The bytes from `offset` on that lie within the file.
    fn content(&self, offset: u64, length: u32) -> std::io::Result<Vec<u8>> {
        let within = self.size.saturating_sub(offset).min(u64::from(length));
        let mut bytes = vec![0; within as usize];
        self.backing.read_exact_at(&mut bytes, offset)?;
        Ok(bytes)
    }
}

impl Filesystem for Image {
    fn init(&mut self, _: &Request<'_>, config: &mut KernelConfig) -> Result<(), libc::c_int> {
        // A kernel without asynchronous direct I/O still serves, one operation after the other.
        let _ = config.add_capabilities(FUSE_ASYNC_DIO);
        let _ = config.set_max_background(BACKGROUND);
        Ok(())
    }

    fn lookup(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEntry) {
        match self.attributes(IMAGE).filter(|_| parent == ROOT && name == NAME) {
            Some(attributes) => reply.entry(&KEEP, &attributes, 0),
            None => reply.error(libc::ENOENT),
        }
    }

    fn getattr(&mut self, _: &Request<'_>, inode: u64, _: Option<u64>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Some(attributes) => reply.attr(&KEEP, &attributes),
            None => reply.error(libc::ENOENT),
        }
    }

    fn open(&mut self, _: &Request<'_>, _: u64, _: i32, reply: ReplyOpen) {
        // Bypasses the page cache: every operation of the loop device must reach this server.
        reply.opened(0, FOPEN_DIRECT_IO);
    }

    fn read(
        &mut self,
        _: &Request<'_>,
        _: u64,
        _: u64,
        offset: i64,
        size: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyData,
    ) {
        let Ok(offset) = u64::try_from(offset) else { return reply.error(libc::EINVAL) };
        let hold = lock(&self.steering).hold(Direction::Read, offset, u64::from(size));
        let answer = self.content(offset, size);
        self.line.after(hold, move || match answer {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error.raw_os_error().unwrap_or(libc::EIO)),
        });
    }

    fn write(
        &mut self,
        _: &Request<'_>,
        _: u64,
        _: u64,
        offset: i64,
        data: &[u8],
        _: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyWrite,
    ) {
        let Ok(offset) = u64::try_from(offset) else { return reply.error(libc::EINVAL) };
        let length = data.len() as u64;
        if offset.saturating_add(length) > self.size {
            return reply.error(libc::ENOSPC);
        }
        let hold = lock(&self.steering).hold(Direction::Write, offset, length);
        let logged = lock(&self.steering).log(offset, data);
        let answer = logged.and_then(|()| self.backing.write_all_at(data, offset));
        self.line.after(hold, move || match answer {
            Ok(()) => reply.written(length as u32),
            Err(error) => reply.error(error.raw_os_error().unwrap_or(libc::EIO)),
        });
    }

    fn flush(&mut self, _: &Request<'_>, _: u64, _: u64, _: u64, reply: ReplyEmpty) {
        reply.ok();
    }

    fn fsync(&mut self, _: &Request<'_>, _: u64, _: u64, _: bool, reply: ReplyEmpty) {
        // The image outlives no experiment: the time of the answer matters, not durability.
        reply.ok();
    }
}
