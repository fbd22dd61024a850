//! An experiment on several configurations of a broker: every run on a fresh file system, recorded by brokerscope; in the
//! end `compare` says what made a difference.
//!
//! The configurations are known from the beginning, and run one after the other and then all over again ([`run`]); or the
//! next follows from what was measured of those before ([`Experiment::measure`]). It may be interrupted at any time: what
//! was measured to its end is kept and not done again. It knows nothing of what the configurations are about.

mod run_log;
mod schedule;
pub(crate) mod setup;
mod summary;
mod test_bed;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::error::{Error, Result};
use crate::files;
use crate::kafka::Kafka;
use crate::session;
use crate::session::{Observer, chosen, interrupt, print, say, took};
use crate::site;

use run_log::{FinishedRun, Machine, RunLog, RunSpec};
use schedule::{Estimate, roughly};
pub(crate) use setup::ExperimentArguments;
use setup::Setup;
pub(crate) use summary::median;
use test_bed::{Outcome, RunData};

/// Where a recording is until its run has been measured to its end; hidden, so that it is no configuration.
const UNFINISHED: &str = ".unfinished";

/// What an experiment is.
pub(crate) struct Subject {
    /// The subcommand: `fs`.
    pub(crate) name: &'static str,
    /// Where it is kept unless told otherwise.
    pub(crate) directory: &'static str,
    /// How long each run is measured unless told otherwise.
    pub(crate) seconds: u64,
    /// Have requests that took so long explained, milliseconds: what took their time is said of the next step.
    pub(crate) explained_ms: Option<u64>,
}

/// What `compare` calls a configuration: its id, its name, and a sentence about it.
pub(crate) type Label = (String, String, Option<String>);

/// An experiment in the middle.
pub(crate) struct Experiment<'a> {
    observer: Observer,
    kafka: Kafka,
    directory: PathBuf,
    arguments: &'a ExperimentArguments,
    explained_ms: Option<u64>,
    /// What all configurations are asked alike, of the one that the others are compared with.
    base: RunSpec,
    run_log: RunLog,
    estimate: Estimate,
    /// How many runs are left, at most.
    left: usize,
}

/// Runs what is left of an experiment, and compares; the first configuration is what the others are compared with.
///
/// # Errors
/// Where runs failed, or were interrupted: what was measured is kept.
pub(crate) fn run(
    subject: &Subject,
    setups: Vec<Setup>,
    arguments: &ExperimentArguments,
    brokerscope: Option<&Path>,
) -> Result<()> {
    let setups = chosen(setups, &arguments.only, "configuration", |setup| &setup.id)?;
    if arguments.list {
        let listed = setups.iter().map(|setup| format!("{:<24} {}\n", setup.id, setup.name));
        return print(&listed.collect::<String>());
    }
    let mut experiment = Experiment::open(subject, &setups, arguments, brokerscope)?;
    let failed = experiment.run_all(&setups)?;
    let table = summary::table(&experiment.run_log, &setups, arguments.slo);
    let measured = setups.iter().filter(|setup| !experiment.run_log.of(&setup.id).is_empty());
    let labels: Vec<Label> = measured.map(|setup| experiment.label(setup)).collect();
    experiment.conclude(&table, &labels)?;
    match failed {
        0 => Ok(()),
        count => Err(Error::Unusable(format!("{count} run(s) failed; the same command tries them again"))),
    }
}

impl<'a> Experiment<'a> {
    /// Goes on where it was; these configurations are run in any case, the first of them is what others are compared with.
    ///
    /// # Errors
    /// Where its directory holds another experiment, or one of other parameters.
    pub(crate) fn open(
        subject: &Subject,
        setups: &[Setup],
        arguments: &'a ExperimentArguments,
        brokerscope: Option<&Path>,
    ) -> Result<Self> {
        let observer = session::start(brokerscope)?;
        let kafka = Kafka::prepare(&arguments.kafka)?;
        let directory = arguments.keep.clone().unwrap_or_else(|| PathBuf::from(subject.directory));
        let directory = std::path::absolute(&directory).map_err(Error::io("resolve", &directory))?;
        files::make(&directory)?;
        if arguments.fresh {
            run_log::forget(&directory)?;
        }
        let seconds = arguments.seconds.unwrap_or(subject.seconds);
        let spec = |setup: &Setup| RunSpec {
            setup: setup.clone(),
            seconds,
            slo_ms: arguments.slo,
            seed: arguments.seed,
        };
        let asked: Vec<RunSpec> = setups.iter().map(spec).collect();
        let machine = Machine::here(&kafka, &site::cache()?);
        let run_log = RunLog::open(&directory, subject.name, machine, &asked)?;
        let nothing = || Error::Unusable("an experiment without a configuration".to_owned());
        Ok(Self {
            estimate: Estimate::of(Duration::from_secs(seconds), &run_log),
            base: asked.into_iter().next().ok_or_else(nothing)?,
            explained_ms: subject.explained_ms,
            left: 0,
            observer,
            kafka,
            directory,
            arguments,
            run_log,
        })
    }

