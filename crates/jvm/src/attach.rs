//! `HotSpot`'s attach protocol: asks a running JVM a question over its socket, and has it open that first where it does
//! not listen yet. Does not know what the answers mean.
//!
//! The socket is `/tmp/.java_pidN` as the JVM sees it, N its id in its own pid namespace; a request is a version, a
//! command and three arguments, each ended by a zero byte, and the answer is a status, a line feed and text, until the
//! JVM closes (`attachListener.hpp`, `attachListener_posix.cpp`; version 1, which every release since 6 understands).

mod wake;
mod wire;

use std::io;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::{Error, Machine};

/// How long a JVM may take to begin to listen: it may be in a long collection.
const PATIENCE: Duration = Duration::from_secs(10);

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
    machine.path(&socket_name(machine)).exists()
}

/// A JVM that listens.
#[derive(Clone, Debug)]
pub struct Client {
    machine: Machine,
    jcmd: &'static str,
}

/// A JVM's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    /// 0 where it did what was asked.
    status: i32,
    text: String,
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
    let request = wire::request(command, arguments)?;
    machine.check_attachable()?;
    let stream = match open(machine, bounds.time) {
        Ok(stream) => stream,
        // None was ever made, or its maker is gone.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => {
            wake::wake(machine, PATIENCE, || open(machine, bounds.time))?
        }
        Err(source) => return Err(system(machine, "connect to its socket")(source)),
    };
    wire::exchange(stream, &request, bounds, Instant::now()).map_err(|error| match error {
        wire::Broken::System(source) => system(machine, "talk to it")(source),
        wire::Broken::Unintelligible => Error::Unintelligible { pid: machine.pid },
    })
}

/// Connects, and waits no longer than that for a JVM that is busy with others.
fn open(machine: &Machine, patience: Duration) -> io::Result<UnixStream> {
    let address = SocketAddrUnix::new(machine.path(&socket_name(machine)))?;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // Bounds connect(2) too (`unix_stream_connect`, net/unix/af_unix.c).
    set_socket_timeout(&socket, Timeout::Send, Some(patience))?;
    connect(&socket, &address)?;
    Ok(UnixStream::from(socket))
}

fn socket_name(machine: &Machine) -> String {
    format!("root/tmp/.java_pid{}", machine.own_pid)
}

fn system(machine: &Machine, what: &'static str) -> impl FnOnce(io::Error) -> Error {
    let pid = machine.pid;
    move |source| Error::System { pid, what, source }
}

#[cfg(test)]
mod tests;
