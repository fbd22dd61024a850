//! An experiment on several configurations of a broker: every run has a fresh file system and is recorded by
//! brokerscope; at the end, `compare` reports what made a difference.
//!
//! Either the configurations are known from the start, and run one after the other and then all over again ([`run`]);
//! or the next follows from the measurements of earlier ones ([`Experiment::measure`]). It may be interrupted at any
//! time: finished runs are kept and not repeated. Does not know what the configurations are about.

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
use crate::session::{Observer, interrupt, print, print_elapsed, print_status, select};
use crate::site;

use run_log::{FinishedRun, Machine, RunLog, RunSpec};
use schedule::{Estimate, roughly};
pub(crate) use setup::ExperimentArguments;
use setup::Setup;
pub(crate) use summary::median;
use test_bed::{Outcome, RunData};

/// Where a recording is until its run is finished; hidden, so that it is not a configuration.
const UNFINISHED: &str = ".unfinished";

/// Declaration of an experiment.
pub(crate) struct Subject {
    /// The subcommand: `fs`.
    pub(crate) name: &'static str,
    /// Its default directory.
    pub(crate) directory: &'static str,
    /// Default measured time of each run.
    pub(crate) seconds: u64,
    /// If set, requests at least this slow are explained, in milliseconds; their causes are reported with the next
    /// step.
    pub(crate) explained_ms: Option<u64>,
}

/// A configuration's label in `compare`: its id, its name, and a note.
pub(crate) type Label = (String, String, Option<String>);

/// An experiment in progress.
pub(crate) struct Experiment<'a> {
    observer: Observer,
    kafka: Kafka,
    directory: PathBuf,
    arguments: &'a ExperimentArguments,
    explained_ms: Option<u64>,
    /// The parameters that all runs share. The configuration in it is the one that the others are compared with.
    base: RunSpec,
    run_log: RunLog,
    estimate: Estimate,
    /// Maximum number of runs left.
    left: usize,
}

