//! An experiment whose next configuration follows from what was measured of those before. Runs are kept as those of every
//! experiment, so that it may be interrupted and goes on. What follows from what, others decide.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use super::run_log::RunSpec;
use super::schedule::{Estimate, roughly};
use super::setup::Setup;
use super::{ExperimentArguments, Lab, run_log};
use crate::error::Error;

/// An experiment in the middle.
pub(crate) struct Adaptive {
    lab: Lab,
    /// What all configurations are asked alike.
    asked: RunSpec,
    estimate: Estimate,
    /// How many runs are left at most.
    left: usize,
}

impl Adaptive {
    /// Goes on where it was; `first` is the configuration that is always run, and `most` bounds its runs in all.
    ///
    /// # Errors
    /// Where its directory holds another experiment, or one of other parameters.
    pub(crate) fn open(
        (name, directory): (&str, &str),
        first: Setup,
        (seconds, most): (u64, usize),
        arguments: &ExperimentArguments,
        brokerscope: Option<&Path>,
    ) -> Result<Self, Error> {
        let seconds = arguments.seconds.unwrap_or(seconds);
        let asked = RunSpec { setup: first, seconds, slo_ms: arguments.slo, seed: arguments.seed };
        let directory = arguments.keep.clone().unwrap_or_else(|| PathBuf::from(directory));
        let lab = Lab::open(name, &directory, vec![asked.clone()], arguments, brokerscope)?;
        let (estimate, done) = (lab.estimate(), lab.run_log.runs.len());
        let adaptive = Self { lab, asked, estimate, left: most.saturating_sub(done) };
        adaptive.announce(most, done);
        Ok(adaptive)
    }

    fn announce(&self, most: usize, done: usize) {
        for line in self.lab.about().lines() {
            self.say(line);
        }
        let done = if done > 0 { format!(", {done} of them done") } else { String::new() };
        self.say(&format!(
            "{most} runs at most{done}; {} at most (Ctrl-C at any time: the same command goes on); results in {}",
            roughly(self.estimate.of_runs(self.left)),
            self.lab.directory.display()
        ));
    }

    /// A line for people.
    pub(crate) fn say(&self, line: &str) {
        self.lab.steps.say(line);
    }

    /// So many runs will not be needed.
    pub(crate) fn forgo(&mut self, runs: usize) {
        self.left = self.left.saturating_sub(runs);
    }

    /// Sees to it that a configuration has been run so often in all. One failure is forgiven.
    ///
    /// # Errors
    /// Where it cannot be run; what was measured is kept.
    pub(crate) fn measure(&mut self, setup: &Setup, what: &str, runs: u32) -> Result<(), Error> {
        let asked = RunSpec { setup: setup.clone(), ..self.asked.clone() };
        for repetition in
            (1..=runs).filter(|repetition| !self.lab.run_log.has(&setup.id, *repetition)).collect::<Vec<_>>()
        {
            self.say(&format!(
                "run: {what} ({repetition} of {runs}); {} left at most",
                roughly(self.estimate.of_runs(self.left))
            ));
            let started = Instant::now();
            if let Err(error) = self.lab.run_once(&asked, repetition) {
                self.lab.interrupt.check()?;
                self.say(&format!("  failed, and is tried once more: {error}"));
                self.lab.run_once(&asked, repetition)?;
            }
            if let Some(why) = self.lab.run_log.left_out.get(&setup.name) {
                return Err(Error::Unusable(format!("{what} cannot be set up: {why}")));
            }
            self.estimate.learn(started.elapsed());
            self.forgo(1);
        }
        Ok(())
    }

    /// Records a second of a configuration's runs, in their order.
    pub(crate) fn records_per_s(&self, id: &str) -> Vec<f64> {
        self.lab.run_log.of(id).iter().map(|done| done.measured.records_per_s).collect()
    }

    /// What `advise` says of the first recording of a configuration, as lines of JSON; requests that took so long are judged.
    pub(crate) fn advise(&self, id: &str, slower_than_ms: u64) -> Result<String, Error> {
        let recording = run_log::recording(&self.lab.directory, id, 1);
        self.lab.observer.advise(
            &recording,
            slower_than_ms,
            &self.lab.directory.join(id).join("advice.jsonl"),
        )
    }

    /// What `compare` says of two configurations, as lines of JSON.
    pub(crate) fn compare(&self, before: &str, after: &str) -> Result<String, Error> {
        let of = |id: &str| self.lab.directory.join(id);
        let slo = format!("{}ms", self.asked.slo_ms);
        let further = ["--format", "json", "--slo", &slo].map(OsStr::new);
        self.lab.observer.compare(&[of(before), of(after)], &further, &of(after).join("compared.jsonl"))
    }

    /// Says what came of it all, keeps that beside the runs, and compares configurations, each with a name and a sentence.
    pub(crate) fn conclude(
        &self,
        results: &str,
        configurations: &[(String, String, Option<String>)],
        arguments: &ExperimentArguments,
    ) -> Result<(), Error> {
        let named: Result<Vec<PathBuf>, Error> =
            configurations.iter().map(|(id, name, note)| self.name(id, name, note.as_deref())).collect();
        self.lab.finish(results, &named?, arguments)
    }

    fn name(&self, id: &str, name: &str, note: Option<&str>) -> Result<PathBuf, Error> {
        let directory = self.lab.directory.join(id);
        let about = self.lab.about().replace('\n', "; ");
        let note = if id == self.asked.setup.id { Some(about.as_str()) } else { note };
        write_about(&directory, name, note)?;
        Ok(directory)
    }
}

/// Beside a configuration's recordings: what `compare` calls it.
pub(super) fn write_about(directory: &Path, name: &str, note: Option<&str>) -> Result<(), Error> {
    let path = directory.join("configuration.json");
    let text = json!({"name": name, "note": note});
    fs::write(&path, format!("{text:#}\n")).map_err(Error::io("write", &path))
}
