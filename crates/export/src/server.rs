//! Answers HTTP/1.1 as much as a scraper speaks: one request a connection, a few connections at a time, each for a few seconds
//! at most. A client that is slow, silent or sends nonsense delays others no longer than that, and memory does not grow with
//! what it sends. Reads no body, and knows nothing of paths.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::site::MetricsService;

/// Connections at a time; more wait in the kernel's queue, which is short too.
const MAX_CONNECTIONS: usize = 16;
/// How long a request may take to come, and its answer to go.
const TIMEOUT: Duration = Duration::from_secs(2);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked whether there is room for another.
const LOOK: Duration = Duration::from_millis(5);
/// A connection's thread needs next to nothing.
const STACK_BYTES: usize = 256 << 10;

/// What keeps it from being served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The address cannot be listened on.
    #[error("cannot listen on {address}; use another address, or stop the process that listens there")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// A socket that is listened on.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    /// Where it listens.
    pub address: SocketAddr,
}

impl Server {
    /// Listens on an address; port 0 is any that is free. Nobody is served before [`Server::serve`].
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Serves for ever.
    pub fn serve(self, site: &Arc<MetricsService>) {
        let open = Arc::new(AtomicUsize::new(0));
        for stream in self.listener.incoming() {
            let Ok(stream) = stream else {
                // Out of descriptors, perhaps: there may be some again.
                thread::sleep(LOOK);
                continue;
            };
            while open.load(Ordering::Acquire) >= MAX_CONNECTIONS {
                thread::sleep(LOOK);
            }
            open.fetch_add(1, Ordering::AcqRel);
            let (guard, site) = (Open(Arc::clone(&open)), Arc::clone(site));
            let builder = thread::Builder::new().name("connection".to_owned()).stack_size(STACK_BYTES);
            // Without a thread the connection is closed, and its place is free: both are dropped.
            let _ = builder.spawn(move || {
                let _counted = guard;
                // The client is gone: there is nobody to answer.
                let _ = converse(stream, &site);
            });
        }
    }
}

/// A connection that counts.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn converse(mut stream: TcpStream, site: &MetricsService) -> io::Result<()> {
    let request = hear(&mut stream)?;
    let answer = match &request {
        Some(request) => site.answer(request),
        None => Answer::say(BAD_REQUEST, "no request that could be read"),
    };
    let end = Instant::now() + ANSWER_TIMEOUT;
    tell(&mut stream, answer.head().as_bytes(), end)?;
    if request.is_none_or(|request| request.method != "HEAD") {
        tell(&mut stream, &answer.body, end)?;
    }
    stream.shutdown(std::net::Shutdown::Write)
}

/// The request, if it is one and its head is not too long; an error where it does not come in time.
fn hear(stream: &mut TcpStream) -> io::Result<Option<HttpRequest>> {
    let end = Instant::now() + TIMEOUT;
    let mut heard = Vec::new();
    let mut piece = [0; 1_024];
    loop {
        stream.set_read_timeout(Some(left(end)?))?;
        let length = stream.read(&mut piece)?;
        heard.extend_from_slice(piece.get(..length).unwrap_or_default());
        match parse(&heard) {
            Ok(None) if length > 0 && heard.len() <= MAX_HEAD => {}
            parsed => return Ok(parsed.ok().flatten()),
        }
    }
}

/// Writes all of it, until a moment.
fn tell(stream: &mut TcpStream, mut bytes: &[u8], end: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        stream.set_write_timeout(Some(left(end)?))?;
        let written = stream.write(bytes)?;
        if written == 0 {
            return Err(ErrorKind::WriteZero.into());
        }
        bytes = bytes.get(written..).unwrap_or_default();
    }
    Ok(())
}

/// The time until then; an error where it is over.
pub(crate) fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// A request's head has at most so many bytes, and header lines.
const MAX_HEAD: usize = 8 << 10;
const MAX_HEADERS: usize = 64;

/// The head of a request, as far as it is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// Without a query.
    pub(crate) path: String,
    /// All `Accept` headers as one.
    pub(crate) accept: String,
}

/// A request whose head is complete; none as long as it is not.
fn parse(bytes: &[u8]) -> Result<Option<HttpRequest>, httparse::Error> {
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
        path: path.split(['?', '#']).next().unwrap_or_default().to_owned(),
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
    /// A sentence.
    pub(crate) fn say(status: &'static str, sentence: &str) -> Self {
        let body = format!("{sentence}\n").into_bytes().into();
        Self { status, content_type: "text/plain; charset=utf-8", body }
    }

    /// Everything before the body. The connection ends with the answer: a scraper comes seldom, and an open
    /// connection takes the place of another.
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
    fn a_head_is_read_whole_or_not_at_all() {
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
    fn an_answer_says_how_long_it_is_and_ends_the_connection() {
        let head = Answer::say(UNAVAILABLE, "not yet").head();
        assert!(head.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{head}");
        assert!(
            head.contains("\r\nContent-Length: 8\r\n") && head.contains("\r\nConnection: close\r\n"),
            "{head}"
        );
        assert!(head.ends_with("\r\n\r\n"), "{head}");
    }
}
