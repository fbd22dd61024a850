//! Network threads and clients: `network-threads-busy`, `disk-read-in-network-thread`, `cache-eviction`, `slow-client`.
//!
//! A network thread is at work in calls on files or connections, and where the sampling clock finds it on a CPU. Calls in
//! close succession are one spell of work: between them the thread takes requests apart and hands responses on.
//!
//! A response is the client's from the moment at which its last byte had been given to the kernel. Before that the
//! network thread may have been at work elsewhere: then the connection needs trouble (a closed window, segments sent
//! again), or a window without room while the network thread was free to write.

use std::sync::Arc;

use model::{
    Cause, Confidence, Evidence, EvidenceKind, FileOp, FileOpKind, Nanos, Request, TcpEventKind, Tid,
};

use crate::causes::candidate::{CauseCandidate, merge_into, op_evidence};
use crate::causes::spec::{Area, CauseSpec, Current, Layer, Role, SPEC, broker, change, change_from};
use crate::causes::{cpu, jvm};
use crate::stages::Breakdown;
use crate::time_budget::TimeBudget;
use crate::waits;
use crate::window::{CLOCK_SLACK, Span as _, Window};

/// Causes of this file.
pub(crate) const CAUSES: &[CauseSpec] = &[
    CauseSpec {
        cause: Cause::NetworkThreadsBusy,
        event: "busy network thread{s}",
        area: Area::Threads,
        role: Role::Queue,
        needs: "the thread that read the request or wrote its response, by TCP sequence number, at work for most of the wait",
        root_evidence: &[EvidenceKind::Request, EvidenceKind::Host],
        advice: &[
            "the network thread was at work for others: raise num.network.threads",
            "if its time goes into TLS, terminate or offload that elsewhere",
        ],
        source: "a public case (IBM zSystems, 2022): num.network.threads 3 to 4, a small gain; RequestHandlerAvgIdlePercent and \
                 NetworkProcessorAvgIdlePercent in Kafka's documentation, monitoring",
        rule: "network-threads",
        layer: Some(Layer::Network),
        look_at: ", and the stages receive and respond",
        effect: "; nothing where their time goes into reads of the disk: see cold-reads",
        risk: "threads compete for the processors: no more of them than CPUs",
        ..SPEC
    },
    CauseSpec {
        cause: Cause::DiskReadInNetworkThread,
        event: "disk read{s} in a network thread",
        area: Area::Reads,
        role: Role::Queue,
        needs: "a sendfile or read whose thread waited for the device for most of it, or that lacked bytes in the page cache",
        root_evidence: &[EvidenceKind::FileOp, EvidenceKind::Request],
        advice: &[
            "a consumer that reads old records from the disk stops every other connection of its network thread (KAFKA-7504): more memory for the page cache, a quota on consumers that catch up (consumer_byte_rate), or tiered storage",
            "more network threads (num.network.threads) put fewer connections on each",
        ],
        source: "KAFKA-7504: a network thread that reads the disk for one connection keeps all its others waiting; Kafka's \
                 documentation, operations: hardware and OS",
        rule: "cold-reads",
        layer: Some(Layer::Os),
        condition: ", cache-eviction included",
        look_at: " and cache-eviction, and read_bytes_per_second of the process in host_samples/",
        changes: &[
            change(
                "consumer_byte_rate (kafka-configs, of clients that catch up)",
                "not known",
                "a bound below what the device reads",
            ),
            broker("num.network.threads", "3", "more: fewer connections on each"),
            change_from(
                "memory left to the page cache",
                Current::Memory,
                "what consumers lag behind, or tiered storage",
            ),
        ],
        risk: "consumers that catch up take longer",
        ..SPEC
    },
    CauseSpec {
        cause: Cause::CacheEviction,
        event: "read{s} of data evicted from the page cache",
        area: Area::Reads,
        needs: "the broker's own write of the bytes that a network thread's read found missing",
        root_evidence: &[EvidenceKind::FileOp, EvidenceKind::Request],
        advice: &[
            "what consumers read was no longer in the page cache: more memory, a smaller heap, or tiered storage for what is old",
            "reads of old records push new ones out: bound consumers that catch up by a quota (consumer_byte_rate)",
        ],
        source: "Kafka's documentation, operations: hardware and OS",
        ..SPEC
    },
    CauseSpec {
        cause: Cause::SlowClient,
        event: "slow client{s}",
        area: Area::Connection,
        needs: "the request's own packets came slowly, or the response's last byte had been given to the kernel (exact); before \
                that, trouble of the connection or a window without room",
        root_evidence: &[EvidenceKind::Network, EvidenceKind::Request],
        advice: &[
            "bytes came or went slowly: look at the client (a busy or paused process reads and writes late) and at the network before it (retransmissions)",
            "connections without window scaling carry 64 KiB a round trip: avoid SYN cookies when many clients connect at once (net.ipv4.tcp_max_syn_backlog, net.core.somaxconn, socket.listen.backlog.size; KIP-764, KAFKA-9648)",
        ],
        source: "KIP-764 and KAFKA-9648: connections that SYN cookies set up have no window scaling and carry 64 KiB a round trip",
        layer: Some(Layer::Network),
        look_at: ", and tcp_retransmits_per_second in host_samples/",
        changes: &[
            change(
                "the client that `explain` names",
                "reads or writes late",
                "its CPU, its pauses, the network to it",
            ),
            broker(
                "socket.listen.backlog.size",
                "50",
                "1024, with net.core.somaxconn and net.ipv4.tcp_max_syn_backlog",
            ),
        ],
        effect: "; the second only where SYN cookies were sent",
        risk: "a longer backlog takes a little memory",
        ..SPEC
    },
];

