//! An experiment on several configurations of a broker: every run on a fresh file system, recorded by brokerscope, one
//! configuration after the other and then all over again; in the end `compare` says what made a difference.
//!
//! It may be interrupted at any time: what was measured to its end is kept and not done again. It knows nothing of what
//! the configurations are about: `fs` and `tune` are tables of them.

mod adaptive;
mod load;
mod machine;
mod run_log;
mod schedule;
pub(crate) mod setup;
mod summary;
mod test_bed;

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::kafka::Kafka;
use crate::observer::Observer;
use crate::session::{Interrupt, Session, Steps};
use crate::site;

pub(crate) use adaptive::Adaptive;
use machine::Machine;
use run_log::{FinishedRun, RunLog, RunSpec};
use schedule::{Estimate, Run, roughly};
pub use setup::ExperimentArguments;
use setup::Setup;
pub(crate) use summary::median;
use test_bed::{Context, Outcome, RunData};

/// Where a recording is until its run has been measured to its end; hidden, so that it is no configuration.
const UNFINISHED: &str = ".unfinished";

/// What is to be found out.
pub(crate) struct Experiment {
    /// The subcommand: `fs`.
    pub(crate) name: &'static str,
    /// Where it is kept unless told otherwise.
    pub(crate) directory: &'static str,
    /// The first is what the others are compared with.
    pub(crate) setups: Vec<Setup>,
    /// How long each run is measured unless told otherwise.
    pub(crate) seconds: u64,
    /// Have requests that took so long explained, milliseconds: what took their time is said of the next step.
    pub(crate) explained_ms: Option<u64>,
}

/// Runs what is left of an experiment, and compares.
///
/// # Errors
/// Where runs failed, or were interrupted: what was measured is kept.
pub(crate) fn run(
    experiment: Experiment,
    arguments: &ExperimentArguments,
    brokerscope: Option<&Path>,
) -> Result<(), Error> {
    let setups = chosen(experiment.setups, &arguments.only)?;
    if arguments.list {
        let listed = setups.iter().map(|setup| format!("{:<24} {}\n", setup.id, setup.name));
        return print(&listed.collect::<String>());
    }
    let asked: Vec<RunSpec> = setups
        .into_iter()
        .map(|setup| RunSpec {
            setup,
            seconds: arguments.seconds.unwrap_or(experiment.seconds),
            slo_ms: arguments.slo,
            seed: arguments.seed,
        })
        .collect();
    let directory = arguments.keep.clone().unwrap_or_else(|| PathBuf::from(experiment.directory));
    let mut lab = Lab::open(experiment.name, &directory, asked, arguments, brokerscope)?;
    lab.explained_ms = experiment.explained_ms;
    let failed = lab.run_all(arguments.repetitions)?;
    lab.conclude(arguments)?;
    match failed {
        0 => Ok(()),
        count => Err(Error::Unusable(format!("{count} run(s) failed; the same command tries them again"))),
    }
}

/// An experiment in the middle.
struct Lab {
    steps: Steps,
    interrupt: Interrupt,
    observer: Observer,
    kafka: Kafka,
    directory: PathBuf,
    asked: Vec<RunSpec>,
    run_log: RunLog,
    explained_ms: Option<u64>,
}

impl Lab {
    fn open(
        name: &str,
        directory: &Path,
        asked: Vec<RunSpec>,
        arguments: &ExperimentArguments,
        brokerscope: Option<&Path>,
    ) -> Result<Self, Error> {
        let (Session { steps, interrupt }, observer) = Session::start(brokerscope)?;
        let kafka = Kafka::prepare(&arguments.kafka, steps)?;
        let directory = std::path::absolute(directory).map_err(Error::io("resolve", directory))?;
        fs::create_dir_all(&directory).map_err(Error::io("make", &directory))?;
        if arguments.fresh {
            run_log::forget(&directory)?;
        }
        let machine = Machine::here(&kafka, &site::cache()?);
        let run_log = RunLog::open(&directory, name, machine, &asked)?;
        Ok(Self { steps, interrupt, observer, kafka, directory, asked, run_log, explained_ms: None })
    }

