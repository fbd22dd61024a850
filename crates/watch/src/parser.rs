//! Processes that parse for a watch what others wrote: the watch opens sockets, they read them in a sandbox.
//! A thread would not do: others hold capabilities in the same memory. Does not know packets. Not fuzzed: hands pieces of a log on.

pub(crate) mod channel;
#[doc(hidden)]
pub mod fuzzing;
pub(crate) mod packets;
pub(crate) mod request_log;
pub(crate) mod transfer;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use channel::{Channel, Kind, MAX_MESSAGE, invalid};
use transfer::Transfer;

/// The argument by which a program is asked to call [`packets::parse_packets`] with its standard input, once it has given away all
/// that it can do.
pub const PARSE_PACKETS: &str = "parse-packets";
/// The same of [`request_log::parse_request_log`].
pub const PARSE_REQUEST_LOG: &str = "parse-request-log";

/// Bytes of rows in a message; [`MAX_MESSAGE`] has room for one more row.
const SEND_BYTES: usize = 128 << 10;
/// The longest row, in bytes; longer ones are dropped and counted. A request of thousands of partitions takes less.
const MAX_ROW: usize = MAX_MESSAGE - SEND_BYTES;
/// How long a parser may take to read an order.
const ORDER_TIMEOUT: Duration = Duration::from_secs(2);

/// A process that parses; ended when dropped.
pub(crate) struct Parser {
    process: Child,
    channel: Channel,
}

impl Parser {
    /// Starts one.
    pub(crate) fn start(program: &Path, what: &str) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_write_timeout(Some(ORDER_TIMEOUT))?;
        // In another group: a terminal's signals are for the watch, which ends it.
        let process = Command::new(program)
            .arg0("brokerscope")
            .arg(what)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { process, channel: Channel::new(ours) })
    }

    /// Gives it an order.
    pub(crate) fn tell(&self, order: &impl Serialize, descriptor: Option<BorrowedFd<'_>>) -> io::Result<()> {
        self.channel.say(order, descriptor)
    }

    /// Gives it the next piece of a log.
    pub(crate) fn send_log(&self, piece: &[u8]) -> io::Result<()> {
        self.channel.send(Kind::Log, piece, None)
    }

    /// What it says next, if it says something within the time.
    ///
    /// # Errors
    /// It has ended, or says what it never says.
    pub(crate) fn receive(&mut self, timeout: Duration) -> io::Result<Option<(Kind, &[u8])>> {
        self.channel.receive(timeout)
    }

    /// Ends one that failed, and says how it ended.
    pub(crate) fn end(mut self, error: &io::Error) -> io::Error {
        let _ = self.process.kill();
        let ended = match self.process.wait() {
            Ok(status) if error.kind() == io::ErrorKind::UnexpectedEof => {
                format!("its process ended: {status}")
            }
            _ => error.to_string(),
        };
        io::Error::other(ended)
    }
}

impl Drop for Parser {
    /// One that has finished has ended.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Hears a parser that is to finish, until `hear` says that it was its last word.
pub(crate) fn hear_out(within: Duration, mut hear: impl FnMut() -> io::Result<bool>) -> io::Result<()> {
    let deadline = Instant::now() + within;
    while Instant::now() < deadline {
        if hear()? {
            return Ok(());
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// The next order, in a process that parses.
fn receive_order<O: DeserializeOwned>(channel: &mut Channel, timeout: Duration) -> io::Result<Option<O>> {
    match channel.receive(timeout)? {
        Some((Kind::Said, order)) => Ok(Some(serde_json::from_slice(order)?)),
        Some(_) => Err(invalid()),
        None => Ok(None),
    }
}

/// Rows that a process that parses is going to send.
#[derive(Default)]
struct Rows {
    bytes: Vec<u8>,
    /// Those that were too large.
    dropped: u64,
}

impl Rows {
    fn push(&mut self, row: &impl Transfer) {
        let before = self.bytes.len();
        row.put(&mut self.bytes);
        if self.bytes.len() - before > MAX_ROW {
            self.bytes.truncate(before);
            self.dropped += 1;
        }
    }

    fn is_full(&self) -> bool {
        self.bytes.len() >= SEND_BYTES
    }

    fn send(&mut self, channel: &Channel) -> io::Result<()> {
        if !self.bytes.is_empty() {
            channel.send(Kind::Rows, &self.bytes, None)?;
            self.bytes.clear();
            self.bytes.shrink_to(2 * SEND_BYTES);
        }
        Ok(())
    }
}

/// A closed socket is no failure: the watch has ended.
fn until_alone(ended: io::Result<()>) -> io::Result<()> {
    match ended {
        Err(error) if [io::ErrorKind::UnexpectedEof, io::ErrorKind::BrokenPipe].contains(&error.kind()) => {
            Ok(())
        }
        ended => ended,
    }
}
