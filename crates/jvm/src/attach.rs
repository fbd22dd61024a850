//! `HotSpot`'s attach protocol: sends a running JVM a command over its socket, and first makes it open the socket if it
//! does not listen yet. Does not know what the answers mean.
//!
//! The socket is `/tmp/.java_pidN` as the JVM sees it, where N is its id in its own pid namespace. A request is a
//! version, a command and three arguments, each ended by a zero byte. The answer is a status, a line feed and text,
//! until the JVM closes the connection (`attachListener.hpp`, `attachListener_posix.cpp`; version 1, which every
//! release since 6 understands).
//!
//! Any user can create a socket of that name in a temporary directory. It must belong to the JVM's user and be closed
//! to others, as for the JDK's own client (`checkPermissions`, VirtualMachineImpl.c), and the listener must be the
//! process.
//!
//! Fuzzed by: attach.

use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use model::Pid;
use rustix::fs::{FileType, Mode, OFlags, fstat, openat};
use rustix::net::sockopt::{Timeout, set_socket_timeout, socket_peercred};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Pid as ProcessId, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::machine::TemporaryFile;
use crate::{Error, Machine};

/// How long a JVM may take to start listening: it may be in a long collection.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);

/// Limits of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes of text to keep; the rest is left unread.
    pub bytes: usize,
    /// Time from the request to the last byte.
    pub time: Duration,
}

impl Default for Bounds {
    /// Enough for a dump of a thousand threads.
    fn default() -> Self {
        Self { bytes: 8 << 20, time: Duration::from_secs(10) }
    }
}

/// Whether the JVM already listens.
pub fn listens(machine: &Machine) -> bool {
    find_socket(machine).is_ok()
}

/// A JVM that listens.
#[derive(Clone, Debug)]
pub struct Client {
    machine: Machine,
    jcmd: &'static str,
}

/// A JVM's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// 0 if the command succeeded.
    pub(crate) status: i32,
    pub(crate) text: String,
}

impl Client {
    /// Connects to the JVM, and first makes it listen if it does not.
    /// The calling thread should be the JVM's user ([`crate::act_as`]).
    ///
    /// # Errors
    /// The JVM cannot be attached to, or does not listen.
    pub fn of(machine: &Machine) -> Result<Self, Error> {
        let answer = ask(machine, "getversion", &["options"], Bounds::default())?;
        Ok(Self { machine: machine.clone(), jcmd: command_of(&answer) })
    }

    /// Sends it a diagnostic command (`jcmd`), and returns the text of the answer.
    ///
    /// # Errors
    /// The JVM did not answer, or the command failed.
    pub fn jcmd(&self, command: &str, bounds: Bounds) -> Result<String, Error> {
        let answer = ask(&self.machine, self.jcmd, &[command], bounds)?;
        if answer.status == 0 {
            return Ok(answer.text);
        }
        Err(Error::refused(self.machine.pid, command, &answer.text))
    }

    /// Makes it load a Java agent, which gets an option; both paths are as the JVM sees them.
    /// Loads no code except the jar's.
    ///
    /// # Errors
    /// The JVM did not answer, or did not load the agent.
    pub(crate) fn load_agent(&self, jar: &str, option: &str, bounds: Bounds) -> Result<(), Error> {
        let answer =
            ask(&self.machine, "load", &["instrument", "false", &format!("{jar}={option}")], bounds)?;
        // The second line is the agent library's return code (`load_agent`, attachListener.cpp), since JDK 9 after some
        // words.
        let code = answer.text.lines().next().and_then(|line| line.rsplit(' ').next());
        if answer.status == 0 && code == Some("0") {
            return Ok(());
        }
        Err(Error::refused(self.machine.pid, "load", &answer.text))
    }

    /// The JVM.
    pub fn machine(&self) -> &Machine {
        &self.machine
    }
}

/// The name of the command `jcmd`.
/// JDK 25 streams an answer while it creates it, and creates a thread dump while all threads are stopped: they would
/// stay stopped while the reader is not scheduled (3 s, measured with a reader that slept 3 s). The option that turns
/// streaming off goes into the command's name, where it just fits; the answer to `getversion` shows whether the JVM has
/// it.
fn command_of(version: &Answer) -> &'static str {
    let mut options = version.text.split(|c: char| c.is_whitespace() || c == ',').skip(1);
    if version.status == 0 && options.any(|option| option == "streaming") {
        "jcmd streaming=0"
    } else {
        "jcmd"
    }
}

fn ask(machine: &Machine, command: &str, arguments: &[&str], bounds: Bounds) -> Result<Answer, Error> {
    let request = request(command, arguments)?;
    machine.check_attachable()?;
    let stream = match open(machine, bounds.time) {
        Ok(stream) => stream,
        // The socket was never created, or its creator is gone.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            wake(machine, ATTACH_TIMEOUT, || open(machine, bounds.time))?
        }
        Err(source) => return Err(system(machine, "connect to its attach socket")(source)),
    };
    let answer = exchange(stream, &request, bounds, Instant::now())
        .map_err(system(machine, "exchange a request and a response"))?;
    answer.ok_or(Error::Unintelligible(machine.pid))
}