    /// Runs what has not been; returns how many runs failed.
    fn run_all(&mut self, repetitions: u32) -> Result<usize, Error> {
        let order = schedule::order(self.asked.len(), repetitions);
        let count = order.len();
        let left: Vec<Run> = order.into_iter().filter(|run| !self.has(*run)).collect();
        let mut estimate = self.estimate();
        self.announce(count, left.len(), &estimate);
        let mut failed = 0;
        for (done, &run) in left.iter().enumerate() {
            let Some(asked) = self.asked.get(run.setup).cloned() else { continue };
            if self.run_log.left_out.contains_key(&asked.setup.name) {
                continue;
            }
            self.steps.say(&format!(
                "run {} of {count}, {} ({} of {repetitions}); {} left",
                count - left.len() + done + 1,
                asked.setup.name,
                run.repetition,
                roughly(estimate.of_runs(left.len() - done))
            ));
            let started = Instant::now();
            match self.run_once(&asked, run.repetition) {
                Ok(()) => estimate.learn(started.elapsed()),
                Err(error) => {
                    self.interrupt.check()?;
                    self.steps.say(&format!("  failed: {error}"));
                    failed += 1;
                }
            }
        }
        Ok(failed)
    }

    fn has(&self, run: Run) -> bool {
        self.asked.get(run.setup).is_some_and(|asked| self.run_log.has(&asked.setup.id, run.repetition))
    }

    fn estimate(&self) -> Estimate {
        let load = Duration::from_secs(self.asked.first().map_or(0, |asked| asked.seconds));
        let took = self.run_log.runs.iter().map(|done| Duration::from_secs_f64(done.took_s.clamp(0.0, 1e6)));
        Estimate::of(load, took.collect())
    }

    /// What it will be, before it begins.
    fn announce(&self, count: usize, left: usize, estimate: &Estimate) {
        for line in self.about().lines() {
            self.steps.say(line);
        }
        let done = if left < count { format!(", {} of them done", count - left) } else { String::new() };
        self.steps.say(&format!(
            "{} configuration(s), {count} runs{done}; {} (Ctrl-C at any time: the same command goes on); results in {}",
            self.asked.len(),
            roughly(estimate.of_runs(left)),
            self.directory.display()
        ));
    }

    fn run_once(&mut self, asked: &RunSpec, repetition: u32) -> Result<(), Error> {
        let started = Instant::now();
        let unfinished = self.directory.join(UNFINISHED);
        make_empty(&unfinished)?;
        let recording = unfinished.join("recording");
        let context = Context { kafka: &self.kafka, observer: &self.observer, interrupt: &self.interrupt };
        match test_bed::run(asked, &recording, &context)? {
            Outcome::Impossible(why) => {
                self.steps.say(&format!("  left out: {why}"));
                self.run_log.left_out.insert(asked.setup.name.clone(), why);
            }
            Outcome::Measured(seen) => {
                let place = run_log::recording(&self.directory, &asked.setup.id, repetition);
                make_empty(&place)?;
                fs::rename(&recording, &place).map_err(Error::io("make", &place))?;
                let bottleneck = self.bottleneck(&place, &unfinished)?;
                let RunData { start_ns, measured, journal } = *seen;
                let (asked, took_s) = (asked.clone(), started.elapsed().as_secs_f64());
                let run = FinishedRun { asked, repetition, start_ns, took_s, measured, journal, bottleneck };
                self.run_log.runs.push(run);
            }
        }
        remove(&unfinished)?;
        self.run_log.write(&self.directory)
    }

    /// What took the time of a run's slow requests, where that is wanted.
    fn bottleneck(&self, recording: &Path, scratch: &Path) -> Result<Option<String>, Error> {
        let Some(slower_than_ms) = self.explained_ms else { return Ok(None) };
        let verdicts = scratch.join("verdicts.jsonl");
        let said = self.observer.explain(recording, slower_than_ms, &verdicts)?;
        Ok(summary::told(said.lines().last().unwrap_or_default(), slower_than_ms))
    }

    /// Says what came out of it, as far as it has been run.
    fn conclude(&self, arguments: &ExperimentArguments) -> Result<(), Error> {
        let setups: Vec<Setup> = self.asked.iter().map(|asked| asked.setup.clone()).collect();
        let table = summary::table(&self.run_log, &setups, arguments.slo);
        let measured = setups.iter().filter(|setup| !self.run_log.of(&setup.id).is_empty());
        let directories: Result<Vec<PathBuf>, Error> = measured.map(|setup| self.describe(setup)).collect();
        self.finish(&table, &directories?, arguments)
    }

