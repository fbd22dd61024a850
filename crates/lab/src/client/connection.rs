//! One connection to a broker: sends requests, reads responses in their order.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::request::Request;
use super::response::first_error;
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
        let doing = format!("connect to the broker on {address}");
        let connected = TcpStream::connect_timeout(&address, PATIENCE);
        Self::over(connected.map_err(|source| Error::Io { doing, source })?, client_id)
    }

    /// A client on a connection that is there already.
    pub fn over(stream: TcpStream, client_id: impl Into<String>) -> Result<Self, Error> {
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)))
            .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
        prepared.map_err(Error::system("prepare a connection to the broker"))?;
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

    /// As [`Connection::call`], and makes sure that the response tells of no error.
    pub fn order(&mut self, request: &Request) -> Result<(), Error> {
        let body = self.call(request)?;
        match first_error(request.api(), &body) {
            Some(0) => Ok(()),
            code => Err(Error::Unusable(format!("the broker refused {}: error {code:?}", request.api()))),
        }
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
