//! Converts the kernel's records to a recording's events. Unknown facts are left out, not guessed.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

use ahash::RandomState;
use libc::c_long;
use model::{
    ClockOffset, Event, FileKind, FileOp, FileOpKind, Nanos, OffCpu, Pid, ProcessStop, StopKind, Tid,
};
use probes::always_on::{Append, Connection, FileCall, Record, Request, SlowRequest, Wait, WaitKind};

use super::segments::{PartitionFile, Segments};
use super::slow::{Answer, Topics, WrittenPartition, row};
use crate::devices::Devices;
use crate::mounts::DeviceNumber;
use crate::thread_names::NameReader;

/// Names that records lack: of threads, files, devices and topics.
pub(super) struct Names {
    pub(super) pid: Pid,
    pub(super) threads: NameReader,
    /// The kernel's names (`comm`) of the threads in the current records.
    pub(super) comms: HashMap<Tid, Arc<str>, RandomState>,
    pub(super) devices: Devices,
    pub(super) segments: Segments,
    pub(super) topics: Topics,
    /// Appends that were delivered without their batch, by thread and time.
    /// They stay as long as they can still be read.
    pub(super) nameless: HashSet<(Tid, u64), RandomState>,
}

fn key(append: &Append) -> (Tid, u64) {
    (append.tid, append.first_ns)
}

/// System calls that write.
const WRITES: [c_long; 5] =
    [libc::SYS_write, libc::SYS_pwrite64, libc::SYS_writev, libc::SYS_pwritev, libc::SYS_pwritev2];

/// System calls that read, send or sync a file.
const FILE_CALLS: [(c_long, FileOpKind); 6] = [
    (libc::SYS_read, FileOpKind::Read),
    (libc::SYS_pread64, FileOpKind::Read),
    (libc::SYS_sendfile, FileOpKind::Sendfile),
    (libc::SYS_fsync, FileOpKind::Fsync),
    (libc::SYS_fdatasync, FileOpKind::Fdatasync),
    (libc::SYS_msync, FileOpKind::Msync),
];

/// Name parts of file-system functions that sync a file: `ext4_sync_file`, `xfs_file_fsync`.
const SYNC_FUNCTIONS: [&str; 2] = ["_sync_file", "_file_fsync"];

/// The writes in which threads waited: when the thread first left the CPU and last returned.
type Calls = HashMap<(Tid, u64), (u64, u64), RandomState>;

/// The records and slow requests of an interval.
pub(super) struct Report<'r> {
    /// All records of the interval.
    pub(super) records: &'r [Record],
    /// Records that ended within this time were not delivered yet.
    pub(super) fresh_ns: RangeInclusive<u64>,
    /// Slow requests to deliver now.
    pub(super) slow: &'r [SlowRequest],
    /// Slow requests to deliver later.
    pub(super) waiting: &'r [SlowRequest],
}

impl Names {
    /// Builds the events of an interval.
    /// Slow requests come with all details that were kept; others only with their records.
    pub(super) fn events(
        &mut self,
        report: &Report<'_>,
        connection: impl Fn(u32) -> Option<Connection>,
        clock: ClockOffset,
    ) -> Vec<Event> {
        self.comms.clear();
        // Includes waiting requests, because their writes are delivered now.
        let known = report.slow.iter().chain(report.waiting);
        let mut answers: Vec<Answer> = known.map(|slow| self.answer(slow)).collect();
        let calls = calls(report.records);
        let mut events: Vec<Event> = self.file_calls(report, clock).into_iter().map(Event::from).collect();
        for record in report.records {
            let is_fresh = report.fresh_ns.contains(&record.last_ns());
            match record {
                Record::Append(append) => {
                    let Some(op) = self.append(append, &calls, &mut answers, clock) else { continue };
                    // It was delivered without a batch before its request was known to be slow.
                    let is_named = op.batch.is_some() && self.nameless.remove(&key(append));
                    if !is_fresh && !is_named {
                        continue;
                    }
                    if op.batch.is_none() {
                        self.nameless.insert(key(append));
                    }
                    events.push(op.into());
                }
                Record::Wait(wait) if is_fresh && stop_kind(wait).is_none() => {
                    events.push(self.off_cpu(wait, clock).into());
                }
                Record::Request(request) if is_fresh => {
                    let mut slow = report.slow.iter().chain(report.waiting);
                    let is_slow = slow.any(|slow| is_of(&slow.request, request));
                    let ends = connection(request.connection).filter(|_| !is_slow);
                    events.extend(ends.and_then(|ends| row(request, &ends, clock)).map(Event::from));
                }
                _ => {}
            }
        }
        let fresh = report.records.iter().filter(|record| report.fresh_ns.contains(&record.last_ns()));
        events.extend(stops(fresh, self.pid, clock).into_iter().map(Event::from));
        let oldest_ns = report.records.first().map_or(0, Record::first_ns);
        self.nameless.retain(|(_, first_ns)| *first_ns >= oldest_ns);
        for (slow, answer) in report.slow.iter().zip(answers) {
            events.extend(self.slow_request(slow, answer, clock));
            events.extend(self.sendfiles(slow, report.records, clock));
        }
        events
    }

