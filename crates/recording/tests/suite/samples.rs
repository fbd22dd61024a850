//! Events to store: arbitrary ones, and plain ones by number.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use model::CommitPhases;
use model::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use recording::{Recording, Table};

/// The events of a recording; every part must be readable.
pub(crate) fn read(dir: &Path) -> Vec<Event> {
    Recording::open(dir).unwrap().events().map(|event| event.unwrap()).collect()
}

/// The events of one table, in their order.
pub(crate) fn only(table: Table, events: &[Event]) -> Vec<Event> {
    events.iter().filter(|event| Table::of(event) == table).cloned().collect()
}

/// A loss that carries a number as its count and its time.
pub(crate) fn numbered(n: u64) -> Event {
    let at = Nanos(n as i64);
    Event::Loss(Loss { start: at, end: at, kind: LossKind::EventsDropped, count: n, detail: "".into() })
}

/// An off-CPU interval with a stack that no other has.
pub(crate) fn off_cpu(n: u64) -> Event {
    Event::OffCpu(Box::new(OffCpu {
        start: Nanos(n as i64),
        end: Nanos(n as i64 + 5),
        woken: None,
        pid: 1,
        tid: n as u32,
        thread: "kafka-network-t".into(),
        preempted: false,
        stack: format!("schedule;frame_{n}").into(),
        waker: None,
    }))
}

/// A produce request with one partition and one batch.
pub(crate) fn request(n: u64) -> Event {
    Event::Request(Box::new(Request {
        arrival: Nanos(n as i64),
        arrival_end: Nanos(n as i64 + 1),
        response: Some(Nanos(n as i64 + 2)),
        end: Some(Nanos(n as i64 + 3)),
        api_key: 0,
        api: "PRODUCE",
        api_version: 13,
        correlation_id: n as i32,
        client_id: Some("producer-1".into()),
        request_bytes: 100,
        response_bytes: Some(60),
        sequence: Some(u32::MAX),
        response_sequence: Some(7),
        acks: Some(-1),
        throttle_ms: Some(0),
        partitions: vec![Partition {
            topic: Some("topicA".into()),
            topic_id: TopicId::parse("7XWCdjQqTIyy9OgycPxg2A"),
            partition: 2,
            bytes: 80,
            records: Some(1),
            batches: vec![Batch {
                magic: 2,
                crc: 0xdead_beef,
                bytes: 80,
                records: 1,
                producer_id: -1,
                base_sequence: -1,
            }],
            fetch_offset: None,
            base_offset: Some(n as i64),
            error_code: Some(0),
            newest_record: Some(Nanos(1_700_000_000_000_000_000)),
            message_ids: vec!["371409548".into()],
        }],
        ..Request::new("[fe80::1%3]:40000".parse().unwrap(), "10.0.0.1:9092".parse().unwrap())
    }))
}

/// Any event.
pub(crate) fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        any_request().prop_map(|row| Event::Request(Box::new(row))),
        any_request_latencies().prop_map(|row| Event::RequestLatencies(Box::new(row))),
        any_file_op().prop_map(|row| Event::FileOp(Box::new(row))),
        any_off_cpu().prop_map(|row| Event::OffCpu(Box::new(row))),
        any_commit().prop_map(|row| Event::JournalCommit(Box::new(row))),
        any_block_io().prop_map(|row| Event::BlockIo(Box::new(row))),
        any_throttle().prop_map(Event::DirtyThrottle),
        any_reclaim().prop_map(|row| Event::Reclaim(Box::new(row))),
        any_span().prop_map(|row| Event::KernelSpan(Box::new(row))),
        any_socket_op().prop_map(|row| Event::SocketOp(Box::new(row))),
        any_trouble().prop_map(|row| Event::TcpEvent(Box::new(row))),
        any_tls_traffic().prop_map(Event::TlsTraffic),
        any_partition_state().prop_map(Event::PartitionState),
        any_process_stop().prop_map(|row| Event::ProcessStop(Box::new(row))),
        any_cpu_gap().prop_map(|row| Event::CpuGap(Box::new(row))),
        any_host_sample().prop_map(|row| Event::HostSample(Box::new(row))),
        any_cpu_sample().prop_map(|row| Event::CpuSample(Box::new(row))),
        any_lock_wait().prop_map(|row| Event::LockWait(Box::new(row))),
        any_handler_call().prop_map(|row| Event::HandlerCall(Box::new(row))),
        any_pause().prop_map(|row| Event::JvmPause(Box::new(row))),
        any_change().prop_map(Event::BrokerChange),
        any_loss().prop_map(Event::Loss),
    ]
}