    /// Runs what has not been; returns how many runs failed.
    fn run_all(&mut self, setups: &[Setup]) -> Result<usize> {
        let repetitions = self.arguments.repetitions;
        let mut runs = schedule::order(setups, repetitions);
        let count = runs.len();
        runs.retain(|(setup, repetition)| !self.run_log.has(&setup.id, *repetition));
        let what = format!("{} configuration(s), {count} runs", setups.len());
        self.announce(&what, "", count - runs.len(), count);
        let mut failed = 0;
        for (done, (setup, repetition)) in (count - runs.len()..).zip(runs) {
            self.left = count - done;
            if self.run_log.left_out.contains_key(&setup.name) {
                continue;
            }
            let (number, name, left) = (done + 1, &setup.name, self.time_left());
            say(&format!("run {number} of {count}, {name} ({repetition} of {repetitions}); {left} left"));
            if let Err(error) = self.run_once(setup, repetition) {
                interrupt().check()?;
                say(&format!("  failed: {error}"));
                failed += 1;
            }
        }
        Ok(failed)
    }

    /// Says what it will be, before it begins: `most` runs, of which so many are done; `bound` says whether there may be
    /// fewer.
    pub(crate) fn announce(&mut self, what: &str, bound: &str, done: usize, most: usize) {
        self.left = most.saturating_sub(done);
        for line in self.about().lines() {
            say(line);
        }
        let done = if done > 0 { format!(", {done} of them done") } else { String::new() };
        say(&format!(
            "{what}{bound}{done}; {}{bound} (Ctrl-C at any time: the same command goes on); results in {}",
            self.time_left(),
            self.directory.display()
        ));
    }

    fn time_left(&self) -> String {
        roughly(self.estimate.of_runs(self.left))
    }

    /// How many runs have been made.
    pub(crate) fn runs(&self) -> usize {
        self.run_log.runs.len()
    }

    /// So many runs will not be needed.
    pub(crate) fn forgo(&mut self, runs: usize) {
        self.left = self.left.saturating_sub(runs);
    }

    /// Sees to it that a configuration has been run so often in all. One failure is forgiven.
    ///
    /// # Errors
    /// Where it cannot be run; what was measured is kept.
    pub(crate) fn measure(&mut self, setup: &Setup, what: &str, runs: u32) -> Result<()> {
        for repetition in 1..=runs {
            if self.run_log.has(&setup.id, repetition) {
                continue;
            }
            say(&format!("run: {what} ({repetition} of {runs}); {} left at most", self.time_left()));
            if let Err(error) = self.run_once(setup, repetition) {
                interrupt().check()?;
                say(&format!("  failed, and is tried once more: {error}"));
                self.run_once(setup, repetition)?;
            }
            if let Some(why) = self.run_log.left_out.get(&setup.name) {
                return Err(Error::Unusable(format!("{what} cannot be set up: {why}")));
            }
            self.forgo(1);
        }
        Ok(())
    }

    fn run_once(&mut self, setup: &Setup, repetition: u32) -> Result<()> {
        let started = Instant::now();
        let unfinished = self.directory.join(UNFINISHED);
        files::make_empty(&unfinished)?;
        let recording = unfinished.join("recording");
        let asked = RunSpec { setup: setup.clone(), ..self.base.clone() };
        match test_bed::run(&asked, &recording, &self.kafka, &self.observer)? {
            Outcome::Impossible(why) => {
                say(&format!("  left out: {why}"));
                self.run_log.left_out.insert(setup.name.clone(), why);
            }
            Outcome::Measured(RunData { start_ns, measured, journal }) => {
                let place = run_log::recording(&self.directory, &setup.id, repetition);
                files::make_empty(&place)?;
                std::fs::rename(&recording, &place).map_err(Error::io("make", &place))?;
                let bottleneck = self.bottleneck(&place, &unfinished)?;
                let took_s = started.elapsed().as_secs_f64();
                let run = FinishedRun { asked, repetition, start_ns, took_s, measured, journal, bottleneck };
                self.run_log.runs.push(run);
            }
        }
        self.estimate.took.push(started.elapsed());
        files::remove(&unfinished)?;
        self.run_log.write(&self.directory)
    }

