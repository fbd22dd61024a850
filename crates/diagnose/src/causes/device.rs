//! Block devices: `slow-device`, and what kept one busy: `log-cleaner`, `tier-state-io`.
//!
//! Device and inode are an exact key if the block request holds a page of the same file and completed when the thread
//! was woken; device and time are not. A device that is slow for a while is one root. What loaded it is known by time
//! only.

use model::{
    BlockIo, Cause, Confidence, Device, Direction, Evidence, EvidenceKind, FileKind, FileOp, FileOpKind,
    Nanos, Tid,
};

use crate::causes::candidate::{CauseCandidate, evidence, op_evidence};
use crate::causes::spec::{DEVICE_HAS_TIME, Scope, broker, causes};
use crate::stages::response::is_read;
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::waits::OperationWaits;
use crate::window::Window;
use crate::window::trouble::Trouble;

causes! {
    SlowDevice: Link in Writes, changed in Disk {
        event: "stretch{es} of slow I/O on {place}",
        needs: "an off-CPU stack in a wait for block I/O, and a request of the same device that covers most of it; exact by the inode",
        root_evidence: &[EvidenceKind::BlockIo],
        advice: &[
            "the device is the limit: spread the log dirs over more devices (a striped volume, or several log.dirs), or use a faster one",
        ],
        source: "a public case (IBM zSystems, 2022): one device over 95 % busy at 259 MB/s; striped over three, 155 MB/s on each at \
                 80 to 83 %",
        condition: DEVICE_HAS_TIME,
        look_at: ", and util_ratio of the devices in host_samples/",
        effect: "; the public case wrote 1.8 times as much with three devices",
        risk: "partitions have to be moved to new log dirs; a stripe that loses one disk loses all, so replicas matter more",
    }

    LogCleaner: Root in Writes, changed in Disk {
        event: "run{s} of the log cleaner on {place}",
        needs: "a wait for the device while the cleaner's threads moved most of what the broker read and wrote there; by time only",
        root_evidence: &[EvidenceKind::Host, EvidenceKind::BlockIo, EvidenceKind::FileOp],
        proof: OTHER_LOAD,
        advice: &[
            "the log cleaner and the requests shared the device: bound it (log.cleaner.io.max.bytes.per.second), which may be changed while the broker runs",
        ],
        source: "Kafka's documentation, broker configuration: log.cleaner.io.max.bytes.per.second, which may be changed while the \
                 broker runs",
        changes: &[broker(
            "log.cleaner.io.max.bytes.per.second",
            "1.7976931348623157E308",
            "a quarter of what the device can do",
        )],
        risk: "compacted topics grow until the cleaner has caught up: watch max-dirty-percent",
    }

    TierStateIo: Root in Reads, changed in Disk {
        event: "stretch{es} of tiered-storage state reads on {place}",
        needs: "a wait for the device while *.tierstate* files were most of what the broker read from it; by time only",
        root_evidence: &[EvidenceKind::Host, EvidenceKind::BlockIo, EvidenceKind::FileOp],
        proof: OTHER_LOAD,
        advice: &[
            "the broker's disk reads are of tiered storage's own state: turn its cleanup on (confluent.tier.partition.state.cleanup.enable=true, with .delay.ms and .interval.ms; ages count from then on)",
        ],
        source: "a public case (Honeycomb, 2024): state files of hundreds of MB each, over 99 % of it of segments long deleted; with \
                 the cleanup the reads were gone and a broker started in one minute instead of 20",
        rule: "tier-state",
        condition: ", or 10 MB a minute or more are read from disk and sent to nobody, at least half of it from *.tierstate* files",
        look_at: "; `brokerscope files` on *.tierstate*; `brokerscope logs` on the lines \"state file size changed\"",
        changes: &[
            broker("confluent.tier.partition.state.cleanup.enable", "false", "true").by_name(Scope::Broker),
            broker("confluent.tier.partition.state.cleanup.delay.ms", "not set", "2592000000")
                .by_name(Scope::Broker)
                .together(),
            broker("confluent.tier.partition.state.cleanup.interval.ms", "not set", "86400000")
                .by_name(Scope::Broker)
                .together(),
        ],
        effect: "; not at once: see the risk",
        risk: "ages count from when the cleanup is first on, so nothing is removed before delay.ms (30 days) are over, and the \
               first removals come at once for all partitions; only in Confluent Server",
    }
}

/// What would show whose load kept a device busy.
const OTHER_LOAD: &str = "a second recording while the log cleaner or the tier-state cleanup is stopped";

/// Maximum time from a block request's completion to the wake-up of its waiter.
/// A completion wakes the waiter at once, unless an interrupt delays that.
const WAKES_WITHIN: Nanos = Nanos::from_millis(1);

