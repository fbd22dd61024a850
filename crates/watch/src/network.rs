//! Enters the broker's network namespace.
//! Packets are captured and interfaces listed there: the host's interfaces do not show a container's traffic. Does not
//! read packets.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc;

use capture::Error;
use capture::live::{Live, LiveConfig};
use model::Pid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::privileges;

/// Opens captures in the broker's network namespace.
/// Works even after a restart in another one. Clones share the thread.
#[derive(Clone)]
pub(crate) struct CaptureOpener {
    /// A thread that only enters namespaces and keeps the capabilities for that.
    /// `None` if the broker started in this process's namespace.
    thread: Option<mpsc::Sender<OpenRequest>>,
}

type OpenRequest = (Pid, LiveConfig, mpsc::SyncSender<Result<Live, Error>>);

impl CaptureOpener {
    /// Creates the opener for a broker. Call it while the thread still has all capabilities.
    pub(crate) fn of(pid: Pid) -> Self {
        if shares_network(pid) {
            return Self { thread: None };
        }
        let (sender, requests) = mpsc::channel::<OpenRequest>();
        let run = move || {
            // As in the sources, capabilities that cannot be dropped do no harm.
            let _ = privileges::keep_entering_capabilities();
            for (pid, config, answer) in requests {
                // The requesting thread may have ended.
                let _ = answer.send(open(pid, &config));
            }
        };
        let thread = std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(run);
        Self { thread: thread.ok().map(|_| sender) }
    }

    /// Opens a capture in the network namespace of a process.
    ///
    /// # Errors
    /// Those of [`Live::open`], and [`Error::Live`] if the namespace cannot be entered.
    pub(crate) fn open(&self, pid: Pid, config: &LiveConfig) -> Result<Live, Error> {
        let Some(thread) = &self.thread else { return open(pid, config) };
        let (answer, opened) = mpsc::sync_channel(1);
        let sent = thread.send((pid, config.clone(), answer));
        let opened = sent.ok().and_then(|()| opened.recv().ok());
        opened.unwrap_or_else(|| Err(enter_error(config, io::Error::other("the thread that enters it died"))))
    }
}

/// At most 15 bytes, the kernel's limit.
const THREAD_NAME: &str = "brokerscope-net";

/// Opens a capture.
/// A packet socket stays in the namespace where it was created, so a short-lived thread is enough to enter it. Another
/// namespace needs `CAP_SYS_ADMIN`.
fn open(pid: Pid, config: &LiveConfig) -> Result<Live, Error> {
    if shares_network(pid) {
        return Live::open(config);
    }
    within(pid, || Live::open(config)).unwrap_or_else(|source| Err(enter_error(config, source)))
}

/// Runs a function in the network namespace of a process.
/// It runs on a thread that ends with it.
pub(crate) fn within<T: Send>(pid: Pid, act: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let visitor = scope.spawn(|| enter(pid).map(|()| act()));
        visitor.join().unwrap_or_else(|_| Err(io::Error::other("the thread died")))
    })
}

/// Whether a process is in this process's network namespace; true if that cannot be determined.
pub fn shares_network(pid: Pid) -> bool {
    namespace(&pid.to_string()).is_none_or(|theirs| Some(theirs) == namespace("self"))
}

/// The kernel's name of a process's network namespace.
/// The name is only reused when nothing, such as a capture, uses the namespace any more.
pub(crate) fn namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/net")).ok()
}

/// Moves the calling thread into the network namespace of a process.
/// Threads that it starts are in the namespace too.
#[allow(clippy::disallowed_methods, reason = "/proc")]
fn enter(pid: Pid) -> io::Result<()> {
    let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
    let entered =
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), Some(LinkNameSpaceType::Network));
    Ok(entered?)
}

fn enter_error(config: &LiveConfig, source: io::Error) -> Error {
    let step = "entering the broker's network namespace, which takes CAP_SYS_ADMIN";
    // Wrapped, so that it is not mistaken for a lack of CAP_NET_RAW, which has the same error code.
    Error::Live { interface: config.interface.clone(), step, source: io::Error::other(source) }
}

#[cfg(test)]
mod tests {
    use super::shares_network;

    #[test]
    fn this_process_shares_its_own_network() {
        assert!(shares_network(std::process::id()));
        assert!(shares_network(u32::MAX), "what does not run has none to enter");
    }
}
