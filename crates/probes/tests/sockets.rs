//! The probes on TCP connections of this very process, over loopback: every call is reported once, with the sequence
//! numbers that the kernel reports (`TCP_QUEUE_SEQ`); as many retransmissions as it counts (`TCP_INFO`), from the first
//! call on; closed windows and missing window scaling once each. Needs root, BPF and `BROKERSCOPE_LIVE_TESTS=1`;
//! without that it says loudly that it did not run, and with it anything that is missing is a failure.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "sockets/connection.rs"]
mod connection;
#[path = "live/gate.rs"]
mod gate;

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::{Duration, Instant};

use connection::{Connection, Queue};
use model::{Event as Row, SocketOp, SocketOpKind, TcpEvent, TcpEventKind};
use probes::{Event, Facts, FileOp, Plan, Probes, Purpose, Target};

const REPORTED: Duration = Duration::from_secs(5);
const GIVE_UP: Duration = Duration::from_secs(120);
/// Other purposes would only take time to load.
const NEEDED: [Purpose; 5] = [
    Purpose::FileWrites,
    Purpose::FileReads,
    Purpose::FileTransfers,
    Purpose::SocketOps,
    Purpose::TcpRetransmits,
];

#[test]
fn socket_calls_and_tcp_events_are_reported_exactly() {
    if !gate::is_open() {
        return;
    }
    connection::enter_own_network();
    let mut watch = Watch::of(std::process::id());
    for (listen, connect) in
        [("127.0.0.1", "127.0.0.1"), ("[::1]", "[::1]"), ("[::]", "127.0.0.1"), ("[::]", "[::1]")]
    {
        check_every_call(&mut watch, listen, connect);
    }
    check_what_is_no_connection(&mut watch);
    check_closed_window(&mut watch);
    check_scaling(&mut watch);
    check_retransmission(&mut watch, || Connection::open("127.0.0.1", "127.0.0.1"));
    check_retransmission(&mut watch, Connection::open_at_the_second_try);
    check_another_process();
    let losses = watch.probes.losses();
    assert!(!losses.has_lost_events(), "{losses:?}");
}

/// Probes on a process and what they have reported about connections.
struct Watch {
    probes: Probes,
    ops: Vec<SocketOp>,
    troubles: Vec<TcpEvent>,
    files: Vec<FileOp>,
}

impl Watch {
    fn of(pid: u32) -> Self {
        let mut plan = Plan::choose(&Facts::survey());
        for purpose in NEEDED {
            assert!(plan.uses(purpose), "{purpose:?} is missing: {:#?}", plan.hooks);
        }
        plan.hooks.retain(|hook| NEEDED.contains(&hook.purpose));
        let probes = Probes::attach(&plan, &Target { pid, stacks: false }).unwrap();
        Self { probes, ops: Vec::new(), troubles: Vec::new(), files: Vec::new() }
    }

    fn poll(&mut self, timeout: Duration) {
        let Self { probes, ops, troubles, files } = self;
        let mut take = |event| match event {
            Event::Row(Row::SocketOp(op)) => ops.push(*op),
            Event::Row(Row::TcpEvent(trouble)) => troubles.push(*trouble),
            Event::FileOp(op) => files.push(op),
            _ => {}
        };
        probes.poll(timeout, &mut take).unwrap();
    }

    /// Reads everything: events are in the buffer when the calls return.
    fn all(&mut self) {
        self.poll(Duration::ZERO);
    }

    /// Operations of one end of a connection.
    fn ops_of(&self, (local, remote): (SocketAddr, SocketAddr)) -> Vec<&SocketOp> {
        self.ops.iter().filter(|op| (op.local, op.remote) == (local, remote)).collect()
    }

    fn troubles_of(&self, ends: (SocketAddr, SocketAddr), kind: TcpEventKind) -> usize {
        let of = |trouble: &&TcpEvent| {
            (trouble.local, trouble.remote) == (Some(ends.0), Some(ends.1)) && trouble.kind == kind
        };
        self.troubles.iter().filter(of).count()
    }
}

/// Expected report of a call.
type Expectation = (SocketOpKind, i32, u32, u32);

/// Bytes, or a negative errno.
fn result(op: &SocketOp) -> i32 {
    op.bytes.map_or_else(|| -op.errno.unwrap(), |bytes| bytes as i32)
}

fn summarize(ops: &[&SocketOp]) -> Vec<Expectation> {
    ops.iter().map(|op| (op.op, result(op), op.sequence, op.sequence_end)).collect()
}

