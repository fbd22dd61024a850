//! The broker's operations on files: how long those took that go to its log dirs, by device, and what was read and written,
//! by kind of file. Does not say why any took long.

use model::{FileKind, FileOp, FileOpKind, Nanos};

use crate::catalog;
use crate::encoding::Encoder;
use crate::exporter::LogDir;
use crate::histogram::{Histogram, seconds};
use crate::label::{self, ByLabel};
use crate::peak::Peak;

/// Log dirs are on no more devices than this.
const MOST_DEVICES: usize = 64;
const OPS: usize = FileOpKind::ALL.len();
const KINDS: usize = FileKind::ALL.len();

/// What became of operations on files.
#[derive(Debug)]
pub(crate) struct Files {
    log_dirs: Vec<LogDir>,
    devices: ByLabel<OnDevice>,
    counts: [[u64; KINDS]; OPS],
    kinds: [Bytes; KINDS],
}

#[derive(Debug, Default)]
struct OnDevice {
    log_dir: Option<String>,
    write: Histogram,
    longest_write: Peak,
    fsync: Histogram,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bytes {
    read: u64,
    written: u64,
    from_disk: u64,
}

impl Files {
    /// With what is known of where log dirs are.
    pub(crate) fn of(log_dirs: Vec<LogDir>) -> Self {
        Self {
            log_dirs,
            devices: ByLabel::of_at_most(MOST_DEVICES),
            counts: [[0; KINDS]; OPS],
            kinds: [Bytes::default(); KINDS],
        }
    }

    pub(crate) fn op(&mut self, op: &FileOp) {
        self.count(op);
        // What is none of the broker's kinds is a file of its own logs, of its code, or anything.
        if op.kind == FileKind::Other {
            return;
        }
        match op.op {
            FileOpKind::Write => {
                let device = self.device(op);
                device.write.observe_time(op.latency());
                device.longest_write.add(op.latency(), op.end);
            }
            FileOpKind::Fsync | FileOpKind::Fdatasync | FileOpKind::Msync => {
                self.device(op).fsync.observe_time(op.latency());
            }
            _ => {}
        }
    }

    fn device(&mut self, op: &FileOp) -> &mut OnDevice {
        let Self { log_dirs, devices, .. } = self;
        let device = if op.device.name.is_empty() {
            devices.at(&op.device.to_string())
        } else {
            devices.at(&op.device.name)
        };
        device.log_dir.get_or_insert_with(|| log_dirs_on(log_dirs, op.device.number()));
        device
    }

    fn count(&mut self, op: &FileOp) {
        let (call, kind) = (op.op as usize, op.kind as usize);
        if let Some(count) = self.counts.get_mut(call).and_then(|kinds| kinds.get_mut(kind)) {
            *count += 1;
        }
        let Some(sums) = self.kinds.get_mut(kind) else { return };
        let bytes = op.bytes.unwrap_or(0);
        match op.op {
            FileOpKind::Write => sums.written += bytes,
            FileOpKind::Read
            | FileOpKind::Sendfile
            | FileOpKind::Splice
            | FileOpKind::Copy
            | FileOpKind::MmapFault => {
                sums.read += bytes;
                sums.from_disk += op.disk_bytes.unwrap_or(0);
            }
            _ => {}
        }
    }

    pub(crate) fn encode(&self, out: &mut dyn Encoder, now: Nanos) {
        out.family(&catalog::WRITE);
        self.devices.iter().for_each(|(name, device)| out.histogram(&device.labels(name), &device.write));
        out.family(&catalog::WRITE_MAX);
        for (name, device) in self.devices.iter() {
            let longest = device.longest_write.within_a_minute(now);
            out.number(&device.labels(name), seconds(longest), None);
        }
        out.family(&catalog::FSYNC);
        self.devices.iter().for_each(|(name, device)| out.histogram(&device.labels(name), &device.fsync));
        self.encode_counts(out);
    }

    fn encode_counts(&self, out: &mut dyn Encoder) {
        out.family(&catalog::FILE_OPS);
        for (op, kinds) in FileOpKind::ALL.into_iter().zip(&self.counts) {
            for (kind, count) in FileKind::ALL.into_iter().zip(kinds).filter(|(_, count)| **count > 0) {
                out.number(&[op.as_str(), kind.as_str()], *count as f64, None);
            }
        }
        let mut each = |family, bytes: fn(&Bytes) -> u64| {
            let kinds = FileKind::ALL.into_iter().zip(&self.kinds);
            out.each(family, kinds.map(|(kind, sums)| (kind.as_str(), bytes(sums) as f64)));
        };
        each(&catalog::FILE_READ, |sums| sums.read);
        each(&catalog::FILE_WRITTEN, |sums| sums.written);
        each(&catalog::FILE_DISK_READ, |sums| sums.from_disk);
    }
}

impl OnDevice {
    fn labels<'a>(&'a self, name: &'a str) -> [&'a str; 2] {
        [name, self.log_dir.as_deref().unwrap_or_default()]
    }
}

/// Those that are on a device.
fn log_dirs_on(log_dirs: &[LogDir], device: (u32, u32)) -> String {
    let paths = log_dirs.iter().filter(|dir| dir.device == device).map(|dir| label::clean(&dir.path));
    paths.map(|path| path.to_string()).collect::<Vec<_>>().join(",")
}
