//! The JVM wants its threads to stop, and one of them is in a page fault: a consumer asks for an old offset, the page of
//! the mapped index that tells where it is has left the page cache, and the device is slow. The JVM polls for
//! safepoints between instructions, so that thread stops when its page is there; all others wait, stopped.
//!
//! Index pages leave the cache because the broker's memory cgroup is emptied, as memory pressure does. Everything else is
//! read back before, so that only the old topic's indexes are cold; and of the device, only reads of these are slow: others
//! of the file system's own blocks, within a journal's handle, would make a commit wait that is as true a cause as the plant.
//!
//! Truth: `safepoint` for slow produce requests, or what kept the thread from stopping, told as its root: the page of the
//! index that had to be read, or the device it was read from.

use std::fs;
use std::thread;
use std::time::Duration;

use super::mix;
use super::plan::{Fault, Ground, Truth, Window};
use super::scene::Scene;
use crate::broker::BrokerOptions;
use crate::cgroup::Cgroup;
use crate::client::{Request, Topic, now_ns};
use crate::device::Direction;
use crate::error::Error;
use crate::jvm::Jvm;
use crate::random::Random;
use crate::volume::{Extent, FileSystem};

const OLD: &str = "history";
/// The smallest that Kafka 4.1 takes.
const SEGMENT_BYTES: u64 = 1 << 20;
const SEGMENTS: u64 = 12;
const BATCH_BYTES: usize = 32 << 10;
/// From the fetch that faults to the order that wants all threads stopped.
const HEAD_START: Duration = Duration::from_millis(40);

#[derive(Default)]
pub(super) struct TimeToSafepoint {
    jvm: Option<Jvm>,
    memory: Option<Cgroup>,
    /// Base offsets of segments that are not written to any more.
    old: Vec<i64>,
    /// Where their indexes lie on the device.
    indexes: Vec<Extent>,
}

impl Fault for TimeToSafepoint {
    fn name(&self) -> &'static str {
        "time-to-safepoint"
    }

    fn story(&self) -> &'static str {
        "a thread faults on a cold index page while the JVM wants all threads to stop"
    }

    fn ground(&self) -> Option<Ground> {
        Some(Ground { file_system: FileSystem::Ext4, mount_options: "" })
    }

    fn configure(&mut self, options: &mut BrokerOptions, _: &mut Random) -> Result<(), Error> {
        // In it from the start: pages count where they were first touched.
        let site = options.site.clone().unwrap_or_default();
        let memory = Cgroup::make(&site, "memory")?;
        options.launcher.extend(memory.entering());
        self.memory = Some(memory);
        Ok(())
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        scene.create_topic(&Topic {
            name: OLD.to_owned(),
            partitions: 1,
            configs: vec![("segment.bytes".to_owned(), SEGMENT_BYTES.to_string())],
            ..Topic::default()
        })?;
        let mut connection = scene.connect("historian")?;
        let mut value = vec![0; BATCH_BYTES];
        for _ in 0..SEGMENTS * SEGMENT_BYTES / BATCH_BYTES as u64 {
            random.fill(&mut value);
            let batch = crate::client::batch(&[&value], now_ns() / 1_000_000);
            connection.call(&Request::produce(OLD, 0, 1, &batch))?;
        }
        self.old = closed_segments(scene)?;
        self.indexes = indexes(scene, &self.old)?;
        self.jvm = Some(Jvm::attach(scene.broker.pid)?);
        scene.warm_up(&mix::standard(random), random)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let (Some(jvm), Some(memory)) = (&self.jvm, &self.memory) else {
            return Err(Error::Unusable("no JVM or no cgroup".to_owned()));
        };
        let traffic = mix::standard(random);
        let (times, held_ms) = (random.between(2, 3), random.between(200, 500));
        rustix::fs::sync();
        memory.set("memory.force_empty", 0)?;
        warm(scene)?;
        let mut reader = scene.connect("reader")?;
        let load = scene.produce(&traffic, random)?;
        scene.quiet()?;
        let start_ns = now_ns();
        for _ in 0..times {
            // Not in the middle of a segment whose first entry answers without a search.
            let pick = random.between(0, self.old.len().saturating_sub(1) as u64) as usize;
            let Some(base) = self.old.get(pick) else { break };
            let fetch = Request::fetch(OLD, 0, base + random.between(4, 20) as i64, 1 << 10, 0);
            scene.volume()?.plant_delay_of(&self.indexes, Direction::Read, held_ms, held_ms)?;
            reader.send(&fetch)?;
            thread::sleep(HEAD_START);
            jvm.order("Thread.print")?;
            reader.receive()?;
            scene.volume()?.device().clear()?;
            scene.sleep(Duration::from_millis(random.between(150, 400)))?;
        }
        let end_ns = now_ns();
        scene.quiet()?;
        load.stop()?;
        let threshold_ms = random.between(40, 80);
        let long = scene
            .stops()?
            .iter()
            .filter(|stop| stop.end_ns >= start_ns && stop.start_ns <= end_ns)
            .filter(|stop| stop.reaching_ns >= threshold_ms as i64 * 1_000_000)
            .count();
        Ok(Window {
            start_ns,
            end_ns,
            threshold_ms,
            parameters: format!(
                "{times} faults on cold indexes, reads +{held_ms} ms; {}",
                mix::described(&traffic)
            ),
            truths: vec![
                Truth::of(&["safepoint", "index-page-fault", "slow-device"])
                    .through(&["safepoint"])
                    .slows_stops()
                    .api("PRODUCE"),
            ],
            ..Window::default()
        }
        .shown_by(long, "safepoints that took long to reach, by the JVM's own log"))
    }

    fn restore(&mut self, _: &mut Scene) {
        self.memory = None;
    }
}