/// Every call that moves bytes, with both ends in this thread; the kernel's queue positions are the truth.
fn check_every_call(watch: &mut Watch, listen: &str, connect: &str) {
    let connection = Connection::open(listen, connect);
    let (client, server) = (&connection.client, &connection.server);
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let quiet = watch.probes.empty_socket_calls();
    let first = client.sequence(Queue::Send);
    for (send, bytes) in connection::SENDS {
        let before = client.sequence(Queue::Send);
        send(client, bytes);
        let after = client.sequence(Queue::Send);
        assert_eq!(after.wrapping_sub(before), bytes as u32);
        let kind = if bytes >= connection::FROM_FILE { SocketOpKind::Sendfile } else { SocketOpKind::Write };
        sent.push((kind, bytes as i32, before, after));
    }
    let mut at = first;
    for (receive, bytes) in connection::RECEIVES {
        receive(server, bytes);
        let end = at.wrapping_add(bytes as u32);
        received.push((SocketOpKind::Read, bytes as i32, at, end));
        at = end;
    }
    let rest = client.sequence(Queue::Send).wrapping_sub(at);
    server.read_exactly(rest as usize);
    received.push((SocketOpKind::Read, rest as i32, at, at.wrapping_add(rest)));
    assert_eq!(server.sequence(Queue::Receive), at.wrapping_add(rest));
    server.find_nothing(3);
    watch.all();

    let by_client = watch.ops_of(client.ends());
    assert_eq!(summarize(&by_client), sent, "listening at {listen}, connected to {connect}");
    assert!(by_client.iter().all(|op| op.peer_window.is_some_and(|window| window > 0)), "{by_client:#?}");
    let by_server = watch.ops_of(server.ends());
    assert_eq!(summarize(&by_server), received, "listening at {listen}, connected to {connect}");
    assert!(by_server.iter().all(|op| op.peer_window.is_none()), "{by_server:#?}");
    for op in by_client.iter().chain(&by_server) {
        assert_eq!((op.pid, op.tid), (std::process::id(), connection::current_tid()));
        assert!(op.start < op.end && !op.thread.is_empty(), "{op:?}");
    }
    assert_eq!(watch.probes.empty_socket_calls() - quiet, 3);
    check_the_files_side(watch, &by_client.iter().copied().cloned().collect::<Vec<_>>());
    check_failure(watch, connection);
}

/// A `sendfile` is also an operation on a file, with the same thread and start.
fn check_the_files_side(watch: &Watch, by_client: &[SocketOp]) {
    let from_file: Vec<_> = by_client.iter().filter(|op| op.op == SocketOpKind::Sendfile).collect();
    let sendfile = from_file.first().expect("no sendfile");
    let file =
        watch.files.iter().filter(|op| (op.tid, op.start_ns) == (sendfile.tid, sendfile.start.0 as u64));
    let file: Vec<_> = file.collect();
    assert_eq!(file.len(), 1, "{file:#?}");
    assert_eq!(file[0].result, i64::from(result(sendfile)));
}

/// After a reset both calls fail; the second no longer finds a connection.
fn check_failure(watch: &mut Watch, connection: Connection) {
    let ends = connection.client.ends();
    let before = watch.ops_of(ends).len();
    let client = connection.reset_by_server();
    assert_eq!(client.fail_to_read(), libc::ECONNRESET);
    assert_eq!(client.fail_to_write(), libc::EPIPE);
    watch.all();
    let failed: Vec<_> = watch.ops_of(ends)[before..].iter().map(|op| (op.op, result(op))).collect();
    let expected = [(SocketOpKind::Read, -libc::ECONNRESET), (SocketOpKind::Write, -libc::EPIPE)];
    assert_eq!(failed, expected);
}

