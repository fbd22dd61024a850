//! What the kernel recorded, as a recording's events. Judges nothing: what is not known stays out.

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

/// What records lack: names of threads, files, devices and topics.
pub(super) struct Names {
    pub(super) pid: Pid,
    pub(super) threads: NameReader,
    /// What the kernel calls the threads of the records at hand.
    pub(super) comms: HashMap<Tid, Arc<str>, RandomState>,
    pub(super) devices: Devices,
    pub(super) segments: Segments,
    pub(super) topics: Topics,
    /// Appends that were delivered without their batches, by thread and time; of those that can still be read.
    pub(super) nameless: HashSet<(Tid, u64), RandomState>,
}

fn key(append: &Append) -> (Tid, u64) {
    (append.tid, append.first_ns)
}

/// Calls that write.
const WRITES: [c_long; 5] =
    [libc::SYS_write, libc::SYS_pwrite64, libc::SYS_writev, libc::SYS_pwritev, libc::SYS_pwritev2];

/// Calls that read, send or sync a file.
const FILE_CALLS: [(c_long, FileOpKind); 6] = [
    (libc::SYS_read, FileOpKind::Read),
    (libc::SYS_pread64, FileOpKind::Read),
    (libc::SYS_sendfile, FileOpKind::Sendfile),
    (libc::SYS_fsync, FileOpKind::Fsync),
    (libc::SYS_fdatasync, FileOpKind::Fdatasync),
    (libc::SYS_msync, FileOpKind::Msync),
];

/// Functions of file systems that sync a file: `ext4_sync_file`, `xfs_file_fsync`.
const SYNC_FUNCTIONS: [&str; 2] = ["_sync_file", "_file_fsync"];

/// The writes in which threads waited: when each first left the CPU and last came back.
type Calls = HashMap<(Tid, u64), (u64, u64), RandomState>;

/// What to deliver of an interval.
pub(super) struct Report<'r> {
    /// All that is recorded of it.
    pub(super) records: &'r [Record],
    /// Of it, records that ended within this time were not delivered yet.
    pub(super) fresh_ns: RangeInclusive<u64>,
    /// Slow requests that are delivered now.
    pub(super) slow: &'r [SlowRequest],
    /// Those that will be.
    pub(super) waiting: &'r [SlowRequest],
}

