//! Progress of an experiment, in `experiment.json` of its directory: an interrupted experiment continues where it
//! stopped, and one with other parameters is never mixed into it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::{Deserialize, Serialize};

use super::setup::Setup;
use super::test_bed::ClientMetrics;
use crate::error::{Error, Result};
use crate::kafka::Kafka;
use crate::{files, process};

const FILE: &str = "experiment.json";
/// Raised when the meaning of the file changes.
const VERSION: u32 = 1;

/// The whole log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RunLog {
    version: u32,
    /// `fs` or `tune`.
    pub(crate) experiment: String,
    pub(crate) machine: Machine,
    pub(crate) runs: Vec<FinishedRun>,
    /// Why configurations could not be set up here, by name.
    pub(crate) left_out: BTreeMap<String, String>,
}

/// Parameters of a run. A run counts as done only if the same ones are requested again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunSpec {
    pub(crate) setup: Setup,
    /// The measured time.
    pub(crate) seconds: u64,
    /// The latency that counts as a miss, in milliseconds.
    pub(crate) slo_ms: u64,
    /// The seed of the load.
    pub(crate) seed: u64,
}

/// A run that was measured to its end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct FinishedRun {
    pub(crate) asked: RunSpec,
    /// From 1 on.
    pub(crate) repetition: u32,
    /// Start of the measurement, UTC nanoseconds.
    pub(crate) start_ns: i64,
    /// Its duration, including setup and teardown.
    pub(crate) took_s: f64,
    /// The clients' measurements.
    pub(crate) measured: ClientMetrics,
    /// The kernel's statistics of the file system's journal.
    pub(crate) journal: Vec<String>,
    /// The causes that took the time of its slow requests, if requested. As `explain` reports them.
    pub(crate) bottleneck: Option<String>,
}

impl RunLog {
    /// Opens this experiment's log in `directory`. Starts a new one if there is none.
    ///
    /// # Errors
    /// It holds another experiment, another machine's, or one with other parameters.
    pub(crate) fn open(
        directory: &Path,
        experiment: &str,
        machine: Machine,
        specs: &[RunSpec],
    ) -> Result<Self> {
        let path = directory.join(FILE);
        let unusable = |why: &str| {
            Error::Unusable(format!(
                "{}: {why}; give another --keep, or --fresh to drop what is there",
                path.display()
            ))
        };
        let found: Option<Self> = files::read_json(&path).map_err(|error| unusable(&error.to_string()))?;
        let Some(found) = found else {
            let (experiment, runs, left_out) = (experiment.to_owned(), Vec::new(), BTreeMap::new());
            return Ok(Self { version: VERSION, experiment, machine, runs, left_out });
        };
        if found.version != VERSION || found.experiment != experiment {
            return Err(unusable(&format!("holds `lab {}`, version {}", found.experiment, found.version)));
        }
        if let Some(difference) = found.machine.differs(&machine) {
            return Err(unusable(&format!("was made where {difference}")));
        }
        if let Some(other) = found.find_other_parameters(specs) {
            return Err(unusable(&format!("holds runs of {other} with other parameters")));
        }
        Ok(Self { left_out: BTreeMap::new(), ..found })
    }

    /// The first configuration that has runs with the same id and other parameters.
    fn find_other_parameters(&self, specs: &[RunSpec]) -> Option<&str> {
        let same_id = |done: &&FinishedRun| {
            specs.iter().any(|spec| spec.setup.id == done.asked.setup.id && *spec != done.asked)
        };
        self.runs.iter().find(same_id).map(|done| done.asked.setup.name.as_str())
    }

    /// Whether this run is done.
    pub(crate) fn has(&self, id: &str, repetition: u32) -> bool {
        self.runs.iter().any(|done| done.asked.setup.id == id && done.repetition == repetition)
    }

    /// The runs of one configuration, in the order of their repetitions.
    pub(crate) fn of(&self, id: &str) -> Vec<&FinishedRun> {
        let mut runs: Vec<&FinishedRun> = self.runs.iter().filter(|done| done.asked.setup.id == id).collect();
        runs.sort_by_key(|done| done.repetition);
        runs
    }

    /// Writes it atomically.
    pub(crate) fn write(&self, directory: &Path) -> Result<()> {
        files::write_json(&directory.join(FILE), self)
    }
}

/// The directory of a run's recording.
pub(crate) fn recording(directory: &Path, id: &str, repetition: u32) -> PathBuf {
    directory.join(id).join(repetition.to_string())
}