/// Base offsets of all segments but the newest.
fn closed_segments(scene: &Scene) -> Result<Vec<i64>, Error> {
    let directory = scene.partition_directory(OLD, 0);
    let listing = fs::read_dir(&directory).map_err(Error::io("list", &directory))?;
    let names = listing.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut bases: Vec<i64> = names.filter_map(|name| name.strip_suffix(".log")?.parse().ok()).collect();
    bases.sort_unstable();
    bases.pop();
    Ok(bases)
}

/// Where the indexes of these segments lie, written back before: Kafka does that when it likes.
fn indexes(scene: &mut Scene, bases: &[i64]) -> Result<Vec<Extent>, Error> {
    rustix::fs::sync();
    let directory = scene.partition_directory(OLD, 0);
    let volume = scene.volume()?;
    let extents: Result<Vec<Vec<Extent>>, Error> =
        bases.iter().map(|base| volume.extents_of(&directory.join(format!("{base:020}.index")))).collect();
    let extents = extents?.concat();
    if extents.len() < bases.len() {
        return Err(Error::Unusable(format!("some indexes in {} lie nowhere", directory.display())));
    }
    Ok(extents)
}

/// Reads everything back into the page cache but the indexes of the old topic.
fn warm(scene: &Scene) -> Result<(), Error> {
    let topics = &scene.broker.log_dir;
    let partitions = fs::read_dir(topics).map_err(Error::io("list", topics))?;
    for partition in partitions.filter_map(Result::ok).map(|entry| entry.path()).filter(|path| path.is_dir())
    {
        let is_old = partition == scene.partition_directory(OLD, 0);
        let files = fs::read_dir(&partition).map_err(Error::io("list", &partition))?;
        for file in files.filter_map(Result::ok).map(|entry| entry.path()) {
            let is_index = file.extension().is_some_and(|extension| extension == "index");
            if !(is_old && is_index) {
                // Kafka may have deleted it in the meantime.
                let _ = fs::read(&file);
            }
        }
    }
    Ok(())
}
