//! The always-on programs with this very process as the broker: every request is counted once with the latency that the
//! test measured, for every call that moves bytes; slow requests are reported, long polls are not; appends, waits and
//! overwritten records. Needs root, BPF and `BROKERSCOPE_LIVE_TESTS=1`; without that it says loudly that it did not
//! run, and with it anything that is missing is a failure.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "always_on/broker.rs"]
mod broker;
#[path = "live/gate.rs"]
mod gate;
#[allow(dead_code, reason = "other tests need the rest")]
#[path = "live/scene.rs"]
mod scene;
#[allow(dead_code, reason = "other tests need the rest")]
#[path = "live/stops.rs"]
mod stops;

use std::fs::{self, File};
use std::io::{Seek as _, Write as _};
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use broker::{Bounds, Broker, Connection, FETCH, PRODUCE, answer, fetch, request};
use probes::Facts;
use probes::always_on::{
    Append, Histogram, Options, Outcome, Plan, Purpose, Record, Request, Session, SlowRequest, Wait, WaitKind,
};
use scene::{FileSystem, Freeze, Making, MappedFile, monotonic_ns};

/// Longer than anything here takes, even on a busy machine.
const NEVER: Duration = Duration::from_secs(600);
const THRESHOLD: Duration = Duration::from_millis(40);
const SLOW: Duration = Duration::from_millis(80);
const REPORTED: Duration = Duration::from_secs(5);
const XFS: Making<'static> =
    Making { kind: "xfs", arguments: &["-q", "-f"], bytes: 512 << 20, options: "loop,nouuid" };

#[test]
fn always_on_probes_record_a_broker_exactly() {
    if !gate::is_open() {
        return;
    }
    // Before the survey, which checks what is loaded.
    let file_systems = [FileSystem::new(), FileSystem::make(XFS)];
    let broker = Broker::new("127.0.0.1:0");
    let mut older = broker.connect();
    older.send(&request(PRODUCE, 1).bytes());
    older.read_request();
    older.write(&answer(1, 10));
    // Read before the watch begins, answered after.
    older.send(&request(PRODUCE, 2).bytes());
    older.read_request();

    let mut watch = serve_meanwhile(&broker, || Watch::of(&broker));
    // A machine that stands still at the wrong moment may lose one.
    let lost = watch.session.losses().unsynchronised_reads;
    assert!(lost <= 1, "{lost} requests of connections that were busy were not followed");
    check_calls(&mut watch, &broker);
    check_left_out(&mut watch, &broker);
    check_pipelined(&mut watch, &broker);
    check_unanswered(&mut watch, &broker);
    check_older(&mut watch, &mut older);
    check_slow(&mut watch, &broker);
    check_waiting(&mut watch, &broker);
    check_short_waits(&mut watch, &broker);
    check_long_polls(&mut watch, &broker);
    check_bad_frames(&mut watch, &broker);
    check_limits();
    check_ipv6();
    check_all_connections();
    for (file_system, is_xfs) in file_systems.iter().zip([false, true]) {
        check_appends(&mut watch, file_system.path(), is_xfs);
    }
    check_wait(&mut watch, &file_systems[0]);
    check_file_call(file_systems[0].path());
    check_cpu_wait(&mut watch);
    check_stopped(&mut watch);
    check_wait_after_write(&mut watch);
    check_overwritten(&broker, file_systems[0].path());
    let losses = watch.session.losses();
    assert_eq!((losses.skipped, losses.without_slot, losses.without_stack), (0, 0, 0), "{losses:?}");
    watch.print_costs();
}

struct Watch {
    session: Session,
    port: u16,
}

fn plan() -> Plan {
    let plan = Plan::choose(&Facts::survey());
    for purpose in [Purpose::Requests, Purpose::Ext4Appends, Purpose::XfsAppends, Purpose::Waits] {
        assert!(plan.uses(purpose), "{purpose:?} is missing: {:#?}", plan.hooks);
    }
    plan
}

fn attach(options: &Options) -> Session {
    let (plan, pid) = (plan(), std::process::id());
    let session = Session::attach(&plan, pid, options).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(session.plan(), &plan, "the kernel refused a program");
    session
}

impl Watch {
    fn of(broker: &Broker) -> Self {
        let ports = vec![broker.port()];
        let options = Options { ports, threshold: NEVER, measure: true, ..Options::default() };
        Self { session: attach(&options), port: broker.port() }
    }

