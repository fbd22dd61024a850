//! Enters the broker's network namespace, to capture packets there or ask for interfaces: the host's do not show a
//! container's. Does not read packets.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::mpsc;

use capture::Error;
use capture::live::{Live, LiveConfig};
use model::Pid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::privileges;

/// Opens captures where the broker is, also after it was restarted in another network namespace. Clones share it.
#[derive(Clone)]
pub(crate) struct CaptureOpener {
    /// A thread that keeps what it takes to enter a namespace, and does nothing else; where the broker began in this
    /// process's, there is none.
    thread: Option<mpsc::Sender<OpenRequest>>,
}

type OpenRequest = (Pid, LiveConfig, mpsc::SyncSender<Result<Live, Error>>);

impl CaptureOpener {
    /// For a broker, while the calling thread still has all capabilities.
    pub(crate) fn of(pid: Pid) -> Self {
        if shares_network(pid) {
            return Self { thread: None };
        }
        let (sender, requests) = mpsc::channel::<OpenRequest>();
        let run = move || {
            // As of the sources: what cannot be dropped does no harm.
            let _ = privileges::keep_entering_capabilities();
            for (pid, config, answer) in requests {
                // Who asked may have ended meanwhile.
                let _ = answer.send(open(pid, &config));
            }
        };
        let thread = std::thread::Builder::new().name(THREAD_NAME.to_owned()).spawn(run);
        Self { thread: thread.ok().map(|_| sender) }
    }

    /// Begins to capture in the network namespace of a process.
    ///
    /// # Errors
    /// As [`Live::open`]; and [`Error::Live`] where the namespace may not be entered.
    pub(crate) fn open(&self, pid: Pid, config: &LiveConfig) -> Result<Live, Error> {
        let Some(thread) = &self.thread else { return open(pid, config) };
        let (answer, opened) = mpsc::sync_channel(1);
        let asked = thread.send((pid, config.clone(), answer));
        let opened = asked.ok().and_then(|()| opened.recv().ok());
        opened.unwrap_or_else(|| Err(refused(config, io::Error::other("the thread that enters it died"))))
    }
}

/// Of at most 15 bytes, as the kernel keeps them.
const THREAD_NAME: &str = "brokerscope-net";

/// A packet socket stays where it was made, so that only a thread that lasts as long as the opening has to go there. Another
/// namespace takes `CAP_SYS_ADMIN`.
fn open(pid: Pid, config: &LiveConfig) -> Result<Live, Error> {
    if shares_network(pid) {
        return Live::open(config);
    }
    within(pid, || Live::open(config)).unwrap_or_else(|source| Err(refused(config, source)))
}

/// Does something in the network namespace of a process, on a thread that ends with it.
pub(crate) fn within<T: Send>(pid: Pid, act: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let visitor = scope.spawn(|| enter(pid).map(|()| act()));
        visitor.join().unwrap_or_else(|_| Err(io::Error::other("the thread died")))
    })
}

/// Whether a process has the same network as this one. Where that cannot be told, it has.
pub fn shares_network(pid: Pid) -> bool {
    namespace(&pid.to_string()).is_none_or(|theirs| Some(theirs) == namespace("self"))
}

/// What the kernel calls the network namespace of a process. Another one has that name only once nothing uses the first, as
/// a capture does.
pub(crate) fn namespace(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/net")).ok()
}

/// Goes into the network namespace of a process: the calling thread and those that it starts.
#[allow(clippy::disallowed_methods, reason = "/proc")]
fn enter(pid: Pid) -> io::Result<()> {
    let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
    let entered =
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), Some(LinkNameSpaceType::Network));
    Ok(entered?)
}

fn refused(config: &LiveConfig, source: io::Error) -> Error {
    let step = "entering the broker's network namespace, which takes CAP_SYS_ADMIN";
    // Not a lack of CAP_NET_RAW, which the kernel calls the same.
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
