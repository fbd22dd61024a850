//! Arrivals on connections of this very process, over loopback: each read is reported with the times at which its bytes
//! were there, also if they lay in the socket, came in pieces or were read in pieces. Needs root, BPF and
//! `BROKERSCOPE_LIVE_TESTS=1`; without that it says loudly that it did not run, and with it anything that is missing is
//! a failure.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "live/gate.rs"]
mod gate;

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use probes::arrivals::{Plan, Read, Session};
use probes::{Facts, State};

/// How long bytes lie in the socket; the times of arrivals are compared with clock readings, not with this.
const PAUSE: Duration = Duration::from_millis(30);

fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.unsigned_abs() * 1_000_000_000 + now.tv_nsec.unsigned_abs()
}

/// A connection to a listener of this process.
struct Connection {
    client: TcpStream,
    broker: TcpStream,
}

impl Connection {
    fn to(listener: &TcpListener) -> Self {
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        Self { client, broker: listener.accept().unwrap().0 }
    }

    /// Sends bytes; returns the times before and after.
    fn send(&mut self, bytes: usize) -> (u64, u64) {
        let before = now_ns();
        self.client.write_all(&vec![7; bytes]).unwrap();
        let sent = (before, now_ns());
        sleep(PAUSE);
        sent
    }

    fn receive(&mut self, bytes: usize) {
        self.broker.read_exact(&mut vec![0; bytes]).unwrap();
    }
}

/// The reads since the last call on one connection.
fn reads_of(session: &mut Session, connection: &Connection) -> Vec<Read> {
    let ends = (connection.broker.local_addr().unwrap(), connection.broker.peer_addr().unwrap());
    let mut reads = Vec::new();
    session.read(|read| reads.extend(((read.local, read.remote) == ends).then(|| read.clone()))).unwrap();
    reads
}

#[test]
fn each_read_has_the_arrivals_of_its_bytes() {
    if !gate::is_open() {
        return;
    }
    let plan = Plan::choose(&Facts::survey());
    assert_eq!(plan.state, State::Use, "{}", plan.describe());
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let listener = TcpListener::bind(address).unwrap();
        let mut session = Session::attach(&plan, &[listener.local_addr().unwrap().port()]).unwrap();
        check_pieces(&mut session, &mut Connection::to(&listener));
        check_many_pieces(&mut session, &mut Connection::to(&listener));
        check_ports(&mut session, &mut Connection::to(&listener));
        assert_eq!(session.lost(), 0);
    }
}

/// Two pieces, read by one call and by three.
fn check_pieces(session: &mut Session, connection: &mut Connection) {
    for reads in [vec![300], vec![40, 100, 160]] {
        let sent = [connection.send(100), connection.send(200)];
        let begun = now_ns();
        for bytes in &reads {
            connection.receive(*bytes);
        }
        let found = reads_of(session, connection);
        assert_eq!(found.iter().map(|read| read.bytes as usize).collect::<Vec<_>>(), reads);
        let mut position = 0;
        for read in &found {
            assert!(read.end_ns > begun && read.end_ns < now_ns());
            assert_eq!(read.sequence, found[0].sequence.wrapping_add(position));
            let mut first = 0;
            for (ns, end) in read.arrivals() {
                let piece = sent[usize::from(position + first >= 100)];
                assert!(ns > piece.0 && ns < piece.1, "byte {} of {read:?}: {piece:?}", position + first);
                first = end;
            }
            assert_eq!(first, read.bytes, "every byte has an arrival");
            position += read.bytes;
        }
    }
}

/// More pieces than are kept: the first arrival stays known, and no byte seems to come before it did.
fn check_many_pieces(session: &mut Session, connection: &mut Connection) {
    let sent: Vec<_> = (0..12).map(|_| connection.send(10)).collect();
    connection.receive(120);
    let found = reads_of(session, connection);
    let arrivals: Vec<_> = found[0].arrivals().collect();
    assert_eq!((found.len(), arrivals.len()), (1, 8));
    assert!(arrivals[0].0 > sent[0].0 && arrivals[0].0 < sent[0].1 && arrivals[0].1 == 10);
    let last = arrivals[7];
    assert!(last.0 > sent[11].0 && last.1 == 120, "{arrivals:?}");
}

/// Connections of other ports are not followed.
fn check_ports(session: &mut Session, connection: &mut Connection) {
    let port = connection.broker.local_addr().unwrap().port();
    session.set_ports(&[]);
    connection.send(10);
    connection.receive(10);
    assert_eq!(reads_of(session, connection).len(), 0);
    session.set_ports(&[1, port]);
    connection.send(10);
    connection.receive(10);
    assert_eq!(reads_of(session, connection).len(), 1);
}