    fn histogram(&self, api_key: i16) -> Histogram {
        let mut all = self.session.histograms();
        let mut found = all.by_ref().filter(|it| (it.api_key, it.local_port) == (api_key, self.port));
        let histogram = found.next().unwrap();
        assert!(found.next().is_none(), "API {api_key} has two histograms");
        histogram
    }

    /// Checks that every request of the API was answered once and took as measured. Latencies may differ by up to 1 %.
    fn expect(&self, api_key: i16, measured: &[Bounds]) {
        let histogram = self.histogram(api_key);
        assert_eq!(
            (histogram.requests, histogram.answered()),
            (measured.len() as u64, measured.len() as u64)
        );
        let found = histogram.latencies().flat_map(|(latency, count)| vec![latency; count as usize]);
        let mut left = measured.to_vec();
        for latency in found.map(Duration::from_nanos) {
            let has = |it: &Bounds| (it.min.mul_f64(0.99)..=it.max.mul_f64(1.01)).contains(&latency);
            // Of the requests that it may belong to, the one that ends first: the others may have longer latencies.
            let of = (0..left.len()).filter(|at| has(&left[*at])).min_by_key(|at| left[*at].max);
            let of = of.unwrap_or_else(|| panic!("API {api_key}: {latency:?} in none of {left:?}"));
            left.swap_remove(of);
        }
    }

    fn records_since(&mut self, from_ns: u64) -> Vec<Record> {
        let interval = self.session.interval(from_ns, u64::MAX);
        assert_eq!(interval.overwritten, 0);
        interval.records
    }

    fn requests_since(&mut self, from_ns: u64) -> Vec<Request> {
        let requests = self.records_since(from_ns).into_iter().filter_map(|record| match record {
            Record::Request(request) => Some(request),
            _ => None,
        });
        requests.collect()
    }

    fn appends_since(&mut self, from_ns: u64) -> Vec<Append> {
        let appends = self.records_since(from_ns).into_iter().filter_map(|record| match record {
            Record::Append(append) => Some(append),
            _ => None,
        });
        appends.collect()
    }

    fn waits_of(&mut self, tid: u32, from_ns: u64) -> Vec<Wait> {
        let waits = self.records_since(from_ns).into_iter().filter_map(|record| match record {
            Record::Wait(wait) if wait.tid == tid => Some(wait),
            _ => None,
        });
        waits.collect()
    }

    /// Slow requests reported so far, without waiting for more.
    fn slow(&mut self) -> Vec<SlowRequest> {
        self.session.wait(Duration::ZERO).unwrap()
    }

    fn print_costs(&self) {
        for cost in self.session.overhead() {
            let each = cost.run_time_ns / cost.run_count.max(1);
            println!("{}: {} runs, {each} ns each", cost.program, cost.run_count);
        }
    }
}

/// Sends a request, reads it like Kafka, and answers it after some milliseconds.
fn serve(
    connection: &mut Connection,
    request: broker::Request,
    write: impl FnOnce(&mut Connection, &[u8]),
) -> Bounds {
    serve_after(connection, request, Duration::from_millis(3), write)
}

fn serve_after(
    connection: &mut Connection,
    request: broker::Request,
    time: Duration,
    write: impl FnOnce(&mut Connection, &[u8]),
) -> Bounds {
    let clock = broker::Clock::start();
    connection.send(&request.bytes());
    let clock = connection.read_request_since(clock);
    thread::sleep(time);
    let bytes = answer(request.correlation_id, 600);
    let bounds = clock.end(|| write(connection, &bytes));
    connection.drain();
    bounds
}

