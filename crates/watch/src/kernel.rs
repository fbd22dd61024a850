//! The kernel source of a watch: polls the probes and converts their events to the recording's.
//! The crate `probes` decides which hooks run. Not fuzzed: the head of a batch goes to `wire`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::{BatchHead, BlockIo, ClockOffset, Direction, Event, FileKind, FileOp, FileOpKind, LossKind, Pid};
use probes::Probes;
use probes::event::PathArguments;

use crate::cost::Part;
use crate::devices::Devices;
use crate::escalation::Share;
use crate::files::{Files, GivenFile};
use crate::mounts::Mounts;
use crate::queue::Batch;
use crate::source::{Feed, LossCount, Pace, Source, WatchSummary};
use crate::thread_names::NameReader;

/// The probes that are attached to one process.
pub(crate) struct KernelSource {
    pub(crate) probes: Probes,
    pub(crate) names: Names,
    pub(crate) share: Share,
}

/// Names and numbers that probes do not know.
pub(crate) struct Names {
    files: Files,
    devices: Devices,
    threads: NameReader,
}

impl Source for KernelSource {
    type Error = probes::Error;

    const NAME: &'static str = "probes";
    /// The longest delay until losses are counted and a stop is noticed.
    /// Applies if only rare events are watched. Otherwise the probes wait for a fifth of it: a reader that wakes up
    /// rarely handles more events at once, at a lower cost for each.
    const PACE: Pace = Pace::Blocking(Duration::from_secs(1));
    const PART: Option<Part> = Some(Part::Probes);

    fn poll(&mut self, feed: &Feed, timeout: Duration) -> Result<(), probes::Error> {
        let mut batch = Batch::of(&feed.sender);
        let polled = self.probes.poll(timeout, &mut |event| {
            let event = self.names.event(event, feed.clock);
            if self.share.has(&event) {
                batch.push(event);
            }
        });
        batch.send();
        polled
    }

    fn losses(&self) -> Vec<LossCount> {
        let losses = self.probes.losses();
        let dropped = LossKind::ProbeEventsDropped;
        vec![
            (dropped, "the probes' ring buffer was full", losses.ring_full),
            (dropped, "the kernel skipped a probe", losses.skipped),
            (dropped, "records could not be read", losses.undecodable),
            (dropped, "the file of an msync could not be seen", losses.mappings_unseen),
            (dropped, "a thread's time off the CPU was not seen", losses.switches_unseen),
            (LossKind::ProbeMapFull, "a probe's map was full", losses.map_full),
        ]
    }

    fn summarize(self, ended: Result<(), probes::Error>) -> WatchSummary {
        WatchSummary { kernel: ended.err(), ..WatchSummary::default() }
    }
}

impl Names {
    /// Creates names from a process's point of view.
    pub(crate) fn new(pid: Pid, log_dirs: &[PathBuf], threads: NameReader) -> Self {
        let mounts = Mounts::of(pid);
        Self { files: Files::new(mounts.clone(), log_dirs), devices: Devices::new(mounts), threads }
    }

    fn event(&mut self, event: probes::Event, clock: ClockOffset) -> Event {
        match event {
            probes::Event::FileOp(op) => self.file_op(op, clock).into(),
            probes::Event::BlockIo(io) => self.block_io(io, clock).into(),
            probes::Event::Row(mut event) => {
                self.complete(&mut event);
                event
            }
        }
    }

    /// Adds full names of threads, and names of devices.
    fn complete(&mut self, event: &mut Event) {
        match event {
            Event::OffCpu(interval) => {
                self.threads.complete(interval.tid, &mut interval.thread);
                if let Some(waker) = &mut interval.waker {
                    self.threads.complete(waker.tid, &mut waker.thread);
                }
            }
            Event::Reclaim(reclaim) => self.threads.complete(reclaim.tid, &mut reclaim.thread),
            Event::CpuGap(gap) => {
                if let Some(tid) = gap.tid {
                    self.threads.complete(tid, &mut gap.thread);
                }
            }
            Event::SocketOp(op) => self.threads.complete(op.tid, &mut op.thread),
            Event::KernelSpan(span) => {
                self.threads.complete(span.tid, &mut span.thread);
                if let Some(device) = &mut span.device {
                    *device = self.devices.device((device.major, device.minor));
                }
            }
            Event::JournalCommit(commit) => {
                commit.device = self.devices.device((commit.device.major, commit.device.minor));
            }
            _ => {}
        }
    }

