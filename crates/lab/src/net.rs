//! Networks of an experiment: hosts in their own network namespaces on one bridge, and links made slow and lossy.
//!
//! A namespace lives as long as the process that holds it, which is the site's: so what a killed lab leaves is ended
//! with its processes, and the kernel takes interfaces and queueing disciplines away with the namespace.

use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::error::Error;
use crate::process;
use crate::process::Process;
use crate::session::Interrupt;

/// How long a namespace may take to be made.
const NAMESPACE_TIMEOUT: Duration = Duration::from_secs(60);
/// The interface of a host that leads to the bridge.
const UPLINK: &str = "uplink";
const BRIDGE: &str = "bridge";

/// Where a thread or a process of the experiment does its networking.
#[derive(Clone, Debug, Default)]
pub struct Place(Option<PathBuf>);

impl Place {
    /// The network namespace that the lab itself is in.
    pub fn own() -> Self {
        Self(None)
    }

    /// Moves the calling thread there. It does not come back: let its own thread do this.
    pub fn enter(&self) -> Result<(), Error> {
        let Some(path) = &self.0 else { return Ok(()) };
        let namespace = File::open(path).map_err(Error::io("open", path))?;
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
            .map_err(|error| Error::io("enter", path)(error.into()))
    }

    /// Does something there, and comes back.
    pub fn within<T: Send>(&self, act: impl FnOnce() -> T + Send) -> Result<T, Error> {
        if self.0.is_none() {
            return Ok(act());
        }
        thread::scope(|scope| {
            let visitor = scope.spawn(|| self.enter().map(|()| act()));
            visitor
                .join()
                .unwrap_or_else(|_| Err(Error::Unusable("a thread in a network namespace died".to_owned())))
        })
    }

    /// What a command has to begin with to run there.
    pub fn entering(&self) -> Vec<String> {
        let path = self.0.as_ref().map(|path| format!("--net={}", path.display()));
        path.map_or_else(Vec::new, |path| vec!["nsenter".to_owned(), path, "--".to_owned()])
    }

    /// A command that runs there what is added to it.
    pub fn command(&self, program: &str) -> Command {
        let Some(path) = &self.0 else { return Command::new(program) };
        let mut command = Command::new("nsenter");
        command.arg(format!("--net={}", path.display())).arg("--").arg(program);
        command
    }
}

/// A network namespace; dropping it ends its holder, and with the last process in it the namespace.
#[derive(Debug)]
pub struct Namespace {
    holder: Process,
}

impl Namespace {
    /// Makes one with nothing but a loopback interface, which is up.
    ///
    /// # Errors
    /// Where the kernel does not permit it.
    pub fn make(site: &Path) -> Result<Self, Error> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sleep", "infinity"]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut holder = Process::spawn(&mut command, Some(site))?;
        let own = namespace_of("self").map_err(Error::system("look at this process's network namespace"))?;
        let ready = || match holder.ended()? {
            Some(status) => {
                Err(Error::Tool { tool: "unshare".to_owned(), said: format!("{status}; is this root?") })
            }
            None => Ok(namespace_of(&holder.pid().to_string()).ok().filter(|made| *made != own).map(drop)),
        };
        Interrupt::never().wait(NAMESPACE_TIMEOUT, "a network namespace", ready)?;
        let namespace = Self { holder };
        namespace.ip(&["link", "set", "dev", "lo", "up"])?;
        Ok(namespace)
    }

    /// To run something in it.
    pub fn place(&self) -> Place {
        Place(Some(Path::new("/proc").join(self.holder.pid().to_string()).join("ns/net")))
    }

    fn ip(&self, arguments: &[&str]) -> Result<(), Error> {
        process::output(self.place().command("ip").args(arguments)).map(drop)
    }

    fn tc(&self, arguments: &[&str]) -> Result<(), Error> {
        process::output(self.place().command("tc").args(arguments)).map(drop)
    }
}

fn namespace_of(process: &str) -> std::io::Result<PathBuf> {
    std::fs::read_link(Path::new("/proc").join(process).join("ns/net"))
}

/// Hosts on a bridge. The lab's clients are at the bridge itself, [`Network::clients`].
#[derive(Debug)]
pub struct Network {
    hosts: Vec<Namespace>,
    hub: Namespace,
}

/// Which way a link is limited, seen from the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// What others send to the host.
    ToHost,
    /// What the host sends.
    FromHost,
}

/// A link's limits: a token bucket (tc-tbf(8)) that drops what does not fit its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Kilobits a second.
    pub rate_kbit: u32,
    /// What may be sent at once, in bytes; more than a packet.
    pub burst_bytes: u32,
    /// What may wait, in bytes; the rest is dropped.
    pub queue_bytes: u32,
}

impl Network {
    /// Makes a bridge and so many hosts on it, numbered from 1.
    pub fn make(site: &Path, hosts: u8) -> Result<Self, Error> {
        let hub = Namespace::make(site)?;
        hub.ip(&["link", "add", "name", BRIDGE, "type", "bridge"])?;
        let address = format!("{}/24", address(254));
        hub.ip(&["address", "add", &address, "dev", BRIDGE])?;
        hub.ip(&["link", "set", "dev", BRIDGE, "up"])?;
        let mut network = Self { hosts: Vec::new(), hub };
        for number in 1..=hosts {
            let host = Namespace::make(site)?;
            network.connect(&host, number)?;
            network.hosts.push(host);
        }
        Ok(network)
    }

