//! Causes of a request's waits outside its own handler: each fires where it was injected, and stays silent if one
//! link of its evidence is missing.

use model::{
    Cause, Confidence, CpuSample, Event, FileOp, FileOpKind, Nanos, Request, RequestSource, SocketOp,
    SocketOpKind, Stage, Verdict,
};

use super::stages::{NETWORK, all_stages, fetch, follower_fetch, numbered, read, socket_op, us, write};
use super::{JOURNAL_STACK, append, commit, ms, off_cpu, op, request, request_event, run};

fn of(events: impl IntoIterator<Item = Event>, number: i32) -> Verdict {
    let (verdicts, _) = run(events);
    verdicts.into_iter().find(|verdict| verdict.request.correlation_id == number).unwrap()
}

/// A request in the queue while the journal delayed both handlers.
/// It was read at 1,000 ms. Its handler, thread 7, took it at 1,150 ms, after an append that the journal delayed. The
/// second handler was delayed as long.
fn queued() -> Vec<Event> {
    let ours = numbered(request(1, 6, 1_000, 1_155, 1));
    let stall = |tid, partition, crc| {
        [off_cpu(tid, ms(991), ms(1_150), JOURNAL_STACK), op(append(tid, partition, ms(990), ms(1_150), crc))]
    };
    let mut events = vec![read(&ours, us(1_000_100), us(1_000_200))];
    events.extend(stall(7, 1, 50).into_iter().chain(stall(8, 2, 51)));
    events.extend([
        op(append(7, 6, ms(1_152), ms(1_153), 1)),
        write(&ours, us(1_154_900), us(1_154_950)),
        commit(2285, 980, 1_151),
        request_event(ours),
    ]);
    events
}

#[test]
fn queued_request_has_the_cause_of_the_busy_handlers() {
    let verdict = of(queued(), 1);
    assert_eq!(verdict.stages.longest(), Stage::Queue);
    assert_eq!(verdict.chain, [Cause::HandlersBusy, Cause::JournalCommit]);
    assert_eq!(&*verdict.root, "journal-commit:loop0:2285");
    assert_eq!(verdict.confidence, Confidence::Strong);
    assert!(
        verdict.evidence[0].text.contains("all request handlers were busy (2 seen)"),
        "{:?}",
        verdict.evidence
    );
}

/// The same with one handler in a slow append. Three more appended to `partition` right after it did.
fn queued_behind_a_lock(partition: i32) -> Vec<Event> {
    let ours = numbered(request(1, 6, 1_000, 1_155, 1));
    let mut events = vec![
        read(&ours, us(1_000_100), us(1_000_200)),
        off_cpu(7, ms(991), ms(1_150), JOURNAL_STACK),
        op(append(7, 1, ms(990), ms(1_150), 50)),
    ];
    let waiter = |(tid, start)| op(append(tid, partition, us(start), us(start + 50), tid));
    events.extend([(8, 1_150_100), (9, 1_150_200), (10, 1_150_300)].map(waiter));
    events.extend([
        op(append(8, 6, ms(1_152), ms(1_153), 1)),
        write(&ours, us(1_154_900), us(1_154_950)),
        commit(2285, 980, 1_151),
        request_event(ours),
    ]);
    events
}

#[test]
fn handlers_waiting_for_a_log_have_the_cause_of_its_holder() {
    let verdict = of(queued_behind_a_lock(1), 1);
    assert_eq!(verdict.cause, Cause::JournalCommit, "{:?}", verdict.chain);
    assert_eq!(&*verdict.root, "journal-commit:loop0:2285");
    assert_eq!(verdict.confidence, Confidence::Strong);
    let elsewhere = of(queued_behind_a_lock(2), 1);
    assert_eq!(elsewhere.cause, Cause::Unobserved, "another log's holder kept nobody: what did is not known");
}

