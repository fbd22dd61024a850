//! Network threads and clients: `network-threads-busy`, `disk-read-in-network-thread`, `cache-eviction`, `slow-client`.
//!
//! A network thread is at work in calls on files or connections, and when the sampling clock finds it on a CPU. Calls
//! in close succession are one spell of work: between them the thread parses requests and hands over responses.
//!
//! The time after the response's last byte was given to the kernel belongs to the client. Before that the network
//! thread may have been at work elsewhere: then the client is to blame only if the connection was in trouble (a
//! closed window, retransmitted segments), or if its window had no room while the network thread was free to write.

use model::{
    Cause, Confidence, Evidence, EvidenceKind, FileOp, Nanos, Request, RequestSource, TcpEventKind, Tid,
};

use crate::causes::candidate::{CauseCandidate, evidence, merge_into, op_evidence};
use crate::causes::spec::{Current, broker, causes, change, change_from};
use crate::causes::{cpu, handlers, stops, throttles};
use crate::logged::is_logged;
use crate::stages::response::is_read;
use crate::stages::{self, Breakdown, ends_with_write};
use crate::time::{Span, TimeBudget, TimeSpan};
use crate::waits;
use crate::window::sockets::MIN_SAMPLES;
use crate::window::{CLOCK_SLACK, Window, connection_of};

causes! {
    NetworkThreadsBusy: Queue in Threads, changed in Network {
        event: "busy network thread{s}",
        needs: "the thread that read the request or wrote its response, by TCP sequence number, at work for most of the wait",
        root_evidence: &[EvidenceKind::Request, EvidenceKind::Host],
        advice: &[
            "the network thread was busy with other connections: raise num.network.threads",
            "if its time goes into TLS, terminate or offload that elsewhere",
        ],
        source: "a public case (IBM zSystems, 2022): num.network.threads 3 to 4, a small gain; RequestHandlerAvgIdlePercent and \
                 NetworkProcessorAvgIdlePercent in Kafka's documentation, monitoring",
        rule: "network-threads",
        look_at: ", and the stages receive and respond",
        effect: "; nothing if they spend it on disk reads: see cold-reads",
        risk: "threads compete for CPUs: have no more of them than CPUs",
    }

    DiskReadInNetworkThread: Queue in Reads, changed in Os {
        event: "file{s} read from disk in a network thread",
        needs: "a sendfile or read that waited for the device for most of its time, or whose bytes were not in the page cache",
        root_evidence: &[EvidenceKind::FileOp, EvidenceKind::Request],
        advice: &[
            "a consumer that reads old records from the disk stops every other connection of its network thread (KAFKA-7504): more memory for the page cache, a quota on consumers that catch up (consumer_byte_rate), or tiered storage",
            "more network threads (num.network.threads) put fewer connections on each",
        ],
        source: "KAFKA-7504: a network thread that reads the disk for one connection keeps all its others waiting; Kafka's \
                 documentation, operations: hardware and OS",
        rule: "cold-reads",
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
                "enough for what consumers lag behind, or tiered storage",
            ),
        ],
        risk: "consumers that catch up take longer",
    }

    CacheEviction: Root in Reads {
        event: "file{s} evicted from the page cache",
        needs: "the broker's own write of the bytes that a network thread's read found missing",
        root_evidence: &[EvidenceKind::FileOp, EvidenceKind::Request],
        advice: &[
            "what consumers read was no longer in the page cache: more memory, a smaller heap, or tiered storage for what is old",
            "reads of old records push new ones out: bound consumers that catch up by a quota (consumer_byte_rate)",
        ],
        source: "Kafka's documentation, operations: hardware and OS",
    }

    SlowClient: Root in Connection, changed in Network {
        event: "slow client{s}",
        needs: "the request's own packets arrived slowly, or the response's last byte had been written to the socket \
                (exact); before that, retransmissions or a full receive window of the client",
        root_evidence: &[EvidenceKind::Network, EvidenceKind::Request],
        advice: &[
            "the request arrived slowly or the response left slowly: look at the client (a busy or paused process reads and writes late) and at the network to it (retransmissions)",
            "connections without window scaling carry 64 KiB a round trip: avoid SYN cookies when many clients connect at once (net.ipv4.tcp_max_syn_backlog, net.core.somaxconn, socket.listen.backlog.size; KIP-764, KAFKA-9648)",
        ],
        source: "KIP-764 and KAFKA-9648: connections that SYN cookies set up have no window scaling and carry 64 KiB a round trip",
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
        effect: "; the second change only if SYN cookies were sent",
        risk: "a longer backlog takes a little memory",
    }
}