/// Performs the remaining runs of an experiment. Compares the configurations with the first one.
///
/// # Errors
/// Runs failed or were interrupted; finished ones are kept.
pub(crate) fn run(
    subject: &Subject,
    setups: Vec<Setup>,
    arguments: &ExperimentArguments,
    brokerscope: Option<&Path>,
) -> Result<()> {
    let setups = select(setups, &arguments.only, "configuration", |setup| &setup.id)?;
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
    /// Continues where it stopped. These configurations are run in any case; the others are compared with the first
    /// one.
    ///
    /// # Errors
    /// Its directory holds another experiment, or one with other parameters.
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
        let specs: Vec<RunSpec> = setups.iter().map(spec).collect();
        let machine = Machine::here(&kafka, &site::cache()?);
        let run_log = RunLog::open(&directory, subject.name, machine, &specs)?;
        let nothing = || Error::Unusable("an experiment without a configuration".to_owned());
        Ok(Self {
            estimate: Estimate::of(Duration::from_secs(seconds), &run_log),
            base: specs.into_iter().next().ok_or_else(nothing)?,
            explained_ms: subject.explained_ms,
            left: 0,
            observer,
            kafka,
            directory,
            arguments,
            run_log,
        })
    }

    /// Performs the remaining runs; returns how many failed.
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
            print_status(&format!(
                "run {number} of {count}, {name} ({repetition} of {repetitions}); {left} left"
            ));
            if let Err(error) = self.run_once(setup, repetition) {
                interrupt().check()?;
                print_status(&format!("  failed: {error}"));
                failed += 1;
            }
        }
        Ok(failed)
    }

    /// Prints the plan before it starts: `most` runs, of which `done` are done; `bound` says whether there may be
    /// fewer.
    pub(crate) fn announce(&mut self, what: &str, bound: &str, done: usize, most: usize) {
        self.left = most.saturating_sub(done);
        for line in self.about().lines() {
            print_status(line);
        }
        let done = if done > 0 { format!(", {done} of them done") } else { String::new() };
        print_status(&format!(
            "{what}{bound}{done}; {}{bound} (Ctrl-C at any time: the same command goes on); results in {}",
            self.time_left(),
            self.directory.display()
        ));
    }

    fn time_left(&self) -> String {
        roughly(self.estimate.of_runs(self.left))
    }

    /// Number of finished runs.
    pub(crate) fn runs(&self) -> usize {
        self.run_log.runs.len()
    }

    /// Notes that this many runs will not be needed.
    pub(crate) fn forgo(&mut self, runs: usize) {
        self.left = self.left.saturating_sub(runs);
    }

    /// Makes sure that a configuration has been run `runs` times in all. Retries one failure.
    ///
    /// # Errors
    /// It cannot be run; finished runs are kept.
    pub(crate) fn measure(&mut self, setup: &Setup, what: &str, runs: u32) -> Result<()> {
        for repetition in 1..=runs {
            if self.run_log.has(&setup.id, repetition) {
                continue;
            }
            print_status(&format!("run: {what} ({repetition} of {runs}); {} left at most", self.time_left()));
            if let Err(error) = self.run_once(setup, repetition) {
                interrupt().check()?;
                print_status(&format!("  failed, and is tried once more: {error}"));
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
                print_status(&format!("  left out: {why}"));
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

    /// The causes that took the time of a run's slow requests, if configured.
    fn bottleneck(&self, recording: &Path, scratch: &Path) -> Result<Option<String>> {
        let Some(slower_than_ms) = self.explained_ms else { return Ok(None) };
        let verdicts = scratch.join("verdicts.jsonl");
        let output = self.observer.judge("explain", recording, slower_than_ms, &verdicts)?;
        Ok(summary::describe_bottleneck(output.lines().last().unwrap_or_default(), slower_than_ms))
    }

    /// Records per second of a configuration's runs, in order.
    pub(crate) fn records_per_s(&self, id: &str) -> Vec<f64> {
        self.run_log.of(id).iter().map(|done| done.measured.records_per_s).collect()
    }

    /// The output of `advise` for the first recording of a configuration. Lines of JSON, with verdicts on requests at
    /// least this slow.
    pub(crate) fn advise(&self, id: &str, slower_than_ms: u64) -> Result<String> {
        let recording = run_log::recording(&self.directory, id, 1);
        let output = self.directory.join(id).join("advice.jsonl");
        self.observer.judge("advise", &recording, slower_than_ms, &output)
    }

    /// The output of `compare` for two configurations, as lines of JSON.
    pub(crate) fn compare(&self, before: &str, after: &str) -> Result<String> {
        let mut command = self.comparison(&[before, after]);
        command.args(["--format", "json"]);
        session::capture_output(command, &self.directory.join(after).join("compared.jsonl"))
    }

    /// Compares configurations, the first one with all others.
    fn comparison(&self, ids: &[&str]) -> Command {
        let mut command = self.observer.command("compare");
        command.args(ids.iter().map(|id| self.directory.join(id)));
        command.args(["--slo", &format!("{}ms", self.arguments.slo)]);
        command
    }

    /// Prints the results, saves them next to the runs, and compares configurations.
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
                print_status("there is nothing to compare: one configuration was measured");
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
        print(&session::capture_output(command, &self.directory.join("compare.txt"))?)?;
        print_elapsed(started, "compared");
        if let Some(page) = &self.arguments.page {
            print_status(&format!("the same as a page: open {} in a browser", page.display()));
        }
        Ok(())
    }

    /// The experiment's environment.
    fn about(&self) -> String {
        let RunSpec { setup, seconds, .. } = &self.base;
        let mut lines = vec![
            format!("lab {} on {}", self.run_log.experiment, self.run_log.machine.describe()),
            format!("injected: {}", setup.ground.describe_device()),
            format!("load: {}; recorded for {seconds} s a run", setup.load.describe()),
        ];
        let settings = setup.sysctls.iter();
        lines
            .extend(settings.map(|(name, value)| format!("meanwhile {name} = {value}, put back afterwards")));
        lines.push(
            "each run is recorded by `brokerscope record`, which costs all configurations alike".to_owned(),
        );
        lines.join("\n")
    }

    /// Labels a configuration, with the bottleneck of the step before it.
    fn label(&self, setup: &Setup) -> Label {
        let before = setup.builds_on.as_deref().map(|id| self.run_log.of(id)).unwrap_or_default();
        let found = before.iter().find_map(|done| done.bottleneck.as_ref());
        (setup.id.clone(), setup.name.clone(), found.map(|found| format!("before this step {found}")))
    }

    /// Writes a configuration's label for `compare` next to its recordings. The base has no step before it: its note is
    /// the environment.
    fn write_label(&self, (id, name, note): &Label) -> Result<()> {
        let base = || (*id == self.base.setup.id).then(|| self.about().replace('\n', "; "));
        let text = json!({"name": name, "note": note.clone().or_else(base)});
        files::write(&self.directory.join(id).join("configuration.json"), format!("{text:#}\n"))
    }
}