/// On a CPU at every sample, every 20 ms from 1,010 ms on.
fn computing(tid: u32) -> impl Iterator<Item = Event> {
    sampled(tid, (0..7).map(|i| 1_010 + 20 * i))
}

fn sampled(tid: u32, at: impl Iterator<Item = i64>) -> impl Iterator<Item = Event> {
    at.map(move |at| {
        Event::CpuSample(Box::new(CpuSample {
            at: ms(at),
            period: ms(20),
            pid: 1,
            tid,
            thread: "data-plane-kafk".into(),
            stack: "".into(),
        }))
    })
}

/// Without the handler in a slow append: thread 8 takes the request after another handler's append.
fn queued_for_unknown_handlers() -> Vec<Event> {
    let mut events = vec![op(append(8, 3, ms(900), ms(901), 70)), op(append(9, 3, ms(902), ms(903), 71))];
    events.extend(queued_behind_a_lock(2));
    let is_seven = |event: &Event| match event {
        Event::FileOp(op) => op.tid == 7 || op.tid == 10,
        Event::OffCpu(away) => away.tid == 7,
        _ => false,
    };
    events.retain(|event| !is_seven(event));
    events
}

#[test]
fn handlers_busy_needs_evidence_for_every_handler() {
    let with = |computing: Vec<Event>| {
        let mut events = queued_for_unknown_handlers();
        events.splice(2..2, computing);
        of(events, 1)
    };
    assert_eq!(with(Vec::new()).cause, Cause::Unobserved);
    let all = with(computing(8).chain(computing(9)).collect());
    assert_eq!((all.chain, all.confidence), (vec![Cause::HandlersBusy], Confidence::Strong));
    assert_eq!(with(computing(8).collect()).cause, Cause::Unobserved, "thread 9 may have been idle");
    let by_chance = with(computing(8).chain(sampled(9, [1_050].into_iter())).collect());
    assert_eq!(by_chance.cause, Cause::Unobserved, "it may have been idle before and after");
}

#[test]
fn delay_of_the_handler_that_took_the_request_explains_the_queue() {
    let with = |tid, since: i64| {
        let mut events = queued_for_unknown_handlers();
        let stalled = append(tid, 4, ms(since), ms(1_149), 53);
        events.splice(2..2, [off_cpu(tid, ms(since + 1), ms(1_149), JOURNAL_STACK), op(stalled)]);
        of(events, 1)
    };
    let verdict = with(8, 995);
    assert_eq!(verdict.chain, [Cause::HandlersBusy, Cause::JournalCommit]);
    assert!(verdict.evidence[0].text.contains("(thread 8), which took it"), "{:?}", verdict.evidence);
    assert_eq!(with(8, 1_100).cause, Cause::Unobserved, "not for most of it");
    assert_eq!(with(9, 995).cause, Cause::Unobserved, "another one");
}

#[test]
fn handlers_busy_for_an_unknown_reason_are_the_cause() {
    let events = queued().into_iter().filter(|event| !matches!(event, Event::OffCpu(_)));
    let verdict = of(events, 1);
    assert_eq!((verdict.cause, verdict.chain), (Cause::HandlersBusy, vec![Cause::HandlersBusy]));
}

/// Another request that a handler had until 1,150 ms: it was sent a batch of 498 bytes and wrote one of `bytes`.
fn rewriting(number: u32, handler: u32, bytes: u32) -> Vec<Event> {
    let partition = handler as i32;
    let mut request = request(number as i32, partition, 990, 1_152, number);
    (request.sequence, request.response_sequence) = (Some(7), Some(9));
    let mut written = append(handler, partition, ms(1_150), us(1_150_100), number);
    if let Some(batch) = &mut written.batch {
        (batch.crc, batch.bytes) = if bytes == 498 { (batch.crc, 498) } else { (7_777, bytes) };
    }
    vec![
        read(&request, us(990_100), us(990_200)),
        op(written),
        write(&request, us(1_151_900), us(1_151_950)),
        request_event(request),
    ]
}