/// Requests whole and in parts, answers by every call and in parts: one API each.
fn check_calls(watch: &mut Watch, broker: &Broker) {
    let mut connection = broker.connect();
    let from_ns = monotonic_ns();
    let writes: [fn(&mut Connection, &[u8]); 6] = [
        Connection::write,
        |it, bytes| it.write_vectored(&[bytes]),
        |it, bytes| it.write_vectored(&[&bytes[..4], &bytes[4..6], &[], &bytes[6..]]),
        Connection::send_message,
        |it, bytes| bytes.chunks(5).for_each(|part| it.write(part)),
        |it, bytes| {
            it.write_vectored(&[&bytes[..4], &bytes[4..20]]);
            bytes[20..].chunks(200).for_each(|part| it.write_from_file(part));
        },
    ];
    for (number, write) in writes.into_iter().enumerate() {
        let api_key = 20 + number as i16;
        let bounds = [serve(&mut connection, request(api_key, 7), write)];
        watch.expect(api_key, &bounds);
        let histogram = watch.histogram(api_key);
        assert_eq!(histogram.request_bytes, request(api_key, 7).bytes().len() as u64);
        assert_eq!(histogram.answer_bytes, answer(7, 600).len() as u64);
    }
    // Byte by byte, across the size and the header.
    let bytes = request(30, -5).bytes();
    let mut clock = broker::Clock::start();
    connection.send(&bytes);
    connection.read(2);
    clock.mark_first_byte();
    for part in [2, 3, 1, 7, bytes.len() - 15] {
        connection.read(part);
    }
    let bounds = clock.end(|| connection.write(&answer(-5, 0)));
    watch.expect(30, &[bounds]);

    let requests = watch.requests_since(from_ns);
    assert_eq!(requests.iter().map(|it| it.api_key).collect::<Vec<_>>(), [20, 21, 22, 23, 24, 25, 30]);
    for request in &requests {
        assert_eq!((request.outcome, request.local_port), (Outcome::Answered, watch.port));
        assert_eq!((request.tid, request.reader_tid), (scene::current_tid(), scene::current_tid()));
        let times = [request.arrival_ns, request.last_read_ns, request.first_write_ns, request.last_ns];
        assert!(times.is_sorted() && times[0] > from_ns, "{request:?}");
        let ends = watch.session.connection(request.connection).unwrap();
        assert_eq!((ends.local, ends.remote), connection.ends());
    }
    assert_eq!(requests[6].correlation_id, -5);
}

/// Serves requests on eight connections while something else is done.
fn serve_meanwhile<T>(broker: &Broker, done: impl FnOnce() -> T) -> T {
    let connections: Vec<_> = (0..8).map(|_| broker.connect()).collect();
    let ends = AtomicBool::new(false);
    thread::scope(|scope| {
        for mut connection in connections {
            let ends = &ends;
            scope.spawn(move || {
                for id in 0.. {
                    if ends.load(Ordering::Relaxed) {
                        break;
                    }
                    connection.send(&request(36, id).bytes());
                    connection.read_request();
                    connection.write(&answer(id, 10));
                    connection.drain();
                }
            });
        }
        let result = done();
        ends.store(true, Ordering::Relaxed);
        result
    })
}

/// Sends a request but for its last four bytes, and then these: the broker asks for just them, as it does for a size.
fn serve_last_four(connection: &mut Connection, request: broker::Request) {
    let bytes = request.bytes();
    let (most, last) = bytes.split_at(bytes.len() - 4);
    connection.send(most);
    connection.read(4);
    connection.read_part(most.len() - 4, bytes.len() - 4);
    connection.send(last);
    connection.read(4);
}

/// Calls for four bytes that are no size, and a request whose size no call has read.
fn check_left_out(watch: &mut Watch, broker: &Broker) {
    let (mut connection, from_ns) = (broker.connect(), monotonic_ns());
    serve_last_four(&mut connection, request(31, 1));
    let read_ns = monotonic_ns();
    thread::sleep(Duration::from_millis(3));
    connection.write(&answer(1, 10));
    // The next request comes without an answer before it.
    serve_last_four(&mut connection, request(32, 2));
    let bounds = serve(&mut connection, request(33, 3), Connection::write);
    watch.expect(33, &[bounds]);
    let requests = watch.requests_since(from_ns);
    let outcomes: Vec<_> = requests.iter().map(|it| (it.api_key, it.outcome)).collect();
    assert_eq!(outcomes, [(31, Outcome::Answered), (32, Outcome::Unanswered), (33, Outcome::Answered)]);
    assert!((from_ns..read_ns).contains(&requests[0].last_read_ns), "{requests:#?}");
    assert!(requests[1].last_read_ns < requests[2].arrival_ns, "{requests:#?}");

    // A read that asks for less than the size said: how long that request is, is unknown.
    let before = watch.session.losses();
    let bytes = request(34, 4).bytes();
    connection.send(&bytes);
    connection.read(4);
    connection.read(50);
    connection.read(bytes.len() - 54);
    connection.write(&answer(4, 10));
    let bounds = serve(&mut connection, request(35, 5), Connection::write);
    watch.expect(35, &[bounds]);
    assert_eq!(watch.session.losses().bad_frames - before.bad_frames, 1);
    assert_eq!(watch.histogram(34).given_up, 1);
}