    fn file_op(&mut self, op: probes::FileOp, clock: ClockOffset) -> FileOp {
        let (GivenFile { named, device, inode, fs }, renamed_to) = self.names_of(&op);
        let is_append = op.op == FileOpKind::Write && named.kind == FileKind::Log;
        let batch = if is_append { batch_head(op.head()) } else { None };
        let read = |bytes: Option<u64>| bytes.filter(|_| op.result > 0);
        FileOp {
            start: clock.from_monotonic(op.start_ns),
            end: clock.from_monotonic(op.end_ns),
            op: op.op,
            pid: op.pid,
            tid: op.tid,
            thread: self.threads.full(op.tid, op.comm),
            bytes: u64::try_from(op.result).ok().map(|result| if moves_bytes(op.op) { result } else { 0 }),
            errno: op.result.checked_neg().and_then(|code| i32::try_from(code).ok()).filter(|code| *code > 0),
            disk_bytes: read(op.disk_bytes).map(|bytes| bytes.min(op.result.unsigned_abs())),
            readahead_bytes: read(op.readahead_bytes),
            offset: op.offset,
            file: named.file,
            renamed_to,
            topic_partition: named.topic_partition,
            kind: named.kind,
            device: self.devices.device(device),
            inode,
            fs,
            batch,
            journal_transaction: op.journal_transaction,
        }
    }

    /// The file of an operation, and its name afterwards.
    fn names_of(&mut self, op: &probes::FileOp) -> (GivenFile, Option<Arc<str>>) {
        if let Some(arguments) = &op.path_arguments {
            return self.resolve_arguments(op, arguments);
        }
        let named = match &op.path {
            Some(path) => self.files.name(op.device, path, op.inode),
            None if op.op == FileOpKind::MmapFault => self.files.mapped(op.device, op.inode),
            None => Files::nameless(op.inode),
        };
        (GivenFile { named, device: op.device, inode: op.inode, fs: Arc::clone(&op.fs) }, None)
    }

    fn resolve_arguments(
        &mut self,
        op: &probes::FileOp,
        arguments: &PathArguments,
    ) -> (GivenFile, Option<Arc<str>>) {
        let found = self.files.resolve(&arguments.from);
        let renamed_to = arguments.to.as_ref().map(|to| self.files.resolve(to).named.file);
        match (&arguments.to, op.op) {
            _ if op.result != 0 => {}
            (Some(to), FileOpKind::Rename) if arguments.exchange => {
                self.files.record_exchange(&arguments.from, to);
            }
            (to, FileOpKind::Rename | FileOpKind::Unlink) => {
                self.files.record_move(&arguments.from, to.as_ref());
            }
            _ => {}
        }
        (found, renamed_to)
    }

    fn block_io(&mut self, io: probes::BlockIo, clock: ClockOffset) -> BlockIo {
        let path = io.file.as_ref().and_then(|file| Some((file, file.path.as_ref()?)));
        let named = path.map(|(file, path)| self.files.name(file.device, path, file.inode));
        BlockIo {
            queued: io.queued_ns.map(|queued| clock.from_monotonic(queued)),
            start: clock.from_monotonic(io.start_ns),
            end: clock.from_monotonic(io.end_ns),
            device: self.devices.partition_at(io.device, io.sector),
            direction: direction(&io.rwbs),
            sector: io.sector,
            bytes: io.bytes,
            tid: io.tid,
            thread: self.threads.full(io.tid, io.comm),
            flags: io.rwbs,
            inode: io.file.map(|file| file.inode),
            file: named.map(|named| named.file),
        }
    }
}

fn moves_bytes(op: FileOpKind) -> bool {
    use FileOpKind::{Copy, MmapFault, Read, Sendfile, Splice, Write};
    matches!(op, Write | Read | Sendfile | Splice | Copy | MmapFault)
}

/// Parses the batch at the start of a write to a segment.
fn batch_head(head: &[u8]) -> Option<BatchHead> {
    wire::BatchHeader::parse(head).ok().as_ref().map(head_of)
}

/// Converts a batch's header to the fields that are kept.
pub(crate) fn head_of(batch: &wire::BatchHeader) -> BatchHead {
    BatchHead {
        base_offset: batch.base_offset,
        bytes: batch.length_bytes,
        magic: batch.magic,
        crc: batch.crc,
        producer_id: batch.producer_id,
        base_sequence: batch.base_sequence,
        records: batch.records().unwrap_or(0),
    }
}

/// Parses `rwbs` as written by `blk_fill_rwbs`.
/// A leading `F` is a preflush, followed by the operation (block/blk-core, kernel/trace/blktrace.c).
fn direction(rwbs: &str) -> Direction {
    match rwbs.trim_start_matches('F').chars().next() {
        Some('W') => Direction::Write,
        Some('R') => Direction::Read,
        _ => Direction::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::direction;
    use model::Direction;

    #[test]
    fn parses_the_direction_of_block_requests() {
        for (rwbs, expected) in [
            ("W", Direction::Write),
            ("WS", Direction::Write),
            ("FWFS", Direction::Write),
            ("R", Direction::Read),
            ("RA", Direction::Read),
            ("FF", Direction::Other),
            ("D", Direction::Other),
            ("", Direction::Other),
        ] {
            assert_eq!(direction(rwbs), expected, "{rwbs}");
        }
    }
}