fn time() -> impl Strategy<Value = Nanos> {
    prop_oneof![any::<i64>(), 0..100_000_i64].prop_map(Nanos)
}

/// Text: repeated, empty, with anything in it.
fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![Just(String::new()), Just("topicA".to_owned()), any::<String>()].prop_map(Arc::from)
}

fn device() -> impl Strategy<Value = Device> {
    (any::<u32>(), any::<u32>(), text()).prop_map(|(major, minor, name)| Device { major, minor, name })
}

fn address() -> impl Strategy<Value = SocketAddr> {
    (any::<IpAddr>(), any::<u16>()).prop_map(SocketAddr::from)
}

prop_compose! {
    fn any_batch()(
        magic in any::<i8>(), crc in any::<u32>(), bytes in any::<u32>(), records in any::<u32>(),
        producer_id in any::<i64>(), base_sequence in any::<i32>(),
    ) -> Batch {
        Batch { magic, crc, bytes, records, producer_id, base_sequence }
    }
}

prop_compose! {
    fn any_partition()(
        topic in option::of(text()), topic_id in option::of(any::<[u8; 16]>().prop_map(TopicId)),
        partition in any::<i32>(), bytes in any::<u32>(), records in option::of(any::<u32>()),
        batches in vec(any_batch(), 0..3),
        (fetch_offset, base_offset, newest_record) in
            (option::of(any::<i64>()), option::of(any::<i64>()), option::of(time())),
        error_code in option::of(any::<i16>()), message_ids in vec(text(), 0..3),
    ) -> Partition {
        Partition {
            topic, topic_id, partition, bytes, records, batches, fetch_offset, base_offset, error_code, newest_record,
            message_ids,
        }
    }
}

prop_compose! {
    fn any_request()(
        (arrival, arrival_end, response, end, head_of_line) in
            (time(), time(), option::of(time()), option::of(time()), option::of(time())),
        (api_key, api, api_version, correlation_id) in
            (any::<i16>(), prop_oneof![Just("PRODUCE"), Just("FETCH"), Just("UNKNOWN")], any::<i16>(), any::<i32>()),
        (client_id, transactional_id, group_id, error) in
            (option::of(text()), option::of(text()), option::of(text()), option::of(text())),
        (data, min_bytes, max_wait_ms, error_code) in
            (option::of(time()), option::of(any::<i32>()), option::of(any::<i32>()), option::of(any::<i16>())),
        (client, broker) in (address(), address()),
        (request_bytes, response_bytes) in (any::<u32>(), option::of(any::<u32>())),
        (sequence, response_sequence) in (option::of(any::<u32>()), option::of(any::<u32>())),
        (acks, throttle_ms) in (option::of(any::<i16>()), option::of(any::<i32>())),
        seen_by in option::of(proptest::sample::select(RequestSource::ALL.to_vec())),
        (read, read_end) in (option::of(time()), option::of(time())),
        (queue, local, remote) in (option::of(time()), option::of(time()), option::of(time())),
        partitions in vec(any_partition(), 0..3),
    ) -> Request {
        Request {
            arrival, arrival_end, response, end, head_of_line, data, api_key, api, api_version, correlation_id, client_id,
            client, broker, request_bytes, response_bytes, sequence, response_sequence, acks, transactional_id, group_id, min_bytes,
            max_wait_ms, throttle_ms, error_code, error, seen_by, read, read_end, queue, local, remote, partitions,
        }
    }
}

prop_compose! {
    fn any_head()(
        base_offset in any::<i64>(), bytes in any::<u32>(), magic in any::<i8>(), crc in any::<u32>(),
        producer_id in any::<i64>(), base_sequence in any::<i32>(), records in any::<u32>(),
    ) -> BatchHead {
        BatchHead { base_offset, bytes, magic, crc, producer_id, base_sequence, records }
    }
}