/// Maximum time from one connection to the next of a thread at work.
/// A thread that takes longer had nothing to do and waited in the kernel.
const NEXT_CONNECTION: Nanos = Nanos::from_millis(1);
/// Gaps below this share of a wait do not explain the wait: a tenth.
const CLOSE_SHARE: i64 = 10;

/// What a network thread did in a stretch in which a connection waited for it.
/// Covers the time in which it was at work. An idle one comes at once. So one that samples found on a CPU for at least
/// a quarter of the time was at work for all of it: in the time that the samples do not cover, others had the CPUs.
/// Without samples, calls in close succession are one spell of work; with them, the time between calls is known.
pub(crate) fn network_thread_busy(window: &Window, tid: Tid, span: TimeSpan) -> Vec<CauseCandidate> {
    let mut free = TimeBudget::new(span);
    let mut candidates = device_reads(window, tid, span, &mut free);
    let is_sampled = is_sampled(window, tid, span);
    let at_once = NEXT_CONNECTION.min(Nanos(span.length().0 / CLOSE_SHARE));
    let (close, share) = if is_sampled { (Nanos::ZERO, 4) } else { (at_once, 2) };
    let at_work = at_work(window, tid, span, close);
    let busy: Nanos = at_work.iter().map(|spell| spell.length()).sum();
    if busy.0.saturating_mul(share) > span.length().0 {
        let other = if is_sampled { free.left() } else { free.take_all(at_work) };
        candidates.extend((other > Nanos::ZERO).then(|| network_thread_itself(window, tid, span, other)));
    }
    candidates
}

/// What a network thread read from the device before it handed over a request.
/// Covers the time from the request's own read to its hand-over to the handlers. Returned with the time at which that
/// was done: the thread hands over what it read after it has served every ready connection
/// (`SocketServer.Processor.run`: `poll`, then `processCompletedReceives`).
pub(crate) fn before_hand_over(
    window: &Window,
    tid: Tid,
    span: TimeSpan,
) -> Option<(TimeSpan, Vec<CauseCandidate>)> {
    // Most read no files: then it need not be known when the thread was at work.
    window.file_ops.of(&tid).overlapping(span).next()?;
    let spell = at_work(window, tid, span, NEXT_CONNECTION).into_iter().next()?;
    if spell.start - span.start > NEXT_CONNECTION {
        return None;
    }
    let sent = window.file_ops.of(&tid).overlapping(spell);
    let done = sent.filter(|op| disk_read(window, op).is_some()).map(|op| op.end.min(spell.end)).max()?;
    let span = span.until(done);
    Some((span, device_reads(window, tid, span, &mut TimeBudget::new(span))))
}

/// A network thread's reads of files from the device in a stretch: the reason that can be named.
fn device_reads(window: &Window, tid: Tid, span: TimeSpan, free: &mut TimeBudget) -> Vec<CauseCandidate> {
    let mut reads: Vec<CauseCandidate> = Vec::new();
    for op in window.file_ops.of(&tid).overlapping(span).filter(|op| is_read(op.op)) {
        let found = disk_read(window, op).and_then(|read| Some((read, free.take_any(op.span())?)));
        if let Some((read, time)) = found {
            merge_into(&mut reads, CauseCandidate { time, ..read });
        }
    }
    let behind = |read: CauseCandidate| network_thread_itself(window, tid, span, read.time).behind(read);
    reads.into_iter().map(behind).collect()
}