/// Several requests in one read, and their answers in one write.
fn check_pipelined(watch: &mut Watch, broker: &Broker) {
    let mut connection = broker.connect();
    let requests = [request(40, 1), request(40, 2), request(40, 3)];
    let bytes = requests.iter().flat_map(broker::Request::bytes).collect::<Vec<_>>();
    let mut clock = broker::Clock::start();
    connection.send(&bytes);
    connection.read(bytes.len());
    clock.mark_first_byte();
    thread::sleep(Duration::from_millis(3));
    let answers = [1, 2, 3].into_iter().flat_map(|id| answer(id, 10)).collect::<Vec<_>>();
    let bounds = clock.end(|| connection.write(&answers));
    watch.expect(40, &[bounds; 3]);
}

/// Requests without an answer, as with acks=0.
fn check_unanswered(watch: &mut Watch, broker: &Broker) {
    let mut connection = broker.connect();
    let from_ns = monotonic_ns();
    for id in 0..6 {
        connection.send(&request(41, id).bytes());
        connection.read_request();
    }
    let bounds = serve(&mut connection, request(42, 6), Connection::write);
    watch.expect(42, &[bounds]);
    let histogram = watch.histogram(41);
    assert_eq!((histogram.requests, histogram.answered(), histogram.unanswered), (6, 0, 6));
    let requests = watch.requests_since(from_ns);
    let outcomes: Vec<_> = requests.iter().map(|it| (it.correlation_id, it.outcome)).collect();
    let expected = (0..6).map(|id| (id, Outcome::Unanswered)).chain([(6, Outcome::Answered)]);
    assert_eq!(outcomes, expected.collect::<Vec<_>>());
}

/// A connection from before the watch, in the middle of a request.
fn check_older(watch: &mut Watch, older: &mut Connection) {
    let from_ns = monotonic_ns();
    older.write(&answer(2, 10));
    let bounds = serve(older, request(43, 3), Connection::write);
    watch.expect(43, &[bounds]);
    let requests = watch.requests_since(from_ns);
    assert_eq!(requests.iter().map(|it| it.correlation_id).collect::<Vec<_>>(), [3]);
}

fn check_slow(watch: &mut Watch, broker: &Broker) {
    assert_eq!(watch.slow(), [], "nothing was slow so far");
    watch.session.set_threshold(THRESHOLD);
    let mut connection = broker.connect();
    let writes: [fn(&mut Connection, &[u8]); 3] = [
        Connection::write,
        |it, bytes| it.write_vectored(&[&bytes[..4], &bytes[4..300], &bytes[300..]]),
        |it, bytes| bytes.chunks(400).for_each(|part| it.write(part)),
    ];
    for (id, write) in (100..).zip(writes) {
        let bounds = serve_after(&mut connection, request(PRODUCE, id), SLOW, write);
        let slow = watch.session.wait(REPORTED).unwrap();
        assert_eq!(slow.len(), 1, "{slow:#?}");
        let slow = &slow[0];
        assert_eq!((slow.connection.local, slow.connection.remote), connection.ends());
        let request = &slow.request;
        assert_eq!((request.api_key, request.api_version, request.correlation_id), (PRODUCE, 9, id));
        let latency = Duration::from_nanos(request.last_ns - request.arrival_ns);
        assert!((bounds.min..=bounds.max).contains(&latency), "{latency:?} in {bounds:?}");
        assert_eq!(
            (request.request_bytes as usize, request.answer_bytes),
            (broker::request(0, 0).bytes().len(), 608)
        );
        assert_eq!(slow.answer, answer(id, 600)[..256]);
        assert_eq!((request.tid, slow.max_wait_ms), (scene::current_tid(), 0));
        assert_eq!(slow.client_id.as_deref(), Some("client"));
        assert_eq!(slow.descriptor, connection.server.as_raw_fd());
        assert_eq!(slow.complete_ns, request.arrival_ns, "it came whole");
        assert!(slow.first_read_ns > request.arrival_ns, "it was read when it had come");
    }
    // The sequence numbers are those of the connection's bytes: one request and one answer apart.
    let numbers = [0, 1].map(|id| {
        serve_after(&mut connection, request(PRODUCE, id), SLOW, Connection::write);
        let slow = watch.session.wait(REPORTED).unwrap();
        (slow[0].read_sequence, slow[0].write_sequence)
    });
    let apart = (numbers[1].0.wrapping_sub(numbers[0].0), numbers[1].1.wrapping_sub(numbers[0].1));
    assert_eq!(apart, (request(PRODUCE, 0).bytes().len() as u32, 608));
    // The threshold can be changed.
    watch.session.set_threshold(NEVER);
    serve_after(&mut connection, request(PRODUCE, 2), SLOW, Connection::write);
    assert_eq!(watch.slow(), []);
    watch.session.set_threshold(THRESHOLD);
}

