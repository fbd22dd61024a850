//! A network namespace with a veth pair that carries no other traffic. Needs root. Removed when dropped; one that a
//! killed run left behind is removed when the next is created.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, ensure};

const NAME: &str = "brokerscope-bench";
/// Packets sent to this end ...
pub(crate) const SENDING: &str = "bench-out";
/// ... arrive at this one.
pub(crate) const WATCHED: &str = "bench-in";

pub(crate) struct Namespace(&'static str);

impl Namespace {
    pub(crate) fn make() -> anyhow::Result<Self> {
        // Usually there is none to remove.
        remove();
        ip(&["netns", "add", NAME])?;
        let namespace = Self(NAME);
        ip(&["-n", NAME, "link", "add", SENDING, "type", "veth", "peer", "name", WATCHED])?;
        for end in [SENDING, WATCHED] {
            // Without an IPv6 address, the link carries nothing but what is sent.
            ip(&["-n", NAME, "link", "set", end, "addrgenmode", "none", "mtu", "1500", "up"])?;
        }
        Ok(namespace)
    }

    /// A command that runs a program inside.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", self.0]).arg(program);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        remove();
    }
}

/// Removes the namespace with its interfaces.
fn remove() {
    let _ = Command::new("ip").args(["netns", "delete", NAME]).stderr(Stdio::null()).status();
}

fn ip(arguments: &[&str]) -> anyhow::Result<()> {
    let output = Command::new("ip").args(arguments).output().context("cannot run ip (iproute2)")?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "ip {}: {} (live capture needs root)",
        arguments.join(" "),
        stderr.trim()
    );
    Ok(())
}
