//! One replay of the case, as long as brokers run: starts them, has each recorded, has the odd one clean up, and keeps what is to be
//! looked at. Brokers are recorded one after the other, the others' load held back meanwhile, because each would have
//! its own machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::member::{Member, Members, SmallCache};
use super::questions::FleetData;
use super::tier_state::{CleanupResult, PARTITIONS, TierState};
use super::{FleetArguments, member};
use crate::background::in_parallel;
use crate::device::DeviceOptions;
use crate::error::Error;
use crate::kafka::Kafka;
use crate::session::Session;
use crate::site::Site;
use crate::volume::{FileSystem, Volume, VolumeOptions};
use crate::{files, process};

/// Room on each device for what is produced; sparse.
const ROOM_MIB: u64 = 512;
/// How long the JVMs' compilers get, all side by side.
const WARM_UP: Duration = Duration::from_secs(3);
/// How long a broker's load runs before it is recorded.
const RUN_UP: Duration = Duration::from_millis(300);
const RECORDING: &str = "recording";

/// What it takes.
pub(super) struct Replay<'a> {
    pub(super) arguments: &'a FleetArguments,
    pub(super) session: &'a Session,
    pub(super) kafka: &'a Kafka,
    pub(super) site: &'a Site,
    pub(super) seed: u64,
    /// The number of the broker that is the odd one.
    pub(super) odd: u32,
    /// Where recordings and the like go.
    pub(super) directory: &'a Path,
}

