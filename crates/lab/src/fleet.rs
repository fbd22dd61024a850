//! `fleet`: the case of mysterious disk reads, from start to end. Several real brokers run, each on its own device and
//! under the same load; one of them reads large state files of tiered storage for what is appended, and sends nothing
//! of it. Brokerscope records each as a user would, and the odd one again after a cleanup of its state; then `fleet`,
//! `files`, `logs` and `advise` run, and each has to name what was injected.

mod questions;
mod tier_state;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use fastrand::Rng;
use questions::{FleetData, Operator};
use rustix::fs::{Advice, fadvise};
use tier_state::{CleanupResult, PARTITIONS, TOPIC, TierState};

use crate::broker::{Broker, BrokerOptions};
use crate::client::{Connection, Running, Topic, Traffic, create_topic};
use crate::error::{Error, Result};
use crate::experiment::setup::pairs;
use crate::kafka::{DEFAULT_VERSION, Kafka};
use crate::process::{Background, in_parallel};
use crate::session::{Observer, draw_seed, interrupt, print_elapsed, print_status};
use crate::site::Site;
use crate::volume::{FileSystem, Volume, VolumeOptions};
use crate::{files, process, session};

/// As many as in the case.
const BROKERS: u32 = 9;

/// Arguments of `fleet`.
#[derive(Clone, Debug, clap::Args)]
pub struct FleetArguments {
    /// How many brokers; with fewer than four, none can be the odd one
    #[arg(long, value_name = "N", default_value_t = BROKERS, value_parser = clap::value_parser!(u32).range(4..=32))]
    pub brokers: u32,
    /// How long to record each
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u64).range(2..=3600))]
    pub seconds: u64,
    /// Size of the largest state file, in MiB; each of the six is larger than the one before
    #[arg(long, value_name = "MIB", default_value_t = 64, value_parser = clap::value_parser!(u64).range(8..=1024))]
    pub state: u64,
    /// Seed of the load and of the choice of the odd broker; a new one is drawn and printed if not given
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Keep recordings, the odd broker's log and the commands' output in DIR, which must be empty or missing
    #[arg(long, value_name = "DIR")]
    pub keep: Option<PathBuf>,
    /// Version of Kafka to run
    #[arg(long, value_name = "VERSION", default_value = DEFAULT_VERSION)]
    pub kafka: String,
}

/// Replays the case; the commands' output goes to stdout.
///
/// # Errors
/// It did not run to its end; [`Error::Unusable`] if a command does not name what was injected.
pub(crate) fn run(arguments: &FleetArguments, brokerscope: Option<&Path>) -> Result<()> {
    let started = Instant::now();
    let observer = session::start(brokerscope)?;
    let kafka = Kafka::prepare(&arguments.kafka)?;
    // What is not kept goes away with this.
    let site = Site::claim()?;
    let directory = prepare_directory(arguments.keep.as_deref(), &site)?;
    let seed = arguments.seed.unwrap_or_else(draw_seed);
    let odd = Rng::with_seed(seed).u32(1..=arguments.brokers);
    print_status(&format!("{} brokers, one of them the odd one, --seed {seed}", arguments.brokers));
    let (observer, kafka, site) = (&observer, &kafka, &site);
    let replay = Replay { arguments, observer, kafka, site, seed, odd, directory: &directory };
    let data = replay.watch()?;
    let output = directory.join("said");
    files::make(&output)?;
    let missed = Operator { observer, directory: &output }.ask_all(&data)?;
    if let Some(keep) = &arguments.keep {
        let keep = keep.display();
        print_status(&format!("all of it is in {keep}; `brokerscope fleet {keep}/before` says it again"));
    }
    print_elapsed(started, "done");
    match missed {
        0 => Ok(()),
        count => Err(Error::Unusable(format!("{count} answer(s) missed what was injected on broker {odd}"))),
    }
}

