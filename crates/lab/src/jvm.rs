//! Orders to a HotSpot JVM by its attach protocol, and the JVM's own account of when it stopped its threads.

mod pauses;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::Error;
use crate::tool;

pub use pauses::{Pause, pauses, pauses_argument};

/// How long an order may take: a collection of a large heap, or a safepoint that is held up.
const PATIENCE: Duration = Duration::from_secs(60);

/// A way to a JVM in this mount namespace.
#[derive(Clone, Debug)]
pub struct Jvm {
    socket: PathBuf,
}

impl Jvm {
    /// Opens the way. The first time, that takes a signal and a thread of the JVM, which is left to `jcmd`.
    pub fn attach(pid: u32) -> Result<Self, Error> {
        tool::output(Command::new("jcmd").arg(pid.to_string()).arg("VM.version"))?;
        // AttachListener in HotSpot's attachListener_posix.cpp.
        let socket = Path::new("/tmp").join(format!(".java_pid{pid}"));
        if socket.exists() {
            Ok(Self { socket })
        } else {
            Err(Error::Unusable(format!("the JVM listens at no {}", socket.display())))
        }
    }

    /// Gives a diagnostic order, such as `GC.run`, and waits until it has been carried out; returns what it said.
    pub fn order(&self, order: &str) -> Result<String, Error> {
        let doing = format!("have the JVM do {order}");
        let ask = || {
            let mut stream = UnixStream::connect(&self.socket)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            // The protocol's version, the command, its three arguments, each ended by a zero byte.
            stream.write_all(format!("1\0jcmd\0{order}\0\0\0").as_bytes())?;
            stream.shutdown(Shutdown::Write)?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let answer = ask().map_err(Error::system(&doing))?;
        match answer.split_once('\n') {
            Some(("0", said)) => Ok(said.to_owned()),
            _ => Err(Error::Tool { tool: order.to_owned(), said: answer.trim().to_owned() }),
        }
    }
}
