//! Decodes records of the ring buffer into [`Event`]s.
//!
//! The layout is `bpf/events.h`, from which the types are generated.

mod files;

use std::collections::HashMap;
use std::mem::offset_of;
use std::net::{Ipv6Addr, SocketAddr};
use std::sync::Arc;

use model::CommitPhases;
use model::Waker;
use model::{
    ClockOffset, CpuGap, CpuGapKind, Device, DirtyThrottle, JournalCommit, KernelSpan, Nanos, OffCpu,
    ProcessStop, Reclaim, SocketOp, SocketOpKind, SpanSource, StopKind, TcpEvent, TcpEventKind,
};

use crate::bpf::probes::types::{
    self, event_kind, file_op, span_function, span_source, stop_reason, tcp_trouble,
};
use crate::bpf::{record, text_of, whole};
use crate::event::Event;
use crate::intern::Texts;
use crate::stacks::Stacks;

use files::Paths;

/// Threads between their wake-up and their return: beyond this many, some returns were lost.
const MAX_WOKEN: usize = 4_096;
/// Threads in the middle of a btrfs commit: beyond this many, some ends were missed.
const MAX_COMMITTING: usize = 1_024;
/// Reported by a tracepoint at its end; it began at the latest when its thread first waited inside.
const BTRFS_COMMIT: &str = "btrfs_commit_transaction";

/// A decoded record.
#[expect(clippy::large_enum_variant, reason = "most are events, passed on immediately")]
#[derive(Debug, PartialEq)]
pub(crate) enum Decoding {
    /// Something that happened.
    Event(Event),
    /// Context for later records, or a record that means nothing by itself.
    Context,
    /// Unknown kind, or shorter than its kind.
    Unknown,
}

/// Decodes one target's records.
pub(crate) struct Decoder {
    pid: u32,
    hz: Option<u32>,
    clock: ClockOffset,
    /// CPUs with a clock.
    cpus: u32,
    texts: Texts,
    stacks: Stacks,
    paths: Paths,
    /// When threads first waited within their current btrfs commit.
    committing: HashMap<u32, u64>,
    /// Stacks of wakers, by woken thread and time.
    wakers: HashMap<u32, (u64, Arc<str>)>,
    /// Start of the last stop of the process: two CPUs may report the same one.
    last_stop_ns: u64,
    unnamed: Arc<str>,
}

impl Decoder {
    pub(crate) fn new(pid: u32, hz: Option<u32>, clock: ClockOffset, stacks: Stacks) -> Self {
        Self {
            pid,
            hz: hz.filter(|&hz| hz > 0),
            clock,
            cpus: 0,
            texts: Texts::default(),
            stacks,
            paths: Paths::default(),
            committing: HashMap::new(),
            wakers: HashMap::new(),
            last_stop_ns: 0,
            unnamed: Arc::default(),
        }
    }

    /// Sets the number of CPUs.
    pub(crate) fn with_cpus(self, cpus: u32) -> Self {
        Self { cpus, ..self }
    }

    /// Decodes one record.
    pub(crate) fn decode(&mut self, bytes: &[u8]) -> Decoding {
        let kind = bytes.first_chunk().map(|word| event_kind(u32::from_ne_bytes(*word)));
        match kind {
            Some(event_kind::EVENT_FILE_PATH) => context(self.file_path(bytes)),
            Some(event_kind::EVENT_WAKER_STACK) => context(self.waker_stack(bytes)),
            Some(event_kind::EVENT_KERNEL_SPAN) => self.kernel_span(bytes),
            Some(event_kind::EVENT_KERNEL_WAIT) => self.kernel_wait(bytes),
            Some(event_kind::EVENT_PROCESS_STOP) => self.process_stop(bytes),
            Some(kind) => self.event(kind, bytes).map_or(Decoding::Unknown, Decoding::Event),
            None => Decoding::Unknown,
        }
    }

    fn event(&mut self, kind: event_kind, bytes: &[u8]) -> Option<Event> {
        let row: model::Event = match kind {
            event_kind::EVENT_FILE_OP => return Some(Event::FileOp(self.file_op(bytes)?)),
            event_kind::EVENT_BLOCK_IO => return Some(Event::BlockIo(self.block_io(&whole(bytes)?))),
            event_kind::EVENT_OFF_CPU => self.off_cpu(bytes)?.into(),
            event_kind::EVENT_JOURNAL_COMMIT => self.journal_commit(&whole(bytes)?).into(),
            event_kind::EVENT_DIRTY_THROTTLE => self.dirty_throttle(&whole(bytes)?).into(),
            event_kind::EVENT_RECLAIM => self.reclaim(&whole(bytes)?).into(),
            event_kind::EVENT_SOCKET => self.socket_op(&whole(bytes)?)?.into(),
            event_kind::EVENT_CPU_GAP => self.cpu_gap(&whole(bytes)?).into(),
            event_kind::EVENT_TCP_TROUBLE => self.tcp_trouble(&whole(bytes)?)?.into(),
            _ => return None,
        };
        Some(Event::Row(row))
    }