/// Drops an experiment: its log, and the recordings of the logged runs.
pub(crate) fn forget(directory: &Path) -> Result<()> {
    let path = directory.join(FILE);
    // An unreadable log is dropped too, without the recordings that it may list.
    let found: Option<RunLog> = files::read_json(&path).unwrap_or_default();
    for done in found.into_iter().flat_map(|run_log| run_log.runs) {
        files::remove(&recording(directory, &done.asked.setup.id, done.repetition))?;
    }
    if path.exists() { fs::remove_file(&path).map_err(Error::io("remove", &path)) } else { Ok(()) }
}

/// A machine and its installed software.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    pub(crate) cpu: String,
    pub(crate) cores: usize,
    pub(crate) memory_gib: u64,
    pub(crate) kernel: String,
    /// The file system that holds the devices' images, and its device.
    pub(crate) disk: String,
    /// The tools that made the file systems.
    pub(crate) tools: Vec<String>,
    pub(crate) kafka: String,
    pub(crate) java: String,
}

impl Machine {
    /// Describes this machine; `images` is the directory of the devices' images.
    pub(crate) fn here(kafka: &Kafka, images: &Path) -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let tools: [&[&str]; 3] = [&["mkfs.ext4", "-V"], &["mkfs.xfs", "-V"], &["mkfs.btrfs", "--version"]];
        Self {
            cpu: field(&read("/proc/cpuinfo"), "model name")
                .unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
            cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_gib: memory_gib(&read("/proc/meminfo")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            disk: disk(images),
            tools: tools.iter().filter_map(|command| first_line(command)).collect(),
            kafka: kafka.version.clone(),
            java: first_line(&["java", "-version"]).unwrap_or_else(|| format!("Java {}", kafka.java_version)),
        }
    }

    /// The first difference to another machine, if there is one.
    pub(crate) fn differs(&self, other: &Self) -> Option<String> {
        let of = |machine: &Self| {
            [
                ("the processor", machine.cpu.clone()),
                ("the number of processors", machine.cores.to_string()),
                ("the memory in GiB", machine.memory_gib.to_string()),
                ("the kernel", machine.kernel.clone()),
                ("the disk", machine.disk.clone()),
                ("the tools", machine.tools.join(", ")),
                ("Kafka's version", machine.kafka.clone()),
                ("Java", machine.java.clone()),
            ]
        };
        let pairs = of(self).into_iter().zip(of(other));
        let found = pairs.into_iter().find(|((_, before), (_, now))| before != now);
        found.map(|((what, before), (_, now))| format!("{what} was {before:?}, not {now:?}"))
    }

    /// Describes the machine in a line or two.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{} × {}, {} GiB, Linux {}; images on {}; {}; Kafka {} on {}",
            self.cores,
            self.cpu,
            self.memory_gib,
            self.kernel,
            self.disk,
            self.tools.join(", "),
            self.kafka,
            self.java
        )
    }
}

/// Finds `name : value` of /proc/cpuinfo, or `name: value` of /proc/meminfo.
fn field(text: &str, name: &str) -> Option<String> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
    Some(line.trim().to_owned())
}

fn memory_gib(meminfo: &str) -> u64 {
    let total = field(meminfo, "MemTotal");
    let kib: Option<u64> = total.and_then(|total| total.strip_suffix("kB")?.trim().parse().ok());
    (kib.unwrap_or(0) + (1 << 19)) >> 20
}

/// A path's file system and device, such as `ext4 on /dev/vda`.
fn disk(path: &Path) -> String {
    let mut command = Command::new("findmnt");
    let output =
        process::output(command.args(["-n", "-o", "FSTYPE,SOURCE", "-T"]).arg(path)).unwrap_or_default();
    let words: Vec<&str> = output.split_whitespace().collect();
    match words.as_slice() {
        [kind, source, ..] => format!("{kind} on {source}"),
        _ => "an unknown file system".to_owned(),
    }
}