/// Connects, and waits at most `timeout` for a JVM that is busy with other clients.
fn open(machine: &Machine, timeout: Duration) -> io::Result<UnixStream> {
    let file = find_socket(machine)?;
    let address = SocketAddrUnix::new(foreign::path_of(&file))?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Bounds connect(2) too (`unix_stream_connect`, net/unix/af_unix.c).
    set_socket_timeout(&socket, Timeout::Send, Some(timeout))?;
    connect(&socket, &address)?;
    let peer = socket_peercred(&socket)?;
    let (user, process) = (peer.uid.as_raw(), peer.pid.as_raw_nonzero().get() as u32);
    if (user, process) != (machine.owner.uid, machine.pid) {
        return Err(forged(&format!("process {process} of user {user} listens there")));
    }
    Ok(UnixStream::from(socket))
}

/// The file of the JVM's socket.
fn find_socket(machine: &Machine) -> io::Result<OwnedFd> {
    let directory = foreign::open_directory(&machine.path("root/tmp"))?;
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&directory, format!(".java_pid{}", machine.own_pid), flags, Mode::empty())?;
    let found = fstat(&file)?;
    let mode = Mode::from_raw_mode(found.st_mode);
    let is_closed = !mode.intersects(Mode::RGRP | Mode::WGRP | Mode::ROTH | Mode::WOTH);
    let is_socket = FileType::from_raw_mode(found.st_mode) == FileType::Socket;
    if is_socket && is_closed && found.st_uid == machine.owner.uid {
        return Ok(file);
    }
    Err(forged(&format!("its file has mode {:o} and is user {}'s", found.st_mode, found.st_uid)))
}

fn forged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, format!("it is not the JVM's: {why}"))
}

fn system(machine: &Machine, what: &'static str) -> impl FnOnce(io::Error) -> Error {
    let pid = machine.pid;
    move |source| Error::System { pid, what, source }
}

// Makes a JVM listen that does not yet: by a trigger file and SIGQUIT (`AttachListener::is_init_trigger`). The
// signal kills a process that does not handle it, so it is sent only to a `HotSpot` that is seen to handle it.

/// Interval between checks whether it listens.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Makes the JVM listen, and returns the result of `open` once that succeeds.
fn wake<T>(machine: &Machine, timeout: Duration, open: impl Fn() -> io::Result<T>) -> Result<T, Error> {
    let process = Handler::of(machine)?;
    let _file = put_trigger(machine).map_err(system(machine, "write its attach trigger file"))?;
    process.signal().map_err(system(machine, "send it SIGQUIT"))?;
    let signaled = Instant::now();
    loop {
        std::thread::sleep(CHECK_INTERVAL);
        match open() {
            Ok(opened) => return Ok(opened),
            Err(_) if signaled.elapsed() < timeout => {}
            Err(_) => return Err(Error::AttachTimeout { pid: machine.pid, timeout }),
        }
    }
}

/// A process that was seen to handle SIGQUIT.
#[derive(Debug)]
struct Handler(OwnedFd);

impl Handler {
    /// Opens a handle to the process before checking it: the handle never refers to a later process with the same id.
    fn of(machine: &Machine) -> Result<Self, Error> {
        let handle = handle(machine.pid).map_err(system(machine, "open a pidfd of its process"))?;
        let now = machine.again()?;
        now.check_attachable()?;
        if now.catches_sigquit { Ok(Self(handle)) } else { Err(Error::NoSigquitHandler(machine.pid)) }
    }

    fn signal(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, Signal::QUIT)?)
    }
}