/// Prepares the directory of recordings and output.
fn prepare_directory(keep: Option<&Path>, site: &Site) -> Result<PathBuf> {
    let Some(keep) = keep else { return site.directory("kept") };
    let directory = std::path::absolute(keep).map_err(Error::io("resolve", keep))?;
    files::make(&directory)?;
    if files::list(&directory)?.is_empty() {
        return Ok(directory);
    }
    Err(Error::Unusable(format!("{} is not empty: name another --keep", keep.display())))
}

/// Space on each device for what is produced; sparse.
const CAPACITY_MIB: u64 = 512;
/// How long the JVMs' compilers settle, all at once.
const WARM_UP: Duration = Duration::from_secs(3);
/// How long a broker's load runs before it is recorded.
const RUN_UP: Duration = Duration::from_millis(300);
const RECORDING: &str = "recording";

/// Parameters of a replay.
struct Replay<'a> {
    arguments: &'a FleetArguments,
    observer: &'a Observer,
    kafka: &'a Kafka,
    site: &'a Site,
    seed: u64,
    /// The number of the odd broker.
    odd: u32,
    /// The directory of recordings and other results.
    directory: &'a Path,
}

impl Replay<'_> {
    /// Runs all of it. No broker runs any more when this returns.
    fn watch(&self) -> Result<FleetData> {
        let volumes = self.volumes()?;
        let log_dir = self.odd_of(&volumes).map(Member::log_dir)?;
        let state = TierState::prepare(self.kafka, self.site, &log_dir, self.arguments.state << 20)?;
        let members = self.start(volumes, &state)?;
        warm_up(&state, &members)?;
        // Declared after the brokers, so that it ends before their file systems do.
        let cache = SmallCache::with_capacity(state.capacity_bytes(), state.files());
        let before = self.directory.join("before");
        let recordings = self.record_all(&members, &before)?;
        let (cleaned, after) = self.clean_up(&state, self.odd_of(&members)?)?;
        drop(cache);
        let log = self.keep_log(self.odd_of(&members)?)?;
        take_down(members)?;
        let odd = self.odd_of(&recordings)?.clone();
        let well = recordings.into_iter().filter(|recording| *recording != odd).collect();
        let (injected, brokers) = (self.odd, self.arguments.brokers);
        Ok(FleetData { injected, brokers, before, odd, well, log, cleaned, after })
    }

    /// The odd broker's element, of all brokers' in order.
    fn odd_of<'m, T>(&self, all: &'m [T]) -> Result<&'m T> {
        let odd = (self.odd as usize).checked_sub(1).and_then(|at| all.get(at));
        odd.ok_or_else(|| Error::Unusable(format!("there is no broker {}", self.odd)))
    }

    /// Makes a device for each broker.
    fn volumes(&self) -> Result<Vec<Volume>> {
        let started = Instant::now();
        // Space for all files, and once more for the one that is replaced.
        let size_mib = CAPACITY_MIB + self.arguments.state * u64::from(PARTITIONS);
        let options = VolumeOptions::new(FileSystem::Ext4, "", size_mib << 20, self.seed);
        let volume = |number: u32| {
            interrupt().check()?;
            Volume::prepare_another(self.site, number, &options)
        };
        let volumes = (1..=self.arguments.brokers).map(volume).collect::<Result<Vec<_>>>()?;
        print_elapsed(started, &format!("{} devices with ext4, one for each broker", volumes.len()));
        Ok(volumes)
    }

    /// Starts brokers, some at a time: more than processors, because a JVM that starts also waits.
    fn start(&self, volumes: Vec<Volume>, state: &TierState) -> Result<Vec<Member>> {
        let at_once = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) + 2;
        let mut numbered = (1..).zip(volumes).peekable();
        let mut members = Vec::new();
        while numbered.peek().is_some() {
            let started = Instant::now();
            let some: Vec<(u32, Volume)> = numbered.by_ref().take(at_once).collect();
            let results = in_parallel(some, |(number, volume)| {
                Member::start(self, number, volume, (number == self.odd).then_some(state))
            });
            members.extend(results.into_iter().collect::<Result<Vec<_>>>()?);
            let (count, all) = (members.len(), self.arguments.brokers);
            print_elapsed(started, &format!("{count} of {all} brokers run"));
        }
        Ok(members)
    }

    /// Records every broker, in folders as `fleet` reads them; returns the recordings in the brokers' order.
    fn record_all(&self, members: &[Member], before: &Path) -> Result<Vec<PathBuf>> {
        let day = process::output(Command::new("date").args(["-u", "+%F"]))?;
        let folder = |number: u32| {
            before.join(format!("cluster=lab/broker={number}/date={}", day.trim())).join(RECORDING)
        };
        let record = |(number, member): (u32, &Member)| {
            let recording = folder(number);
            self.record(number, member, &recording)?;
            Ok::<_, Error>(recording)
        };
        (1..).zip(members).map(record).collect()
    }

    /// Records one broker under its load.
    fn record(&self, number: u32, member: &Member, recording: &Path) -> Result<()> {
        let started = Instant::now();
        if let Some(parent) = recording.parent() {
            files::make(parent)?;
        }
        member.load.pause(false);
        interrupt().sleep(RUN_UP)?;
        let recorder = self.observer.record(recording, member.broker.pid, self.site.path())?;
        interrupt().sleep(Duration::from_secs(self.arguments.seconds))?;
        recorder.stop()?;
        member.load.pause(true);
        print_elapsed(started, &format!("broker {number} of {} recorded", self.arguments.brokers));
        Ok(())
    }

    /// Cleans up the state; returns the result, and the recording of the time after it.
    fn clean_up(&self, state: &TierState, odd: &Member) -> Result<(CleanupResult, PathBuf)> {
        let started = Instant::now();
        let cleaned = state.clean()?;
        let (from, to) = (cleaned.before_bytes, cleaned.after_bytes);
        let what = format!("broker {} cleaned its state up: from {from} to {to} bytes", self.odd);
        print_elapsed(started, &what);
        let after = self.directory.join("after").join(RECORDING);
        self.record(self.odd, odd, &after)?;
        Ok((cleaned, after))
    }

    fn keep_log(&self, odd: &Member) -> Result<PathBuf> {
        let (logged, log) = (&odd.broker.server_log, self.directory.join("server.log"));
        fs::copy(logged, &log).map_err(Error::io("copy", logged))?;
        Ok(log)
    }
}

