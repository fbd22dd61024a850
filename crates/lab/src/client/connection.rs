//! One connection to a broker: sends requests, reads responses in their order.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::request::Request;
use crate::error::Error;

/// How long a broker may take to connect or to answer: longer than anything that is planted.
const PATIENCE: Duration = Duration::from_secs(30);
/// The largest response that is read.
const MOST_BYTES: u32 = 64 << 20;

/// A connection; closed when dropped.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    client_id: String,
    correlation_id: i32,
}

impl Connection {
    /// Connects.
    pub fn open(address: SocketAddr, client_id: impl Into<String>) -> Result<Self, Error> {
        let connected = TcpStream::connect_timeout(&address, PATIENCE).and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            stream.set_write_timeout(Some(PATIENCE))?;
            Ok(stream)
        });
        let doing = format!("connect to the broker on {address}");
        let stream = connected.map_err(|source| Error::Io { doing, source })?;
        Ok(Self { stream, client_id: client_id.into(), correlation_id: 0 })
    }

    /// The socket, for those who trickle or do not read.
    #[must_use]
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// The bytes of the next request.
    pub fn frame(&mut self, request: &Request) -> Vec<u8> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        request.frame(self.correlation_id, &self.client_id)
    }

    /// Sends a request.
    pub fn send(&mut self, request: &Request) -> Result<(), Error> {
        let frame = self.frame(request);
        self.stream.write_all(&frame).map_err(Error::system("send a request"))
    }

    /// Reads the next response; what comes after its correlation id.
    pub fn receive(&mut self) -> Result<Vec<u8>, Error> {
        read_response(&mut self.stream)
    }

    /// Sends a request and waits for its response.
    pub fn call(&mut self, request: &Request) -> Result<Vec<u8>, Error> {
        self.send(request)?;
        self.receive()
    }

    /// Another handle on the same connection, to read responses on another thread.
    pub fn reader(&self) -> Result<Reader, Error> {
        self.stream.try_clone().map(Reader).map_err(Error::system("clone a socket"))
    }
}

/// The reading half of a connection.
#[derive(Debug)]
pub struct Reader(TcpStream);

impl Reader {
    /// As [`Connection::receive`].
    pub fn receive(&mut self) -> Result<Vec<u8>, Error> {
        read_response(&mut self.0)
    }
}

fn read_response(stream: &mut TcpStream) -> Result<Vec<u8>, Error> {
    let mut head = [0; 8];
    stream.read_exact(&mut head).map_err(Error::system("read a response"))?;
    let [s0, s1, s2, s3, ..] = head;
    let size = u32::from_be_bytes([s0, s1, s2, s3]);
    if !(4..=MOST_BYTES).contains(&size) {
        return Err(Error::Unusable(format!("a response of {size} bytes")));
    }
    let mut body = vec![0; size as usize - 4];
    stream.read_exact(&mut body).map_err(Error::system("read a response"))?;
    Ok(body)
}
