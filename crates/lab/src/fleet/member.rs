//! One broker of a fleet: on its own device, under its own load. It needs nothing of the others, and its node id tells it
//! from them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use rustix::fs::{Advice, fadvise};

use super::replay::Replay;
use super::tier_state::{PARTITIONS, TOPIC, TierState};
use crate::background::Background;
use crate::broker::{Broker, BrokerOptions};
use crate::client::{Connection, Running, Topic, Traffic, create_topic};
use crate::error::Error;
use crate::experiment::setup::pairs;
use crate::volume::Volume;

/// Nine on one machine: small heaps, and a compiler that is soon done.
const JVM_ARGUMENTS: [&str; 3] = ["-Xms96m", "-Xmx192m", "-XX:TieredStopAtLevel=1"];
/// The log cleaner's map alone would fill such a heap.
const PROPERTIES: [(&str, &str); 1] = [("log.cleaner.dedupe.buffer.size", "2097152")];
/// Each producer waits for its answer: a stop of the machine delays one request of each, not a pile of them.
const PRODUCERS: u32 = 2;
const PER_SECOND: u32 = 100;
const RECORD_BYTES: u32 = 1_024;

/// A running broker. Fields are dropped in their order.
pub(super) struct Member {
    pub(super) broker: Broker,
    pub(super) load: Running,
    volume: Volume,
}

/// All of them; killed when dropped, because nobody reads their files any more.
pub(super) struct Members(pub(super) Vec<Member>);

impl Member {
    /// Where the broker of a volume has its partitions.
    pub(super) fn log_dir(volume: &Volume) -> PathBuf {
        volume.directory().join("data")
    }

    /// Starts a broker whose load is held back, and the agent in it if it is to have one.
    pub(super) fn start(
        replay: &Replay<'_>,
        number: u32,
        volume: Volume,
        state: Option<&TierState>,
    ) -> Result<Self, Error> {
        let interrupt = &replay.session.interrupt;
        let mut options = BrokerOptions::of_site(replay.site, &format!("broker-{number}"), interrupt)?;
        options.node_id = number;
        options.log_dir = Some(Member::log_dir(&volume));
        // On the same device: none of its files is where other programs read and write.
        options.metadata_dir = Some(volume.directory().join("metadata"));
        options.jvm_arguments = JVM_ARGUMENTS.map(str::to_owned).to_vec();
        options.jvm_arguments.extend(state.map(TierState::jvm_arguments).unwrap_or_default());
        options.properties = pairs(&PROPERTIES);
        let broker = Broker::start(replay.kafka, options)?;
        let topic = Topic { name: TOPIC.to_owned(), partitions: PARTITIONS, ..Topic::default() };
        create_topic(&mut Connection::open(broker.listener(), "lab-admin")?, &topic, interrupt)?;
        let mut rng = Rng::with_seed(replay.seed.wrapping_add(u64::from(number)));
        let load = traffic().start(broker.listener(), &mut rng)?;
        load.pause(true);
        Ok(Self { broker, load, volume })
    }
}

impl Members {
    /// Holds the loads of all back, or lets them go.
    pub(super) fn hold_back(&self, held: bool) {
        for member in &self.0 {
            member.load.pause(held);
        }
    }

    /// Ends all of them, their loads first; returns how many requests were answered.
    ///
    /// # Errors
    /// Where a broker refused something or went away.
    pub(super) fn stop(mut self) -> Result<usize, Error> {
        let mut answered = 0;
        for Member { broker, load, volume } in self.0.drain(..) {
            answered += load.stop()?.len();
            broker.kill();
            drop(volume);
        }
        Ok(answered)
    }
}

impl Drop for Members {
    fn drop(&mut self) {
        for Member { broker, load, volume } in self.0.drain(..) {
            drop(load);
            broker.kill();
            drop(volume);
        }
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

/// The load of one, for people.
pub(super) fn load_described() -> String {
    format!("{PRODUCERS} producers, {} requests/s of 1 KiB", PRODUCERS * PER_SECOND)
}

const EVERY: Duration = Duration::from_millis(50);

/// Forgets files until it is dropped.
#[derive(Debug)]
pub(super) struct SmallCache(Option<Background<()>>);

impl SmallCache {
    /// Keeps those out of the page cache that are larger.
    pub(super) fn with_room_for(bytes: u64, files: Vec<PathBuf>) -> Self {
        let work = move |over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                for file in &files {
                    forget(file, bytes);
                }
                thread::sleep(EVERY);
            }
        };
        Self(Some(Background::start("who forgets files", work)))
    }
}

impl Drop for SmallCache {
    fn drop(&mut self) {
        // Waited for: it has files open. It does not panic; and if it did, nothing is left to be forgotten.
        let _ = self.0.take().map(Background::stop);
    }
}

/// Where that is refused, nothing is read from the disk, and who looks for such reads says so.
fn forget(path: &Path, room_bytes: u64) {
    let Ok(file) = File::open(path) else { return };
    if file.metadata().is_ok_and(|about| about.len() > room_bytes) {
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
    }
}