#[test]
fn handlers_busy_with_recompression_name_it_as_the_cause() {
    let with = |bytes: [u32; 2]| {
        let ours = numbered(request(1, 6, 1_000, 1_155, 1));
        let mut events = vec![read(&ours, us(1_000_100), us(1_000_200))];
        events.extend(rewriting(70, 7, bytes[0]));
        events.extend(rewriting(80, 8, bytes[1]));
        events.extend([
            op(append(7, 6, ms(1_152), ms(1_153), 1)),
            write(&ours, us(1_154_900), us(1_154_950)),
            request_event(ours),
        ]);
        of(events, 1)
    };
    let verdict = with([300, 400]);
    assert_eq!(verdict.chain, [Cause::HandlersBusy, Cause::Recompression]);
    assert!(verdict.evidence[0].text.contains("all request handlers were busy (2 seen)"), "{verdict:?}");
    let taker = with([300, 498]);
    assert_eq!(taker.chain, [Cause::HandlersBusy, Cause::Recompression]);
    assert!(taker.evidence[0].text.contains("(thread 7), which took it"), "{taker:?}");
    assert_eq!(with([498, 400]).cause, Cause::Unobserved, "what the one that took it did is not known");
    assert_eq!(with([498, 498]).cause, Cause::Unobserved);
}

#[test]
fn handler_that_was_free_in_time_is_no_cause() {
    let events =
        queued().into_iter().filter(|event| !matches!(event, Event::OffCpu(_))).map(|event| match event {
            Event::FileOp(busy) if busy.end == ms(1_150) => op(FileOp { end: ms(999), ..*busy }),
            event => event,
        });
    let verdict = of(events, 1);
    assert_eq!((verdict.cause, verdict.stages.of(Stage::Queue)), (Cause::Unobserved, Nanos::ZERO));
}

#[test]
fn request_without_an_append_waits_if_all_handlers_are_busy() {
    let mut metadata = numbered(request(1, 6, 1_000, 1_155, 1));
    (metadata.api, metadata.api_key) = ("METADATA", 3);
    let with = |handlers: &[u32]| {
        let mut events: Vec<Event> = queued();
        events.retain(|event| match event {
            Event::Request(_) | Event::SocketOp(_) => false,
            Event::FileOp(busy) => handlers.contains(&busy.tid) && busy.end == ms(1_150),
            _ => true,
        });
        events.extend([
            read(&metadata, us(1_000_100), us(1_000_200)),
            write(&metadata, us(1_154_900), us(1_154_950)),
            // A handler that worked before and is idle.
            request_event(metadata.clone()),
        ]);
        events
    };
    let verdict = of(with(&[7, 8]), 1);
    assert_eq!(verdict.chain, [Cause::HandlersBusy, Cause::JournalCommit]);
    assert_eq!(of(with(&[7]), 1).cause, Cause::Unobserved, "others may be free of which nothing was seen");
    let mut idle = with(&[7, 8]);
    idle.push(op(append(9, 3, ms(900), ms(901), 52)));
    assert_eq!(of(idle, 1).cause, Cause::Unobserved, "one was free");
}

/// A read of another consumer's records from the device, on the network thread.
fn cold_read(tid: u32, start: i64, end: i64) -> FileOp {
    FileOp {
        op: FileOpKind::Sendfile,
        tid,
        file: "topicA-0/00000000000000000000.log".into(),
        topic_partition: None,
        disk_bytes: Some(65_536),
        bytes: Some(65_536),
        batch: None,
        offset: 1_000,
        ..append(tid, 0, ms(start), ms(end), 0)
    }
}

fn sendfile(of: &Request, start: i64, end: i64) -> Event {
    let call = socket_op(of, SocketOpKind::Write, ms(start), ms(end));
    let elsewhere = "10.0.0.200:5".parse().unwrap();
    Event::SocketOp(Box::new(SocketOp { op: SocketOpKind::Sendfile, remote: elsewhere, ..call }))
}