/// A thread with nothing to do waits in the kernel for longer than it takes to go on with the next connection.
const NEXT_CONNECTION: Nanos = Nanos::from_millis(1);
/// Gaps of less than this share of a wait are not where the wait went: a tenth.
const CLOSE_SHARE: i64 = 10;

/// One sample may have hit it by chance.
const MIN_SAMPLES: usize = 2;

/// What a network thread did in a stretch in which a connection waited for it, as far as it was at work. An idle one comes
/// at once, so one that was found on a CPU again and again, for a quarter of the time at least, was at work for all of it:
/// what the samples do not show is what others had of the CPUs.
pub(crate) fn network_thread_busy(
    window: &Window,
    tid: Tid,
    start: Nanos,
    end: Nanos,
) -> Vec<CauseCandidate> {
    let mut free = TimeBudget::new(start, end);
    let mut findings = device_reads(window, tid, start, end, &mut free);
    let at_work =
        at_work(window, tid, (start, end), NEXT_CONNECTION.min(Nanos((end - start).0 / CLOSE_SHARE)));
    let busy: Nanos = at_work.iter().map(|(from, until)| *until - *from).sum();
    let is_sampled = window.sockets.on_cpu(tid, start, end).count() >= MIN_SAMPLES;
    let share = if is_sampled { 4 } else { 2 };
    if busy.0.saturating_mul(share) <= (end - start).0 {
        return findings
            .into_iter()
            .map(|finding| behind_network_thread(window, tid, start, end, finding))
            .collect();
    }
    let other: Nanos = if is_sampled {
        free.left()
    } else {
        at_work.iter().map(|(from, until)| free.take(*from, *until)).sum()
    };
    findings =
        findings.into_iter().map(|finding| behind_network_thread(window, tid, start, end, finding)).collect();
    if other > Nanos::ZERO {
        findings.push(network_thread_itself(window, tid, (start, end), other));
    }
    findings
}

/// What a network thread read from the device between a request's own read and its going to the handlers, and when it
/// was done: it hands on what it read when it has served every connection that was ready (`SocketServer.Processor.run`:
/// `poll`, then `processCompletedReceives`).
pub(crate) fn before_hand_over(
    window: &Window,
    tid: Tid,
    read: Nanos,
    until: Nanos,
) -> Option<(Nanos, Vec<CauseCandidate>)> {
    // Most read nothing: then there is no need to know when it was at work.
    window.thread(tid)?.file_ops.overlapping(read, until).next()?;
    let (start, end) = at_work(window, tid, (read, until), NEXT_CONNECTION).into_iter().next()?;
    if start - read > NEXT_CONNECTION {
        return None;
    }
    let sent = window.thread(tid)?.file_ops.overlapping(start, end);
    let done = sent.filter(|op| disk_read(window, op).is_some()).map(|op| op.end.min(end)).max()?;
    let findings = device_reads(window, tid, read, done, &mut TimeBudget::new(read, done));
    Some((
        done,
        findings.into_iter().map(|finding| behind_network_thread(window, tid, read, done, finding)).collect(),
    ))
}

