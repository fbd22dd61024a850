//! The load that runs all the time, and the windows that are cut out of it.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;

use anyhow::{Context as _, ensure};

use super::PACE;
use super::treatment::Treatment;
use super::window::{Accounts, LENGTH, Window};
use crate::kernel::latencies::Quantiles;
use crate::kernel::stage::Stage;

/// A producer at an even rate; ended when dropped.
pub(super) struct PacedLoad {
    child: Child,
    commands: ChildStdin,
    answers: Lines<BufReader<ChildStdout>>,
}

impl PacedLoad {
    pub(super) fn start(stage: &Stage, records: u64, rate: u64, connections: usize) -> anyhow::Result<Self> {
        let numbers = [u64::from(stage.port()), stage.partitions().into(), records, rate, connections as u64];
        let mut child = Command::new(std::env::current_exe()?)
            .arg(PACE)
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

    /// Measures one window, in which these processes watch.
    pub(super) fn window(
        &mut self,
        stage: &Stage,
        treatment: Option<Treatment>,
        watchers: &[u32],
    ) -> anyhow::Result<Window> {
        let before = Accounts::read(stage.pid(), self.child.id(), watchers)?;
        self.say("begin")?;
        sleep(LENGTH);
        self.say("end")?;
        let after = Accounts::read(stage.pid(), self.child.id(), watchers)?;
        let line = self.answers.next().context("the producer failed")??;
        Ok(Window::between(&before, after, Quantiles::parse(&line)?, treatment))
    }

    fn say(&mut self, command: &str) -> anyhow::Result<()> {
        writeln!(self.commands, "{command}").context("the producer has ended")
    }
}

impl Drop for PacedLoad {
    fn drop(&mut self) {
        // Both fail where it has ended, which is as well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
