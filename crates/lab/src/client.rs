//! A minimal Kafka client: sends what an experiment needs, byte by byte and at the right moment. It speaks versions
//! without flexible fields (KIP-482), checks errors and retries nothing.
//!
//! Kafka's own producer, one JVM per process, is in [`crate::load`].

mod request;
mod traffic;
mod transport;

pub(crate) use request::words;
pub use request::{FetchResult, Member, Request, Topic};
pub(crate) use traffic::now_ns;
pub use traffic::{Answer, Running, Traffic};
pub use transport::{Endpoint, Transport};

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use kafka_protocol::messages::ApiKey;
use request::{first_error, parse_fetch, parse_join};
use rustix::net::{AddressFamily, SocketType, sockopt};

use crate::error::{Error, Result};
use crate::session::interrupt;

/// Timeout for connecting and for a response: longer than any fault.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Size limit of a response.
const MAX_RESPONSE_BYTES: u32 = 64 << 20;

/// A connection; closed when dropped.
#[derive(Debug)]
pub struct Connection {
    /// For clients that trickle or do not read.
    pub(crate) stream: Transport,
    client_id: String,
    correlation_id: i32,
}

impl Connection {
    /// Connects.
    pub fn open(endpoint: impl Into<Endpoint>, client_id: impl Into<String>) -> Result<Self> {
        let endpoint = endpoint.into();
        let connected = TcpStream::connect_timeout(&endpoint.address, TIMEOUT);
        let socket =
            connected.map_err(Error::system(&format!("connect to the broker on {}", endpoint.address)))?;
        Self::over(socket, endpoint, client_id)
    }

    /// Makes a client on a socket that is already connected to this endpoint.
    pub fn over(socket: TcpStream, endpoint: Endpoint, client_id: impl Into<String>) -> Result<Self> {
        let prepared = socket
            .set_nodelay(true)
            .and_then(|()| socket.set_read_timeout(Some(TIMEOUT)))
            .and_then(|()| socket.set_write_timeout(Some(TIMEOUT)))
            .and_then(|()| Transport::open(socket, endpoint));
        let stream = prepared.map_err(Error::system("prepare a connection to the broker"))?;
        Ok(Self { stream, client_id: client_id.into(), correlation_id: 0 })
    }

    /// Encodes the next request.
    pub fn frame(&mut self, request: &Request) -> Vec<u8> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        request.frame(self.correlation_id, &self.client_id)
    }

    /// Sends a request.
    pub fn send(&mut self, request: &Request) -> Result<()> {
        let frame = self.frame(request);
        (&self.stream).write_all(&frame).map_err(Error::system("send a request"))
    }

    /// Reads the next response; returns what follows its correlation id.
    pub fn receive(&mut self) -> Result<Vec<u8>> {
        read_response(&self.stream)
    }

    /// Sends a request and waits for its response.
    pub fn call(&mut self, request: &Request) -> Result<Vec<u8>> {
        self.send(request)?;
        self.receive()
    }

    /// Like [`Connection::call`], but fails if the response reports an error.
    pub fn order(&mut self, request: &Request) -> Result<()> {
        let body = self.call(request)?;
        match first_error(request.api, body) {
            Some(0) => Ok(()),
            code => Err(Error::Unusable(format!("the broker refused {:?}: error {code:?}", request.api))),
        }
    }

    /// Like [`Connection::call`]; returns whether the response reports no error.
    pub fn is_accepted(&mut self, request: &Request) -> Result<bool> {
        Ok(first_error(request.api, self.call(request)?) == Some(0))
    }

    /// Like [`Connection::call`], to join a group; returns the member.
    ///
    /// # Errors
    /// The member was refused.
    pub fn join(&mut self, request: &Request) -> Result<Member> {
        parse_join(self.call(request)?).ok_or_else(|| Error::Unusable("a member was refused".to_owned()))
    }

    /// Like [`Connection::call`], for a fetch; returns its result.
    ///
    /// # Errors
    /// The fetch failed.
    pub fn fetch(&mut self, request: &Request) -> Result<FetchResult> {
        let result = parse_fetch(self.call(request)?).filter(|result| result.error == 0);
        result.ok_or_else(|| Error::Unusable("a fetch failed".to_owned()))
    }

    /// Another handle on the same connection. With it, another thread can [read responses](read_response).
    fn reader(&self) -> Result<Transport> {
        self.stream.try_clone().map_err(Error::system("clone a socket"))
    }
}

/// Like [`Connection::receive`].
fn read_response(mut stream: impl Read) -> Result<Vec<u8>> {
    let mut head = [0; 8];
    stream.read_exact(&mut head).map_err(Error::system("read a response"))?;
    let [s0, s1, s2, s3, ..] = head;
    let size = u32::from_be_bytes([s0, s1, s2, s3]);
    if !(4..=MAX_RESPONSE_BYTES).contains(&size) {
        return Err(Error::Unusable(format!("a response of {size} bytes")));
    }
    let mut body = vec![0; size as usize - 4];
    stream.read_exact(&mut body).map_err(Error::system("read a response"))?;
    Ok(body)
}