impl Replay<'_> {
    /// All of it. No broker runs any more when this returns.
    pub(super) fn watch(&self) -> Result<FleetData, Error> {
        let mut members = Members(Vec::new());
        let volumes = self.volumes()?;
        let log_dir = self.odd_of(&volumes).map(Member::log_dir)?;
        let state = TierState::prepare(self.kafka, self.site, &log_dir, self.arguments.state << 20)?;
        self.start(volumes, &state, &mut members)?;
        self.warm_up(&state, &members)?;
        // Declared after the brokers, so that it ends before their file systems do.
        let cache = SmallCache::with_room_for(state.room_bytes(), state.files());
        let before = self.directory.join("before");
        let recordings = self.record_all(&members, &before)?;
        let (cleaned, after) = self.clean_up(&state, self.odd_of(&members.0)?)?;
        drop(cache);
        let log = self.keep_log(self.odd_of(&members.0)?)?;
        self.take_down(members)?;
        let odd = self.odd_of(&recordings)?.clone();
        let well = recordings.into_iter().filter(|recording| *recording != odd).collect();
        let (injected, brokers) = (self.odd, self.arguments.brokers);
        Ok(FleetData { injected, brokers, before, odd, well, log, cleaned, after })
    }

    /// The odd broker's, of all brokers' in their order.
    fn odd_of<'m, T>(&self, all: &'m [T]) -> Result<&'m T, Error> {
        let odd = (self.odd as usize).checked_sub(1).and_then(|at| all.get(at));
        odd.ok_or_else(|| Error::Unusable(format!("there is no broker {}", self.odd)))
    }

    /// A device for each broker.
    fn volumes(&self) -> Result<Vec<Volume>, Error> {
        let started = Instant::now();
        // All files, and once more the one that is replaced.
        let size_mib = ROOM_MIB + self.arguments.state * u64::from(PARTITIONS);
        let volume = |number: u32| {
            self.session.interrupt.check()?;
            let options = VolumeOptions {
                device: DeviceOptions { size_bytes: size_mib << 20, seed: self.seed },
                file_system: FileSystem::Ext4,
                mount_options: String::new(),
            };
            Volume::prepare_another(self.site, number, &options)
        };
        let volumes = (1..=self.arguments.brokers).map(volume).collect::<Result<Vec<_>, Error>>()?;
        self.session
            .steps
            .took(started, &format!("{} devices with ext4, one for each broker", volumes.len()));
        Ok(volumes)
    }

    /// Starts brokers, some at a time: more than processors, because a JVM that starts also waits.
    fn start(&self, volumes: Vec<Volume>, state: &TierState, members: &mut Members) -> Result<(), Error> {
        let at_once = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) + 2;
        let mut numbered = (1..).zip(volumes);
        loop {
            let started = Instant::now();
            let some: Vec<(u32, Volume)> = numbered.by_ref().take(at_once).collect();
            if some.is_empty() {
                return Ok(());
            }
            let results = in_parallel(some, |(number, volume)| {
                let agent = (number == self.odd).then_some(state);
                Member::start(self, number, volume, agent)
            });
            let (started_ones, failed): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
            members.0.extend(started_ones.into_iter().flatten());
            failed.into_iter().try_for_each(|failed| failed.map(drop))?;
            let (count, all) = (members.0.len(), self.arguments.brokers);
            self.session.steps.took(started, &format!("{count} of {all} brokers run"));
        }
    }

    fn warm_up(&self, state: &TierState, members: &Members) -> Result<(), Error> {
        let started = Instant::now();
        state.wait_until_ready(&self.session.interrupt)?;
        let mib = state.bytes()? >> 20;
        let what = format!("one has {PARTITIONS} state files, {mib} MiB together, and migrated them");
        self.session.steps.took(started, &what);
        let started = Instant::now();
        members.hold_back(false);
        self.session.interrupt.sleep(WARM_UP)?;
        members.hold_back(true);
        self.session.steps.took(started, &format!("warmed up; load of each: {}", member::load_described()));
        Ok(())
    }

    /// Records every broker, in folders as `fleet` reads them; where, in the brokers' order.
    fn record_all(&self, members: &Members, before: &Path) -> Result<Vec<PathBuf>, Error> {
        let day = process::output(Command::new("date").args(["-u", "+%F"]))?;
        let folder = |number: u32| {
            before.join(format!("cluster=lab/broker={number}/date={}", day.trim())).join(RECORDING)
        };
        let record = |(number, member): (u32, &Member)| {
            let recording = folder(number);
            self.record(number, member, &recording)?;
            Ok::<_, Error>(recording)
        };
        (1..).zip(&members.0).map(record).collect()
    }

    /// Records one broker under its load.
    fn record(&self, number: u32, member: &Member, recording: &Path) -> Result<(), Error> {
        let (started, interrupt) = (Instant::now(), &self.session.interrupt);
        if let Some(parent) = recording.parent() {
            files::make(parent)?;
        }
        member.load.pause(false);
        interrupt.sleep(RUN_UP)?;
        let recorder = self.session.observer.record(recording, member.broker.pid, self.site.path())?;
        interrupt.sleep(Duration::from_secs(self.arguments.seconds))?;
        recorder.stop()?;
        member.load.pause(true);
        self.session.steps.took(started, &format!("broker {number} of {} recorded", self.arguments.brokers));
        Ok(())
    }

    /// What the cleanup did, and the recording of the time after it.
    fn clean_up(&self, state: &TierState, odd: &Member) -> Result<(CleanupResult, PathBuf), Error> {
        let started = Instant::now();
        let cleaned = state.clean(&self.session.interrupt)?;
        let (from, to) = (cleaned.before_bytes, cleaned.after_bytes);
        let what = format!("broker {} cleaned its state up: from {from} to {to} bytes", self.odd);
        self.session.steps.took(started, &what);
        let after = self.directory.join("after").join(RECORDING);
        self.record(self.odd, odd, &after)?;
        Ok((cleaned, after))
    }

    fn keep_log(&self, odd: &Member) -> Result<PathBuf, Error> {
        let (logged, log) = (&odd.broker.server_log, self.directory.join("server.log"));
        fs::copy(logged, &log).map_err(Error::io("copy", logged))?;
        Ok(log)
    }

    fn take_down(&self, members: Members) -> Result<(), Error> {
        let started = Instant::now();
        let answered = members.stop()?;
        self.session
            .steps
            .took(started, &format!("brokers stopped, devices detached; {answered} requests were answered"));
        Ok(())
    }
}
