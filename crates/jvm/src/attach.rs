//! `HotSpot`'s attach protocol: asks a running JVM a question over its socket, and has it open that first where it does
//! not listen yet. Does not know what the answers mean.
//!
//! The socket is `/tmp/.java_pidN` as the JVM sees it, N its id in its own pid namespace; a request is a version, a
//! command and three arguments, each ended by a zero byte, and the answer is a status, a line feed and text, until the
//! JVM closes (`attachListener.hpp`, `attachListener_posix.cpp`; version 1, which every release since 6 understands).
//!
//! Anybody may make a socket of that name in a temporary directory. It must be the JVM's user's and closed to others, as for the
//! JDK's own client (`checkPermissions`, VirtualMachineImpl.c), and who listens must be the process.
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

/// How long a JVM may take to begin to listen: it may be in a long collection.
const ATTACH_TIMEOUT: Duration = Duration::from_secs(10);

/// What an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Text kept; the rest is left unread.
    pub bytes: usize,
    /// Time from the question to the last byte.
    pub time: Duration,
}

impl Default for Bounds {
    /// Enough for a dump of a thousand threads.
    fn default() -> Self {
        Self { bytes: 8 << 20, time: Duration::from_secs(10) }
    }
}

/// Whether the JVM listens already.
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
    /// 0 where it did what was asked.
    pub(crate) status: i32,
    pub(crate) text: String,
}

impl Client {
    /// Finds out whether the JVM answers, and has it listen first where it does not. The calling thread should be the
    /// JVM's user ([`crate::act_as`]).
    ///
    /// # Errors
    /// Why it may not be asked, or does not listen.
    pub fn of(machine: &Machine) -> Result<Self, Error> {
        let answer = ask(machine, "getversion", &["options"], Bounds::default())?;
        Ok(Self { machine: machine.clone(), jcmd: command_of(&answer) })
    }

    /// Gives it a diagnostic command (`jcmd`), and returns the text of the answer.
    ///
    /// # Errors
    /// What kept it from answering, or from doing it.
    pub fn jcmd(&self, command: &str, bounds: Bounds) -> Result<String, Error> {
        let answer = ask(&self.machine, self.jcmd, &[command], bounds)?;
        if answer.status == 0 {
            return Ok(answer.text);
        }
        Err(Error::refused(self.machine.pid, command, &answer.text))
    }

    /// Has it load an agent for Java, and calls that with an option; both paths are the JVM's. Loads no other code than the jar's.
    ///
    /// # Errors
    /// What kept it from answering, or from loading it.
    pub(crate) fn load_agent(&self, jar: &str, option: &str, bounds: Bounds) -> Result<(), Error> {
        let answer =
            ask(&self.machine, "load", &["instrument", "false", &format!("{jar}={option}")], bounds)?;
        // The second line is the agent library's own code (`load_agent`, attachListener.cpp), from JDK 9 on with words before.
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

/// How `jcmd` is asked for. JDK 25 sends an answer while it makes it, and makes that of a thread dump while all threads
/// are stopped: they would stay so for as long as its reader is not scheduled (3 s, seen with one that slept 3 s). It
/// takes the option not to in the command's name, which just fits, and says before that it does.
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
        // None was ever made, or its maker is gone.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            wake(machine, ATTACH_TIMEOUT, || open(machine, bounds.time))?
        }
        Err(source) => return Err(system(machine, "connect to its attach socket")(source)),
    };
    let answer = exchange(stream, &request, bounds, Instant::now())
        .map_err(system(machine, "exchange a request and a response"))?;
    answer.ok_or(Error::Unintelligible(machine.pid))
}

