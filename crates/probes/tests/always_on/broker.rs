//! Both ends of a connection, the broker's and the client's. Every call is made by name.
//!
//! Sends Kafka's frames with bodies of zeros. Does not know what is recorded of them.

use std::io::{IoSlice, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::time::{Duration, Instant};

/// A listener of this process.
pub(crate) struct Broker(TcpListener);

/// Both ends.
pub(crate) struct Connection {
    pub(crate) client: TcpStream,
    pub(crate) server: TcpStream,
}

/// A request's header, and how many bytes follow it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) api_key: i16,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    /// What follows the client id: of a Fetch, its `max_wait_ms`.
    pub(crate) max_wait_ms: Option<i32>,
    pub(crate) rest: usize,
}

pub(crate) const PRODUCE: i16 = 0;
pub(crate) const FETCH: i16 = 1;

/// A request of this API with a body of 100 bytes.
pub(crate) fn request(api_key: i16, correlation_id: i32) -> Request {
    Request { api_key, version: 9, correlation_id, max_wait_ms: None, rest: 100 }
}

/// A Fetch that waits for data.
pub(crate) fn fetch(version: i16, correlation_id: i32, max_wait_ms: i32) -> Request {
    Request { api_key: FETCH, version, correlation_id, max_wait_ms: Some(max_wait_ms), rest: 40 }
}

impl Request {
    /// The request as sent: header version 1, or 2 if the version is flexible.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend(self.api_key.to_be_bytes());
        body.extend(self.version.to_be_bytes());
        body.extend(self.correlation_id.to_be_bytes());
        body.extend(6_i16.to_be_bytes());
        body.extend(b"client");
        if let Some(max_wait_ms) = self.max_wait_ms {
            body.extend((self.version >= 12).then_some(0));
            body.extend((self.version < 15).then_some((-1_i32).to_be_bytes()).into_iter().flatten());
            body.extend(max_wait_ms.to_be_bytes());
        }
        body.extend(vec![0; self.rest]);
        frame(&body)
    }
}

/// An answer with `rest` bytes after the correlation id: `a`, `b`, `c` and so on.
pub(crate) fn answer(correlation_id: i32, rest: usize) -> Vec<u8> {
    let mut body = correlation_id.to_be_bytes().to_vec();
    body.extend((0..rest).map(|at| b'a' + (at % 26) as u8));
    frame(&body)
}

fn frame(body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_be_bytes().to_vec();
    bytes.extend(body);
    bytes
}

/// Bounds of a latency: the time between the calls, and including them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) min: Duration,
    pub(crate) max: Duration,
}

/// Clocks the first and the last call of a request.
pub(crate) struct Clock {
    before: Instant,
    after_first: Option<Instant>,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { before: Instant::now(), after_first: None }
    }

    /// Records that the first byte has been read.
    pub(crate) fn mark_first_byte(&mut self) {
        self.after_first = Some(Instant::now());
    }

    /// Ends the clock; `last` makes the call that takes the last byte of the answer.
    pub(crate) fn end(self, last: impl FnOnce()) -> Bounds {
        let start = self.after_first.unwrap();
        let min = start.elapsed();
        last();
        Bounds { min, max: self.before.elapsed() }
    }
}

impl Broker {
    pub(crate) fn new(address: &str) -> Self {
        Self(TcpListener::bind(address).unwrap())
    }

    pub(crate) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    pub(crate) fn connect(&self) -> Connection {
        let client = TcpStream::connect(self.0.local_addr().unwrap()).unwrap();
        client.set_nodelay(true).unwrap();
        let (server, _) = self.0.accept().unwrap();
        server.set_nodelay(true).unwrap();
        Connection { client, server }
    }
}

impl Connection {
    /// The broker's end and the client's.
    pub(crate) fn ends(&self) -> (SocketAddr, SocketAddr) {
        let plain = |end: SocketAddr| SocketAddr::new(end.ip().to_canonical(), end.port());
        (plain(self.server.local_addr().unwrap()), plain(self.server.peer_addr().unwrap()))
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.client.write_all(bytes).unwrap();
    }

    /// Reads that many bytes, which are available, with one `read`.
    pub(crate) fn read(&mut self, bytes: usize) -> Vec<u8> {
        self.wait_for(bytes);
        let mut buffer = vec![0; bytes];
        assert_eq!(self.server.read(&mut buffer).unwrap(), bytes);
        buffer
    }

    /// Reads the `bytes` that are available of more that are asked for, with one `read`.
    pub(crate) fn read_part(&mut self, bytes: usize, of: usize) {
        self.wait_for(bytes);
        assert_eq!(self.server.read(&mut vec![0; of]).unwrap(), bytes);
    }

    pub(crate) fn wait_for(&self, bytes: usize) {
        let end = Instant::now() + Duration::from_secs(30);
        let mut available = 0_i32;
        while (available as usize) < bytes {
            // SAFETY: the request writes an int.
            let result =
                unsafe { libc::ioctl(self.server.as_raw_fd(), libc::FIONREAD as _, &raw mut available) };
            assert!(result == 0 && Instant::now() < end, "{bytes} bytes do not come");
        }
    }

    /// Reads the size, then the rest, like Kafka's `NetworkReceive`.
    pub(crate) fn read_request(&mut self) -> Clock {
        self.read_request_since(Clock::start())
    }

    /// Like `read_request`, with a clock that was started before the request was sent.
    pub(crate) fn read_request_since(&mut self, mut clock: Clock) -> Clock {
        let size = self.read(4);
        clock.mark_first_byte();
        self.read(u32::from_be_bytes(size.try_into().unwrap()) as usize);
        clock
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        assert_eq!(self.server.write(bytes).unwrap(), bytes.len());
    }

    pub(crate) fn write_vectored(&mut self, parts: &[&[u8]]) {
        let bytes = parts.iter().map(|part| part.len()).sum::<usize>();
        let slices: Vec<_> = parts.iter().map(|part| IoSlice::new(part)).collect();
        assert_eq!(self.server.write_vectored(&slices).unwrap(), bytes);
    }

    pub(crate) fn send_message(&mut self, bytes: &[u8]) {
        let (mut size, mut rest) = (bytes[..4].to_vec(), bytes[4..].to_vec());
        let mut parts = [&mut size, &mut rest]
            .map(|part| libc::iovec { iov_base: part.as_mut_ptr().cast(), iov_len: part.len() });
        // SAFETY: all zero is a valid msghdr.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len());
        // SAFETY: the message names two buffers, which are readable for their lengths.
        let sent = unsafe { libc::sendmsg(self.server.as_raw_fd(), &raw const message, 0) };
        assert_eq!(sent, bytes.len() as isize);
    }

    /// Writes with `sendfile`, from a file that contains just these bytes.
    pub(crate) fn write_from_file(&mut self, bytes: &[u8]) {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        let mut at: libc::off_t = 0;
        // SAFETY: both descriptors are open, and the offset is writable.
        let sent =
            unsafe { libc::sendfile(self.server.as_raw_fd(), file.as_raw_fd(), &raw mut at, bytes.len()) };
        assert_eq!(sent, bytes.len() as isize);
    }

    /// Reads what the client has received.
    pub(crate) fn drain(&mut self) {
        self.client.set_nonblocking(true).unwrap();
        let mut buffer = vec![0; 1 << 20];
        while self.client.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
        self.client.set_nonblocking(false).unwrap();
    }
}