    /// Converts a write to a segment.
    /// It lasts from the first to the last time at which its thread was observed in it. The batch of a slow request is
    /// read back from the segment: the response's partition and offset say whether it is the request's.
    fn append(
        &mut self,
        append: &Append,
        calls: &Calls,
        answers: &mut [Answer],
        clock: ClockOffset,
    ) -> Option<FileOp> {
        let segment = self.segments.find(append.device, append.inode, Some(append.generation))?.clone();
        if segment.kind != FileKind::Log {
            return None;
        }
        let may_be = |entry: &&mut WrittenPartition| {
            entry.topic_partition.as_ref() == Some(&segment.topic_partition)
                && append.first_ns <= entry.last_ns
                && append.last_ns >= entry.first_ns
        };
        let written = answers.iter_mut().flat_map(|answer| &mut answer.written);
        let mut candidates = written.filter(may_be).peekable();
        let interval = append.write_call.and_then(|call| calls.get(&(append.tid, call)));
        // A write that waited belongs to a slow request, even if that has not ended yet.
        let needs_batch = candidates.peek().is_some() || interval.is_some();
        let batch = if needs_batch { segment.batch_at(append.position, append.length) } else { None };
        for entry in candidates {
            if let Some(batch) = batch.filter(|batch| Some(batch.base_offset) == entry.partition.base_offset)
            {
                entry.partition.bytes = batch.bytes;
                entry.partition.records = Some(batch.records).filter(|records| *records > 0);
            }
        }
        // A write has to take some time: one of length zero would have ended before it began.
        let (mut first, mut last) = (append.first_ns.min(append.last_ns.saturating_sub(1)), append.last_ns);
        if let Some((left, back)) = interval {
            (first, last) = (first.min(*left), last.max(*back));
        }
        let time = (clock.from_monotonic(first), clock.from_monotonic(last));
        let op = self.file_op(FileOpKind::Write, append.tid, time, (append.device, append.inode, segment));
        Some(FileOp { bytes: Some(append.length), offset: append.position, batch, ..op })
    }

    /// Creates a file operation with only these facts.
    fn file_op(
        &mut self,
        op: FileOpKind,
        tid: Tid,
        (start, end): (Nanos, Nanos),
        (device, inode, file): (DeviceNumber, u64, PartitionFile),
    ) -> FileOp {
        FileOp {
            start,
            end,
            op,
            pid: self.pid,
            tid,
            thread: self.thread(tid),
            bytes: None,
            errno: None,
            disk_bytes: None,
            readahead_bytes: None,
            offset: 0,
            file: file.name,
            renamed_to: None,
            topic_partition: Some(file.topic_partition),
            kind: file.kind,
            device: self.devices.device(device),
            inode,
            fs: Arc::default(),
            batch: None,
            journal_transaction: None,
        }
    }