/// Timeout for a new topic.
const TOPIC_TIMEOUT: Duration = Duration::from_secs(60);
/// `Errors.TOPIC_ALREADY_EXISTS`.
const TOPIC_EXISTS: i16 = 36;

/// Creates a topic if it is missing. Waits until the broker leads its partitions.
pub(crate) fn create_topic(connection: &mut Connection, topic: &Topic) -> Result<()> {
    let name = &topic.name;
    let body = connection.call(&Request::create_topic(topic))?;
    match first_error(ApiKey::CreateTopics, body) {
        Some(0 | TOPIC_EXISTS) => {}
        code => {
            return Err(Error::Unusable(format!("the broker did not create topic {name}: error {code:?}")));
        }
    }
    for partition in 0..topic.partitions {
        let what = format!("leadership of {name}-{partition}");
        let is_led = || {
            let body = connection.call(&Request::fetch(name, partition, 0, 1, 0))?;
            Ok(parse_fetch(body).filter(|result| result.error == 0).map(drop))
        };
        interrupt().wait(TOPIC_TIMEOUT, &what, is_led)?;
    }
    Ok(())
}

/// Connects with a receive buffer of about this many bytes: set before connecting, so that the offered window is small
/// from the start (tcp(7)).
pub(crate) fn connect_with_small_window(address: SocketAddr, bytes: usize) -> Result<TcpStream> {
    let connect = || -> rustix::io::Result<TcpStream> {
        let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None)?;
        sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
        rustix::net::connect(&socket, &address)?;
        Ok(TcpStream::from(socket))
    };
    connect().map_err(Error::system(&format!("connect to the broker on {address}")))
}

/// Writes `bytes` in `pieces` pieces, the last one `time` after the first.
pub(crate) fn trickle(mut to: impl Write, bytes: &[u8], pieces: u32, time: Duration) -> Result<()> {
    let pieces = (pieces as usize).clamp(2, bytes.len().max(2));
    let pause = time / (pieces as u32 - 1);
    for (number, piece) in bytes.chunks(bytes.len().div_ceil(pieces).max(1)).enumerate() {
        if number > 0 {
            thread::sleep(pause);
        }
        to.write_all(piece).map_err(Error::system("trickle a request"))?;
    }
    Ok(())
}

/// Reads one response, `piece` bytes at a time with a pause after each; returns its size.
pub(crate) fn sip(mut from: impl Read, piece: usize, pause: Duration) -> Result<usize> {
    let doing = || Error::system("read a response slowly");
    let mut size = [0; 4];
    from.read_exact(&mut size).map_err(doing())?;
    let size = u32::from_be_bytes(size) as usize;
    let mut sip = vec![0; piece.max(1)];
    let mut left = size;
    while left > 0 {
        let length = left.min(sip.len());
        let read = from.read(sip.split_at_mut(length).0).map_err(doing())?;
        if read == 0 {
            return Err(Error::Unusable("the broker closed the connection within a response".to_owned()));
        }
        left -= read;
        thread::sleep(pause);
    }
    Ok(size)
}

/// Waits until the broker closes the connection.
pub(crate) fn wait_for_close(mut from: impl Read) -> Result<()> {
    let mut rest = [0; 4096];
    loop {
        match from.read(&mut rest) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(()),
            Err(error) => return Err(Error::system("wait for the broker to close the connection")(error)),
        }
    }
}

#[cfg(test)]
mod slow_tests {
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    #[test]
    fn trickled_bytes_arrive_complete_and_late() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let sent: Vec<u8> = (0..101).collect();
        let expected = sent.clone();
        let writer = thread::spawn(move || {
            let stream = TcpStream::connect(address).unwrap();
            trickle(&stream, &sent, 7, Duration::from_millis(60)).unwrap();
        });
        let (mut stream, _) = listener.accept().unwrap();
        let started = Instant::now();
        let mut read = Vec::new();
        stream.read_to_end(&mut read).unwrap();
        writer.join().unwrap();
        assert_eq!(read, expected);
        assert!(started.elapsed() >= Duration::from_millis(40));
    }

    #[test]
    fn slow_reader_stops_at_the_end_of_the_response() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let writer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(&[0, 0, 0, 5, 1, 2, 3, 4, 5, 99]).unwrap();
        });
        let mut stream = connect_with_small_window(address, 4096).unwrap();
        assert_eq!(sip(&stream, 2, Duration::ZERO).unwrap(), 5);
        let mut next = [0];
        stream.read_exact(&mut next).unwrap();
        assert_eq!(next, [99]);
        writer.join().unwrap();
    }
}