/// Sends a request, after which `unread` bytes are in the socket; returns the bounds of its arrival.
fn send_to_wait(connection: &mut Connection, correlation_id: i32, unread: usize) -> Range<u64> {
    let (bytes, from_ns) = (request(52, correlation_id).bytes(), monotonic_ns());
    connection.send(&bytes);
    connection.wait_for(unread * bytes.len());
    from_ns..monotonic_ns()
}

/// Reads a request and answers it immediately: it is reported, with an arrival between these times.
fn serve_late(
    watch: &mut Watch,
    connection: &mut Connection,
    correlation_id: i32,
    arrival: Range<u64>,
) -> SlowRequest {
    let from_ns = monotonic_ns();
    connection.read_request();
    connection.write(&answer(correlation_id, 10));
    let mut slow = watch.session.wait(REPORTED).unwrap();
    let slow = slow.pop().filter(|_| slow.is_empty()).unwrap_or_else(|| panic!("{slow:#?}"));
    let request = &slow.request;
    assert!(arrival.contains(&request.arrival_ns), "{arrival:?}: {slow:#?}");
    assert_eq!(slow.complete_ns, request.arrival_ns, "all of it was there");
    assert!(slow.first_read_ns > from_ns && request.last_read_ns >= slow.first_read_ns);
    slow
}

/// Requests that wait in the socket before they are read. So they do when the broker stands still or serves another
/// request of the same connection.
fn check_waiting(watch: &mut Watch, broker: &Broker) {
    let waits = Duration::from_millis(300);
    let mut connection = broker.connect();
    let arrival = send_to_wait(&mut connection, 1, 1);
    thread::sleep(waits);
    let slow = serve_late(watch, &mut connection, 1, arrival);
    assert_eq!(slow.previous_ns, 0, "nothing was answered before");

    // As many as a producer sends at a time, some apart.
    let arrivals: Vec<_> = (2..=6)
        .map(|id| {
            let arrival = send_to_wait(&mut connection, id, id as usize - 1);
            thread::sleep(Duration::from_millis(3));
            arrival
        })
        .collect();
    thread::sleep(waits);
    let mut previous_ns = slow.request.last_ns;
    for (id, arrival) in (2..).zip(arrivals) {
        let slow = serve_late(watch, &mut connection, id, arrival);
        assert_eq!(slow.previous_ns, previous_ns);
        previous_ns = slow.request.last_ns;
    }

    // More than there is room for: those in the middle get the arrival of a later one.
    let arrivals: Vec<_> = (1..=20).map(|id| send_to_wait(&mut connection, id, id as usize)).collect();
    thread::sleep(waits);
    for (id, arrival) in (1..).zip(&arrivals) {
        let latest = if (8..20).contains(&id) { arrivals[19].end } else { arrival.end };
        serve_late(watch, &mut connection, id, arrival.start..latest);
    }
}

/// Requests that wait in the socket for less than a tick of the kernel's clock. They are counted from their arrival.
fn check_short_waits(watch: &mut Watch, broker: &Broker) {
    let mut connection = broker.connect();
    let from_ns = monotonic_ns();
    let arrivals: Vec<_> = (1..=20)
        .map(|id| {
            let arrival = send_to_wait(&mut connection, id, 1);
            thread::sleep(Duration::from_millis(1));
            connection.read_request();
            connection.write(&answer(id, 10));
            arrival
        })
        .collect();
    let requests = watch.requests_since(from_ns);
    assert_eq!(requests.len(), arrivals.len());
    for (request, arrival) in requests.iter().zip(&arrivals) {
        assert!(arrival.contains(&request.arrival_ns), "{arrival:?}: {request:#?}");
    }
}