    /// Reads and syncs of files in which threads waited: from the time when the thread first left the CPU to when it last
    /// returned.
    fn file_calls(&mut self, report: &Report<'_>, clock: ClockOffset) -> Vec<FileOp> {
        let mut calls: HashMap<(Tid, FileOpKind, FileCall), (u64, u64), RandomState> = HashMap::default();
        for record in report.records.iter().filter(|record| report.fresh_ns.contains(&record.last_ns())) {
            let Record::Wait(Wait {
                tid,
                first_ns,
                last_ns,
                file_call: Some(file),
                call: Some(call),
                stack,
                ..
            }) = record
            else {
                continue;
            };
            let Some((_, op)) = FILE_CALLS.iter().find(|(number, _)| *number == c_long::from(*call)) else {
                continue;
            };
            // Outside a file system's sync function, the thread waits for something else: the file would be an earlier sync's.
            if *op == FileOpKind::Msync && !SYNC_FUNCTIONS.iter().any(|function| stack.contains(function)) {
                continue;
            }
            let interval = calls.entry((*tid, *op, *file)).or_insert((*first_ns, *last_ns));
            *interval = (interval.0.min(*first_ns), interval.1.max(*last_ns));
        }
        let mut ops = Vec::new();
        for ((tid, op, FileCall { device, inode, .. }), (first, last)) in calls {
            let Some(file) = self.segments.find(device, inode, None).cloned() else { continue };
            let time = (clock.from_monotonic(first), clock.from_monotonic(last));
            ops.push(self.file_op(op, tid, time, (device, inode, file)));
        }
        ops
    }

    /// A thread's full name, or its `comm`; empty if the thread is gone.
    #[allow(clippy::disallowed_methods, reason = "/proc")]
    pub(super) fn thread(&mut self, tid: Tid) -> Arc<str> {
        let pid = self.pid;
        let comm = self.comms.entry(tid).or_insert_with(|| {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm"));
            comm.unwrap_or_default().trim_end().into()
        });
        self.threads.full(tid, Arc::clone(comm))
    }

    fn off_cpu(&mut self, wait: &Wait, clock: ClockOffset) -> OffCpu {
        let runnable = wait.kind == WaitKind::Runnable;
        // It was woken when it began to wait for a CPU.
        let woken = (!runnable && wait.queue_ns > 0).then(|| wait.last_ns.saturating_sub(wait.queue_ns));
        OffCpu {
            start: clock.from_monotonic(wait.first_ns),
            end: clock.from_monotonic(wait.last_ns),
            woken: woken.map(|woken| clock.from_monotonic(woken)),
            pid: self.pid,
            tid: wait.tid,
            thread: self.threads.full(wait.tid, Arc::clone(&wait.comm)),
            preempted: runnable,
            stack: Arc::clone(&wait.stack),
            waker: None,
        }
    }
}

/// Whether both records belong to the same request.
fn is_of(one: &Request, other: &Request) -> bool {
    one.connection == other.connection
        && one.correlation_id == other.correlation_id
        && one.arrival_ns == other.arrival_ns
}

/// Collects the writes in which threads waited.
fn calls(records: &[Record]) -> Calls {
    let mut calls = Calls::default();
    for record in records {
        let Record::Wait(wait) = record else { continue };
        let is_in_write = wait.call.is_some_and(|call| WRITES.contains(&call.into())) && !is_at_exit(wait);
        let Some(call) = wait.write_call.filter(|_| is_in_write) else {
            continue;
        };
        let interval = calls.entry((wait.tid, call)).or_insert((wait.first_ns, wait.last_ns));
        *interval = (interval.0.min(wait.first_ns), interval.1.max(wait.last_ns));
    }
    calls
}

/// What stopped the thread's process, if anything did.
fn stop_kind(wait: &Wait) -> Option<StopKind> {
    match wait.kind {
        WaitKind::Stopped => Some(StopKind::Signal),
        WaitKind::Frozen => Some(StopKind::Freezer),
        WaitKind::Runnable | WaitKind::Uninterruptible => None,
    }
}

/// Times in which the process was stopped, from records in order of their start.
/// Signals and freezers stop all threads, one after another: the process stood still from the stop of the first thread
/// until the first thread ran again.
fn stops<'r>(records: impl Iterator<Item = &'r Record>, pid: Pid, clock: ClockOffset) -> Vec<ProcessStop> {
    let mut stops: Vec<ProcessStop> = Vec::new();
    for record in records {
        let Record::Wait(wait) = record else { continue };
        let Some(kind) = stop_kind(wait) else { continue };
        let (start, end) = (clock.from_monotonic(wait.first_ns), clock.from_monotonic(wait.last_ns));
        if let Some(stop) = stops.last_mut().filter(|stop| stop.kind == kind && start < stop.end) {
            (stop.end, stop.threads) = (stop.end.min(end), stop.threads + 1);
        } else {
            stops.push(ProcessStop { start, end, pid, kind, by_tid: None, by: Arc::default(), threads: 1 });
        }
    }
    stops
}

