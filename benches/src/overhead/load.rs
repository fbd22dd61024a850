//! The load that runs all the time, and the windows measured in it.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;

use anyhow::{Context as _, ensure};
use lab::client::Endpoint;

use super::treatment::Treatment;
use super::window::{Accounts, LENGTH, Window};
use super::{PACE, Shape};
use crate::kernel::latencies::Quantiles;
use crate::kernel::test_bed::TestBed;

/// A producer; ended when dropped.
pub(super) struct PacedLoad {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl PacedLoad {
    pub(super) fn start(bed: &TestBed, shape: Shape) -> anyhow::Result<Self> {
        let Shape { records, rate, connections, .. } = shape;
        let Endpoint { address, is_tls } = bed.endpoint();
        let numbers = [bed.partitions().into(), records, rate, connections as u64];
        let mut child = Command::new(std::env::current_exe()?)
            .args([PACE, &address.port().to_string(), &is_tls.to_string()])
            .args(numbers.map(|number| number.to_string()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let commands = child.stdin.take().context("no pipe")?;
        let mut answers = BufReader::new(child.stdout.take().context("no pipe")?).lines();
        let ready = answers.next().context("the producer did not begin")??;
        ensure!(ready == "ready", "the producer said {ready}");
        Ok(Self { child, commands, answers })
    }

    /// Measures one window while these processes watch.
    pub(super) fn window(
        &mut self,
        bed: &TestBed,
        treatment: Option<Treatment>,
        watchers: &[u32],
    ) -> anyhow::Result<Window> {
        let before = Accounts::read(bed.pid(), self.child.id(), watchers)?;
        self.begin()?;
        sleep(LENGTH);
        self.end()?;
        let after = Accounts::read(bed.pid(), self.child.id(), watchers)?;
        Ok(Window::between(&before, after, self.read_quantiles()?, treatment))
    }

    pub(super) fn begin(&mut self) -> anyhow::Result<()> {
        self.send_command("begin")
    }

    pub(super) fn end(&mut self) -> anyhow::Result<()> {
        self.send_command("end")
    }

    /// The latencies of requests that were due between the last begin and end.
    pub(super) fn read_quantiles(&mut self) -> anyhow::Result<Quantiles> {
        Quantiles::parse(&self.answers.next().context("the producer failed")??)
    }

    fn send_command(&mut self, command: &str) -> anyhow::Result<()> {
        writeln!(self.commands, "{command}").context("the producer has ended")
    }
}

impl Drop for PacedLoad {
    fn drop(&mut self) {
        // Both fail if it has already ended, which is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