prop_compose! {
    fn any_file_op()(
        (start, end, pid, tid, thread) in (time(), time(), any::<u32>(), any::<u32>(), text()),
        (bytes, offset, file, inode, fs) in (option::of(any::<u64>()), any::<u64>(), text(), any::<u64>(), text()),
        topic_partition in option::of((text(), any::<i32>()).prop_map(|(topic, partition)| TopicPartition { topic, partition })),
        kind in proptest::sample::select(FileKind::ALL.to_vec()),
        device in device(),
        batch in option::of(any_head()),
        journal_transaction in option::of(any::<u32>()),
        op in proptest::sample::select(FileOpKind::ALL.to_vec()),
        (errno, disk_bytes, readahead_bytes, renamed_to) in
            (option::of(any::<i32>()), option::of(any::<u64>()), option::of(any::<u64>()), option::of(text())),
    ) -> FileOp {
        FileOp {
            start, end, op, pid, tid, thread, bytes, errno, disk_bytes, readahead_bytes, offset, file, renamed_to,
            topic_partition, kind, device, inode, fs, batch, journal_transaction,
        }
    }
}

prop_compose! {
    fn any_off_cpu()(
        start in time(), end in time(), woken in option::of(time()), pid in any::<u32>(), tid in any::<u32>(),
        thread in text(), preempted in any::<bool>(), stack in text(),
        waker in option::of((any::<u32>(), text(), text()).prop_map(|(tid, thread, stack)| Waker { tid, thread, stack })),
    ) -> OffCpu {
        OffCpu { start, end, woken, pid, tid, thread, preempted, stack, waker }
    }
}

prop_compose! {
    fn any_phases()(
        (wait, running, locked, flushing, logging) in (time(), time(), time(), time(), time()),
        (handles, blocks, blocks_logged) in (any::<u32>(), any::<u32>(), any::<u32>()),
    ) -> CommitPhases {
        CommitPhases { wait, running, locked, flushing, logging, handles, blocks, blocks_logged }
    }
}

prop_compose! {
    fn any_commit()(
        start in time(), end in time(), device in device(), transaction in any::<u32>(),
        phases in option::of(any_phases()),
    ) -> JournalCommit {
        JournalCommit { start, end, device, transaction, phases }
    }
}

prop_compose! {
    fn any_block_io()(
        start in time(), end in time(), device in device(),
        direction in proptest::sample::select(vec![Direction::Read, Direction::Write, Direction::Other]),
        sector in any::<u64>(), bytes in any::<u32>(), tid in any::<u32>(), thread in text(), flags in text(),
        (queued, inode, file) in (option::of(time()), option::of(any::<u64>()), option::of(text())),
    ) -> BlockIo {
        BlockIo { queued, inode, file, start, end, device, direction, sector, bytes, tid, thread, flags }
    }
}

prop_compose! {
    fn any_throttle()(
        start in time(), end in time(), tid in any::<u32>(), dirty_pages in any::<u64>(), limit_pages in any::<u64>(),
    ) -> DirtyThrottle {
        DirtyThrottle { start, end, tid, dirty_pages, limit_pages }
    }
}

prop_compose! {
    fn any_loss()(
        start in time(), end in time(), kind in proptest::sample::select(LossKind::ALL.to_vec()),
        count in any::<u64>(), detail in text(),
    ) -> Loss {
        Loss { start, end, kind, count, detail }
    }
}

prop_compose! {
    fn any_reclaim()(
        start in time(), end in time(), pid in any::<u32>(), tid in any::<u32>(), thread in text(),
        memcg in any::<bool>(), pages in any::<u64>(),
    ) -> Reclaim {
        Reclaim { start, end, pid, tid, thread, memcg, pages }
    }
}

prop_compose! {
    fn any_lock_wait()(
        (start, end, pid, tid, thread) in (time(), time(), any::<u32>(), any::<u32>(), text()),
        (kind, class, address) in (proptest::sample::select(LockKind::ALL.to_vec()), text(), any::<u64>()),
        holder in option::of((option::of(any::<u32>()), text()).prop_map(|(tid, thread)| LockHolder { tid, thread })),
        stack in text(), source in proptest::sample::select(LockSource::ALL.to_vec()),
    ) -> LockWait {
        LockWait { start, end, pid, tid, thread, lock: Lock { kind, class, address }, holder, stack, source }
    }
}

prop_compose! {
    fn any_pause()(
        (start, end, pid) in (time(), time(), any::<u32>()),
        kind in proptest::sample::select(JvmPauseKind::ALL.to_vec()),
        (operation, cause) in (text(), text()), gc_id in option::of(any::<u32>()), reach in option::of(time()),
    ) -> JvmPause {
        JvmPause { start, end, pid, kind, operation, cause, gc_id, time_to_safepoint: reach }
    }
}

