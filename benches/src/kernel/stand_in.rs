//! A stand-in process that looks like a broker: for measurements on one that only writes, or does nothing.

use std::ffi::OsStr;
use std::fs;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context as _, ensure};

use super::test_bed::TestBed;

/// Runs until it is dropped, or ends by itself after [`StandIn::go_on`].
pub(crate) struct StandIn(Child);

impl StandIn {
    /// Starts this binary with these arguments under a broker's name. It also has a broker's main class and properties.
    /// It must wait until its standard input is closed.
    pub(crate) fn start(
        bed: &TestBed,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> anyhow::Result<Self> {
        let properties = bed.path("stand-in.properties");
        let text = format!("log.dirs={}\nlisteners=PLAINTEXT://127.0.0.1:1\n", bed.path("").display());
        fs::write(&properties, text).with_context(|| properties.display().to_string())?;
        let child = Command::new(std::env::current_exe()?)
            .arg0("java")
            .args(arguments)
            .arg("kafka.Kafka")
            .arg(&properties)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        Ok(Self(child))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Closes its standard input, waits until it has ended and returns its output.
    pub(crate) fn go_on(&mut self) -> anyhow::Result<String> {
        drop(self.0.stdin.take());
        let mut output = String::new();
        self.0.stdout.take().context("no pipe")?.read_to_string(&mut output)?;
        let status = self.0.wait()?;
        ensure!(status.success(), "what stands in for a broker ended with {status}");
        Ok(output)
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Does nothing until standard input is closed.
pub(crate) fn idle() -> anyhow::Result<()> {
    std::io::stdin().lock().read_to_end(&mut Vec::new())?;
    Ok(())
}