fn first_line(command: &[&str]) -> Option<String> {
    let (program, arguments) = command.split_first()?;
    let output = process::output(Command::new(program).args(arguments)).ok()?;
    output.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::super::setup::{Load, Network, Storage};
    use super::*;
    use crate::device::Pace;
    use crate::volume::FileSystem;

    fn spec(id: &str, seconds: u64) -> RunSpec {
        let ground = Storage {
            file_system: FileSystem::Ext4,
            mount_options: "commit=5".to_owned(),
            volumes: 1,
            size_bytes: 1 << 30,
            pace: Pace { write_us: 1, bytes_per_second: 2 },
            dirty_bytes: None,
        };
        let load = Load::Paced { producers: 1, per_second: 2, record_bytes: 3, in_flight: 4 };
        let setup = Setup {
            id: id.to_owned(),
            name: format!("the {id}"),
            ground,
            properties: Vec::new(),
            topics: Vec::new(),
            topic_configs: Vec::new(),
            sysctls: Vec::new(),
            network: Network::Loopback,
            load,
            warm_up_s: 4,
            builds_on: None,
        };
        RunSpec { setup, seconds, slo_ms: 65, seed: 1 }
    }

    fn done(id: &str, repetition: u32) -> FinishedRun {
        let (measured, journal) = (ClientMetrics::default(), Vec::new());
        FinishedRun {
            asked: spec(id, 25),
            repetition,
            start_ns: 7,
            took_s: 40.5,
            measured,
            journal,
            bottleneck: None,
        }
    }

    fn write_run_log(directory: &Path) -> RunLog {
        let mut run_log = RunLog::open(directory, "fs", Machine::default(), &[spec("a", 25)]).unwrap();
        run_log.runs.extend([done("a", 2), done("a", 1), done("b", 1)]);
        run_log.write(directory).unwrap();
        run_log
    }

    #[test]
    fn resumes_an_experiment_from_its_log() {
        let directory = tempfile::tempdir().unwrap();
        write_run_log(directory.path());
        let again = RunLog::open(directory.path(), "fs", Machine::default(), &[spec("a", 25)]).unwrap();
        assert!(again.has("a", 2) && again.has("b", 1) && !again.has("a", 3) && !again.has("c", 1));
        let repetitions: Vec<u32> = again.of("a").iter().map(|done| done.repetition).collect();
        assert_eq!(repetitions, [1, 2]);
    }

    #[test]
    fn refuses_runs_with_other_parameters_or_machines() {
        let directory = tempfile::tempdir().unwrap();
        write_run_log(directory.path());
        let open = |experiment, machine, specs: &[RunSpec]| {
            RunLog::open(directory.path(), experiment, machine, specs).unwrap_err().to_string()
        };
        let message = open("fs", Machine::default(), &[spec("a", 26)]);
        assert!(message.contains("the a with other parameters") && message.contains("--fresh"), "{message}");
        assert!(open("tune", Machine::default(), &[spec("a", 25)]).contains("holds `lab fs`"));
        let elsewhere = Machine { kernel: "7.2".to_owned(), ..Machine::default() };
        assert!(open("fs", elsewhere, &[spec("a", 25)]).contains("was made where the kernel"));
        fs::write(directory.path().join(FILE), "{").unwrap();
        assert!(open("fs", Machine::default(), &[]).contains("experiment.json: EOF"));
    }

    #[test]
    fn forget_removes_only_recordings_in_the_log() {
        let directory = tempfile::tempdir().unwrap();
        write_run_log(directory.path());
        for (id, repetition) in [("a", 1), ("a", 2), ("mine", 1)] {
            fs::create_dir_all(recording(directory.path(), id, repetition)).unwrap();
        }
        forget(directory.path()).unwrap();
        assert!(!recording(directory.path(), "a", 1).exists() && !directory.path().join(FILE).exists());
        assert!(recording(directory.path(), "mine", 1).exists());
        forget(directory.path()).unwrap();
    }
}

#[cfg(test)]
mod machine_tests {
    use super::*;

    #[test]
    fn parses_cpuinfo_and_meminfo() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nmodel name\t: other\n";
        assert_eq!(field(cpuinfo, "model name").as_deref(), Some("Some CPU @ 2 GHz"));
        assert_eq!(field(cpuinfo, "model"), None);
        assert_eq!(memory_gib("MemTotal:       24609876 kB\nMemFree: 1 kB\n"), 23);
        assert_eq!(memory_gib(""), 0);
    }

    #[test]
    fn names_the_difference_between_machines() {
        let here = Machine { cores: 2, java: "17".to_owned(), ..Machine::default() };
        assert_eq!(here.differs(&here), None);
        let there = Machine { java: "25".to_owned(), ..here.clone() };
        assert_eq!(here.differs(&there).unwrap(), "Java was \"17\", not \"25\"");
    }
}