    fn connect(&self, host: &Namespace, number: u8) -> Result<(), Error> {
        let (port, holder) = (port(number), host.holder.pid().to_string());
        self.hub
            .ip(&["link", "add", "name", &port, "type", "veth", "peer", "name", UPLINK, "netns", &holder])?;
        self.hub.ip(&["link", "set", "dev", &port, "master", BRIDGE, "up"])?;
        let address = format!("{}/24", address(number));
        host.ip(&["address", "add", &address, "dev", UPLINK])?;
        host.ip(&["link", "set", "dev", UPLINK, "up"])?;
        // Packets as a real link has them, of the MTU: what is dropped is one packet and not 64 KiB.
        for (place, interface) in [(self.hub.place(), port.as_str()), (host.place(), UPLINK)] {
            let mut ethtool = place.command("ethtool");
            process::output(ethtool.args(["-K", interface, "tso", "off", "gso", "off", "gro", "off"]))?;
        }
        Ok(())
    }

    /// Sets the largest packet of a host's link, at both of its ends and the bridge.
    pub fn set_mtu(&self, number: u8, bytes: u32) -> Result<(), Error> {
        let bytes = bytes.to_string();
        for way in [Way::ToHost, Way::FromHost] {
            let Some((namespace, interface)) = self.end(number, way) else {
                return Err(Error::Unusable(format!("no host {number}")));
            };
            namespace.ip(&["link", "set", "dev", &interface, "mtu", &bytes])?;
        }
        self.hub.ip(&["link", "set", "dev", BRIDGE, "mtu", &bytes])
    }

    /// A host's address.
    pub fn address(number: u8) -> Ipv4Addr {
        address(number)
    }

    /// Where a host's processes run; none where there is no such host.
    pub fn host(&self, number: u8) -> Option<Place> {
        self.hosts.get(usize::from(number).checked_sub(1)?).map(Namespace::place)
    }

    /// Where clients run.
    pub fn clients(&self) -> Place {
        self.hub.place()
    }

    /// Limits a host's link one way.
    pub fn limit(&self, number: u8, way: Way, limit: Limit) -> Result<(), Error> {
        let Some((namespace, interface)) = self.end(number, way) else {
            return Err(Error::Unusable(format!("no host {number}")));
        };
        let (rate, burst, queue) = (
            format!("{}kbit", limit.rate_kbit),
            limit.burst_bytes.to_string(),
            limit.queue_bytes.to_string(),
        );
        namespace.tc(&[
            "qdisc", "replace", "dev", &interface, "root", "tbf", "rate", &rate, "burst", &burst, "limit",
            &queue,
        ])
    }

    /// Takes a limit away.
    pub fn free(&self, number: u8, way: Way) -> Result<(), Error> {
        match self.end(number, way) {
            Some((namespace, interface)) => namespace.tc(&["qdisc", "del", "dev", &interface, "root"]),
            None => Ok(()),
        }
    }

    /// Packets that a limit has dropped so far.
    pub fn dropped(&self, number: u8, way: Way) -> Result<u64, Error> {
        let Some((namespace, interface)) = self.end(number, way) else { return Ok(0) };
        let mut command = namespace.place().command("tc");
        let said = process::output(command.args(["-s", "qdisc", "show", "dev", &interface, "root"]))?;
        Ok(parse_dropped(&said))
    }

    /// The end of a host's link that sends, this way.
    fn end(&self, number: u8, way: Way) -> Option<(&Namespace, String)> {
        let host = self.hosts.get(usize::from(number).checked_sub(1)?)?;
        Some(match way {
            Way::ToHost => (&self.hub, port(number)),
            Way::FromHost => (host, UPLINK.to_owned()),
        })
    }
}

/// Private to the namespaces; from what RFC 2544 sets aside for tests.
fn address(number: u8) -> Ipv4Addr {
    Ipv4Addr::new(198, 18, 0, number)
}

fn port(number: u8) -> String {
    format!("port{number}")
}

/// `Sent 1 bytes 2 pkt (dropped 3, overlimits 4 requeues 5)`.
fn parse_dropped(said: &str) -> u64 {
    let number = |rest: &str| rest.split(',').next()?.trim().parse().ok();
    said.split("(dropped ").nth(1).and_then(number).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_are_read_from_what_tc_says() {
        let said = "qdisc tbf 8001: rate 2Mbit burst 5Kb lat 10ms\n \
                    Sent 5000 bytes 12 pkt (dropped 7, overlimits 9 requeues 0)\n backlog 0b 0p requeues 0\n";
        assert_eq!(parse_dropped(said), 7);
        assert_eq!(parse_dropped("qdisc noqueue 0: root refcnt 2"), 0);
    }

    #[test]
    fn one_s_own_place_needs_no_entering() {
        Place::own().enter().unwrap();
        assert_eq!(Place::own().command("ip").get_program(), "ip");
    }
}