/// Whether a thread slept on its way back to user space.
/// It may sleep there over its cgroup's memory limit, for example. The kernel has already counted the write that it
/// returns from, so the number is the next write's.
fn is_at_exit(wait: &Wait) -> bool {
    wait.stack.split(';').any(|function| function.contains("exit_to_user_mode"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    use super::*;
    use crate::mounts::{Mounts, number};
    use crate::thread_names::ThreadNames;

    fn wait(call: u32, write_call: u64, stack: &str) -> Record {
        Record::Wait(Wait {
            kind: WaitKind::Uninterruptible,
            tid: 7,
            comm: "".into(),
            first_ns: 10,
            last_ns: 20,
            queue_ns: 0,
            call: Some(call),
            argument: None,
            write_call: Some(write_call),
            file_call: None,
            stack: stack.into(),
        })
    }

    #[test]
    fn wait_at_system_call_exit_is_not_part_of_the_write() {
        let write = libc::SYS_write as u32;
        let at_exit = "entry_SYSCALL_64_after_hwframe;exit_to_user_mode_loop;mem_cgroup_handle_over_high";
        let records = [
            wait(write, 1, "vfs_write;ext4_block_write_begin"),
            wait(write, 2, at_exit),
            wait(u32::MAX, 3, "do_sync_file_range"),
        ];
        assert_eq!(calls(&records), Calls::from_iter([((7, 1), (10, 20))]));
    }

    #[test]
    fn process_stop_ends_when_its_first_thread_runs() {
        let stopped = |tid, first_ns, last_ns, kind| {
            let Record::Wait(wait) = wait(u32::MAX, 0, "") else { unreachable!() };
            Record::Wait(Wait { tid, first_ns, last_ns, kind, ..wait })
        };
        let records = [
            stopped(1, 100, 210, WaitKind::Stopped),
            stopped(2, 110, 200, WaitKind::Stopped),
            stopped(3, 120, 190, WaitKind::Uninterruptible),
            stopped(1, 300, 400, WaitKind::Frozen),
        ];
        let stops = stops(records.iter(), 9, ClockOffset::from_ns(0));
        let stops: Vec<_> =
            stops.iter().map(|stop| (stop.start.0, stop.end.0, stop.kind, stop.threads)).collect();
        assert_eq!(stops, [(100, 200, StopKind::Signal, 2), (300, 400, StopKind::Freezer, 1)]);
    }

    #[test]
    fn append_has_a_duration_and_its_threads_name() {
        let dir = tempfile::tempdir().unwrap();
        let segment = dir.path().join("topic-3/00000000000000000000.log");
        fs::create_dir(segment.parent().unwrap()).unwrap();
        fs::write(&segment, "").unwrap();
        let file = fs::metadata(&segment).unwrap();
        let pid = std::process::id();
        let mut names = Names {
            pid,
            threads: ThreadNames::default().reader(),
            comms: HashMap::default(),
            devices: Devices::new(Mounts::of(pid)),
            segments: Segments::new(&[dir.path().to_owned()]),
            topics: Topics::of(&[]),
            nameless: HashSet::default(),
        };
        let append = Append {
            tid: pid,
            first_ns: 5_000,
            last_ns: 5_000,
            device: number(file.dev()),
            inode: file.ino(),
            generation: probes::always_on::generation(&fs::File::open(&segment).unwrap()).unwrap_or(0),
            position: 0,
            length: 100,
            write_call: None,
            at_entry: false,
        };
        let clock = ClockOffset::from_ns(0);
        let op = names.append(&append, &Calls::default(), &mut [], clock).unwrap();
        // An append that ends when it begins would have to wait for itself.
        assert_eq!((op.start, op.end), (Nanos(4_999), Nanos(5_000)));
        assert_eq!(&*op.thread, fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim_end());
    }
}
