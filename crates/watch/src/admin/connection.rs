//! One connection to a broker, plaintext or TLS: sends frames and reads the responses, each limited in bytes, with a deadline for
//! all. Does not interpret them. Fuzzed by: settings.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use broker::Listener;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::listener::is_unspecified;
use super::{Error, tls};

/// Limit of all responses: about 400 settings take 40 KiB.
const MAX_BYTES: usize = 4 << 20;

/// Configuration of TLS for one broker.
pub(super) struct Tls {
    pub(super) config: Arc<ClientConfig>,
    pub(super) server_name: String,
}

/// A connection with a deadline.
pub(super) struct Connection {
    listener: String,
    stream: Box<dyn Stream>,
}

trait Stream: Read + Write {}

impl<T: Read + Write> Stream for T {}

impl Connection {
    /// Connects; the TLS handshake happens with the first frame.
    pub(super) fn open(listener: &Listener, tls: Option<Tls>, end: Instant) -> Result<Self, Error> {
        let address = listener.to_string();
        let stream = connect(listener, end).map_err(|source| connection_error(&address, source))?;
        let plain = Socket { stream, end, bytes_left: MAX_BYTES };
        let stream: Box<dyn Stream> = match tls {
            None => Box::new(plain),
            Some(Tls { config, server_name }) => {
                let name = name(&server_name);
                let client = ClientConnection::new(config, name)
                    .map_err(|error| Error::Tls { listener: address.clone(), why: error.to_string() })?;
                Box::new(StreamOwned::new(client, plain))
            }
        };
        Ok(Self { listener: address, stream })
    }

    /// Sends a frame and returns the response, without its length.
    pub(super) fn exchange(&mut self, frame: &[u8]) -> Result<Vec<u8>, Error> {
        exchange(&mut *self.stream, frame).map_err(|source| connection_error(&self.listener, source))
    }
}

/// The name that the certificate must match.
/// A name that cannot be in a certificate never matches, and is not sent as SNI.
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
    // Allocate as data arrives, not as the length announces.
    let mut body = Vec::new();
    let mut piece = [0; 16 << 10];
    while body.len() < length {
        let count = piece.len().min(length - body.len());
        let Some(buffer) = piece.get_mut(..count) else { break };
        read(stream, buffer)?;
        body.extend_from_slice(buffer);
    }
    Ok(body)
}

fn read(stream: &mut dyn Stream, buffer: &mut [u8]) -> io::Result<()> {
    stream.read_exact(buffer).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => io::Error::new(error.kind(), "it closed the connection"),
        _ => error,
    })
}

fn connection_error(listener: &str, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            Error::Silent { listener: listener.to_owned() }
        }
        _ => tls::explain(listener, source)
            .unwrap_or_else(|source| Error::Connection { listener: listener.to_owned(), source }),
    }
}

/// Connects to a listener; over loopback if it listens on all interfaces.
fn connect(listener: &Listener, end: Instant) -> io::Result<TcpStream> {
    let host = listener.host.as_str();
    let addresses: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        _ if is_unspecified(host) => loopbacks(listener.port),
        Ok(address) => vec![SocketAddr::new(address, listener.port)],
        Err(_) => (host, listener.port).to_socket_addrs()?.collect(),
    };
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match TcpStream::connect_timeout(&address, time_left(end)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn loopbacks(port: u16) -> Vec<SocketAddr> {
    vec![SocketAddr::from((Ipv4Addr::LOCALHOST, port)), SocketAddr::from((Ipv6Addr::LOCALHOST, port))]
}

/// A socket with a deadline and a limit of bytes to read.
struct Socket {
    stream: TcpStream,
    end: Instant,
    bytes_left: usize,
}

impl Read for Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(time_left(self.end)?))?;
        let count = self.stream.read(buffer)?;
        let too_large = || io::Error::other(format!("it sent more than {MAX_BYTES} bytes"));
        self.bytes_left = self.bytes_left.checked_sub(count).ok_or_else(too_large)?;
        Ok(count)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(time_left(self.end)?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

fn time_left(end: Instant) -> io::Result<Duration> {
    let time_left = end.saturating_duration_since(Instant::now());
    if time_left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(time_left) }
}
