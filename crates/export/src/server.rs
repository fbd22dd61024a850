//! Serves HTTP/1.1 as far as a scraper needs it: one request per connection, all connections in one thread that waits
//! for no client. Each connection takes a slot; if none is left, the connection that has been idle longest is closed.
//! So no number of silent or slow clients keeps a scraper out, and a health check, with its short answer, needs a slot
//! only for an instant. Reads no body, and knows nothing about paths. Fuzzed by: http.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_send_buffer_size;

use crate::site::MetricsService;

/// Maximum number of connections, and of those from one address.
const MAX_CONNECTIONS: usize = 64;
const MAX_ADDRESS_CONNECTIONS: usize = 16;
/// Timeouts for receiving a request's head, and for sending its answer.
const HEAD_TIMEOUT: Duration = Duration::from_millis(300);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum number of connections that wait to be accepted.
/// The kernel may allow fewer (`net.core.somaxconn`). A client without a place in this queue retries after a second.
const BACKLOG: i32 = 4_096;
/// Bytes of an unread answer that the kernel buffers; it allocates twice as much (`socket(7)`, `SO_SNDBUF`).
const SEND_BUFFER_BYTES: usize = 256 << 10;
/// Pause before retrying what the kernel refused.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

/// Reason why nothing can be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}; use another address, or stop the process that listens there")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The reason.
        source: io::Error,
    },
}

/// A listening socket.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// Its address.
    pub address: SocketAddr,
}

impl Server {
    /// Listens on an address; port 0 is any free port. Nothing is served before [`Server::serve`].
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        rustix::net::listen(&listener, BACKLOG).map_err(|error| failed(error.into()))?;
        // Accepted connections inherit it.
        set_socket_send_buffer_size(&listener, SEND_BUFFER_BYTES).map_err(|error| failed(error.into()))?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Serves for ever.
    pub fn serve(self, site: &MetricsService) {
        let mut open = Connections::default();
        loop {
            let ready = open.wait(&self.listener);
            open.advance(&ready, site);
            open.accept(&self.listener, site);
        }
    }
}

/// The connected clients.
#[derive(Default)]
struct Connections(Vec<Connection>);

impl Connections {
    /// Waits for any client, or until one times out. Returns for each whether it is ready.
    fn wait(&self, listener: &TcpListener) -> Vec<bool> {
        let mut polled: Vec<_> =
            self.0.iter().map(|one| PollFd::new(&one.stream, one.poll_flags())).collect();
        polled.push(PollFd::new(listener, PollFlags::IN));
        let next = self.0.iter().map(|one| one.deadline).min();
        let timeout = next.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        if poll(&mut polled, timeout.as_ref()).is_err() {
            thread::sleep(RETRY_PAUSE);
        }
        polled.iter().map(|one| !one.revents().is_empty()).collect()
    }

    /// Serves connections that are ready. Closes those that are done, disconnected or timed out.
    fn advance(&mut self, ready: &[bool], site: &MetricsService) {
        let (now, mut ready) = (Instant::now(), ready.iter());
        self.0.retain_mut(|one| {
            let is_ready = ready.next().is_some_and(|is_ready| *is_ready);
            now < one.deadline && (!is_ready || one.proceed(site))
        });
    }

    /// Accepts waiting clients. Answers those at once that have already sent a request.
    fn accept(&mut self, listener: &TcpListener, site: &MetricsService) {
        // Bounded, so that the others get their turn.
        for _ in 0..MAX_CONNECTIONS {
            match listener.accept().and_then(|(stream, from)| Connection::new(stream, from.ip())) {
                Ok(mut one) => {
                    self.make_room(one.address);
                    if one.proceed(site) {
                        self.0.push(one);
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => {
                    // Out of descriptors, perhaps.
                    self.close_idlest(|_| true);
                    return thread::sleep(RETRY_PAUSE);
                }
            }
        }
    }

    fn make_room(&mut self, address: IpAddr) {
        let is_of = |one: &Connection| one.address == address;
        if self.0.iter().filter(|one| is_of(one)).count() >= MAX_ADDRESS_CONNECTIONS {
            self.close_idlest(is_of);
        } else if self.0.len() >= MAX_CONNECTIONS {
            self.close_idlest(|_| true);
        }
    }

    /// Closes the connection that has been idle longest.
    /// Those without a complete request are closed first.
    fn close_idlest(&mut self, of: impl Fn(&Connection) -> bool) {
        let candidates = self.0.iter().enumerate().filter(|(_, one)| of(one));
        let idlest = candidates.min_by_key(|(_, one)| (one.answer.is_some(), one.active));
        if let Some((index, _)) = idlest {
            self.0.swap_remove(index);
        }
    }
}

/// A client without a complete answer.
struct Connection {
    stream: TcpStream,
    address: IpAddr,
    /// The part of the request's head received so far.
    head: Vec<u8>,
    /// The answer, once the head is complete.
    answer: Option<Outgoing>,
    /// When it was accepted, or part of the answer was last sent.
    active: Instant,
    deadline: Instant,
}

impl Connection {
    fn new(stream: TcpStream, address: IpAddr) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let active = Instant::now();
        let deadline = active + HEAD_TIMEOUT;
        Ok(Self { stream, address, head: Vec::new(), answer: None, active, deadline })
    }

    fn poll_flags(&self) -> PollFlags {
        if self.answer.is_some() { PollFlags::OUT } else { PollFlags::IN }
    }

    /// Reads and writes as far as possible; returns whether there is more to do.
    /// A closed connection needs no answer.
    fn proceed(&mut self, site: &MetricsService) -> bool {
        let done = self.read(site).and_then(|()| self.write());
        done.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    }

    /// Reads until the head is complete, invalid or too long.
    fn read(&mut self, site: &MetricsService) -> io::Result<()> {
        let mut piece = [0; 1_024];
        while self.answer.is_none() {
            let length = self.stream.read(&mut piece)?;
            self.head.extend_from_slice(piece.get(..length).unwrap_or_default());
            match parse(&self.head) {
                Ok(None) if length > 0 && self.head.len() <= MAX_HEAD => {}
                parsed => {
                    self.answer = Some(Outgoing::to(parsed.ok().flatten().as_ref(), site));
                    self.deadline = Instant::now() + ANSWER_TIMEOUT;
                }
            }
        }
        Ok(())
    }

    /// Writes until the whole answer is sent.
    fn write(&mut self) -> io::Result<()> {
        let Some(answer) = &mut self.answer else { return Ok(()) };
        while !answer.unsent().is_empty() {
            match self.stream.write(answer.unsent())? {
                0 => return Err(ErrorKind::WriteZero.into()),
                written => answer.sent += written,
            }
            self.active = Instant::now();
        }
        self.stream.shutdown(Shutdown::Write)
    }
}

/// An answer that is being sent.
struct Outgoing {
    head: Vec<u8>,
    body: Arc<[u8]>,
    /// Bytes of both that were sent.
    sent: usize,
}

impl Outgoing {
    fn to(request: Option<&HttpRequest>, site: &MetricsService) -> Self {
        let unreadable = || Answer::text(BAD_REQUEST, "no request that could be read");
        let answer = request.map_or_else(unreadable, |request| site.answer(request));
        let is_head = request.is_some_and(|request| request.method == "HEAD");
        let head = answer.head().into_bytes();
        Self { head, body: if is_head { Arc::default() } else { answer.body }, sent: 0 }
    }