fn check_long_polls(watch: &mut Watch, broker: &Broker) {
    let mut connection = broker.connect();
    for (version, max_wait_ms, is_slow) in
        [(4, 500, false), (11, 500, false), (13, 500, false), (17, 500, false), (11, 5, true), (17, 5, true)]
    {
        serve_after(&mut connection, fetch(version, 1, max_wait_ms), SLOW, Connection::write);
        let slow = watch.slow();
        let waits: Vec<_> = slow.iter().map(|it| (it.request.api_key, it.max_wait_ms)).collect();
        let expected = if is_slow { vec![(FETCH, max_wait_ms as u32)] } else { vec![] };
        assert_eq!(waits, expected, "version {version}");
    }
    for api_key in [11, 14] {
        serve_after(&mut connection, request(api_key, 1), SLOW, Connection::write);
        assert_eq!(watch.slow(), []);
    }
    watch.session.set_threshold(NEVER);
    assert_eq!(watch.histogram(FETCH).answered(), 6);
    assert_eq!(watch.session.losses().without_max_wait, 0);
}

/// Frames that are no requests, and answers to no request, are counted; later frames are followed again.
fn check_bad_frames(watch: &mut Watch, broker: &Broker) {
    let before = watch.session.losses();
    let mut tls = broker.connect();
    tls.send(&[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3, 0, 0, 0, 0, 0]);
    tls.read(16);
    tls.write(&[0x16, 3, 3, 0, 10]);
    tls.send(&[0x17; 40]);
    tls.read(40);
    let losses = watch.session.losses();
    assert_eq!(losses.bad_frames - before.bad_frames, 1);
    assert_eq!(losses.unsynchronised_reads - before.unsynchronised_reads, 1);

    let mut connection = broker.connect();
    connection.send(&request(44, 1).bytes());
    connection.read_request();
    connection.write(&answer(99, 10));
    let bounds = serve(&mut connection, request(45, 2), Connection::write);
    watch.expect(45, &[bounds]);
    let losses = watch.session.losses();
    assert_eq!((losses.mismatched - before.mismatched, losses.given_up - before.given_up), (1, 1));
    let histogram = watch.histogram(44);
    assert_eq!((histogram.requests, histogram.answered(), histogram.given_up), (1, 0, 1));
    assert_eq!(losses.unmatched, before.unmatched);

    // The head of this answer is in none of the broker's buffers.
    let before = losses;
    serve(&mut connection, request(48, 3), Connection::write_from_file);
    let bounds = serve(&mut connection, request(49, 4), Connection::write);
    watch.expect(49, &[bounds]);
    let losses = watch.session.losses();
    assert_eq!((losses.bad_frames - before.bad_frames, losses.given_up - before.given_up), (1, 1));
}

/// Requests beyond the memory or the limits are counted.
fn check_limits() {
    let broker = Broker::new("127.0.0.1:0");
    let threshold = Duration::ZERO;
    let ports = vec![1, 2, broker.port()];
    let options = Options { ports, threshold, histograms: 1, slow_per_second: 2, ..Options::default() };
    let mut watch = Watch { session: attach(&options), port: broker.port() };
    let mut connection = broker.connect();
    let bounds = [1, 2].map(|id| serve(&mut connection, request(50, id), Connection::write));
    serve(&mut connection, request(51, 3), Connection::write);
    watch.expect(50, &bounds);
    assert_eq!(watch.slow().len(), 2);
    let losses = watch.session.losses();
    assert_eq!((losses.without_histogram, losses.over_limit), (1, 1));
}

fn check_ipv6() {
    let broker = Broker::new("[::1]:0");
    let mut watch = Watch::of(&broker);
    watch.session.set_threshold(THRESHOLD);
    let mut connection = broker.connect();
    let bounds = serve_after(&mut connection, request(46, 1), SLOW, Connection::write);
    watch.expect(46, &[bounds]);
    let slow = watch.session.wait(REPORTED).unwrap();
    assert_eq!((slow[0].connection.local, slow[0].connection.remote), connection.ends());
}

/// Without configured listeners, the end that was written to first is the client's.
fn check_all_connections() {
    let broker = Broker::new("127.0.0.1:0");
    let session = attach(&Options::default());
    let watch = Watch { session, port: broker.port() };
    let mut connection = broker.connect();
    let clock = broker::Clock::start();
    connection.send(&request(47, 1).bytes());
    let mut clock = connection.read_request_since(clock);
    // A read of a size is left out, and what reaches a connection is not followed before its first request: that one begins
    // with its second read.
    clock.mark_first_byte();
    thread::sleep(Duration::from_millis(3));
    let bounds = clock.end(|| connection.write(&answer(1, 600)));
    watch.expect(47, &[bounds]);
    assert_eq!(watch.session.histograms().count(), 1, "the client's end has none");
}

