//! The demo's user: runs `brokerscope record`, `explain` and `report` and says how they went.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::error::Error;
use crate::load::{Load, ProducerMetrics};
use crate::process::Process;
use crate::session::Interrupt;
use crate::session::Steps;

/// How much longer than asked a recording may take to attach and to finish its files.
const GRACE: Duration = Duration::from_secs(120);
/// How long an explanation may take.
const EXPLAINING: Duration = Duration::from_secs(120);

/// Runs brokerscope as a user would.
pub(super) struct Observer {
    /// The binary.
    pub(super) exe: PathBuf,
    /// How long to record.
    pub(super) seconds: u64,
    pub(super) interrupt: Interrupt,
    pub(super) steps: Steps,
}

impl Observer {
    /// Records the broker while `load` runs, then ends the load and says what the producers saw.
    ///
    /// # Errors
    /// When there is nothing to explain; a recorder that failed after it had written something is only
    /// reported.
    pub(super) fn record(
        &self,
        recording: &Path,
        pid: u32,
        site: &Path,
        mut load: Load,
    ) -> Result<(), Error> {
        let started = Instant::now();
        let seconds = format!("{}s", self.seconds);
        let mut command = Command::new(&self.exe);
        command.arg("record").arg("-o").arg(recording).args(["--for", &seconds, "--pid", &pid.to_string()]);
        self.steps.say(&format!("running `brokerscope record --for {seconds} --pid {pid}`"));
        // Its data goes to the recording; whatever it prints must not mix with the explanation's.
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut process = Process::spawn(&mut command, Some(site))?;
        load.measure();
        let limit = Duration::from_secs(self.seconds) + GRACE;
        let ended = self.wait(&mut process, limit, "brokerscope record", || load.check());
        if ended.is_err() {
            process.signal(Signal::INT);
        }
        self.tell(load.stop());
        self.interrupt.check()?;
        match ended {
            Err(error @ Error::Tool { .. }) if recording.is_dir() => {
                self.steps.say(&format!("{error}; explaining what there is"));
                Ok(())
            }
            Err(error) => Err(error),
            Ok(()) => {
                self.steps.took(started, &format!("recorded into {}", recording.display()));
                Ok(())
            }
        }
    }

    /// Shows the explanation on stdout.
    pub(super) fn explain(&self, recording: &Path, site: &Path) -> Result<(), Error> {
        let started = Instant::now();
        self.steps.say("running `brokerscope explain` on it");
        let mut command = Command::new(&self.exe);
        command.arg("explain").arg(recording).stdin(Stdio::null());
        let mut process = Process::spawn(&mut command, Some(site))?;
        self.wait(&mut process, EXPLAINING, "brokerscope explain", || Ok(()))?;
        self.steps.took(started, "explained");
        Ok(())
    }

    /// Writes a page of the recording.
    ///
    /// # Errors
    /// When it was not written.
    pub(super) fn report(&self, recording: &Path, page: &Path, site: &Path) -> Result<(), Error> {
        let started = Instant::now();
        let mut command = Command::new(&self.exe);
        command.arg("report").arg(recording).arg("-o").arg(page).arg("--quiet").stdin(Stdio::null());
        let mut process = Process::spawn(&mut command, Some(site))?;
        self.wait(&mut process, EXPLAINING, "brokerscope report", || Ok(()))?;
        self.steps.took(started, &format!("the same as a page: open {} in a browser", page.display()));
        Ok(())
    }

    /// What the producers saw, for comparison; nothing when they ended before their second report.
    fn tell(&self, measured: ProducerMetrics) {
        if measured.records > 0 {
            self.steps.say(&format!(
                "the producers themselves saw {:.1} ms on average and {:.0} ms at worst over {} records",
                measured.mean_ms, measured.max_ms, measured.records
            ));
        }
    }

    fn wait(
        &self,
        process: &mut Process,
        limit: Duration,
        what: &str,
        mut meanwhile: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let ready = || {
            meanwhile()?;
            process.ended()
        };
        let late = || Error::TooSlow { what: what.to_owned(), limit, hint: String::new() };
        let status = self.interrupt.wait(limit, ready, late)?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Tool { tool: what.to_owned(), said: format!("{status} (its own words are above)") })
    }
}