    fn journal_commit(&self, record: &types::journal_commit_event) -> JournalCommit {
        JournalCommit {
            start: self.time(record.start_ns),
            end: self.time(record.end_ns),
            device: self.device(record.device),
            transaction: record.transaction,
            phases: self.hz.filter(|_| record.phases.seen != 0).map(|hz| phases(&record.phases, hz)),
        }
    }

    fn dirty_throttle(&self, record: &types::dirty_throttle_event) -> DirtyThrottle {
        let pause_ns = record.pause_ms.saturating_mul(1_000_000);
        DirtyThrottle {
            start: self.time(record.start_ns),
            end: self.time(record.start_ns.saturating_add(pause_ns)),
            tid: record.tid,
            dirty_pages: record.dirty_pages,
            limit_pages: record.setpoint_pages,
        }
    }

    fn reclaim(&mut self, record: &types::reclaim_event) -> Reclaim {
        Reclaim {
            start: self.time(record.start_ns),
            end: self.time(record.end_ns),
            pid: self.pid,
            tid: record.tid,
            thread: self.text(&record.comm),
            memcg: record.memcg != 0,
            pages: record.pages,
        }
    }

    fn socket_op(&mut self, record: &types::socket_event) -> Option<SocketOp> {
        let op = match file_op(u32::from(record.op)) {
            file_op::OP_WRITE => SocketOpKind::Write,
            file_op::OP_READ => SocketOpKind::Read,
            file_op::OP_SENDFILE | file_op::OP_SPLICE => SocketOpKind::Sendfile,
            _ => return None,
        };
        let (local, remote) = ends(&record.ends);
        Some(SocketOp {
            start: self.time(record.start_ns),
            end: self.time(record.end_ns),
            op,
            pid: record.pid,
            tid: record.tid,
            thread: self.text(&record.comm),
            local,
            remote,
            bytes: u64::try_from(record.result).ok(),
            errno: record.result.checked_neg().filter(|code| *code > 0).map(errno_of_caller),
            sequence: record.sequence,
            sequence_end: record.sequence_end,
            peer_window: (op != SocketOpKind::Read).then_some(record.peer_window),
        })
    }

    fn tcp_trouble(&self, record: &types::tcp_trouble_event) -> Option<TcpEvent> {
        let kind = match tcp_trouble(record.trouble) {
            tcp_trouble::TCP_RETRANSMIT => TcpEventKind::Retransmit,
            tcp_trouble::TCP_ZERO_WINDOW => TcpEventKind::ZeroWindow,
            tcp_trouble::TCP_NO_WINDOW_SCALING => TcpEventKind::NoWindowScaling,
            _ => return None,
        };
        let (local, remote) = ends(&record.ends);
        Some(TcpEvent {
            at: self.time(record.at_ns),
            kind,
            local: Some(local),
            remote: Some(remote),
            count: 1,
        })
    }

    fn process_stop(&mut self, bytes: &[u8]) -> Decoding {
        let Some(record) = whole::<types::process_stop_event>(bytes) else { return Decoding::Unknown };
        let Some(stop) = self.stop_of(&record) else { return Decoding::Unknown };
        if record.start_ns <= self.last_stop_ns {
            return Decoding::Context;
        }
        self.last_stop_ns = record.start_ns;
        Decoding::Event(Event::Row(stop.into()))
    }

    fn stop_of(&mut self, record: &types::process_stop_event) -> Option<ProcessStop> {
        let kind = match stop_reason(u32::from(record.reason)) {
            stop_reason::STOPPED_BY_SIGNAL => StopKind::Signal,
            stop_reason::STOPPED_BY_FREEZER => StopKind::Freezer,
            stop_reason::STOPPED_BY_TRACER => StopKind::Tracer,
            _ => return None,
        };
        let by_tid = (record.by_tid != 0).then_some(record.by_tid);
        Some(ProcessStop {
            start: self.time(record.start_ns),
            end: self.time(record.end_ns),
            pid: self.pid,
            kind,
            by_tid,
            by: by_tid.map(|_| self.text(&record.by_comm)).unwrap_or_default(),
            threads: record.threads,
        })
    }