/// Appends within one page, across pages, and two in a row.
fn check_appends(watch: &mut Watch, directory: &Path, is_xfs: bool) {
    let path = directory.join("segment");
    let mut file = File::create(&path).unwrap();
    let from_ns = monotonic_ns();
    for bytes in [100, 3_996, 9_000, 200, 300] {
        file.write_all(&vec![1; bytes]).unwrap();
    }
    file.seek(std::io::SeekFrom::Start(50)).unwrap();
    file.write_all(&[2; 10]).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    let appends: Vec<_> =
        watch.appends_since(from_ns).into_iter().filter(|it| it.inode == metadata.ino()).collect();
    let places: Vec<_> = appends.iter().map(|it| (it.position, it.length)).collect();
    let expected = [(0, 100), (100, 3_996), (4_096, 9_000), (13_096, 200), (13_296, 300), (50, 10)];
    assert_eq!(places, expected, "XFS: {is_xfs}");
    for append in &appends {
        let device = metadata.dev();
        assert_eq!(append.device, (libc::major(device), libc::minor(device)));
        assert_eq!((append.tid, append.at_entry), (scene::current_tid(), is_xfs));
        assert!(from_ns < append.first_ns && append.first_ns <= append.last_ns);
    }
}

/// A write to a frozen file system is in uninterruptible sleep.
fn check_wait(watch: &mut Watch, file_system: &FileSystem) {
    let mut file = File::create(file_system.path().join("frozen")).unwrap();
    let (from_ns, fd) = (monotonic_ns(), file.as_raw_fd());
    let freeze = Freeze::new(file_system);
    let (sender, receiver) = std::sync::mpsc::channel();
    let writer = thread::Builder::new().name("writer".to_owned()).spawn(move || {
        sender.send(scene::current_tid()).unwrap();
        file.write_all(&[1; 10]).unwrap();
    });
    let tid = receiver.recv().unwrap();
    scene::wait_until_blocked(tid);
    thread::sleep(Duration::from_millis(100));
    drop(freeze);
    writer.unwrap().join().unwrap();
    let waits = watch.waits_of(tid, from_ns);
    // On a busy machine it also waits for the CPU.
    let blocked = waits.iter().filter(|it| it.kind == WaitKind::Uninterruptible);
    let wait = blocked.max_by_key(|it| it.last_ns - it.first_ns).unwrap();
    assert!(wait.last_ns - wait.first_ns >= 25_000_000, "{waits:#?}");
    assert_eq!((wait.call, wait.argument), (Some(libc::SYS_write as u32), Some(fd as u64)));
    // Down to where it sleeps: the lock's function does not show its kind.
    assert!(wait.stack.contains(";vfs_write;") && wait.stack.ends_with("schedule"), "{}", wait.stack);
    assert_eq!(&*wait.comm, "writer");
}

/// A signal or a freezer stops all threads, including this one.
fn check_stopped(watch: &mut Watch) {
    for (stop, kind) in [(stops::by_signal as fn(), WaitKind::Stopped), (stops::by_freezer, WaitKind::Frozen)]
    {
        let from_ns = monotonic_ns();
        stop();
        let waits = watch.waits_of(scene::current_tid(), from_ns);
        let stopped =
            waits.iter().find(|it| it.kind == kind).unwrap_or_else(|| panic!("{kind:?}: {waits:#?}"));
        let length = Duration::from_nanos(stopped.last_ns - stopped.first_ns);
        assert!(length >= stops::STOP / 2, "{stopped:#?}");
        assert_eq!((stopped.call, &*stopped.stack), (None, ""));
    }
}

/// A sync sleeps until the journal's commit is on the device.
fn check_file_call(directory: &Path) {
    let min_wait = Duration::from_micros(10);
    let session = attach(&Options { threshold: NEVER, min_wait, ..Options::default() });
    let mut watch = Watch { session, port: 0 };
    let mut file = File::create(directory.join("synced")).unwrap();
    let mut mapped = MappedFile::new(&directory.join("mapped"));
    let from_ns = monotonic_ns();
    let calls = [1, 2].map(|byte| {
        mapped.store(byte);
        mapped.sync();
        file.write_all(&[byte; 5_000]).unwrap();
        file.sync_all().unwrap();
    });
    let waits = watch.waits_of(scene::current_tid(), from_ns);
    let calls_of = |name: &str, call: i64| {
        let metadata = fs::metadata(directory.join(name)).unwrap();
        let device = (libc::major(metadata.dev()), libc::minor(metadata.dev()));
        let of_it = waits.iter().filter(move |it| it.call == Some(call as u32)).filter_map(|it| it.file_call);
        let of_it = of_it.filter(move |it| (it.device, it.inode) == (device, metadata.ino()));
        of_it.map(|it| it.number).collect::<std::collections::BTreeSet<_>>().len()
    };
    let found = [calls_of("synced", libc::SYS_fsync), calls_of("mapped", libc::SYS_msync)];
    assert_eq!(found, [calls.len(); 2], "{waits:#?}");
}

