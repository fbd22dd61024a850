//! Tells a JVM that does not listen to begin: a file that says so, and SIGQUIT (`AttachListener::is_init_trigger`). The
//! signal kills whatever does not handle it, so it goes to a `HotSpot` that is seen to, and to nothing else.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use model::Pid;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, openat, unlinkat};
use rustix::process::{Pid as ProcessId, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::system;
use crate::{Error, Machine};

/// How often to look whether it listens.
const LOOK: Duration = Duration::from_millis(20);

/// Has the JVM listen, and gives what `open` gives once that succeeds.
pub(super) fn wake<T>(
    machine: &Machine,
    patience: Duration,
    open: impl Fn() -> io::Result<T>,
) -> Result<T, Error> {
    let process = Handler::of(machine)?;
    let _file =
        Trigger::put(machine).map_err(system(machine, "write the file by which it is told to listen"))?;
    process.signal().map_err(system(machine, "send it SIGQUIT"))?;
    let told = Instant::now();
    loop {
        std::thread::sleep(LOOK);
        match open() {
            Ok(opened) => return Ok(opened),
            Err(_) if told.elapsed() < patience => {}
            Err(_) => return Err(Error::Silent { pid: machine.pid, waited: patience }),
        }
    }
}

/// A process that was seen to handle SIGQUIT.
#[derive(Debug)]
pub(super) struct Handler(OwnedFd);

impl Handler {
    /// Looks at the process through a handle opened before: whatever gets its id once it has ended is not what the
    /// handle means.
    pub(super) fn of(machine: &Machine) -> Result<Self, Error> {
        let handle = handle(machine.pid).map_err(system(machine, "get hold of its process"))?;
        let now = machine.again()?;
        now.check_attachable()?;
        if now.catches_sigquit { Ok(Self(handle)) } else { Err(Error::Deaf { pid: machine.pid }) }
    }

    pub(super) fn signal(&self) -> io::Result<()> {
        Ok(pidfd_send_signal(&self.0, Signal::QUIT)?)
    }
}

fn handle(pid: Pid) -> io::Result<OwnedFd> {
    let pid = i32::try_from(pid).ok().and_then(ProcessId::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(pidfd_open(pid, PidfdFlags::empty())?)
}

/// The file that says what SIGQUIT is for; without one it asks for a thread dump on standard output. Gone when dropped,
/// also where the process has ended meanwhile.
pub(super) struct Trigger {
    directory: OwnedFd,
    name: String,
}

impl Trigger {
    /// Where the JVM looks: in its working directory, then in its `/tmp`.
    pub(super) fn put(machine: &Machine) -> io::Result<Self> {
        Self::put_in(machine, "cwd").or_else(|_| Self::put_in(machine, "root/tmp"))
    }

    fn put_in(machine: &Machine, place: &str) -> io::Result<Self> {
        let directory = openat(
            CWD,
            machine.path(place),
            OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        let name = format!(".attach_pid{}", machine.own_pid);
        let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&directory, name.as_str(), flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Self { directory, name })
    }
}

impl Drop for Trigger {
    fn drop(&mut self) {
        let _ = unlinkat(&self.directory, self.name.as_str(), AtFlags::empty());
    }
}