    fn cpu_gap(&mut self, record: &types::cpu_gap_event) -> CpuGap {
        let tid = (record.tid != 0).then_some(record.tid);
        CpuGap {
            start: self.time(record.start_ns),
            end: self.time(record.end_ns),
            kind: if record.gap == 0 { CpuGapKind::Steal } else { CpuGapKind::Gap },
            cpu: record.cpu,
            cpus: self.cpus,
            stolen: Nanos(i64::try_from(record.stolen_ns).unwrap_or(i64::MAX)),
            tid,
            thread: tid.map(|_| self.text(&record.comm)).unwrap_or_default(),
        }
    }

    fn waker_stack(&mut self, bytes: &[u8]) -> Option<()> {
        let record: types::waker_stack_event = record(bytes, offset_of!(types::waker_stack_event, stack))?;
        let stack = self.stack(&record.stack, record.frames);
        if self.wakers.len() >= MAX_WOKEN {
            self.wakers.clear();
        }
        self.wakers.insert(record.tid, (record.woken_ns, stack));
        Some(())
    }

    fn off_cpu(&mut self, bytes: &[u8]) -> Option<OffCpu> {
        let record: types::off_cpu_event = record(bytes, offset_of!(types::off_cpu_event, stack))?;
        let stack = self.stack(&record.stack, record.frames);
        self.note_wait_in_commit(record.tid, record.start_ns, &stack);
        let is_woken = record.woken_ns != 0;
        Some(OffCpu {
            start: self.time(record.start_ns),
            end: self.time(record.end_ns),
            woken: is_woken.then(|| self.time(record.woken_ns)),
            pid: self.pid,
            tid: record.tid,
            thread: self.text(&record.comm),
            preempted: record.preempted != 0,
            stack,
            waker: is_woken.then(|| self.waker(&record)),
        })
    }

    /// The waker of an interval. A stack from an earlier wake-up does not count.
    fn waker(&mut self, record: &types::off_cpu_event) -> Waker {
        let stack = self.wakers.remove(&record.tid).filter(|(at_ns, _)| *at_ns == record.woken_ns);
        Waker {
            tid: record.waker_tid,
            thread: self.text(&record.waker_comm),
            stack: stack.map(|(_, stack)| stack).unwrap_or_default(),
        }
    }

    /// Decodes a call of a kernel function.
    ///
    /// Returns no event for a commit without a known start, or for a function that this build does not know.
    fn kernel_span(&mut self, bytes: &[u8]) -> Decoding {
        let Some(record) = whole(bytes) else { return Decoding::Unknown };
        self.call_of(&record).map_or(Decoding::Context, Decoding::Event)
    }

    fn call_of(&mut self, record: &types::kernel_span_event) -> Option<Event> {
        let (start_ns, seen_by) = match span_source(u32::from(record.source)) {
            span_source::SPAN_BY_FUNCTION => (record.start_ns, SpanSource::Function),
            span_source::SPAN_BY_TRACEPOINTS => (record.start_ns, SpanSource::Tracepoints),
            _ => (self.committing.remove(&record.tid)?, SpanSource::OffCpu),
        };
        let function = function(span_function(u32::from(record.function)))?;
        let device = (record.device != 0).then(|| self.device(record.device));
        Some(self.span((start_ns, record.end_ns), function, device, record.tid, &record.comm, seen_by))
    }

    /// Decodes a long wait of a file system's own thread.
    ///
    /// Returns no event if the thread was not working for a file system, or within a commit whose end will be reported.
    fn kernel_wait(&mut self, bytes: &[u8]) -> Decoding {
        let min_bytes = offset_of!(types::kernel_wait_event, stack);
        let Some(record) = record::<types::kernel_wait_event>(bytes, min_bytes) else {
            return Decoding::Unknown;
        };
        let stack = self.stack(&record.stack, record.frames);
        self.note_wait_in_commit(record.tid, record.start_ns, &stack);
        let Some(function) = file_system_function(&stack).filter(|&function| function != BTRFS_COMMIT) else {
            return Decoding::Context;
        };
        let times = (record.start_ns, record.end_ns);
        Decoding::Event(self.span(times, function, None, record.tid, &record.comm, SpanSource::OffCpu))
    }

