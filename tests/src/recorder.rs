//! A running `brokerscope record`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;

use crate::brokerscope;
use crate::first::ahead;
use crate::tcpdump::signal;

/// Timeout for attaching, and for finishing; what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// A running recorder; killed when dropped.
#[derive(Debug)]
pub struct Recorder {
    child: Child,
    directory: PathBuf,
    log_path: PathBuf,
}

impl Recorder {
    /// Starts recording the broker `pid` into `directory`, which is created. Messages go to `directory`.txt. It records
    /// when this returns.
    ///
    /// # Panics
    /// If it does not start recording.
    pub fn start(directory: &Path, pid: u32) -> Self {
        Self::start_with(directory, pid, &[])
    }

    /// As [`Recorder::start`], with further flags.
    ///
    /// # Panics
    /// As [`Recorder::start`].
    pub fn start_with(directory: &Path, pid: u32, flags: &[&str]) -> Self {
        Self::run(brokerscope::command(), directory, pid, flags)
    }

    /// As [`Recorder::start`], by a command that ends with the binary.
    ///
    /// # Panics
    /// As [`Recorder::start`].
    pub fn start_by(brokerscope: Command, directory: &Path, pid: u32) -> Self {
        Self::run(brokerscope, directory, pid, &[])
    }

    /// As [`Recorder::start_by`], with further flags.
    ///
    /// # Panics
    /// As [`Recorder::start_by`].
    pub fn start_by_with(brokerscope: Command, directory: &Path, pid: u32, flags: &[&str]) -> Self {
        Self::run(brokerscope, directory, pid, flags)
    }

    fn run(mut brokerscope: Command, directory: &Path, pid: u32, flags: &[&str]) -> Self {
        let log_path = directory.with_extension("txt");
        let output = File::create(&log_path).unwrap();
        brokerscope.arg("record").arg("-o").arg(directory).args(["--pid", &pid.to_string()]).args(flags);
        // The test must not depend on how much CPU time other processes leave to it.
        brokerscope.stdin(Stdio::null()).stdout(output.try_clone().unwrap()).stderr(output);
        let child = ahead(|| brokerscope.spawn()).expect("brokerscope starts");
        let mut this = Self { child, directory: directory.to_owned(), log_path };
        let end = Instant::now() + PATIENCE;
        while !this.records() {
            let exit_status = this.child.try_wait().unwrap();
            assert!(exit_status.is_none() && Instant::now() < end, "the recorder: {}", this.log());
            sleep(Duration::from_millis(20));
        }
        this
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether it records: the manifest is written when everything is attached.
    fn records(&self) -> bool {
        self.directory.join("manifest.json").exists()
    }

    /// Ends it as Ctrl-C does.
    ///
    /// # Panics
    /// If it does not end with status 0.
    pub fn stop(mut self) {
        signal(&self.child, Signal::INT);
        let status = self.wait_for_exit();
        assert!(status.success(), "the recorder ended with {status}: {}", self.log());
    }

    /// Waits until it ends by itself, and returns its output.
    ///
    /// # Panics
    /// If it does not, or not with status 0.
    pub fn end(mut self) -> String {
        let status = self.wait_for_exit();
        assert!(status.success(), "the recorder ended with {status}: {}", self.log());
        self.log()
    }

    /// Kills it. Returns the time before the kill, in UTC nanoseconds.
    ///
    /// # Panics
    /// If it had ended before.
    pub fn kill(mut self) -> i64 {
        assert!(self.child.try_wait().unwrap().is_none(), "the recorder ended by itself: {}", self.log());
        let before = now_ns();
        signal(&self.child, Signal::KILL);
        self.wait_for_exit();
        before
    }

    fn wait_for_exit(&mut self) -> ExitStatus {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < end, "the recorder does not end: {}", self.log());
            sleep(Duration::from_millis(20));
        }
    }

    fn log(&self) -> String {
        fs::read_to_string(&self.log_path).unwrap_or_default()
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The wall clock, UTC nanoseconds.
///
/// # Panics
/// Before 1970.
pub fn now_ns() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as i64
}
