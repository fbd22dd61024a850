//! Processes that parse untrusted input for a watch: the watch opens sockets, and they read them in a sandbox. Threads would
//! not be enough, because other threads hold capabilities in the same memory. Does not know packets.
//! Not fuzzed: hands pieces of a log on.

pub(crate) mod channel;
#[doc(hidden)]
pub mod fuzzing;
pub(crate) mod jvm;
pub(crate) mod packets;
pub(crate) mod request_log;
pub(crate) mod transfer;

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use channel::{Channel, Kind, MAX_MESSAGE, invalid};
use transfer::Transfer;

/// The argument that makes the program call [`packets::parse_packets`].
/// The program passes its standard input, after it has dropped all privileges.
pub const PARSE_PACKETS: &str = "parse-packets";
/// Like [`PARSE_PACKETS`], for [`request_log::parse_request_log`].
pub const PARSE_REQUEST_LOG: &str = "parse-request-log";
/// Like [`PARSE_PACKETS`], for [`jvm::parse_jvm`].
pub const PARSE_JVM: &str = "parse-jvm";

/// Bytes of rows after which a message is sent; [`MAX_MESSAGE`] has space for one more row.
const SEND_BYTES: usize = 128 << 10;
/// The longest row, in bytes; longer ones are dropped and counted.
/// A request with thousands of partitions takes less.
const MAX_ROW: usize = MAX_MESSAGE - SEND_BYTES;
/// Timeout for sending an order to a parser.
const ORDER_TIMEOUT: Duration = Duration::from_secs(2);
/// Timeout for the response to an order.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait that counts at once. A longer one shows that this process got no CPU; its parser got none either.
const RESPONSE_WAIT: Duration = Duration::from_secs(1);

/// A parser process, killed on drop.
pub(crate) struct Parser {
    process: Child,
    channel: Channel,
}

impl Parser {
    /// Starts a parser.
    pub(crate) fn start(program: &Path, what: &str) -> io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_write_timeout(Some(ORDER_TIMEOUT))?;
        // In its own process group: the terminal's signals are for the watch, which ends the parser.
        let process = Command::new(program)
            .arg0("brokerscope")
            .arg(what)
            .stdin(OwnedFd::from(theirs))
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self { process, channel: Channel::new(ours) })
    }

    /// Sends an order.
    pub(crate) fn send_order(
        &self,
        order: &impl Serialize,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<()> {
        self.channel.send_json(order, descriptor)
    }

    /// Sends the next piece of a log or a thread dump.
    pub(crate) fn send_log(&self, piece: &[u8]) -> io::Result<()> {
        self.channel.send(Kind::Log, piece, None)
    }

    /// Receives the next message, if there is one within the timeout.
    ///
    /// # Errors
    /// The parser has ended, or sent an invalid message.
    pub(crate) fn receive(&mut self, timeout: Duration) -> io::Result<Option<(Kind, &[u8])>> {
        self.channel.receive(timeout)
    }

    /// Receives the response to an order: passes messages of rows to `take`, and returns what follows them.
    ///
    /// # Errors
    /// As [`Self::receive`], or the response takes too long.
    pub(crate) fn receive_response<C: DeserializeOwned>(
        &mut self,
        mut take: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<C> {
        let mut waited = Duration::ZERO;
        while waited < RESPONSE_TIMEOUT {
            let begun = Instant::now();
            match self.receive(RESPONSE_WAIT)? {
                Some((Kind::Rows, rows)) => take(rows)?,
                Some((Kind::Json, counts)) => return Ok(serde_json::from_slice(counts)?),
                Some(_) => return Err(invalid()),
                None => {}
            }
            waited += begun.elapsed().min(RESPONSE_WAIT);
        }
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Checks that the process has not ended.
    ///
    /// # Errors
    /// It has; the error says how.
    pub(crate) fn check_running(&mut self) -> io::Result<()> {
        match self.process.try_wait()? {
            Some(status) => Err(process_ended(status)),
            None => Ok(()),
        }
    }

    /// Kills a parser that failed, and returns an error that says how it ended.
    pub(crate) fn end(&mut self, error: &io::Error) -> io::Error {
        const HAS_ENDED: [io::ErrorKind; 3] =
            [io::ErrorKind::UnexpectedEof, io::ErrorKind::ConnectionReset, io::ErrorKind::BrokenPipe];
        let _ = self.process.kill();
        match self.process.wait() {
            Ok(status) if HAS_ENDED.contains(&error.kind()) => process_ended(status),
            _ => io::Error::other(error.to_string()),
        }
    }
}

fn process_ended(status: ExitStatus) -> io::Error {
    io::Error::other(format!("its process ended: {status}"))
}

impl Drop for Parser {
    /// Kills the process, which has no effect if it has ended.
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Receives messages of a parser that is finishing.
/// Ends when `receive` returns that one was the last.
pub(crate) fn receive_rest(
    within: Duration,
    mut receive: impl FnMut() -> io::Result<bool>,
) -> io::Result<()> {
    let deadline = Instant::now() + within;
    while Instant::now() < deadline {
        if receive()? {
            return Ok(());
        }
    }
    Err(io::ErrorKind::TimedOut.into())
}

/// Receives the next order, in the parser process.
fn receive_order<O: DeserializeOwned>(channel: &mut Channel, timeout: Duration) -> io::Result<Option<O>> {
    match channel.receive(timeout)? {
        Some((Kind::Json, order)) => Ok(Some(serde_json::from_slice(order)?)),
        Some(_) => Err(invalid()),
        None => Ok(None),
    }
}

/// Rows that a parser process is going to send.
#[derive(Default)]
struct Rows {
    bytes: Vec<u8>,
    /// Rows that were too large.
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

/// Ignores the error of a closed socket: the watch has ended.
fn ignore_hangup(ended: io::Result<()>) -> io::Result<()> {
    match ended {
        Err(error) if [io::ErrorKind::UnexpectedEof, io::ErrorKind::BrokenPipe].contains(&error.kind()) => {
            Ok(())
        }
        ended => ended,
    }
}