/// A request that lay in the socket from 1,010 to 1,150 ms.
/// Meanwhile its network thread read from the device for another.
fn unread(reader: u32) -> Vec<Event> {
    let (ours, _) = all_stages();
    vec![
        op(cold_read(reader, 1_000, 1_149)),
        sendfile(&ours, 1_000, 1_149),
        read(&ours, us(1_149_900), ms(1_150)),
        op(append(7, 6, ms(1_152), ms(1_153), 1)),
        write(&ours, us(1_189_900), ms(1_190)),
        request_event(ours),
    ]
}

#[test]
fn device_read_in_a_network_thread_delays_its_other_connections() {
    let verdict = of(unread(NETWORK), 1);
    assert_eq!(verdict.stages.longest(), Stage::Receive);
    assert_eq!(verdict.chain, [Cause::NetworkThreadsBusy, Cause::DiskReadInNetworkThread]);
    assert_eq!(&*verdict.root, "disk-read-in-network-thread:topicA-0/00000000000000000000.log");
}

#[test]
fn wait_for_readahead_counts_as_a_device_read() {
    let without_lack = |stack: &str| {
        let mut events = unread(NETWORK);
        let Event::FileOp(read) = &mut events[0] else { unreachable!() };
        read.disk_bytes = Some(0);
        events.push(off_cpu(NETWORK, ms(1_001), ms(1_148), stack));
        of(events, 1)
    };
    let device = "filemap_update_page;folio_wait_bit_common;io_schedule";
    let chain = [Cause::NetworkThreadsBusy, Cause::DiskReadInNetworkThread];
    assert_eq!(without_lack(device).chain, chain);
    assert_eq!(without_lack("do_epoll_wait;schedule").chain, [Cause::NetworkThreadsBusy]);
}

#[test]
fn device_read_of_the_network_thread_delays_the_hand_over() {
    let events = |reader: u32| {
        let (ours, _) = all_stages();
        vec![
            read(&ours, ms(1_010), us(1_010_050)),
            op(cold_read(reader, 1_010, 1_149)),
            op(append(7, 6, ms(1_152), ms(1_153), 1)),
            write(&ours, us(1_189_900), ms(1_190)),
            request_event(ours),
        ]
    };
    let verdict = of(events(NETWORK), 1);
    assert_eq!(verdict.chain, [Cause::NetworkThreadsBusy, Cause::DiskReadInNetworkThread]);
    assert_eq!(of(events(4), 1).cause, Cause::Unobserved, "another network thread's");
}

/// Over TLS, the call for the request before may have read a request's bytes.
#[test]
fn tls_request_read_by_an_earlier_call_has_its_connections_thread() {
    let events = |reader: u32| {
        let (ours, _) = all_stages();
        let (seen_by, arrival_end) = (Some(RequestSource::TlsAgent), us(1_000_200));
        vec![
            read(&ours, ms(990), us(990_050)),
            op(cold_read(reader, 1_001, 1_149)),
            op(append(7, 6, ms(1_152), ms(1_153), 1)),
            write(&ours, us(1_189_900), ms(1_190)),
            request_event(Request { seen_by, arrival_end, sequence: None, response_sequence: None, ..ours }),
        ]
    };
    let verdict = of(events(NETWORK), 1);
    assert_eq!(verdict.chain, [Cause::NetworkThreadsBusy, Cause::DiskReadInNetworkThread]);
    assert_eq!(of(events(4), 1).cause, Cause::Unobserved, "another network thread's");
}