fn warm_up(state: &TierState, members: &[Member]) -> Result<()> {
    let started = Instant::now();
    state.wait_until_ready()?;
    let mib = state.bytes()? >> 20;
    let what = format!("one has {PARTITIONS} state files, {mib} MiB together, and migrated them");
    print_elapsed(started, &what);
    let started = Instant::now();
    hold_back(members, false);
    interrupt().sleep(WARM_UP)?;
    hold_back(members, true);
    print_elapsed(started, &format!("warmed up; load of each: {}", describe_load()));
    Ok(())
}

/// Pauses the loads of all, or resumes them.
fn hold_back(members: &[Member], held: bool) {
    for member in members {
        member.load.pause(held);
    }
}

fn take_down(members: Vec<Member>) -> Result<()> {
    let started = Instant::now();
    let mut answered = 0;
    for Member { load, broker, volume } in members {
        answered += load.stop()?.len();
        drop((broker, volume));
    }
    print_elapsed(started, &format!("brokers stopped, devices detached; {answered} requests were answered"));
    Ok(())
}

/// Nine on one machine: small heaps, and a compiler that finishes soon.
const JVM_ARGUMENTS: [&str; 3] = ["-Xms96m", "-Xmx192m", "-XX:TieredStopAtLevel=1"];
/// The log cleaner's map alone would fill such a heap.
const PROPERTIES: [(&str, &str); 1] = [("log.cleaner.dedupe.buffer.size", "2097152")];
/// Each producer waits for its response: a pause of the machine delays one request of each, not a pile of them.
const PRODUCERS: u32 = 2;
const PER_SECOND: u32 = 100;
const RECORD_BYTES: u32 = 1_024;