pub(crate) fn slow_device(window: &Window, waits: &OperationWaits<'_>) -> Option<CauseCandidate> {
    let (op, span) = (waits.op, waits.span());
    let io = covering_io(window, op, span)?;
    let confidence = confidence_of_join(op, io, waits.woken(), waits.best_confidence());
    let own = CauseCandidate::of_waits(Cause::SlowDevice, slow_device_key(window, io), confidence, waits);
    Some(with_load(window, op, io, own.with([io_evidence(io)]), span))
}

/// The device behind a fault on a mapped file.
pub(crate) fn behind_fault(window: &Window, fault: &FileOp) -> Option<CauseCandidate> {
    let io = covering_io(window, fault, fault.span())?;
    let confidence = confidence_of_join(fault, io, fault.end, Confidence::Exact);
    Some(of_device(window, fault, io, (confidence, fault.latency()), fault.span()))
}

/// The device behind a wait for a thread that writes back: that thread's writes, by its id, if one of them was at the
/// device for most of the wait.
pub(crate) fn behind_writer(
    window: &Window,
    waits: &OperationWaits<'_>,
    thread: Tid,
) -> Option<CauseCandidate> {
    let (op, span) = (waits.op, waits.span());
    let writes = || {
        let ios = window.ios.of(&op.device.number()).overlapping(span);
        ios.filter(|io| io.direction == Direction::Write && io.tid == thread)
    };
    if !span.is_most(TimeBudget::new(span).take_all(writes().map(Span::span))) {
        return None;
    }
    let io = writes().max_by_key(|io| (io.overlap(span), io.start, io.sector))?;
    Some(of_device(window, op, io, (Confidence::Strong, waits.time), span))
}

/// A slow device for `time` of an operation, by a block request. Includes what is behind it.
fn of_device(
    window: &Window,
    op: &FileOp,
    io: &BlockIo,
    (confidence, time): (Confidence, Nanos),
    span: TimeSpan,
) -> CauseCandidate {
    let own = CauseCandidate::new(Cause::SlowDevice, slow_device_key(window, io), confidence, time);
    with_load(window, op, io, own.with([io_evidence(io)]).of_partition_of(op), span)
}

/// When the device of a block request began to be slow.
fn slow_since(window: &Window, io: &BlockIo) -> Option<Nanos> {
    window.troubles.began(Trouble::SlowDevice(io.device.number()), io.span())
}

fn slow_device_key(window: &Window, io: &BlockIo) -> String {
    match slow_since(window, io) {
        Some(began) => format!("{}:{}", io.device, began.0),
        None => format!("{}:{}:{}", io.device, io.sector, io.start.0),
    }
}

/// The confidence of joining a wait with a block request.
fn confidence_of_join(op: &FileOp, io: &BlockIo, woken: Nanos, best: Confidence) -> Confidence {
    let of_file = io.inode == Some(op.inode);
    if of_file && woken_by(io, woken) { best } else { best.min(Confidence::Strong) }
}

/// Adds what kept the device busy, if known.
fn with_load(
    window: &Window,
    op: &FileOp,
    io: &BlockIo,
    own: CauseCandidate,
    span: TimeSpan,
) -> CauseCandidate {
    let began = slow_since(window, io).unwrap_or(io.start);
    let busy = LOADS.iter().find_map(|load| load.behind(window, &op.device, began, span));
    own.behind_any(busy)
}

/// The block request that ended a wait, if it entered the device's queue late.
/// It is of the operation's file and had not entered the queue for most of the wait. Returned with the time at which
/// it entered: the thread waited for it from the start of the wait.
pub(crate) fn late_io<'w>(window: &'w Window, waits: &OperationWaits<'_>) -> Option<(&'w BlockIo, Nanos)> {
    let (op, span, woken) = (waits.op, waits.span(), waits.woken());
    let ending = TimeSpan::new(woken - WAKES_WITHIN, woken + WAKES_WITHIN);
    let ios = window.ios.of(&op.device.number()).overlapping(ending);
    let of_file = ios.filter(|io| io.inode == Some(op.inode) && woken_by(io, woken));
    let late = of_file.filter_map(|io| Some((io, io.queued?)));
    late.filter(|(_, queued)| span.is_most(*queued - span.start)).max_by_key(|(io, _)| (io.end, io.sector))
}

/// Whether a block request completed when a thread was woken.
fn woken_by(io: &BlockIo, woken: Nanos) -> bool {
    Nanos((woken - io.end).0.abs()) <= WAKES_WITHIN
}

/// The block request of the operation's device that took most of a stretch. Prefers a request of the same file.
pub(crate) fn covering_io<'w>(window: &'w Window, op: &FileOp, span: TimeSpan) -> Option<&'w BlockIo> {
    let ios = window.ios.of(&op.device.number()).overlapping(span);
    let covering = ios.filter(|io| span.is_most(io.overlap(span)));
    covering.max_by_key(|io| (io.inode == Some(op.inode), io.overlap(span), io.start, io.sector))
}