    fn span(
        &mut self,
        (start_ns, end_ns): (u64, u64),
        function: &str,
        device: Option<Device>,
        tid: u32,
        comm: &[i8],
        seen_by: SpanSource,
    ) -> Event {
        Event::Row(model::Event::KernelSpan(Box::new(KernelSpan {
            start: self.time(start_ns),
            end: self.time(end_ns),
            function: self.texts.share(function.as_bytes()),
            device,
            tid,
            thread: self.text(comm),
            seen_by,
        })))
    }

    /// Records that a thread has waited since that time, with this stack.
    fn note_wait_in_commit(&mut self, tid: u32, since_ns: u64, stack: &str) {
        if !stack.split(';').any(|name| name == BTRFS_COMMIT) {
            return;
        }
        if self.committing.len() >= MAX_COMMITTING {
            self.committing.clear();
        }
        self.committing.entry(tid).or_insert(since_ns);
    }

    /// Resolves a stack. The length in a record is not trusted.
    fn stack(&mut self, stack: &[u64], frames: u32) -> Arc<str> {
        self.stacks.text(stack.get(..frames as usize).unwrap_or(stack))
    }

    fn text(&mut self, chars: &[i8]) -> Arc<str> {
        self.texts.share(text_of(chars))
    }

    fn time(&self, monotonic_ns: u64) -> Nanos {
        self.clock.from_monotonic(monotonic_ns)
    }

    fn device(&self, number: u32) -> Device {
        let (major, minor) = device(number);
        Device { major, minor, name: Arc::clone(&self.unnamed) }
    }
}

fn context(known: Option<()>) -> Decoding {
    known.map_or(Decoding::Unknown, |()| Decoding::Context)
}

/// `MAJOR` and `MINOR` of `include/linux/kdev_t.h`.
fn device(number: u32) -> (u32, u32) {
    (number >> 20, number & 0xf_ffff)
}

fn phases(record: &types::commit_phases, hz: u32) -> CommitPhases {
    let length = |jiffies: u64| Nanos((u128::from(jiffies) * 1_000_000_000 / u128::from(hz)) as i64);
    CommitPhases {
        wait: length(record.wait),
        running: length(record.running),
        locked: length(record.locked),
        flushing: length(record.flushing),
        logging: length(record.logging),
        handles: record.handles,
        blocks: record.blocks,
        blocks_logged: record.blocks_logged,
    }
}

/// Errno as the caller sees it. The kernel's internal numbers mark a call that a signal interrupted
/// (include/linux/errno.h): the caller gets `EINTR`, or the call is restarted.
fn errno_of_caller(errno: i32) -> i32 {
    if (512..=516).contains(&errno) { libc::EINTR } else { errno }
}

fn ends(ends: &types::endpoints) -> (SocketAddr, SocketAddr) {
    (address(ends.local, ends.local_port), address(ends.remote, ends.remote_port))
}

/// Decodes words and a port in network byte order.
///
/// An IPv4 address arrives mapped, as on a socket for both families (a JVM's), and is unmapped here, as in packets.
pub(crate) fn address(words: [u32; 4], port: u16) -> SocketAddr {
    let mut bytes = [0; 16];
    bytes.chunks_exact_mut(4).zip(words).for_each(|(to, word)| to.copy_from_slice(&word.to_ne_bytes()));
    SocketAddr::new(Ipv6Addr::from(bytes).to_canonical(), u16::from_be(port))
}

macro_rules! span_functions {
    ($($function:ident)+) => {
        /// The name of a reported function.
        fn function(number: span_function) -> Option<&'static str> {
            match number {
                $(span_function::$function => Some(stringify!($function)),)+
                _ => None,
            }
        }
    };
}

span_functions! {
    ext4_fc_commit xlog_grant_head_wait xlog_sync btrfs_commit_transaction ext4_file_write_iter ext4_sync_file
    ext4_dirty_inode jbd2_log_wait_commit xfs_file_write_iter xfs_file_fsync xfs_log_force xfs_log_force_seq
    btrfs_file_write_iter btrfs_sync_file freeze_super
}

/// The outermost function of a file system below its threads' main loop.
fn file_system_function(stack: &str) -> Option<&str> {
    let mut names = stack.split(';').map(|name| name.split('.').next().unwrap_or(name));
    let of_file_system =
        |name: &str| ["xfs_", "xfsaild", "xlog_", "btrfs_"].iter().any(|p| name.starts_with(p));
    let loops = ["xfsaild", "btrfs_work_helper"];
    names.find(|name| of_file_system(name) && !loops.contains(name))
}

#[cfg(test)]
mod tests;