    /// What took the time of a run's slow requests, where that is wanted.
    fn bottleneck(&self, recording: &Path, scratch: &Path) -> Result<Option<String>> {
        let Some(slower_than_ms) = self.explained_ms else { return Ok(None) };
        let verdicts = scratch.join("verdicts.jsonl");
        let said = self.observer.judge("explain", recording, slower_than_ms, &verdicts)?;
        Ok(summary::told(said.lines().last().unwrap_or_default(), slower_than_ms))
    }

    /// Records a second of a configuration's runs, in their order.
    pub(crate) fn records_per_s(&self, id: &str) -> Vec<f64> {
        self.run_log.of(id).iter().map(|done| done.measured.records_per_s).collect()
    }

    /// What `advise` says of the first recording of a configuration, as lines of JSON; requests that took so long are judged.
    pub(crate) fn advise(&self, id: &str, slower_than_ms: u64) -> Result<String> {
        let recording = run_log::recording(&self.directory, id, 1);
        let said = self.directory.join(id).join("advice.jsonl");
        self.observer.judge("advise", &recording, slower_than_ms, &said)
    }

    /// What `compare` says of two configurations, as lines of JSON.
    pub(crate) fn compare(&self, before: &str, after: &str) -> Result<String> {
        let mut command = self.comparison(&[before, after]);
        command.args(["--format", "json"]);
        session::ask(command, &self.directory.join(after).join("compared.jsonl"))
    }

    /// Compares configurations, the first with all others.
    fn comparison(&self, ids: &[&str]) -> Command {
        let mut command = self.observer.command("compare");
        command.args(ids.iter().map(|id| self.directory.join(id)));
        command.args(["--slo", &format!("{}ms", self.arguments.slo)]);
        command
    }

    /// Prints what came of it all, keeps that beside the runs, and compares configurations.
    pub(crate) fn conclude(&self, results: &str, labels: &[Label]) -> Result<()> {
        for label in labels {
            self.write_label(label)?;
        }
        let text = format!("{}\n\n{results}", self.about());
        files::write(&self.directory.join("summary.txt"), &text)?;
        print(&format!("{text}\n"))?;
        match labels {
            [] => Err(Error::Unusable("no run was measured to its end; the lines above say why".to_owned())),
            [_] => {
                say("there is nothing to compare: one configuration was measured");
                Ok(())
            }
            labels => self.compare_all(&labels.iter().map(|(id, ..)| id.as_str()).collect::<Vec<_>>()),
        }
    }

    fn compare_all(&self, ids: &[&str]) -> Result<()> {
        let started = Instant::now();
        let mut command = self.comparison(ids);
        command.arg("--md").arg(self.directory.join("compare.md"));
        if let Some(page) = &self.arguments.page {
            command.arg("-o").arg(page);
        }
        print(&session::ask(command, &self.directory.join("compare.txt"))?)?;
        took(started, "compared");
        if let Some(page) = &self.arguments.page {
            say(&format!("the same as a page: open {} in a browser", page.display()));
        }
        Ok(())
    }

    /// What it was done on and with.
    fn about(&self) -> String {
        let RunSpec { setup, seconds, .. } = &self.base;
        let mut lines = vec![
            format!("lab {} on {}", self.run_log.experiment, self.run_log.machine.described()),
            format!("injected: {}", setup.ground.device_described()),
            format!("load: {}; recorded for {seconds} s a run", setup.load.described()),
        ];
        let settings = setup.sysctls.iter();
        lines
            .extend(settings.map(|(name, value)| format!("meanwhile {name} = {value}, put back afterwards")));
        lines.push(
            "each run is recorded by `brokerscope record`, which costs all configurations alike".to_owned(),
        );
        lines.join("\n")
    }

    /// Names a configuration, and says what the step before it was slow by.
    fn label(&self, setup: &Setup) -> Label {
        let before = setup.builds_on.as_deref().map(|id| self.run_log.of(id)).unwrap_or_default();
        let seen = before.iter().find_map(|done| done.bottleneck.as_ref());
        (setup.id.clone(), setup.name.clone(), seen.map(|seen| format!("before this step {seen}")))
    }

    /// Beside a configuration's recordings: what `compare` calls it. The base has nothing before it: it says what all were
    /// run on.
    fn write_label(&self, (id, name, note): &Label) -> Result<()> {
        let base = || (*id == self.base.setup.id).then(|| self.about().replace('\n', "; "));
        let text = json!({"name": name, "note": note.clone().or_else(base)});
        files::write(&self.directory.join(id).join("configuration.json"), format!("{text:#}\n"))
    }
}
