//! Networks of an experiment: hosts in their own network namespaces on one bridge, and slow or lossy links.
//!
//! A namespace lives as long as the process that holds it, which belongs to the site: what a killed lab leaves ends
//! with its processes, and the kernel removes interfaces and queueing disciplines together with the namespace.

use std::fs;
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::broker::with_launcher;
use crate::error::{Error, Result};
use crate::process;
use crate::process::{Process, on_own_thread};
use crate::session::interrupt;

/// Timeout for making a namespace.
const NAMESPACE_TIMEOUT: Duration = Duration::from_secs(60);
/// A host's interface to the bridge.
const UPLINK: &str = "uplink";
const BRIDGE: &str = "bridge";

/// The network namespace of a thread or a process of the experiment.
#[derive(Clone, Debug, Default)]
pub struct Place(Option<PathBuf>);

impl Place {
    /// The lab's own network namespace.
    pub fn own() -> Self {
        Self(None)
    }

    /// Moves the calling thread there for good: call it on a thread made for that.
    fn enter(&self) -> Result<()> {
        let Some(path) = &self.0 else { return Ok(()) };
        let namespace = File::open(path).map_err(Error::io("open", path))?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(Error::io("enter", path))
    }

    /// Runs `act` there, on another thread.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T> {
        if self.0.is_none() {
            return Ok(act());
        }
        on_own_thread("a thread in a network namespace", || self.enter().map(|()| act()))
    }

    /// The prefix of a command that runs there.
    pub fn entering(&self) -> Vec<String> {
        let path = self.0.as_ref().map(|path| format!("--net={}", path.display()));
        path.map_or_else(Vec::new, |path| vec!["nsenter".to_owned(), path, "--".to_owned()])
    }

    /// A command that runs `program` there.
    pub fn command(&self, program: &str) -> Command {
        with_launcher(&self.entering(), Command::new(program))
    }

    /// Runs a program there to its end; returns its output.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        process::output(self.command(program).args(arguments))
    }
}

/// A network namespace; dropping it ends its holder, and the namespace ends with the last process in it.
#[derive(Debug)]
struct Namespace {
    holder: Process,
    place: Place,
}

impl Namespace {
    /// Makes a namespace with nothing but a loopback interface, which is up.
    ///
    /// # Errors
    /// The kernel does not permit it.
    fn make(site: &Path) -> Result<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sleep", "infinity"]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut holder = Process::spawn(&mut command, Some(site))?;
        let path = |process: &str| Path::new("/proc").join(process).join("ns/net");
        let (own, made) = (path("self"), path(&holder.pid().to_string()));
        let own = fs::read_link(&own).map_err(Error::io("look at", &own))?;
        let ready = || match holder.exit_status()? {
            Some(status) => {
                Err(Error::Tool { tool: "unshare".to_owned(), output: format!("{status}; is this root?") })
            }
            None => Ok(fs::read_link(&made).ok().filter(|made| *made != own).map(drop)),
        };
        interrupt().wait(NAMESPACE_TIMEOUT, "a network namespace", ready)?;
        let place = Place(Some(made));
        place.run("ip", &["link", "set", "dev", "lo", "up"])?;
        Ok(Self { holder, place })
    }
}

/// Hosts on a bridge. The lab's clients are at the bridge itself, [`Network::clients`].
#[derive(Debug)]
pub struct Network {
    hosts: Vec<Namespace>,
    hub: Namespace,
}

/// The limited direction of a link, seen from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Packets to the host.
    ToHost,
    /// Packets from the host.
    FromHost,
}

/// A link's limits: a token bucket (tc-tbf(8)) that drops what does not fit into its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Kilobits per second.
    pub rate_kbit: u32,
    /// Bytes that may be sent at once; more than a packet.
    pub burst_bytes: u32,
    /// Bytes that may wait; the rest is dropped.
    pub queue_bytes: u32,
}

impl Network {
    /// Makes a bridge with this many hosts on it, numbered from 1.
    pub fn make(site: &Path, hosts: u8) -> Result<Self> {
        let hub = Namespace::make(site)?;
        let mut network = Self { hosts: Vec::new(), hub };
        network.at_hub(&["link", "add", "name", BRIDGE, "type", "bridge"])?;
        network.at_hub(&["address", "add", &format!("{}/24", Self::address(254)), "dev", BRIDGE])?;
        network.at_hub(&["link", "set", "dev", BRIDGE, "up"])?;
        for number in 1..=hosts {
            network.hosts.push(Namespace::make(site)?);
            network.connect(number)?;
        }
        Ok(network)
    }

    fn at_hub(&self, arguments: &[&str]) -> Result<()> {
        self.hub.place.run("ip", arguments).map(drop)
    }