/// Reads of files from the device meanwhile: the reason that can be named.
fn device_reads(
    window: &Window,
    tid: Tid,
    start: Nanos,
    end: Nanos,
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    let Some(past) = window.thread(tid) else { return Vec::new() };
    let sent = past
        .file_ops
        .overlapping(start, end)
        .filter(|op| matches!(op.op, FileOpKind::Sendfile | FileOpKind::Splice | FileOpKind::Read));
    let found = sent.filter_map(|op| {
        let finding = disk_read(window, op)?;
        let time = free.take(op.start, op.end);
        (time > Nanos::ZERO && op.overlap(start, end) > Nanos::ZERO)
            .then_some(CauseCandidate { time, ..finding })
    });
    let mut findings: Vec<CauseCandidate> = Vec::new();
    for finding in found {
        merge_into(&mut findings, finding);
    }
    findings
}

/// Spells of work within a stretch, in order; what lies no further apart than `close` is one.
fn at_work(window: &Window, tid: Tid, (start, end): (Nanos, Nanos), close: Nanos) -> Vec<(Nanos, Nanos)> {
    let calls = window.sockets.of_thread(tid, start, end).map(|call| (call.start, call.end));
    let files = window.thread(tid).into_iter().flat_map(|past| past.file_ops.overlapping(start, end));
    let on_cpu = window.sockets.on_cpu(tid, start, end);
    let is_sampled = window.sockets.on_cpu(tid, start, end).count() >= MIN_SAMPLES;
    let on_cpu = on_cpu.filter(|_| is_sampled);
    let mut calls: Vec<(Nanos, Nanos)> =
        calls.chain(files.map(|op| (op.start, op.end))).chain(on_cpu).collect();
    calls.sort_unstable();
    let mut spells: Vec<(Nanos, Nanos)> = Vec::new();
    for (from, until) in calls {
        let (from, until) = (from.max(start), until.min(end));
        match spells.last_mut().filter(|spell| from - spell.1 <= close) {
            Some(spell) => spell.1 = spell.1.max(until),
            None => spells.push((from, until)),
        }
    }
    spells
}

fn behind_network_thread(
    window: &Window,
    tid: Tid,
    start: Nanos,
    end: Nanos,
    deeper: CauseCandidate,
) -> CauseCandidate {
    let own = network_thread_itself(window, tid, (start, end), deeper.time);
    // The partition is another request's.
    CauseCandidate { partition: None, ..own.behind(deeper) }
}

fn network_thread_itself(
    window: &Window,
    tid: Tid,
    (start, end): (Nanos, Nanos),
    time: Nanos,
) -> CauseCandidate {
    let thread = window.sockets.thread(tid).map(|name| window.name(tid, name));
    let calls = window.sockets.of_thread(tid, start, end).count();
    let samples = match window.sockets.on_cpu(tid, start, end).count() {
        0 => String::new(),
        samples => format!(" and was found on a CPU {samples} times"),
    };
    CauseCandidate {
        cause: Cause::NetworkThreadsBusy,
        chain: vec![Cause::NetworkThreadsBusy],
        root: Arc::from(format!("{}:{tid}", Cause::NetworkThreadsBusy)),
        // The thread by an exact key; that it could not have come earlier, by the order of what it did.
        confidence: Confidence::Strong,
        evidence: vec![Evidence {
            kind: EvidenceKind::Network,
            start,
            end,
            tid: Some(tid),
            text: format!(
                "waited {} for its network thread, which made {calls} calls{samples} meanwhile",
                end - start
            ),
            thread,
            waiter: None,
        }],
        time,
        partition: None,
    }
}