/// Whether samples found a thread on a CPU more often than by chance.
fn is_sampled(window: &Window, tid: Tid, span: TimeSpan) -> bool {
    window.sockets.on_cpu(tid, span).count() >= MIN_SAMPLES
}

/// Spells of work within a stretch, in order; calls no further apart than `close` are one spell.
fn at_work(window: &Window, tid: Tid, span: TimeSpan, close: Nanos) -> Vec<TimeSpan> {
    let calls = window.sockets.of_thread(tid, span).map(Span::span);
    let files = window.file_ops.of(&tid).overlapping(span).map(Span::span);
    let is_sampled = is_sampled(window, tid, span);
    let on_cpu = window.sockets.on_cpu(tid, span).filter(|_| is_sampled);
    let mut calls: Vec<TimeSpan> = calls.chain(files).chain(on_cpu).collect();
    calls.sort_unstable();
    let mut spells: Vec<TimeSpan> = Vec::new();
    for call in calls.into_iter().map(|call| call.within(span)) {
        match spells.last_mut().filter(|spell| call.start - spell.end <= close) {
            Some(spell) => spell.end = spell.end.max(call.end),
            None => spells.push(call),
        }
    }
    spells
}

fn network_thread_itself(window: &Window, tid: Tid, span: TimeSpan, time: Nanos) -> CauseCandidate {
    let thread = window.sockets.thread(tid).map(|name| window.name(tid, name));
    let calls = window.sockets.of_thread(tid, span).count();
    let samples = match window.sockets.on_cpu(tid, span).count() {
        0 => String::new(),
        samples => format!(" and was found on a CPU {samples} times"),
    };
    let waited = span.length();
    let text = format!("waited {waited} for its network thread, which made {calls} calls{samples} meanwhile");
    let seen = Evidence { tid: Some(tid), thread, ..evidence(EvidenceKind::Network, &span, text) };
    // The thread by an exact key; that it could not come earlier, by the order of its calls.
    CauseCandidate::new(Cause::NetworkThreadsBusy, tid, Confidence::Strong, time).with([seen])
}

/// Why a network thread's read of a file was slow, if the device was the reason.
pub(crate) fn disk_read(window: &Window, op: &FileOp) -> Option<CauseCandidate> {
    let read = waits::device_read(window, op)?;
    let confidence = if read.longest.is_none() { Confidence::Strong } else { Confidence::Exact };
    let own = CauseCandidate::new(Cause::DiskReadInNetworkThread, &op.file, confidence, op.latency())
        .with([read_evidence(op)])
        .with(read.longest.as_ref().map(waits::OperationWaits::evidence))
        .of_partition_of(op);
    let held_back = read.longest.as_ref().and_then(|waits| throttles::held_back(window, waits));
    Some(
        own.behind_any(
            held_back.or_else(|| earlier_write(window, op).map(|write| cache_eviction(op, write))),
        ),
    )
}

/// The broker's own earlier write of the bytes that a read found missing.
fn earlier_write<'w>(window: &'w Window, op: &FileOp) -> Option<&'w FileOp> {
    let end_of = |op: &FileOp| op.offset.saturating_add(op.bytes.unwrap_or(0));
    let appends = window.partitions.of(op.topic_partition.as_ref()?).ended_by(op.start);
    appends
        .map(|write| &**write)
        .filter(|write| write.inode == op.inode && write.device.is(&op.device))
        .take_while(|write| end_of(write) > op.offset)
        .find(|write| write.offset < end_of(op))
}

fn cache_eviction(op: &FileOp, write: &FileOp) -> CauseCandidate {
    let text = format!(
        "these bytes of {} were written {} earlier and were no longer in the page cache",
        op.file,
        op.start - write.end
    );
    let seen = evidence(EvidenceKind::FileOp, write, text).of_thread(write.tid, &write.thread);
    CauseCandidate::new(Cause::CacheEviction, &op.file, Confidence::Strong, op.latency())
        .with([seen])
        .of_partition_of(op)
}

