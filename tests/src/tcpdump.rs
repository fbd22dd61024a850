//! A capture by tcpdump, which shares no code with what is judged.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::first::ahead;

/// Timeout for it to listen.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running tcpdump on the loopback interface; killed when dropped.
#[derive(Debug)]
pub struct Tcpdump {
    child: Child,
    log_path: PathBuf,
}

impl Tcpdump {
    /// Starts writing all of a port's packets to `capture`. Messages go to `capture`.txt. It is listening when this
    /// returns.
    ///
    /// # Panics
    /// If tcpdump is missing or may not capture.
    pub fn start(capture: &Path, port: u16) -> Self {
        let log_path = capture.with_extension("txt");
        let mut tcpdump = Command::new("tcpdump");
        tcpdump
            // 64 MiB of buffer, because the two CPUs also run a broker and five clients.
            .args(["-i", "lo", "-s", "0", "-B", "65536", "-U", "-Z", "root", "--time-stamp-precision=nano"])
            .arg("-w")
            .arg(capture)
            .arg(format!("tcp port {port}"));
        tcpdump.stderr(File::create(&log_path).unwrap()).stdin(Stdio::null());
        let child = ahead(|| tcpdump.spawn()).expect("tcpdump starts (Debian: apt-get install tcpdump)");
        let mut this = Self { child, log_path };
        let end = Instant::now() + PATIENCE;
        while !this.log().contains("listening on") {
            let ended = this.child.try_wait().unwrap();
            assert!(ended.is_none() && Instant::now() < end, "tcpdump: {}", this.log());
            sleep(Duration::from_millis(20));
        }
        this
    }

    /// Ends the capture.
    ///
    /// # Panics
    /// If packets were dropped: such a capture proves nothing.
    pub fn stop(mut self) {
        // Arrived packets are in the ring; tcpdump reads them before it checks for signals again.
        sleep(Duration::from_millis(300));
        signal(&self.child, Signal::INT);
        self.child.wait().unwrap();
        let log = self.log();
        assert!(log.contains("\n0 packets dropped by kernel"), "a capture that lacks packets: {log}");
    }

    fn log(&self) -> String {
        std::fs::read_to_string(&self.log_path).unwrap_or_default()
    }
}

impl Drop for Tcpdump {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends a signal to a child that was not yet waited for.
///
/// # Panics
/// If the kernel refuses.
pub fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}
