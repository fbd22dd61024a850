//! Enters the broker's network namespace, to capture packets there or ask for interfaces: the host's do not show a
//! container's. Does not read packets.

use std::fs::{self, File};
use std::io;

use capture::Error;
use capture::live::{Live, LiveConfig};
use model::Pid;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Begins to capture in the network namespace of a process. A packet socket stays where it was made, so that only a
/// thread that lasts as long as the opening has to go there. Another namespace takes `CAP_SYS_ADMIN`.
///
/// # Errors
/// As [`Live::open`]; and [`Error::Live`] where the namespace may not be entered.
pub fn open(pid: Pid, config: &LiveConfig) -> Result<Live, Error> {
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
    let namespace = |process: &str| fs::read_link(format!("/proc/{process}/ns/net")).ok();
    namespace(&pid.to_string()).is_none_or(|theirs| Some(theirs) == namespace("self"))
}

/// Goes into the network namespace of a process: the calling thread and those that it starts.
pub(crate) fn enter(pid: Pid) -> io::Result<()> {
    let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
    let entered =
        move_into_link_name_space(std::os::fd::AsFd::as_fd(&namespace), Some(LinkNameSpaceType::Network));
    Ok(entered?)
}

fn refused(config: &LiveConfig, source: io::Error) -> Error {
    let step = "entering the broker's network namespace, which takes CAP_SYS_ADMIN until it is attached";
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