fn check_what_is_no_connection(watch: &mut Watch) {
    watch.all();
    let (ops, quiet) = (watch.ops.len(), watch.probes.empty_socket_calls());
    let (mut one, other) = UnixStream::pair().unwrap();
    one.write_all(b"local").unwrap();
    connection::receive_from(&other);
    let (sender, receiver) =
        (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
    sender.send_to(b"datagram", receiver.local_addr().unwrap()).unwrap();
    receiver.recv(&mut [0; 100]).unwrap();
    let (mut reader, mut writer) = connection::pipe();
    writer.write_all(b"pipe").unwrap();
    std::io::Read::read_exact(&mut reader, &mut [0; 4]).unwrap();
    watch.all();
    assert_eq!(watch.ops.len(), ops, "{:#?}", &watch.ops[ops..]);
    assert_eq!(watch.probes.empty_socket_calls(), quiet);
}

/// A reader that stops closes its window: reported once, however often the writer tries, and again the next time; also
/// if the writer only tries once it is open again.
fn check_closed_window(watch: &mut Watch) {
    let connection = Connection::open("127.0.0.1", "127.0.0.1");
    let (writer, reader) = (&connection.client, &connection.server);
    connection.fix_buffers();
    let first = writer.sequence(Queue::Send);
    for (stalls, attempts) in [(1, 20), (2, 0), (3, 1)] {
        writer.fill();
        writer.wait_for_window_probes();
        // The probe took the rest of the window, and so made room once more.
        (0..attempts).for_each(|_| writer.fill());
        watch.all();
        let reported = stalls - usize::from(attempts == 0);
        assert_eq!(watch.troubles_of(writer.ends(), TcpEventKind::ZeroWindow), reported);
        reader.drain(writer);
        for _ in 0..3 {
            writer.write(10);
            reader.drain(writer);
        }
        watch.all();
        assert_eq!(watch.troubles_of(writer.ends(), TcpEventKind::ZeroWindow), stalls);
    }
    let moved = |ends| watch.ops_of(ends).iter().map(|op| i64::from(result(op))).sum::<i64>();
    let sent = i64::from(writer.sequence(Queue::Send).wrapping_sub(first));
    assert_eq!((moved(writer.ends()), moved(reader.ends())), (sent, sent));
}

/// Both ends of a connection belong to this process, and each is reported once.
fn check_scaling(watch: &mut Watch) {
    let unscaled = |watch: &Watch| {
        watch.troubles.iter().filter(|trouble| trouble.kind == TcpEventKind::NoWindowScaling).count()
    };
    watch.all();
    assert_eq!(unscaled(watch), 0, "every connection so far has window scaling");
    connection::offer_window_scaling(false);
    let plain = [Connection::open("127.0.0.1", "127.0.0.1"), Connection::open("[::1]", "[::1]")];
    connection::offer_window_scaling(true);
    for connection in &plain {
        for _ in 0..5 {
            connection.client.write(100);
            connection.server.read_exactly(100);
        }
    }
    watch.all();
    for connection in &plain {
        for end in [&connection.client, &connection.server] {
            assert_eq!(watch.troubles_of(end.ends(), TcpEventKind::NoWindowScaling), 1);
        }
    }
    assert_eq!(unscaled(watch), 4);
}

/// Segments that the receiver drops are retransmitted; the sender's own count says how often.
///
/// That count includes more than the probes can report: SYNs retransmitted before a call on the connection, and
/// attempts that IP refused, which are counted before they are made (`__tcp_retransmit_skb` in the kernel) and reach
/// the tracepoint only since Linux 6.17. About once in ten runs it includes one more for an unknown reason: two of
/// three connections may do so, and the difference is printed. The probes must never report more than it includes.
fn check_retransmission(watch: &mut Watch, open: impl Fn() -> Connection) {
    let unreported =
        |_| retransmit(watch, &open()).inspect_err(|difference| eprintln!("NOTE: {difference}")).is_err();
    assert!(!(0..3).all(unreported), "retransmissions are not reported");
}

fn retransmit(watch: &mut Watch, connection: &Connection) -> Result<(), String> {
    let (before, refused_before) = (connection.client.retransmits(), connection::counter("TCPRetransFail"));
    let (client, server) = (&connection.client, &connection.server);
    server.drop_segments();
    client.write(100);
    let end = Instant::now() + GIVE_UP;
    while client.retransmits() < before + 2 {
        assert!(Instant::now() < end, "nothing is sent again");
        std::thread::sleep(Duration::from_millis(20));
    }
    server.accept_segments();
    server.read_exactly(100);
    let attempts = (client.retransmits() - before) as usize;
    let sent = attempts - (connection::counter("TCPRetransFail") - refused_before) as usize;
    let count_reported = |watch: &Watch| watch.troubles_of(client.ends(), TcpEventKind::Retransmit);
    // They are reported as they are sent.
    let end = Instant::now() + REPORTED;
    while count_reported(watch) < sent && Instant::now() < end {
        watch.poll(Duration::from_millis(100));
    }
    assert!(count_reported(watch) <= attempts, "{} of {sent} to {attempts}", count_reported(watch));
    assert_eq!(watch.troubles_of(server.ends(), TcpEventKind::Retransmit), 0);
    let (reported, losses) = (count_reported(watch), watch.probes.losses());
    let difference = format!("{reported} of {sent} to {attempts} retransmissions after {before}; {losses:?}");
    if reported < sent { Err(difference) } else { Ok(()) }
}

/// Nothing is reported for a process that has no connections.
fn check_another_process() {
    let mut other = Command::new("sleep").arg("60").spawn().unwrap();
    let mut watch = Watch::of(other.id());
    let connection = Connection::open("127.0.0.1", "127.0.0.1");
    connection.server.drop_segments();
    connection.client.write(100);
    while connection.client.retransmits() == 0 {
        std::thread::sleep(Duration::from_millis(20));
    }
    connection.server.accept_segments();
    connection.server.read_exactly(100);
    watch.all();
    other.kill().unwrap();
    other.wait().unwrap();
    assert_eq!((watch.ops, watch.troubles), (Vec::new(), Vec::new()));
}