    /// Prints the results, keeps them beside the runs, and compares configurations.
    fn finish(
        &self,
        results: &str,
        directories: &[PathBuf],
        arguments: &ExperimentArguments,
    ) -> Result<(), Error> {
        let text = format!("{}\n\n{results}", self.about());
        let path = self.directory.join("summary.txt");
        fs::write(&path, &text).map_err(Error::io("write", &path))?;
        print(&format!("{text}\n"))?;
        match directories {
            [] => Err(Error::Unusable("no run was measured to its end; the lines above say why".to_owned())),
            [_] => {
                self.steps.say("there is nothing to compare: one configuration was measured");
                Ok(())
            }
            directories => self.compare(directories, arguments),
        }
    }

    fn compare(&self, directories: &[PathBuf], arguments: &ExperimentArguments) -> Result<(), Error> {
        let started = Instant::now();
        let (slo, markdown) = (format!("{}ms", arguments.slo), self.directory.join("compare.md"));
        let mut further =
            vec![OsStr::new("--slo"), OsStr::new(&slo), OsStr::new("--md"), markdown.as_os_str()];
        further.extend(arguments.page.iter().flat_map(|page| [OsStr::new("-o"), page.as_os_str()]));
        print(&self.observer.compare(directories, &further, &self.directory.join("compare.txt"))?)?;
        self.steps.took(started, "compared");
        if let Some(page) = &arguments.page {
            self.steps.say(&format!("the same as a page: open {} in a browser", page.display()));
        }
        Ok(())
    }

    /// What it was done on and with.
    fn about(&self) -> String {
        let mut lines =
            vec![format!("lab {} on {}", self.run_log.experiment, self.run_log.machine.described())];
        if let Some(RunSpec { setup, seconds, .. }) = self.asked.first() {
            lines.push(format!("injected: {}", setup.ground.device_described()));
            lines.push(format!("load: {}; recorded for {seconds} s a run", setup.load.described()));
            let settings = setup.sysctls.iter();
            lines.extend(
                settings.map(|(name, value)| format!("meanwhile {name} = {value}, put back afterwards")),
            );
        }
        lines.push(
            "each run is recorded by `brokerscope record`, which costs all configurations alike".to_owned(),
        );
        lines.join("\n")
    }

    /// Names a configuration for `compare`, and says what the step before it was slow by; returns its directory.
    fn describe(&self, setup: &Setup) -> Result<PathBuf, Error> {
        let before = setup.builds_on.as_deref().map(|id| self.run_log.of(id)).unwrap_or_default();
        let seen = before.iter().find_map(|done| done.bottleneck.clone());
        // The base has nothing before it: it says what all were run on.
        let base = self.asked.first().is_some_and(|asked| asked.setup.id == setup.id);
        let note = seen
            .map(|seen| format!("before this step {seen}"))
            .or_else(|| base.then(|| self.about().replace('\n', "; ")));
        let directory = self.directory.join(&setup.id);
        adaptive::write_about(&directory, &setup.name, note.as_deref())?;
        Ok(directory)
    }
}

/// All, or those of these names.
fn chosen(setups: Vec<Setup>, only: &[String]) -> Result<Vec<Setup>, Error> {
    if let Some(name) = only.iter().find(|name| !setups.iter().any(|setup| setup.id == **name)) {
        let known: Vec<&str> = setups.iter().map(|setup| setup.id.as_str()).collect();
        return Err(Error::Unusable(format!(
            "no configuration is called {name}; there are {}",
            known.join(", ")
        )));
    }
    Ok(setups.into_iter().filter(|setup| only.is_empty() || only.contains(&setup.id)).collect())
}

fn make_empty(directory: &Path) -> Result<(), Error> {
    remove(directory)?;
    fs::create_dir_all(directory).map_err(Error::io("make", directory))
}

fn remove(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io("remove", directory)(error))
        }
        _ => Ok(()),
    }
}

/// Writes to stdout.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::system("write to stdout"))
}