    fn connect(&self, number: u8) -> Result<()> {
        let host = self.namespace(number)?;
        let (port, holder) = (port(number), host.holder.pid().to_string());
        let peer = ["type", "veth", "peer", "name", UPLINK, "netns", &holder];
        self.at_hub(&[&["link", "add", "name", &port], &peer[..]].concat())?;
        self.at_hub(&["link", "set", "dev", &port, "master", BRIDGE, "up"])?;
        let address = format!("{}/24", Self::address(number));
        host.place.run("ip", &["address", "add", &address, "dev", UPLINK])?;
        host.place.run("ip", &["link", "set", "dev", UPLINK, "up"])?;
        // Packets no larger than the MTU, as on a real link: a drop loses one packet and not 64 KiB.
        for way in [Way::ToHost, Way::FromHost] {
            let (place, interface) = self.sender(number, way)?;
            place.run("ethtool", &["-K", &interface, "tso", "off", "gso", "off", "gro", "off"])?;
        }
        Ok(())
    }

    /// Sets the largest packet of a host's link, at both of its ends and the bridge.
    pub fn set_mtu(&self, number: u8, bytes: u32) -> Result<()> {
        let bytes = bytes.to_string();
        for way in [Way::ToHost, Way::FromHost] {
            let (place, interface) = self.sender(number, way)?;
            place.run("ip", &["link", "set", "dev", &interface, "mtu", &bytes])?;
        }
        self.at_hub(&["link", "set", "dev", BRIDGE, "mtu", &bytes])
    }

    /// A host's address: private to the namespaces, from the range that RFC 2544 reserves for tests.
    pub fn address(number: u8) -> Ipv4Addr {
        Ipv4Addr::new(198, 18, 0, number)
    }

    /// The network namespace of a host's processes.
    ///
    /// # Errors
    /// There is no such host.
    pub fn host(&self, number: u8) -> Result<Place> {
        Ok(self.namespace(number)?.place.clone())
    }

    /// The network namespace of clients.
    pub fn clients(&self) -> Place {
        self.hub.place.clone()
    }

    /// Limits one direction of a host's link.
    pub fn limit(&self, number: u8, way: Way, limit: Limit) -> Result<()> {
        let (place, interface) = self.sender(number, way)?;
        let Limit { rate_kbit, burst_bytes, queue_bytes } = limit;
        let (rate, burst, queue) =
            (format!("{rate_kbit}kbit"), burst_bytes.to_string(), queue_bytes.to_string());
        let bucket = ["tbf", "rate", &rate, "burst", &burst, "limit", &queue];
        place.run("tc", &[&["qdisc", "replace", "dev", &interface, "root"], &bucket[..]].concat()).map(drop)
    }

    /// Removes a limit.
    pub fn free(&self, number: u8, way: Way) -> Result<()> {
        let (place, interface) = self.sender(number, way)?;
        place.run("tc", &["qdisc", "del", "dev", &interface, "root"]).map(drop)
    }

    /// Packets that a limit has dropped so far.
    pub fn dropped(&self, number: u8, way: Way) -> Result<u64> {
        let (place, interface) = self.sender(number, way)?;
        Ok(parse_dropped(&place.run("tc", &["-s", "qdisc", "show", "dev", &interface, "root"])?))
    }

    fn namespace(&self, number: u8) -> Result<&Namespace> {
        let host = usize::from(number).checked_sub(1).and_then(|at| self.hosts.get(at));
        host.ok_or_else(|| Error::Unusable(format!("no host {number}")))
    }

    /// The sending end of a host's link in this direction.
    fn sender(&self, number: u8, way: Way) -> Result<(&Place, String)> {
        Ok(match way {
            Way::ToHost => (&self.hub.place, port(number)),
            Way::FromHost => (&self.namespace(number)?.place, UPLINK.to_owned()),
        })
    }
}

fn port(number: u8) -> String {
    format!("port{number}")
}

/// Parses `Sent 1 bytes 2 pkt (dropped 3, overlimits 4 requeues 5)`.
fn parse_dropped(output: &str) -> u64 {
    let number = |rest: &str| rest.split(',').next()?.trim().parse().ok();
    output.split("(dropped ").nth(1).and_then(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_drops_from_tc_output() {
        let output = "qdisc tbf 8001: rate 2Mbit burst 5Kb lat 10ms\n \
                    Sent 5000 bytes 12 pkt (dropped 7, overlimits 9 requeues 0)\n backlog 0b 0p requeues 0\n";
        assert_eq!(parse_dropped(output), 7);
        assert_eq!(parse_dropped("qdisc noqueue 0: root refcnt 2"), 0);
    }

    #[test]
    fn own_namespace_runs_commands_directly() {
        Place::own().enter().unwrap();
        assert_eq!(Place::own().command("ip").get_program(), "ip");
    }
}