/// A runnable thread whose only CPU another thread has.
fn check_cpu_wait(watch: &mut Watch) {
    let from_ns = monotonic_ns();
    let tid = beside_a_spinner(|| {
        let end = Instant::now() + Duration::from_millis(200);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        scene::current_tid()
    });
    let waits = watch.waits_of(tid, from_ns);
    assert!(waits.iter().any(|it| it.kind == WaitKind::Runnable && it.queue_ns >= 1_000_000), "{waits:#?}");
    assert!(waits.iter().all(|it| it.last_ns - it.first_ns >= 1_000_000), "{waits:#?}");
}

/// A thread preempted on its way back from a write is no longer in that write: the kernel has counted it, so the wait
/// would be attributed to the next one.
fn check_wait_after_write(watch: &mut Watch) {
    let from_ns = monotonic_ns();
    let (tid, before, writes) = beside_a_spinner(|| {
        let mut nowhere = File::create("/dev/null").unwrap();
        let (before, mut writes) = (writes_of_this_thread(), Vec::new());
        let end = Instant::now() + Duration::from_millis(300);
        while Instant::now() < end {
            let began = monotonic_ns();
            nowhere.write_all(&[1; 10]).unwrap();
            writes.push((began, monotonic_ns()));
        }
        (scene::current_tid(), before, writes)
    });
    let waits = watch.waits_of(tid, from_ns);
    for wait in waits.iter().filter(|it| it.call == Some(libc::SYS_write as u32)) {
        let is_within = |(began, ended): &(u64, u64)| *began < wait.first_ns && wait.last_ns < *ended;
        let number = before + writes.iter().position(is_within).unwrap() as u64;
        assert_eq!(wait.write_call, Some(number % 0xffff + 1), "write {number}: {wait:#?}");
    }
}

/// Number of writing calls that the kernel has counted.
fn writes_of_this_thread() -> u64 {
    let counted = fs::read_to_string("/proc/thread-self/io").unwrap();
    let writes = counted.lines().find_map(|line| line.strip_prefix("syscw: "));
    writes.unwrap().parse().unwrap()
}

/// Runs in a thread that shares its only CPU with a spinning one: both have the same weight, so each waits for the
/// other's slice.
fn beside_a_spinner<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let spinner = scope.spawn(|| {
            pin_to_first_cpu();
            while !is_done.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let runner = scope.spawn(|| {
            pin_to_first_cpu();
            run()
        });
        let ran = runner.join();
        is_done.store(true, Ordering::Relaxed);
        spinner.join().unwrap();
        ran.unwrap()
    })
}

fn pin_to_first_cpu() {
    // SAFETY: all zero is an empty set, with room for the first CPU.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(0, &mut set);
        set
    };
    // SAFETY: the set is readable for its size.
    assert_eq!(unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) }, 0);
}

/// More appends than slots.
fn check_overwritten(broker: &Broker, directory: &Path) {
    const APPENDS: u64 = 3_000;
    let options = Options { ports: vec![broker.port()], records: 512, ..Options::default() };
    let mut session = attach(&options);
    let mut file = File::create(directory.join("many")).unwrap();
    let from_ns = monotonic_ns();
    (0..APPENDS).for_each(|_| file.write_all(&[1; 10]).unwrap());
    let interval = session.interval(from_ns, monotonic_ns());
    let appends = interval.records.iter().filter(|it| matches!(it, Record::Append(_))).count() as u64;
    assert!(
        appends < APPENDS && appends + interval.overwritten >= APPENDS,
        "{appends} + {}",
        interval.overwritten
    );
    // Records made long after are complete.
    thread::sleep(Duration::from_millis(50));
    let from_ns = monotonic_ns();
    (0..100).for_each(|_| file.write_all(&[1; 10]).unwrap());
    let interval = session.interval(from_ns, monotonic_ns());
    let appends = interval.records.iter().filter(|it| matches!(it, Record::Append(_))).count();
    assert_eq!((appends, interval.overwritten), (100, 0));
}