/// Why a network thread's read of a file was slow, if the device was: `of` its time in the end.
pub(crate) fn disk_read(window: &Window, op: &FileOp) -> Option<CauseCandidate> {
    let read = waits::device_read(window, op)?;
    let mut evidence = vec![read_evidence(op)];
    evidence.extend(read.longest.as_ref().map(waits::OperationWaits::evidence));
    let own = CauseCandidate::new(
        Cause::DiskReadInNetworkThread,
        format!("{}:{}", Cause::DiskReadInNetworkThread, op.file),
        if read.longest.is_none() { Confidence::Strong } else { Confidence::Exact },
        evidence,
        op.latency(),
    )
    .of_partition(op.topic_partition.clone());
    Some(match earlier_write(window, op) {
        Some(write) => own.behind(cache_eviction(op, write)),
        None => own,
    })
}

/// The broker's own write of bytes that a read found missing.
fn earlier_write<'w>(window: &'w Window, op: &FileOp) -> Option<&'w FileOp> {
    let until = op.offset + op.bytes.unwrap_or_default();
    let appends = window.partition(op.topic_partition.as_ref()?)?.ended_by(op.start);
    appends
        .map(|write| &**write)
        .filter(|write| write.inode == op.inode && write.device.is(&op.device))
        .take_while(|write| write.offset + write.bytes.unwrap_or_default() > op.offset)
        .find(|write| write.offset < until)
}

fn cache_eviction(op: &FileOp, write: &FileOp) -> CauseCandidate {
    CauseCandidate::new(
        Cause::CacheEviction,
        format!("{}:{}", Cause::CacheEviction, op.file),
        Confidence::Strong,
        vec![
            Evidence::new(
                EvidenceKind::FileOp,
                write.start,
                write.end,
                format!(
                    "these bytes of {} had been written {} before, and were no longer in the page cache",
                    op.file,
                    op.start - write.end
                ),
            )
            .of_thread(write.tid, &write.thread),
        ],
        op.latency(),
    )
    .of_partition(op.topic_partition.clone())
}

fn read_evidence(op: &FileOp) -> Evidence {
    let from = match op.disk_bytes {
        None | Some(0) => "still on their way from the device when it began".to_owned(),
        Some(bytes) => format!("{bytes} bytes of it from the device"),
    };
    let text = format!("{}, {from}", crate::causes::candidate::op_evidence(op).text);
    Evidence { text, ..op_evidence(op) }
}

/// A new connection's receive window that nobody reads takes so much (`tcp_rmem`'s default of 128 KiB, of which half is
/// for data: `tcp_win_from_space`, include/net/tcp.h).
const TAKEN_UNREAD_BYTES: u32 = 64 * 1024;

/// A request whose own bytes came slowly.
pub(crate) fn slow_arrival(window: &Window, request: &Request) -> Option<CauseCandidate> {
    let (start, end) = (request.arrival, request.arrival_end);
    let muted = window.connection_busy(request, start, end);
    let fits = request.request_bytes <= TAKEN_UNREAD_BYTES;
    let stops = if fits { Vec::new() } else { jvm::pauses(window, 0, start, end) };
    let stopped: Nanos = stops.iter().map(|stop| stop.overlap(start, end)).sum();
    let time = (end - start - muted - stopped).at_least_zero();
    let confidence = if fits { Confidence::Exact } else { Confidence::Strong };
    (time > Nanos::ZERO).then(|| {
        let text = format!("the request's {} bytes took {} to arrive", request.request_bytes, end - start);
        let evidence = vec![connection_evidence(EvidenceKind::Request, start, end, text)];
        slow_client(window, request, confidence, evidence, time)
    })
}