/// Connects, and waits no longer than that for a JVM that is busy with others.
fn open(machine: &Machine, patience: Duration) -> io::Result<UnixStream> {
    let file = find_socket(machine)?;
    let address = SocketAddrUnix::new(foreign::path_of(&file))?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Bounds connect(2) too (`unix_stream_connect`, net/unix/af_unix.c).
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
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

// Tells a JVM that does not listen to begin: a file that says so, and SIGQUIT (`AttachListener::is_init_trigger`). The
// signal kills a process that does not handle it, so it goes to a `HotSpot` that is seen to, and to nothing else.

/// How often to look whether it listens.
const LOOK: Duration = Duration::from_millis(20);

/// Has the JVM listen, and gives what `open` gives once that succeeds.
fn wake<T>(machine: &Machine, patience: Duration, open: impl Fn() -> io::Result<T>) -> Result<T, Error> {
    let process = Handler::of(machine)?;
    let _file = put_trigger(machine).map_err(system(machine, "write its attach trigger file"))?;
    process.signal().map_err(system(machine, "send it SIGQUIT"))?;
    let told = Instant::now();
    loop {
        std::thread::sleep(LOOK);
        match open() {
            Ok(opened) => return Ok(opened),
            Err(_) if told.elapsed() < patience => {}
            Err(_) => return Err(Error::AttachTimeout { pid: machine.pid, waited: patience }),
        }
    }
}

/// A process that was seen to handle SIGQUIT.
#[derive(Debug)]
struct Handler(OwnedFd);

impl Handler {
    /// Looks at the process through a handle opened before: a process that gets its id once it has ended is not what the
    /// handle means.
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

/// Puts the file that says what SIGQUIT is for; without one it asks for a thread dump on standard output. Where the JVM
/// looks: in its working directory, then in its `/tmp`.
fn put_trigger(machine: &Machine) -> io::Result<TemporaryFile> {
    let name = format!(".attach_pid{}", machine.own_pid);
    let put = |place| TemporaryFile::create(machine, place, &name, OFlags::empty()).map(|(file, _)| file);
    put("cwd").or_else(|_| put("root/tmp"))
}

// The bytes of the attach protocol's version 1. Does not open sockets.

/// `AttachOperation` (attachListener.hpp): what a JVM makes room for.
const MAX_COMMAND_BYTES: usize = 16;
const MAX_ARGUMENT_BYTES: usize = 1024;
const ARGUMENTS: usize = 3;
/// A status is an `int` in decimal.
const MAX_STATUS_BYTES: usize = 12;

/// A request: exactly three arguments, those that are not given empty.
fn request(command: &str, arguments: &[&str]) -> Result<Vec<u8>, Error> {
    let fits = |text: &str, most: usize| text.len() <= most && !text.contains('\0');
    let all_fit = fits(command, MAX_COMMAND_BYTES)
        && arguments.len() <= ARGUMENTS
        && arguments.iter().all(|argument| fits(argument, MAX_ARGUMENT_BYTES));
    if !all_fit {
        return Err(Error::Request(command.chars().filter(|c| !c.is_control()).take(40).collect()));
    }
    let given = arguments.iter().copied().chain([""; ARGUMENTS]).take(ARGUMENTS);
    Ok(["1", command].into_iter().chain(given).flat_map(|word| word.bytes().chain([0])).collect())
}

/// Sends a request and reads the answer, within its bounds of space and of time since `begun`; none that can be understood.
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
    // A timeout of nothing would be none at all.
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

    /// What is made of an answer that comes in pieces.
    fn answered(pieces: &'static [&'static [u8]], bounds: Bounds) -> io::Result<Option<Answer>> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let machine = thread::spawn(move || {
            let mut asked = [0; 7];
            theirs.read_exact(&mut asked).unwrap();
            assert_eq!(&asked, b"request");
            for piece in pieces {
                // A reader that has enough hangs up.
                let _ = theirs.write_all(piece);
            }
        });
        let answer = exchange(ours, b"request", bounds, Instant::now());
        machine.join().unwrap();
        answer
    }

    #[test]
    fn a_request_has_three_arguments_whatever_is_given() {
        assert_eq!(request("jcmd", &["VM.version"]).unwrap(), b"1\0jcmd\0VM.version\0\0\0");
        assert_eq!(request("threaddump", &[]).unwrap(), b"1\0threaddump\0\0\0\0");
        let long = "x".repeat(1025);
        for (command, arguments) in [
            ("jcmd", &["a\0b"][..]),
            ("seventeen bytes !", &[]),
            ("jcmd", &[&long]),
            ("jcmd", &["", "", "", ""]),
        ] {
            let said = request(command, arguments).unwrap_err().to_string();
            assert!(said.contains("is not a valid attach command"), "{said}");
        }
    }

    #[test]
    fn an_answer_is_a_status_and_text() {
        let ok = |pieces| answered(pieces, BOUNDS).unwrap().unwrap();
        assert_eq!(ok(&[b"0", b"\n", b"Full ", b"text"]), Answer { status: 0, text: "Full text".to_owned() });
        assert_eq!(ok(&[b"-1\nno"]).status, -1);
        assert_eq!(ok(&[b"100\n"]).text, "");
        assert_eq!(ok(&[b"0\n\xff!"]).text, "\u{fffd}!");
        assert_eq!(ok(&[b"0\n0123456789abcdef", b"more and more and more"]).text, "0123456789");
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        const ANSWERS: &[&[&[u8]]] =
            &[&[], &[b"0"], &[b"\n"], &[b"one\n"], &[b"99999999999999\n"], &[b"0123456789 nor is this"]];
        for pieces in ANSWERS {
            assert!(answered(pieces, BOUNDS).unwrap().is_none(), "{pieces:?}");
        }
    }

    #[test]
    fn a_machine_that_stays_silent_is_not_waited_for() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let bounds = Bounds { time: Duration::from_millis(50), ..BOUNDS };
        let error = exchange(ours, b"request", bounds, Instant::now()).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        drop(theirs);
    }
}
