//! One connection to a broker: sends requests, reads responses in their order.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use kafka_protocol::messages::ApiKey;

use super::request::{Fetched, Request, Topic, fetched, first_error};
use crate::error::Error;
use crate::interrupt::Interrupt;

/// How long a broker may take to connect or to answer: longer than any fault.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest response that is read.
const MAX_RESPONSE_BYTES: u32 = 64 << 20;

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
        let connected = TcpStream::connect_timeout(&address, TIMEOUT);
        Self::over(connected.map_err(|source| Error::Io { doing, source })?, client_id)
    }

    /// A client on a connection that is there already.
    pub fn over(stream: TcpStream, client_id: impl Into<String>) -> Result<Self, Error> {
        let prepared = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(TIMEOUT)))
            .and_then(|()| stream.set_write_timeout(Some(TIMEOUT)));
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

    /// As [`Connection::call`], and makes sure that the response reports no error.
    pub fn order(&mut self, request: &Request) -> Result<(), Error> {
        let body = self.call(request)?;
        match first_error(request.api(), body) {
            Some(0) => Ok(()),
            code => Err(Error::Unusable(format!("the broker refused {:?}: error {code:?}", request.api()))),
        }
    }

    /// As [`Connection::call`], of a fetch; what it brought.
    ///
    /// # Errors
    /// Where it failed.
    pub fn fetch(&mut self, request: &Request) -> Result<Fetched, Error> {
        let brought = fetched(self.call(request)?).filter(|brought| brought.error == 0);
        brought.ok_or_else(|| Error::Unusable("a fetch failed".to_owned()))
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
    if !(4..=MAX_RESPONSE_BYTES).contains(&size) {
        return Err(Error::Unusable(format!("a response of {size} bytes")));
    }
    let mut body = vec![0; size as usize - 4];
    stream.read_exact(&mut body).map_err(Error::system("read a response"))?;
    Ok(body)
}

/// How long a new topic may take.
const TOPIC_TIMEOUT: Duration = Duration::from_secs(60);
/// `Errors.TOPIC_ALREADY_EXISTS`.
const TOPIC_EXISTS: i16 = 36;

/// Makes a topic, if it is not there, and waits until the broker leads its partitions.
pub(crate) fn create_topic(
    connection: &mut Connection,
    topic: &Topic,
    interrupt: &Interrupt,
) -> Result<(), Error> {
    let name = &topic.name;
    let body = connection.call(&Request::create_topic(topic))?;
    match first_error(ApiKey::CreateTopics, body) {
        Some(0 | TOPIC_EXISTS) => {}
        code => return Err(Error::Unusable(format!("the broker makes no topic {name}: error {code:?}"))),
    }
    for partition in 0..topic.partitions {
        let what = format!("the broker's becoming leader of {name}-{partition}");
        let late = || Error::TooSlow { what, limit: TOPIC_TIMEOUT, hint: String::new() };
        let is_led = || {
            let body = connection.call(&Request::fetch(name, partition, 0, 1, 0))?;
            Ok(fetched(body).filter(|brought| brought.error == 0).map(drop))
        };
        interrupt.wait(TOPIC_TIMEOUT, is_led, late)?;
    }
    Ok(())
}
