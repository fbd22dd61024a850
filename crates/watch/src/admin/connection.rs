//! One connection to a broker, plain or TLS: frames go out, and those that answer come back, each bounded in bytes and all of them in
//! time. Knows no request. Fuzzed by: settings.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::Listener;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::listener::is_unspecified;
use super::{Error, tls};

/// Some 400 settings take 40 KiB.
const MAX_BYTES: usize = 4 << 20;

/// What TLS needs to know beside the address.
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) server_name: String,
}

/// A connection that is open until a point in time.
pub(super) struct Connection {
    listener: String,
    stream: Box<dyn Stream>,
}

trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

impl Connection {
    /// Connects; the TLS handshake comes with the first frame.
    pub(super) fn open(listener: &Listener, tls: Option<Tls>, end: Instant) -> Result<Self, Error> {
        let shown = listener.to_string();
        let stream = connect(listener, end).map_err(|source| broken(&shown, source))?;
        let plain = Socket { stream, end, left_bytes: MAX_BYTES };
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(plain),
            Some(Tls { config, server_name }) => {
                let name = name(&server_name);
                let client = ClientConnection::new(config, name)
                    .map_err(|error| Error::Tls { listener: shown.clone(), why: error.to_string() })?;
                Box::new(StreamOwned::new(client, plain))
            }
        };
        Ok(Self { listener: shown, stream })
    }

    /// Sends a frame and reads the one that comes back, without its length.
    pub(super) fn exchange(&mut self, frame: &[u8]) -> Result<Vec<u8>, Error> {
        exchange(&mut *self.stream, frame).map_err(|source| broken(&self.listener, source))
    }
}

/// What a certificate is compared with. What no certificate can name fails there, and is not sent.
fn name(server_name: &str) -> ServerName<'static> {
    let nowhere = || ServerName::from(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
    ServerName::try_from(server_name.to_owned()).unwrap_or_else(|_| nowhere())
}

fn exchange(stream: &mut dyn Stream, frame: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(frame)?;
    stream.flush()?;
    let mut length = [0; 4];
    read(stream, &mut length)?;
    let length = u32::from_be_bytes(length) as usize;
    if length > MAX_BYTES {
        return Err(io::Error::other(format!("its response of {length} bytes is too large")));
    }
    // As it comes, not as it was announced.
    let mut body = Vec::new();
    let mut piece = [0; 16 << 10];
    while body.len() < length {
        let wanted = piece.len().min(length - body.len());
        let Some(room) = piece.get_mut(..wanted) else { break };
        read(stream, room)?;
        body.extend_from_slice(room);
    }
    Ok(body)
}

fn read(stream: &mut dyn Stream, room: &mut [u8]) -> io::Result<()> {
    stream.read_exact(room).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "it closed the connection"),
        _ => error,
    })
}

fn broken(listener: &str, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Error::Silent { listener: listener.to_owned() }
        }
        _ => tls::explain(listener, source)
            .unwrap_or_else(|source| Error::Connection { listener: listener.to_owned(), source }),
    }
}

/// Where it listens on all interfaces, the loopback is one of them.
fn connect(listener: &Listener, end: Instant) -> io::Result<TcpStream> {
    let host = listener.host.as_str();
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        _ if is_unspecified(host) => loopbacks(listener.port),
        Ok(address) => vec![SocketAddr::new(address, listener.port)],
        Err(_) => (host, listener.port).to_socket_addrs()?.collect(),
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(&address, left(end)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn loopbacks(port: u16) -> Vec<SocketAddr> {
    vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))]
}

/// A socket that is read until a point in time, and so many bytes at most.
struct Socket {
    stream: TcpStream,
    end: Instant,
    left_bytes: usize,
}

impl Read for Socket {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.end)?))?;
        let count = self.stream.read(room)?;
        let too_large = || io::Error::other(format!("it sent more than {MAX_BYTES} bytes"));
        self.left_bytes = self.left_bytes.checked_sub(count).ok_or_else(too_large)?;
        Ok(count)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(left(self.end)?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn left(end: Instant) -> io::Result<Duration> {
    let left = end.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}