/// A network thread that encrypts for others makes no calls meanwhile; samples find it on a CPU.
#[test]
fn network_thread_on_a_cpu_between_tls_reads_is_no_slow_client() {
    let ours = Request { arrival_end: ms(1_151), ..numbered(request(1, 6, 1_000, 1_155, 1)) };
    let of_thread = |tid: u32| {
        let reads = [ms(1_000), us(1_150_800)].map(|start| read(&ours, start, start + us(100)));
        let seen_by = Some(RequestSource::TlsAgent);
        let by_agent = Request { seen_by, sequence: None, response_sequence: None, ..ours.clone() };
        let append = op(append(7, 6, ms(1_152), ms(1_153), 1));
        of(reads.into_iter().chain(computing(tid)).chain([append, request_event(by_agent)]), 1).cause
    };
    assert_eq!(of_thread(NETWORK), Cause::Unobserved);
    assert_eq!(of_thread(NETWORK + 1), Cause::SlowClient, "another thread");
}

#[test]
fn read_of_another_network_thread_is_not_blamed() {
    let mut events = unread(4);
    let Event::SocketOp(call) = &mut events[1] else { unreachable!() };
    call.tid = 4;
    assert_eq!(of(events, 1).cause, Cause::Unobserved);
}

#[test]
fn network_thread_busy_with_others_is_the_cause_itself() {
    let mut events = unread(NETWORK);
    let Event::FileOp(read) = &mut events[0] else { unreachable!() };
    read.disk_bytes = Some(0);
    let verdict = of(events.clone(), 1);
    assert_eq!(verdict.chain, [Cause::NetworkThreadsBusy]);
    // No work was seen for most of the time, except on a CPU.
    let Event::FileOp(read) = &mut events[0] else { unreachable!() };
    read.end = ms(1_030);
    let Event::SocketOp(call) = &mut events[1] else { unreachable!() };
    call.end = ms(1_030);
    assert_eq!(of(events.clone(), 1).cause, Cause::Unobserved);
    let found_on_a_cpu = |tid| {
        let samples = sampled(tid, (0..4).map(|i| 1_050 + 20 * i));
        events.iter().cloned().chain(samples).collect::<Vec<_>>()
    };
    assert_eq!(of(found_on_a_cpu(NETWORK), 1).chain, [Cause::NetworkThreadsBusy]);
    assert_eq!(of(found_on_a_cpu(4), 1).cause, Cause::Unobserved);
}

/// On a connection that a quota mutes; its client learned of it before the watch began.
#[test]
fn occasional_short_calls_do_not_make_a_network_thread_busy() {
    let (ours, _) = all_stages();
    let others = (1_011..1_149).map(|at| sendfile(&ours, at, at));
    let mut events: Vec<Event> = others
        .map(|call| {
            let Event::SocketOp(call) = call else { unreachable!() };
            Event::SocketOp(Box::new(SocketOp { end: call.start + us(20), ..*call }))
        })
        .collect();
    events.extend([
        read(&ours, us(1_149_900), ms(1_150)),
        op(append(7, 6, ms(1_152), ms(1_153), 1)),
        write(&ours, us(1_189_900), ms(1_190)),
        request_event(ours),
    ]);
    events.extend(sampled(NETWORK, [1_050, 1_100].into_iter()).map(|sample| {
        let Event::CpuSample(sample) = sample else { unreachable!() };
        Event::CpuSample(Box::new(CpuSample { period: ms(10), ..*sample }))
    }));
    assert_eq!(of(events, 1).cause, Cause::Unobserved);
}

#[test]
fn disk_read_of_recently_written_records_is_cache_eviction() {
    let mut events = unread(NETWORK);
    let Event::FileOp(read) = &mut events[0] else { unreachable!() };
    read.topic_partition = append(9, 0, ms(0), ms(0), 0).topic_partition;
    let mut written = append(9, 0, ms(100), ms(101), 70);
    (written.offset, written.bytes) = (900, Some(200));
    events.push(op(written.clone()));
    let verdict = of(events.clone(), 1);
    let chain = [Cause::NetworkThreadsBusy, Cause::DiskReadInNetworkThread, Cause::CacheEviction];
    assert_eq!(verdict.chain, chain);
    events.pop();
    events.push(op(FileOp { inode: 13, ..written.clone() }));
    assert_eq!(of(events.clone(), 1).cause, Cause::DiskReadInNetworkThread, "another segment");
    events.pop();
    events.push(op(FileOp { offset: 500, bytes: Some(500), ..written }));
    assert_eq!(of(events, 1).cause, Cause::DiskReadInNetworkThread, "other bytes");
}