impl Names {
    /// The events of an interval. Slow requests come with what was kept of them; of others only what their records say.
    pub(super) fn events(
        &mut self,
        report: &Report<'_>,
        connection: impl Fn(u32) -> Option<Connection>,
        clock: ClockOffset,
    ) -> Vec<Event> {
        self.comms.clear();
        // Also of those that wait: what they wrote is delivered now.
        let known = report.slow.iter().chain(report.waiting);
        let mut answers: Vec<Answer> = known.map(|slow| self.answer(slow)).collect();
        let calls = calls(report.records);
        let mut events: Vec<Event> = self.file_calls(report, clock).into_iter().map(Event::from).collect();
        for record in report.records {
            let is_fresh = report.fresh_ns.contains(&record.last_ns());
            match record {
                Record::Append(append) => {
                    let Some(op) = self.append(append, &calls, &mut answers, clock) else { continue };
                    // Delivered before its request was known to be slow, it had no batch.
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

    /// A write to a segment, from the first moment to the last at which its thread was seen in it. What a slow request wrote is
    /// read back from the segment: the answer's partition and offset say whether the batch is the request's.
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
        let may_be = |answered: &&mut WrittenPartition| {
            answered.named.as_ref() == Some(&segment.topic_partition)
                && append.first_ns <= answered.last_ns
                && append.last_ns >= answered.first_ns
        };
        let written = answers.iter_mut().flat_map(|answer| &mut answer.written);
        let mut asking = written.filter(may_be).peekable();
        let held = append.write_call.and_then(|call| calls.get(&(append.tid, call)));
        // One that was held up is of a request that is slow, though that may not have ended yet.
        let is_wanted = asking.peek().is_some() || held.is_some();
        let batch = if is_wanted { segment.batch_at(append.position, append.length) } else { None };
        for answered in asking {
            if let Some(batch) =
                batch.filter(|batch| Some(batch.base_offset) == answered.partition.base_offset)
            {
                answered.partition.bytes = batch.bytes;
                answered.partition.records = Some(batch.records).filter(|records| *records > 0);
            }
        }
        // No write takes no time: one that did would have ended before itself.
        let (mut first, mut last) = (append.first_ns.min(append.last_ns.saturating_sub(1)), append.last_ns);
        if let Some((left, back)) = held {
            (first, last) = (first.min(*left), last.max(*back));
        }
        let time = (clock.from_monotonic(first), clock.from_monotonic(last));
        let op = self.file_op(FileOpKind::Write, append.tid, time, (append.device, append.inode, segment));
        Some(FileOp { bytes: Some(append.length), offset: append.position, batch, ..op })
    }

    /// An operation on a file, of which no more is known.
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

    /// Reads and syncs of files in which threads waited: from the first time that each left the CPU to the last that it came
    /// back.
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
            // Outside of a file system's own function it waits for something else: of an earlier sync the file would be.
            if *op == FileOpKind::Msync && !SYNC_FUNCTIONS.iter().any(|function| stack.contains(function)) {
                continue;
            }
            let held = calls.entry((*tid, *op, *file)).or_insert((*first_ns, *last_ns));
            *held = (held.0.min(*first_ns), held.1.max(*last_ns));
        }
        let mut ops = Vec::new();
        for ((tid, op, FileCall { device, inode, .. }), (first, last)) in calls {
            let Some(file) = self.segments.find(device, inode, None).cloned() else { continue };
            let time = (clock.from_monotonic(first), clock.from_monotonic(last));
            ops.push(self.file_op(op, tid, time, (device, inode, file)));
        }
        ops
    }

    /// A thread's full name, or what the kernel calls it; empty of one that is gone.
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
        // It was woken where it began to wait for a CPU.
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

/// Whether both records are of one request.
fn is_of(one: &Request, other: &Request) -> bool {
    one.connection == other.connection
        && one.correlation_id == other.correlation_id
        && one.arrival_ns == other.arrival_ns
}

/// The writes in which threads waited, from the first time that each left the CPU to the last that it came back.
fn calls(records: &[Record]) -> Calls {
    let mut calls = Calls::default();
    for record in records {
        let Record::Wait(wait) = record else { continue };
        let is_in_write = wait.call.is_some_and(|call| WRITES.contains(&call.into())) && !is_at_exit(wait);
        let Some(call) = wait.write_call.filter(|_| is_in_write) else {
            continue;
        };
        let held = calls.entry((wait.tid, call)).or_insert((wait.first_ns, wait.last_ns));
        *held = (held.0.min(wait.first_ns), held.1.max(wait.last_ns));
    }
    calls
}

/// What had stopped a thread's process.
fn stop_kind(wait: &Wait) -> Option<StopKind> {
    match wait.kind {
        WaitKind::Stopped => Some(StopKind::Signal),
        WaitKind::Frozen => Some(StopKind::Freezer),
        WaitKind::Runnable | WaitKind::Uninterruptible => None,
    }
}

/// Times in which the process was stopped, of records in the order in which they began. Signals and freezers stop all threads, one
/// after the other: it stood still from the first that stopped to the first that ran again.
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

/// Whether a thread slept on its way back to user space (over its cgroup's memory, say): the kernel has counted the write that
/// it comes back from, so the number is the next one's.
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
    fn a_wait_is_in_a_write_until_the_thread_is_on_its_way_back() {
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
    fn a_process_stands_still_until_its_first_thread_runs() {
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
    fn an_append_takes_some_time_and_has_its_threads_name() {
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
        // One that had ended when it began would have to wait for itself.
        assert_eq!((op.start, op.end), (Nanos(4_999), Nanos(5_000)));
        assert_eq!(&*op.thread, fs::read_to_string(format!("/proc/{pid}/comm")).unwrap().trim_end());
    }
}
