//! A running `brokerscope export`.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::brokerscope;
use crate::prometheus::get;

/// Timeout for attaching, and for ending.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running export; ended when dropped.
#[derive(Debug)]
pub struct Export {
    child: Child,
    address: SocketAddr,
}

impl Export {
    /// Starts one with these arguments, with messages to a file of this name. It answers requests when this returns.
    ///
    /// # Panics
    /// If it does not.
    pub fn start(output_path: &Path, arguments: &[&str]) -> Self {
        Self::start_by(brokerscope::command(), output_path, arguments)
    }

    /// As [`Export::start`], by a command that ends with the binary.
    ///
    /// # Panics
    /// As [`Export::start`].
    pub fn start_by(mut brokerscope: Command, output_path: &Path, arguments: &[&str]) -> Self {
        let output = File::create(output_path).unwrap();
        brokerscope.args(["export", "--listen", "127.0.0.1:0"]).args(arguments);
        brokerscope.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut this = Self { child: brokerscope.spawn().expect("brokerscope starts"), address: nowhere };
        let end = Instant::now() + PATIENCE;
        while get(this.address, "/healthz").is_none_or(|(status, _)| status != 200) {
            let text = fs::read_to_string(output_path).unwrap_or_default();
            let ended = this.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "{brokerscope:?}: {text}");
            this.address = address_in(&text).unwrap_or(nowhere);
            sleep(Duration::from_millis(20));
        }
        this
    }

    /// Its address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Its metrics, as text.
    ///
    /// # Panics
    /// If it does not answer.
    pub fn metrics(&self) -> String {
        let (status, metrics) = get(self.address, "/metrics").expect("the export answers");
        assert_eq!(status, 200, "{metrics}");
        metrics
    }

    /// Ends it as systemd does.
    ///
    /// # Panics
    /// If it does not end.
    pub fn stop(mut self) {
        assert!(end(&mut self.child), "the export does not end");
    }
}

impl Drop for Export {
    fn drop(&mut self) {
        if !end(&mut self.child) {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// The address in its output.
fn address_in(output: &str) -> Option<SocketAddr> {
    let line = output.lines().find_map(|line| line.strip_prefix("http://"))?;
    line.strip_suffix("/metrics")?.parse().ok()
}

/// Signals it to end. Returns whether it did.
fn end(child: &mut Child) -> bool {
    let end = Instant::now() + PATIENCE;
    if child.try_wait().is_ok_and(|status| status.is_none()) {
        // Fails if it has already ended, which is fine.
        let _ = kill_process(traced(child), Signal::TERM);
    }
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < end => sleep(Duration::from_millis(20)),
            ended => return ended.is_ok_and(|status| status.is_some()),
        }
    }
}

/// The process that strace runs if `child` is strace, or `child` itself. strace ignores signals meant for the other.
fn traced(child: &Child) -> Pid {
    let own = child.id();
    let name = fs::read_to_string(format!("/proc/{own}/comm")).unwrap_or_default();
    let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
    let traced = children.split_whitespace().next().and_then(|pid| Pid::from_raw(pid.parse().ok()?));
    traced.filter(|_| name.trim() == "strace").unwrap_or_else(|| Pid::from_child(child))
}