#[test]
fn fetch_whose_records_come_from_the_device_names_the_read() {
    let mut ours = Request { data: Some(ms(-5)), ..fetch() };
    ours.response = Some(ms(20));
    ours.response_bytes = Some(70_000);
    let head = SocketOp { sequence_end: 5_100, ..socket_op(&ours, SocketOpKind::Write, ms(20), us(20_100)) };
    let body = SocketOp {
        op: SocketOpKind::Sendfile,
        sequence: 5_100,
        sequence_end: 75_004,
        ..socket_op(&ours, SocketOpKind::Write, ms(21), ms(650))
    };
    let events = vec![
        read(&ours, ms(1), ms(2)),
        Event::SocketOp(Box::new(head)),
        op(cold_read(NETWORK, 21, 650)),
        Event::SocketOp(Box::new(body)),
        request_event(ours),
    ];
    let verdict = of(events.clone(), 1);
    assert_eq!(verdict.chain, [Cause::DiskReadInNetworkThread]);
    assert_eq!(verdict.stages.of(Stage::Respond), ms(629));
    assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
    let without = events.into_iter().filter(|event| !matches!(event, Event::FileOp(_)));
    assert_eq!(of(without, 1).cause, Cause::Unobserved);
}

/// Over TLS the network thread reads records, encrypts them and writes them.
#[test]
fn tls_fetch_waits_for_reads_of_its_own_partitions() {
    let numbered = Request { data: Some(ms(-5)), response: Some(ms(20)), ..fetch() };
    let writes = [(ms(20), us(20_100)), (ms(649), us(649_900))];
    let of_partition = |tid: u32, partition: i32| {
        let ours = Request {
            seen_by: Some(RequestSource::TlsAgent),
            sequence: None,
            response_sequence: None,
            ..numbered.clone()
        };
        let topic_partition = append(tid, partition, ms(0), ms(0), 0).topic_partition;
        let reads = FileOp { op: FileOpKind::Read, topic_partition, ..cold_read(tid, 21, 648) };
        let writes = writes.map(|(start, end)| write(&numbered, start, end));
        of([vec![read(&numbered, ms(1), ms(2)), op(reads), request_event(ours)], writes.into()].concat(), 1)
    };
    let verdict = of_partition(NETWORK, numbered.partitions[0].partition);
    assert_eq!(verdict.chain, [Cause::DiskReadInNetworkThread]);
    assert_eq!(verdict.stages.of(Stage::Respond), ms(627));
    assert_eq!(of_partition(NETWORK, 99).cause, Cause::Unobserved, "another partition");
    assert_eq!(of_partition(4, numbered.partitions[0].partition).cause, Cause::Unobserved, "another thread");
}