/// A running broker. Fields are dropped in order.
struct Member {
    load: Running,
    broker: Broker,
    volume: Volume,
}

impl Member {
    /// The log directory of a volume's broker.
    fn log_dir(volume: &Volume) -> PathBuf {
        volume.directory().join("data")
    }

    /// Starts a broker whose load is paused. With a `state`, the agent is in it.
    fn start(replay: &Replay<'_>, number: u32, volume: Volume, state: Option<&TierState>) -> Result<Self> {
        let mut options = BrokerOptions::of_site(replay.site, &format!("broker-{number}"))?;
        options.node_id = number;
        options.is_throwaway = true;
        options.log_dir = Some(Member::log_dir(&volume));
        // On the same device, so that none of its files is where other programs read and write.
        options.metadata_dir = Some(volume.directory().join("metadata"));
        options.jvm_arguments = JVM_ARGUMENTS.map(str::to_owned).to_vec();
        options.jvm_arguments.extend(state.map(TierState::jvm_arguments).unwrap_or_default());
        options.properties = pairs(&PROPERTIES);
        let broker = Broker::start(replay.kafka, options)?;
        let topic = Topic { name: TOPIC.to_owned(), partitions: PARTITIONS, ..Topic::default() };
        create_topic(&mut Connection::open(broker.listener(), "lab-admin")?, &topic)?;
        let mut rng = Rng::with_seed(replay.seed.wrapping_add(u64::from(number)));
        let load = traffic().start(broker.listener(), &mut rng)?;
        load.pause(true);
        Ok(Self { load, broker, volume })
    }
}

fn traffic() -> Traffic {
    Traffic {
        client: "load".to_owned(),
        topic: TOPIC.to_owned(),
        partitions: PARTITIONS,
        producers: PRODUCERS,
        per_second: PER_SECOND,
        record_bytes: RECORD_BYTES,
        in_flight: 1,
        acks: 1,
    }
}

/// Describes the load of one broker.
fn describe_load() -> String {
    format!("{PRODUCERS} producers, {} requests/s of 1 KiB", PRODUCERS * PER_SECOND)
}

const EVERY: Duration = Duration::from_millis(50);

/// Evicts files from the page cache until it is dropped.
#[derive(Debug)]
struct SmallCache(Option<Background<()>>);

impl SmallCache {
    /// Keeps files larger than this out of the page cache.
    fn with_capacity(bytes: u64, files: Vec<PathBuf>) -> Self {
        let work = move |over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                for file in &files {
                    forget(file, bytes);
                }
                thread::sleep(EVERY);
            }
        };
        Self(Some(Background::start("the cache limit", work)))
    }
}

impl Drop for SmallCache {
    fn drop(&mut self) {
        // Waits, because the thread has files open. It does not panic; and if it did, nothing would be left to evict.
        let _ = self.0.take().map(Background::stop);
    }
}

/// Evicts a file from the page cache if it is larger than the capacity. If that is refused, nothing is read from the
/// disk, and the commands that look for such reads report that.
fn forget(path: &Path, capacity_bytes: u64) {
    let Ok(file) = File::open(path) else { return };
    if file.metadata().is_ok_and(|about| about.len() > capacity_bytes) {
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_a_directory_that_is_not_empty() {
        let root = tempfile::tempdir().unwrap();
        let site = Site::claim_in(&root.path().join("sites")).unwrap();
        let keep = root.path().join("kept");
        assert_eq!(prepare_directory(Some(&keep), &site).unwrap(), keep);
        assert!(keep.is_dir());
        fs::write(keep.join("server.log"), "").unwrap();
        let refused = prepare_directory(Some(&keep), &site).unwrap_err().to_string();
        assert!(refused.ends_with("is not empty: name another --keep"), "{refused}");
        assert!(prepare_directory(None, &site).unwrap().starts_with(site.path()));
    }
}