    fn unsent(&self) -> &[u8] {
        let head = self.head.get(self.sent..).filter(|left| !left.is_empty());
        let body = || self.body.get(self.sent.saturating_sub(self.head.len())..);
        head.or_else(body).unwrap_or_default()
    }
}

/// Maximum size of a request's head, and number of header lines.
const MAX_HEAD: usize = 8 << 10;
const MAX_HEADERS: usize = 64;

/// The head of a request, as far as it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// The path without a query.
    pub(crate) path: String,
    /// All `Accept` headers, joined.
    pub(crate) accept: String,
}

/// Parses a request; `None` as long as its head is incomplete.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<HttpRequest>, httparse::Error> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut request = httparse::Request::new(&mut headers);
    if request.parse(bytes)?.is_partial() {
        return Ok(None);
    }
    let accepts = request.headers.iter().filter(|header| header.name.eq_ignore_ascii_case("accept"));
    let accepts = accepts.map(|header| String::from_utf8_lossy(header.value));
    let path = request.path.unwrap_or_default();
    Ok(Some(HttpRequest {
        method: request.method.unwrap_or_default().to_owned(),
        path: path.split_once(['?', '#']).map_or(path, |(path, _)| path).to_owned(),
        accept: accepts.collect::<Vec<_>>().join(","),
    }))
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: &'static str,
    pub(crate) content_type: &'static str,
    pub(crate) body: Arc<[u8]>,
}

pub(crate) const OK: &str = "200 OK";
pub(crate) const BAD_REQUEST: &str = "400 Bad Request";
pub(crate) const NOT_FOUND: &str = "404 Not Found";
pub(crate) const METHOD_NOT_ALLOWED: &str = "405 Method Not Allowed";
pub(crate) const UNAVAILABLE: &str = "503 Service Unavailable";

impl Answer {
    /// A plain-text answer with one sentence.
    pub(crate) fn text(status: &'static str, sentence: &str) -> Self {
        let body = format!("{sentence}\n").into_bytes().into();
        Self { status, content_type: "text/plain; charset=utf-8", body }
    }

    /// Everything before the body.
    /// The connection ends with the answer: scrapes are rare, and an open connection would take another's slot.
    fn head(&self) -> String {
        let allow = if self.status == METHOD_NOT_ALLOWED { "Allow: GET, HEAD\r\n" } else { "" };
        format!(
            "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{allow}Cache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n",
            self.status,
            self.content_type,
            self.body.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::{Answer, HttpRequest, UNAVAILABLE, parse};

    #[test]
    fn parses_only_complete_and_valid_request_heads() {
        let whole = b"GET /metrics?a=b HTTP/1.1\r\nHost: x\r\nACCEPT: text/plain\r\naccept: */*\r\n\r\nrest";
        let request = HttpRequest {
            method: "GET".to_owned(),
            path: "/metrics".to_owned(),
            accept: "text/plain,*/*".to_owned(),
        };
        assert_eq!(parse(whole), Ok(Some(request)));
        let end = whole.len() - "\nrest".len();
        for cut in 0..end {
            assert_eq!(parse(&whole[..cut]), Ok(None), "{cut}");
        }
        for bad in [&b"\x16\x03\x01\x02\x00\x01\x00"[..], b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(65));
        assert!(parse(many.as_bytes()).is_err());
    }

    #[test]
    fn response_head_has_content_length_and_closes_the_connection() {
        let head = Answer::text(UNAVAILABLE, "not yet").head();
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
        assert!(
            head.contains("\r\nContent-Length: 8\r\n") && head.contains("\r\nConnection: close\r\n"),
            "{head}"
        );
        assert!(head.ends_with("\r\n\r\n"), "{head}");
    }
}