fn read_evidence(op: &FileOp) -> Evidence {
    let from = match op.disk_bytes {
        None | Some(0) => "still on their way from the device when it began".to_owned(),
        Some(bytes) => format!("{bytes} bytes of it from the device"),
    };
    let seen = op_evidence(op);
    Evidence { text: format!("{}, {from}", seen.text), ..seen }
}

/// A request whose own bytes arrived slowly. Or one that was too large to arrive while the broker stood still.
pub(crate) fn slow_arrival(window: &Window, request: &Request) -> Vec<CauseCandidate> {
    let from = stages::unread_span(window, request).map_or(request.arrival, |unread| unread.end);
    let span = TimeSpan::new(from.min(request.arrival_end), request.arrival_end);
    let muted = window.connection_busy(request, span);
    let fits = stages::fits_window(request);
    let mut free = TimeBudget::new(span);
    // The calls between which the bytes arrived are those of a thread that may have been delayed.
    let by_calls = stages::is_by_agent(request) && (!fits || request.read.is_none());
    let mut found = if by_calls {
        held_up_between_reads(window, request, span, &mut free)
    } else {
        stops::explain_arrival(window, !fits, span, &mut free)
    };
    if muted > Nanos::ZERO {
        // The request ahead stood still too, and has that cause.
        found.clear();
    }
    let time = (free.left() - muted).at_least_zero();
    // Its reader may have had no CPU between two reads although the bytes were there.
    let by_packets = matches!(request.seen_by, None | Some(RequestSource::Packets));
    let confidence = if fits && by_packets { Confidence::Exact } else { Confidence::Strong };
    found.extend((time > Nanos::ZERO).then(|| {
        let text = format!("the request's {} bytes took {} to arrive", request.request_bytes, span.length());
        let seen = vec![evidence(EvidenceKind::Request, &span, text)];
        slow_client(window, request, (confidence, time), seen)
    }));
    found
}

/// What delayed the network thread between its reads of a request.
/// The request's bytes may have arrived long before. Names stops and what kept the thread from its work. Its work for
/// others is taken but not explained, because the client may have been slow as well.
fn held_up_between_reads(
    window: &Window,
    request: &Request,
    span: TimeSpan,
    free: &mut TimeBudget,
) -> Vec<CauseCandidate> {
    let mut found = stops::explain(window, 0, span, free);
    if let Some(read) = window.sockets.last_read_within(connection_of(request), span) {
        found.extend(handlers::starvation_of_thread(window, read.tid, span, free));
        free.take_all(at_work(window, read.tid, span, Nanos::ZERO));
    }
    for cause in &mut found {
        cause.confidence = cause.confidence.min(Confidence::Strong);
    }
    found
}

/// A response whose bytes left slowly, in the remaining time since its first byte.
pub(crate) fn slow_departure(breakdown: &Breakdown<'_>, free: &mut TimeBudget) -> Option<CauseCandidate> {
    let (window, request) = (breakdown.window, breakdown.request);
    // Kafka's send time also has what its thread did before the first write.
    let begun = if is_logged(request) { breakdown.answer?.start } else { breakdown.answered };
    let span = TimeSpan::new(begun, breakdown.end);
    let trouble = trouble_evidence(window, request, span);
    let rest = response_end(window, request, span)?;
    let last = rest.wrapping_sub(1);
    let handed = window.sockets.write_of(connection_of(request), last, span.end).map(|write| write.end);
    let handed = handed.filter(|handed| *handed >= span.start);
    let left = handed.filter(|_| !ends_with_write(request));
    let after_write = left.map_or(Nanos::ZERO, |handed| free.take(TimeSpan::new(handed, span.end)));
    let before = handed.map_or(span, |handed| span.until(handed));
    let waited = if trouble.is_empty() {
        free.take_all(no_room(breakdown, rest, before.end))
    } else {
        free.take(before)
    };
    let time = after_write + waited;
    if time <= Nanos::ZERO {
        return None;
    }
    let confidence = if waited > after_write { Confidence::Strong } else { Confidence::Exact };
    let unsent = left.map(|handed| (span.end - handed).at_least_zero());
    let unsent = unsent.map(|rest| format!(", {rest} of it after the broker had written the last"));
    let size = request
        .response_bytes
        .map_or_else(|| "the response".to_owned(), |bytes| format!("the response's {bytes} bytes"));
    let text = format!("{size} took {} to leave{}", span.length(), unsent.unwrap_or_default());
    let mut seen = vec![evidence(EvidenceKind::Request, &span, text)];
    seen.extend(trouble);
    Some(slow_client(window, request, (confidence, time), seen))
}