#[test]
fn last_follower_is_named() {
    let (mut ours, mut events) = all_stages();
    ours.acks = Some(-1);
    (ours.response, ours.end) = (Some(ms(1_800)), Some(ms(1_800)));
    events.truncate(4);
    let before = |answered: i64| {
        let Event::Request(mut before) = follower_fetch(2, 1, 1_150) else { unreachable!() };
        (before.response, before.end) = (Some(ms(answered)), Some(ms(answered)));
        request_event(*before)
    };
    let with = |fetched_before: Vec<Event>| {
        let mut events = events.clone();
        events.extend(fetched_before);
        events.extend([
            write(&ours, ms(1_800), us(1_800_100)),
            follower_fetch(2, 2, 1_750),
            commit(2285, 1_000, 1_181),
            request_event(ours.clone()),
        ]);
        of(events, 1)
    };
    let verdict = with(vec![before(1_185)]);
    assert_eq!((verdict.cause, verdict.confidence), (Cause::ReplicationWait, Confidence::Exact));
    assert_eq!(&*verdict.root, "replication-wait:broker-2");
    assert_eq!(verdict.stages.of(Stage::Remote), ms(570));
    // The leader itself was slow to answer the fetch that returned the records, and nothing explains why.
    let verdict = with(vec![before(1_700)]);
    assert_eq!((verdict.cause, verdict.confidence), (Cause::ReplicationWait, Confidence::Strong));
    let text = &verdict.evidence[0].text;
    assert!(
        text.ends_with("520 ms of it while its previous fetch waited for this broker's response"),
        "{text}"
    );
    // The fetch was late: until then the follower was the reason, although the answer was late too.
    let late = |asked_at: i64| {
        let Event::Request(mut before) = follower_fetch(2, 1, asked_at) else { unreachable!() };
        (before.response, before.end) = (Some(ms(1_700)), Some(ms(1_700)));
        request_event(*before)
    };
    let verdict = with(vec![late(1_500)]);
    assert_eq!((verdict.cause, verdict.confidence), (Cause::ReplicationWait, Confidence::Exact));
}

#[test]
fn quota_that_mutes_the_connection_is_named() {
    let mut before = request(1, 6, 900, 1_000, 1);
    before.throttle_ms = Some(400);
    let mut ours = numbered(request(2, 6, 1_010, 1_405, 2));
    ours.client = before.client;
    let same = before.client.to_string();
    let of_request = |ours: &Request, throttle_ms: i32, client: &str| {
        let mut before = before.clone();
        before.throttle_ms = Some(throttle_ms);
        before.client = client.parse().unwrap();
        let on_wire = Request { sequence: ours.sequence.or(Some(1)), ..ours.clone() };
        let events = [
            request_event(before),
            read(&on_wire, us(1_400_100), us(1_400_200)),
            op(append(7, 6, ms(1_402), ms(1_403), 2)),
            request_event(ours.clone()),
        ];
        of(events, 2)
    };
    let by_calls = Request { seen_by: Some(RequestSource::SocketCalls), ..ours.clone() };
    let verdict = of_request(&by_calls, 400, &same);
    assert_eq!((verdict.cause, verdict.confidence), (Cause::Quota, Confidence::Exact));
    assert_eq!(of_request(&by_calls, 0, &same).cause, Cause::Unobserved);
    // How much of it had arrived before it was read was not seen.
    let large = Request { request_bytes: 1 << 20, ..by_calls };
    assert_eq!(of_request(&large, 400, &same).confidence, Confidence::Strong);
    // It arrived with the previous one.
    let (arrival, head_of_line) = (before.arrival, Some(ms(100)));
    let behind = Request { arrival, arrival_end: arrival, head_of_line, ..ours.clone() };
    assert_eq!(of_request(&behind, 400, &same).cause, Cause::Quota);

    // On a TLS connection, the kernel saw it arrive, and the agent saw the broker's calls.
    let seen_by = Some(RequestSource::TlsAgent);
    let (read, read_end) = (Some(us(1_400_050)), Some(us(1_400_300)));
    let arrived =
        Request { seen_by, read, read_end, sequence: None, response_sequence: None, ..ours.clone() };
    let verdict = of_request(&arrived, 400, &same);
    assert_eq!((verdict.cause, verdict.confidence), (Cause::Quota, Confidence::Exact));
    assert_eq!(of_request(&arrived, 0, &same).cause, Cause::Unobserved);

    let with = |throttle_ms, client| of_request(&ours, throttle_ms, client);
    let verdict = with(400, &same);
    assert_eq!((verdict.cause, verdict.confidence), (Cause::Quota, Confidence::Exact));
    assert_eq!(verdict.stages.longest(), Stage::Receive);
    assert_eq!(with(0, &same).cause, Cause::Unobserved);
    assert_eq!(with(60, &same).cause, Cause::Unobserved, "that was over long before");
    assert_eq!(with(400, "10.0.0.7:9").cause, Cause::Unobserved, "another connection's");
}