/// A response whose bytes went slowly, within what is left of the time from its first byte on.
pub(crate) fn slow_departure(
    window: &Window,
    request: &Request,
    course: &Breakdown<'_>,
    mut take: impl FnMut(Nanos, Nanos) -> Nanos,
) -> Option<CauseCandidate> {
    let (begun, end) = (course.answered, course.end);
    let trouble = trouble_evidence(window, request, begun, end);
    let last = request.response_sequence_end()?.wrapping_sub(1);
    let handed = window.sockets.write_of((request.client, request.broker), last, end).map(|write| write.end);
    let handed = handed.filter(|handed| *handed >= begun);
    let given = handed.map_or(Nanos::ZERO, |handed| take(handed.min(end), end));
    let until = handed.unwrap_or(end).min(end);
    let waited = if trouble.is_empty() {
        no_room(window, request, course, until).into_iter().map(|(from, until)| take(from, until)).sum()
    } else {
        take(begun, until)
    };
    let time = given + waited;
    if time <= Nanos::ZERO {
        return None;
    }
    let confidence = if waited > given { Confidence::Strong } else { Confidence::Exact };
    let bytes = request.response_bytes.unwrap_or_default();
    let unsent = handed.map(|handed| (end - handed).at_least_zero());
    let unsent = unsent.map(|rest| format!(", {rest} of it after the broker had written the last"));
    let text =
        format!("the response's {bytes} bytes took {} to leave{}", end - begun, unsent.unwrap_or_default());
    let mut evidence = vec![connection_evidence(EvidenceKind::Request, begun, end, text)];
    evidence.extend(trouble);
    Some(slow_client(window, request, confidence, evidence, time))
}

/// The times between two writes of a response in which the client's window had no room for what was left.
fn no_room(window: &Window, request: &Request, course: &Breakdown<'_>, until: Nanos) -> Vec<(Nanos, Nanos)> {
    let (Some(first), Some(last)) = (course.answer, request.response_sequence_end()) else {
        return Vec::new();
    };
    let writes = window.sockets.writes_within((request.client, request.broker), first, until);
    let mut gaps = Vec::new();
    let mut before = first;
    for write in writes {
        let no_room = write.peer_window.is_some_and(|room| room < write.left_until(last));
        let gap = (before.end, write.start);
        if no_room && gap.0 < gap.1 && was_free(window, write.tid, gap) {
            gaps.push(gap);
        }
        before = *write;
    }
    gaps
}

/// Whether a network thread could have written for most of a stretch.
fn was_free(window: &Window, tid: Tid, (start, end): (Nanos, Nanos)) -> bool {
    let mut free = TimeBudget::new(start, end);
    let all = free.left();
    for call in window.sockets.of_thread(tid, start, end) {
        free.take(call.start, call.end);
    }
    for stop in jvm::pauses(window, 0, start, end) {
        free.take(stop.start, stop.end);
    }
    cpu::runnable_thread(window, tid, (start, end), &mut free);
    free.left().0.saturating_mul(2) > all.0
}

fn slow_client(
    window: &Window,
    request: &Request,
    confidence: Confidence,
    mut evidence: Vec<Evidence>,
    time: Nanos,
) -> CauseCandidate {
    if window.trouble.is_unscaled(request.client, request.broker) {
        let text = "the connection has no window scaling: it carries 64 KiB a round trip at most".to_owned();
        evidence.push(connection_evidence(EvidenceKind::Network, request.arrival, request.last_seen(), text));
    }
    CauseCandidate::new(
        Cause::SlowClient,
        format!("slow-client:{}", request.client),
        confidence,
        evidence,
        time,
    )
}

/// What went wrong with the connection in a stretch, each kind once.
fn trouble_evidence(window: &Window, request: &Request, start: Nanos, end: Nanos) -> Vec<Evidence> {
    let (start, end) = (start - CLOCK_SLACK, end + CLOCK_SLACK);
    let of = |kind| {
        let all = window.trouble.of_connection(request.client, request.broker, start, end);
        let times: Vec<_> = all.filter(|trouble| trouble.kind == kind).map(|trouble| trouble.at).collect();
        let (first, last) = (times.first().copied()?, times.last().copied()?);
        let text = match (kind, times.len()) {
            (TcpEventKind::Retransmit, 1) => "a segment had to be sent again".to_owned(),
            (TcpEventKind::Retransmit, count) => format!("{count} segments had to be sent again"),
            _ => "the client's receive window was closed".to_owned(),
        };
        Some(connection_evidence(EvidenceKind::Network, first, last, text))
    };
    [TcpEventKind::ZeroWindow, TcpEventKind::Retransmit].into_iter().filter_map(of).collect()
}

fn connection_evidence(kind: EvidenceKind, start: Nanos, end: Nanos, text: String) -> Evidence {
    Evidence::new(kind, start, end, text)
}