/// The sequence number after a response's last byte, by the response's size.
/// For an encrypted response, whose size on the wire is unknown, by the last write within the broker's calls.
fn response_end(window: &Window, request: &Request, span: TimeSpan) -> Option<u32> {
    if ends_with_write(request) {
        return Some(window.sockets.last_write_within(connection_of(request), span)?.next());
    }
    request.response_sequence_end()
}

/// Times between two writes of a response with no room in the client's window.
/// The window had no room for the rest of the response, which ends before the sequence number `last`.
fn no_room(breakdown: &Breakdown<'_>, last: u32, until: Nanos) -> Vec<TimeSpan> {
    let (window, request) = (breakdown.window, breakdown.request);
    let Some(first) = breakdown.answer else { return Vec::new() };
    let mut gaps = Vec::new();
    let mut before = first;
    for write in window.sockets.writes_within(connection_of(request), first, until) {
        let no_room = write.peer_window.is_some_and(|room| room < write.left_until(last));
        let gap = TimeSpan::new(before.end, write.start);
        if no_room && !gap.is_empty() && was_free(window, write.tid, gap) {
            gaps.push(gap);
        }
        before = *write;
    }
    gaps
}

/// Whether a network thread could have written for most of a stretch.
fn was_free(window: &Window, tid: Tid, span: TimeSpan) -> bool {
    let mut free = TimeBudget::new(span);
    free.take_all(at_work(window, tid, span, Nanos::ZERO));
    free.take_all(stops::standstills(window, 0, span).iter().map(Span::span));
    cpu::runnable_thread(window, tid, span, &mut free);
    span.is_most(free.left())
}

fn slow_client(
    window: &Window,
    request: &Request,
    (confidence, time): (Confidence, Nanos),
    mut seen: Vec<Evidence>,
) -> CauseCandidate {
    if window.troubles.is_unscaled(connection_of(request)) {
        let text = "the connection has no window scaling: it carries 64 KiB a round trip at most";
        seen.push(evidence(EvidenceKind::Network, request, text));
    }
    CauseCandidate::new(Cause::SlowClient, request.client, confidence, time).with(seen)
}

/// Trouble with the connection in a stretch, each kind once.
fn trouble_evidence(window: &Window, request: &Request, span: TimeSpan) -> Vec<Evidence> {
    let span = TimeSpan::new(span.start - CLOCK_SLACK, span.end + CLOCK_SLACK);
    let of = |kind| {
        let all = window.troubles.of_connection(connection_of(request), span);
        let times: Vec<_> = all.filter(|trouble| trouble.kind == kind).map(|trouble| trouble.at).collect();
        let seen = TimeSpan::new(times.first().copied()?, times.last().copied()?);
        let text = match (kind, times.len()) {
            (TcpEventKind::Retransmit, 1) => "1 segment was retransmitted".to_owned(),
            (TcpEventKind::Retransmit, count) => format!("{count} segments were retransmitted"),
            _ => "the client's receive window was full (zero window)".to_owned(),
        };
        Some(evidence(EvidenceKind::Network, &seen, text))
    };
    [TcpEventKind::ZeroWindow, TcpEventKind::Retransmit].into_iter().filter_map(of).collect()
}