prop_compose! {
    fn any_span()(
        start in time(), end in time(), function in text(), device in option::of(device()), tid in any::<u32>(),
        thread in text(), seen_by in proptest::sample::select(SpanSource::ALL.to_vec()),
    ) -> KernelSpan {
        KernelSpan { start, end, function, device, tid, thread, seen_by }
    }
}

prop_compose! {
    fn any_socket_op()(
        (start, end, pid, tid, thread) in (time(), time(), any::<u32>(), any::<u32>(), text()),
        op in proptest::sample::select(SocketOpKind::ALL.to_vec()),
        (local, remote) in (address(), address()),
        (bytes, errno, peer_window) in (option::of(any::<u64>()), option::of(any::<i32>()), option::of(any::<u32>())),
        (sequence, sequence_end) in (any::<u32>(), any::<u32>()),
    ) -> SocketOp {
        SocketOp { start, end, op, pid, tid, thread, local, remote, bytes, errno, sequence, sequence_end, peer_window }
    }
}

prop_compose! {
    fn any_trouble()(
        at in time(), kind in proptest::sample::select(TcpEventKind::ALL.to_vec()),
        (local, remote) in (option::of(address()), option::of(address())), count in any::<u64>(),
    ) -> TcpEvent {
        TcpEvent { at, kind, local, remote, count }
    }
}

prop_compose! {
    fn any_partition_state()(
        at in time(), topic in text(), partition in any::<i32>(), replicas in any::<u32>(),
    ) -> PartitionState {
        PartitionState { at, topic, partition, replicas }
    }
}

prop_compose! {
    fn any_request_latencies()(
        start in time(), end in time(), port in any::<u32>(), api_key in any::<i16>(),
        requests in any::<u64>(), request_bytes in any::<u64>(), unanswered in any::<u64>(), given_up in any::<u64>(),
        response_bytes in any::<u64>(), total_latency in time(),
        latencies in vec((time(), any::<u64>()), 0..4),
    ) -> RequestLatencies {
        let latencies = latencies.into_iter().map(|(latency, requests)| LatencyCount { latency, requests });
        RequestLatencies {
            start, end, port, api_key, requests, request_bytes, unanswered, given_up, response_bytes, total_latency,
            api: "PRODUCE",
            latencies: latencies.collect(),
        }
    }
}

prop_compose! {
    fn any_tls_traffic()(
        start in time(), end in time(), listener in address(), connections in any::<u64>(), bytes in any::<u64>(),
    ) -> TlsTraffic {
        TlsTraffic { start, end, listener, connections, bytes }
    }
}

prop_compose! {
    fn any_handler_call()(
        start in time(), end in time(), pid in any::<u32>(), tid in any::<u32>(), thread in text(), method in text(),
    ) -> HandlerCall {
        HandlerCall { start, end, pid, tid, thread, method }
    }
}

prop_compose! {
    fn any_process_stop()(
        start in time(), end in time(), pid in any::<u32>(), kind in proptest::sample::select(StopKind::ALL.to_vec()),
        by_tid in option::of(any::<u32>()), by in text(), threads in any::<u32>(),
    ) -> ProcessStop {
        ProcessStop { start, end, pid, kind, by_tid, by, threads }
    }
}

prop_compose! {
    fn any_cpu_gap()(
        start in time(), end in time(), kind in proptest::sample::select(CpuGapKind::ALL.to_vec()), cpu in any::<u32>(),
        cpus in any::<u32>(), stolen in time(), tid in option::of(any::<u32>()), thread in text(),
    ) -> CpuGap {
        CpuGap { start, end, kind, cpu, cpus, stolen, tid, thread }
    }
}

prop_compose! {
    fn any_host_sample()(
        start in time(), end in time(), scope in proptest::sample::select(HostScope::ALL.to_vec()), name in text(),
        metric in text(), value in -1e300..1e300,
    ) -> HostSample {
        HostSample { start, end, scope, name, metric, value }
    }
}

prop_compose! {
    fn any_cpu_sample()(
        at in time(), period in time(), pid in any::<u32>(), tid in any::<u32>(), thread in text(), stack in text(),
    ) -> CpuSample {
        CpuSample { at, period, pid, tid, thread, stack }
    }
}

prop_compose! {
    fn any_change()(
        at in time(), pid in any::<u32>(), state in proptest::sample::select(BrokerState::ALL.to_vec()),
    ) -> BrokerChange {
        BrokerChange { at, pid, state }
    }
}