/// The evidence of a block request.
pub(crate) fn io_evidence(io: &BlockIo) -> Evidence {
    evidence(EvidenceKind::BlockIo, io, io_text(io)).of_thread(io.tid, &io.thread)
}

fn io_text(io: &BlockIo) -> String {
    let what = match io.direction {
        Direction::Read => format!("read of {} bytes", io.bytes),
        Direction::Write => format!("write of {} bytes", io.bytes),
        Direction::Other => "flush".to_owned(),
    };
    format!("{}: {what} at sector {} took {} ({})", io.device, io.sector, io.latency(), io.thread)
}

/// Less than this loads no device.
const MIN_LOAD_BYTES: u64 = 1 << 20;
/// Load on a device during a wait may have been issued this long before it.
const BEFORE: Nanos = Nanos::from_millis(1_000);

/// Bytes that an operation read from its device, as far as that was watched.
fn read_bytes(op: &FileOp) -> u64 {
    op.disk_bytes.unwrap_or(0)
}

/// Bytes that an operation may have read from its device, if that was not watched.
fn unwatched_bytes(op: &FileOp) -> u64 {
    let reads = is_read(op.op) || matches!(op.op, FileOpKind::Copy | FileOpKind::MmapFault);
    if reads && op.disk_bytes.is_none() { op.bytes.unwrap_or(0) } else { 0 }
}

/// Bytes that an operation read from or wrote to its device.
fn moved_bytes(op: &FileOp) -> u64 {
    match op.op {
        // A failed operation moved nothing.
        FileOpKind::Write => op.bytes.unwrap_or(0),
        _ => read_bytes(op),
    }
}

/// A kind of operation that may load a device, and how to count its bytes.
struct Load {
    cause: Cause,
    matches: fn(&FileOp) -> bool,
    /// Bytes known to have been moved.
    bytes: fn(&FileOp) -> u64,
    /// Describes its bytes, those of all operations, and the device.
    text: fn(u64, u64, &Device) -> String,
}

impl Load {
    /// Names this load as the cause of a wait for the device.
    /// It must be most of all bytes, unwatched ones included, and large enough. `began` is the start of the device's
    /// episode; the largest operation is the evidence. That the wait was for this load is known by time only.
    fn behind(
        &self,
        window: &Window,
        device: &Device,
        began: Nanos,
        span: TimeSpan,
    ) -> Option<CauseCandidate> {
        let around = TimeSpan::new(span.start - BEFORE, span.end);
        let (mut matching, mut total, mut unwatched) = (0_u64, 0_u64, 0_u64);
        let mut largest: Option<&FileOp> = None;
        let key = |op: &FileOp| ((self.bytes)(op), op.start, op.tid);
        let ops = window.file_ops.all().flat_map(|ops| ops.overlapping(around));
        for op in ops.filter(|op| op.device.is(device)) {
            let bytes = (self.bytes)(op);
            total = total.saturating_add(bytes);
            if !(self.matches)(op) {
                unwatched = unwatched.saturating_add(unwatched_bytes(op));
            } else if bytes > 0 {
                matching = matching.saturating_add(bytes);
                largest = largest.filter(|largest| key(largest) >= key(op)).or(Some(op));
            }
        }
        let is_most =
            matching >= MIN_LOAD_BYTES && matching.saturating_mul(2) > total.saturating_add(unwatched);
        let largest = op_evidence(largest.filter(|_| is_most)?);
        let text = format!("{}; {}", (self.text)(matching, total, device), largest.text);
        let key = format!("{device}:{}", began.0);
        let own = CauseCandidate::new(self.cause, key, Confidence::Weak, span.length());
        Some(own.with([Evidence { text, ..largest }]))
    }
}

/// The log cleaner's thread name, truncated by the kernel to 15 characters.
/// In full `kafka-log-cleaner-thread-0` (`LogCleaner.CleanerThread`).
const CLEANER_THREAD: &str = "kafka-log-clean";

/// Loads that may keep a device busy, the most specific first.
const LOADS: [Load; 2] = [
    Load {
        cause: Cause::TierStateIo,
        matches: |op| op.kind == FileKind::TierState,
        bytes: read_bytes,
        text: |matching, total, device| {
            format!(
                "{matching} of the {total} bytes that the broker read from {device} meanwhile were tiered-storage state"
            )
        },
    },
    Load {
        cause: Cause::LogCleaner,
        matches: |op| op.thread.starts_with(CLEANER_THREAD),
        bytes: moved_bytes,
        text: |matching, total, device| {
            format!(
                "the log cleaner moved {matching} of the {total} bytes that the broker read from and wrote to {device} meanwhile"
            )
        },
    },
];