#[test]
fn produce_request_behind_a_long_poll_names_the_long_poll() {
    let ahead = Request { end: Some(ms(500)), response: Some(ms(500)), partitions: Vec::new(), ..fetch() };
    let mut behind = request(2, 6, 10, 510, 2);
    behind.client = ahead.client;
    behind.head_of_line = Some(ms(490));
    let verdict = of([request_event(ahead), request_event(behind)], 2);
    assert_eq!(verdict.chain, [Cause::HeadOfLine, Cause::LongPoll]);
    assert!(verdict.advice.is_empty());
}

#[test]
fn large_request_unread_in_the_socket_is_not_slow_client() {
    let with = |seen_by, request_bytes, read_at| {
        let ours = request(1, 6, 1_000, 1_205, 1);
        let ours = numbered(Request { seen_by, request_bytes, arrival_end: ms(1_202), ..ours });
        of(
            [read(&ours, read_at, ms(1_202)), op(append(7, 6, ms(1_203), ms(1_204), 1)), request_event(ours)],
            1,
        )
    };
    let by_calls = Some(RequestSource::SocketCalls);
    let (small, large) = (1_000, 1 << 20);
    let verdict = with(by_calls, large, ms(1_200));
    assert_eq!((verdict.cause, verdict.stages.longest()), (Cause::Unobserved, Stage::Unobserved));
    assert_eq!(with(by_calls, large, ms(1_000)).cause, Cause::SlowClient);
    assert_eq!(with(by_calls, small, ms(1_200)).cause, Cause::SlowClient, "when its bytes came is known");
    assert_eq!(with(None, small, ms(1_200)).cause, Cause::SlowClient);
}

/// A request that was read at 1,000 ms and served from 1,150 ms on. The handler that served it had been free.
fn delayed_by_its_reader(meanwhile: Vec<Event>) -> Verdict {
    let ours = numbered(request(1, 6, 999, 1_155, 1));
    let mut events = vec![read(&ours, us(999_900), ms(1_000))];
    events.extend(meanwhile);
    events.extend([
        op(append(7, 6, ms(1_151), ms(1_152), 1)),
        write(&ours, us(1_154_900), us(1_154_950)),
        request_event(ours),
    ]);
    of(events, 1)
}

#[test]
fn request_is_not_queued_while_its_reader_serves_others() {
    let (other, _) = all_stages();
    let meanwhile = |start: i64, tid: u32| {
        let Event::SocketOp(mut call) = sendfile(&other, start, 1_150) else { unreachable!() };
        call.tid = tid;
        vec![op(cold_read(tid, start, 1_150)), Event::SocketOp(call)]
    };
    let verdict = delayed_by_its_reader(meanwhile(1_000, NETWORK));
    assert_eq!(verdict.chain, [Cause::NetworkThreadsBusy, Cause::DiskReadInNetworkThread]);
    assert!(verdict.stages.of(Stage::Receive) > ms(150), "{:?}", verdict.stages);
    assert_eq!(Some(verdict.stages.total()), verdict.request.latency());
    assert_eq!(delayed_by_its_reader(meanwhile(1_000, 4)).cause, Cause::Unobserved, "another thread's");
    assert_eq!(
        delayed_by_its_reader(meanwhile(1_050, NETWORK)).cause,
        Cause::Unobserved,
        "it was done by then"
    );
}

#[test]
fn request_is_not_queued_while_its_reader_computes() {
    let samples = |tid| sampled(tid, (0..6).map(|i| 1_015 + 25 * i)).collect::<Vec<_>>();
    assert_eq!(delayed_by_its_reader(samples(NETWORK)).chain, [Cause::NetworkThreadsBusy]);
    assert_eq!(delayed_by_its_reader(samples(4)).cause, Cause::Unobserved);
}
