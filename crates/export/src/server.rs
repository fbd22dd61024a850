//! Answers HTTP: one request a connection, a few connections at a time, each for a few seconds at most. A client that is slow,
//! silent or sends nonsense delays others no longer than that, and memory does not grow with what it sends.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::http::{Answer, Head, HttpRequest, MAX_HEAD, Status};
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
    #[error("cannot listen on {address}; name another address, or stop who has it")]
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
    address: SocketAddr,
}

impl Server {
    /// Listens on an address; port 0 is any that is free. Nobody is served before [`Server::serve`].
    pub fn bind(address: SocketAddr) -> Result<Self, Error> {
        let failed = |source| Error::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self { listener, address })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
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
        None => Answer::say(Status::BadRequest, "no request that could be read"),
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
        match Head::parse(&heard) {
            Head::Whole(request) => return Ok(Some(request)),
            Head::Part if length > 0 && heard.len() <= MAX_HEAD => {}
            Head::Part | Head::Bad => return Ok(None),
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
fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}