fn handle(pid: Pid) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(ProcessId::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// Creates the file that makes SIGQUIT start the listener; without it the signal requests a thread dump on standard
/// output. The JVM looks for it in its working directory, then in its `/tmp`.
fn put_trigger(machine: &Machine) -> io::Result<TemporaryFile> {
    let name = format!(".attach_pid{}", machine.own_pid);
    let put = |place| TemporaryFile::create(machine, place, &name, OFlags::empty()).map(|(file, _)| file);
    put("cwd").or_else(|_| put("root/tmp"))
}

// The bytes of the attach protocol's version 1. Does not open sockets.

/// `AttachOperation` (attachListener.hpp): the sizes of a JVM's buffers.
const MAX_COMMAND_BYTES: usize = 16;
const MAX_ARGUMENT_BYTES: usize = 1024;
const ARGUMENTS: usize = 3;
/// A status is an `int` in decimal.
const MAX_STATUS_BYTES: usize = 12;

/// Encodes a request: exactly three arguments, with missing ones empty.
fn request(command: &str, arguments: &[&str]) -> Result<Vec<u8>, Error> {
    let fits = |text: &str, most: usize| text.len() <= most && !text.contains('\0');
    let all_fit = fits(command, MAX_COMMAND_BYTES)
        && arguments.len() <= ARGUMENTS
        && arguments.iter().all(|argument| fits(argument, MAX_ARGUMENT_BYTES));
    if !all_fit {
        return Err(Error::Request(command.chars().filter(|c| !c.is_control()).take(40).collect()));
    }
    let padded = arguments.iter().copied().chain([""; ARGUMENTS]).take(ARGUMENTS);
    Ok(["1", command].into_iter().chain(padded).flat_map(|word| word.bytes().chain([0])).collect())
}

/// Sends a request and reads the answer, within the bounds of space and time. The time counts from `begun`. `None` if
/// the answer is invalid.
pub(crate) fn exchange(
    mut stream: UnixStream,
    request: &[u8],
    bounds: Bounds,
    begun: Instant,
) -> io::Result<Option<Answer>> {
    stream.set_write_timeout(Some(bounds.time))?;
    stream.write_all(request)?;
    let mut bytes = Vec::new();
    let most = bounds.bytes.saturating_add(MAX_STATUS_BYTES);
    let mut piece = [0; 16 << 10];
    while bytes.len() < most {
        stream.set_read_timeout(Some(left(bounds.time, begun)?))?;
        let read = match stream.read(&mut piece) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(late()),
            Err(error) => return Err(error),
        };
        bytes.extend(piece.iter().take(read.min(most - bytes.len())));
    }
    Ok(parse(&bytes, bounds.bytes))
}

fn left(most: Duration, begun: Instant) -> io::Result<Duration> {
    // A timeout of zero would mean no timeout.
    most.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()).ok_or_else(late)
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "it did not answer in time")
}

fn parse(bytes: &[u8], most: usize) -> Option<Answer> {
    let mut parts = bytes.splitn(2, |byte| *byte == b'\n');
    let status = std::str::from_utf8(parts.next()?).ok()?.trim().parse().ok()?;
    let text = parts.next()?;
    let text = String::from_utf8_lossy(text.get(..most).unwrap_or(text)).into_owned();
    Some(Answer { status, text })
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod wire_tests {
    use std::io::{self, Read as _, Write as _};
    use std::os::unix::net::UnixStream;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{exchange, request};
    use crate::attach::{Answer, Bounds};

    const BOUNDS: Bounds = Bounds { bytes: 10, time: Duration::from_secs(5) };

    /// Reads an answer that comes in pieces.
    fn exchange_pieces(pieces: &'static [&'static [u8]], bounds: Bounds) -> io::Result<Option<Answer>> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let machine = thread::spawn(move || {
            let mut received = [0; 7];
            theirs.read_exact(&mut received).unwrap();
            assert_eq!(&received, b"request");
            for piece in pieces {
                // A reader that has enough closes the connection.
                let _ = theirs.write_all(piece);
            }
        });
        let answer = exchange(ours, b"request", bounds, Instant::now());
        machine.join().unwrap();
        answer
    }

    #[test]
    fn requests_have_three_arguments_and_invalid_ones_are_refused() {
        assert_eq!(request("jcmd", &["VM.version"]).unwrap(), b"1\0jcmd\0VM.version\0\0\0");
        assert_eq!(request("threaddump", &[]).unwrap(), b"1\0threaddump\0\0\0\0");
        let long = "x".repeat(1025);
        for (command, arguments) in [
            ("jcmd", &["a\0b"][..]),
            ("seventeen bytes !", &[]),
            ("jcmd", &[&long]),
            ("jcmd", &["", "", "", ""]),
        ] {
            let message = request(command, arguments).unwrap_err().to_string();
            assert!(message.contains("is not a valid attach command"), "{message}");
        }
    }

    #[test]
    fn parses_a_status_and_bounded_text_from_an_answer() {
        let ok = |pieces| exchange_pieces(pieces, BOUNDS).unwrap().unwrap();
        assert_eq!(ok(&[b"0", b"\n", b"Full ", b"text"]), Answer { status: 0, text: "Full text".to_owned() });
        assert_eq!(ok(&[b"-1\nno"]).status, -1);
        assert_eq!(ok(&[b"100\n"]).text, "");
        assert_eq!(ok(&[b"0\n\xff!"]).text, "\u{fffd}!");
        assert_eq!(ok(&[b"0\n0123456789abcdef", b"more and more and more"]).text, "0123456789");
    }

    #[test]
    fn refuses_an_invalid_answer() {
        const ANSWERS: &[&[&[u8]]] =
            &[&[], &[b"0"], &[b"\n"], &[b"one\n"], &[b"99999999999999\n"], &[b"0123456789 nor is this"]];
        for pieces in ANSWERS {
            assert!(exchange_pieces(pieces, BOUNDS).unwrap().is_none(), "{pieces:?}");
        }
    }

    #[test]
    fn exchange_times_out_without_an_answer() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let bounds = Bounds { time: Duration::from_millis(50), ..BOUNDS };
        let error = exchange(ours, b"request", bounds, Instant::now()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        drop(theirs);
    }
}
