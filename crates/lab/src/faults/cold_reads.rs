//! A consumer that catches up reads a segment that is no longer in the page cache from a slow device. The handler
//! only looks the place up; the bytes are read by `sendfile` on the network thread (KAFKA-7504), the only one, so that
//! all connections wait for the device.
//!
//! Truth: of the producers, `disk-read-in-network-thread`: their requests lie in their sockets, or their answers in
//! the network thread's queue, until its read has ended. `cache-eviction` is the same event told from why the pages
//! were not there. The consumer's own fetches wait for the same reads, and for the handler's look at the batches'
//! headers, a read like any other: `slow-device` is right for them too.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::plan::{Fault, Ground, Truth, Window};
use super::scene::Scene;
use super::{mix, page_cache};
use crate::background::Background;
use crate::broker::BrokerOptions;
use crate::client::{Connection, Request, Topic, batch, fetched, now_ns};
use crate::device::Direction;
use crate::error::Error;
use crate::random::Random;
use crate::volume::FileSystem;

const TOPIC: &str = "archive";
const CONSUMER: &str = "archive-reader";
/// What lies in the topic.
const BATCH_BYTES: usize = 512 << 10;
const BATCHES: usize = 192;

pub(super) struct ColdReads;

impl Fault for ColdReads {
    fn name(&self) -> &'static str {
        "cold-reads"
    }

    fn story(&self) -> &'static str {
        "a catch-up consumer has the only network thread read from a slow device"
    }

    fn ground(&self) -> Option<Ground> {
        Some(Ground { file_system: FileSystem::Ext4WithoutJournal, mount_options: "" })
    }

    fn configure(&mut self, options: &mut BrokerOptions, _: &mut Random) -> Result<(), Error> {
        options.properties.push(("num.network.threads".to_owned(), "1".to_owned()));
        Ok(())
    }

    fn prepare(&mut self, scene: &mut Scene, random: &mut Random) -> Result<(), Error> {
        scene.create_plain_topic(mix::TOPIC, mix::MOST_PARTITIONS)?;
        scene.create_topic(&Topic { name: TOPIC.to_owned(), partitions: 1, ..Topic::default() })?;
        let mut producer = scene.connect("archive-writer")?;
        let mut value = vec![0; BATCH_BYTES];
        for _ in 0..BATCHES {
            random.fill(&mut value);
            producer.call(&Request::produce(TOPIC, 0, 1, &batch(&[&value], now_ns() / 1_000_000)))?;
        }
        let consumer = Consumer::start(scene, BATCH_BYTES as u32)?;
        scene.warm_up(&mix::standard(random), random)?;
        consumer.stop().map(drop)
    }

    fn plant(&mut self, scene: &mut Scene, random: &mut Random) -> Result<Window, Error> {
        let traffic = mix::standard(random);
        let held_ms = random.between(80, 200);
        let length_ms = random.between(1_500, 2_500);
        let fetch_bytes = random.between(128 << 10, 1 << 20) as u32;
        let load = scene.produce(&traffic, random)?;
        page_cache::forget_segments(&scene.partition_directory(TOPIC, 0))?;
        scene.quiet()?;
        scene.held_back()?;
        let start_ns = now_ns();
        scene.volume()?.plant_data_delay(Direction::Read, held_ms, held_ms)?;
        let consumer = Consumer::start(scene, fetch_bytes)?;
        scene.sleep(Duration::from_millis(length_ms))?;
        scene.volume()?.device().clear()?;
        let read_bytes = consumer.stop()?;
        let end_ns = now_ns();
        scene.quiet()?;
        let held = scene.held_back()?;
        load.stop()?;
        let window = Window {
            start_ns,
            end_ns,
            threshold_ms: 40,
            parameters: format!(
                "reads +{held_ms} ms, fetches of {fetch_bytes} B for {length_ms} ms ({read_bytes} B read); {}",
                mix::described(&traffic)
            ),
            truths: vec![
                Truth::of(&["disk-read-in-network-thread", "cache-eviction", "slow-device"]).client(CONSUMER),
                Truth::of(&["disk-read-in-network-thread", "cache-eviction"])
                    .through(&["disk-read-in-network-thread"])
                    .api("PRODUCE"),
            ],
            ..Window::default()
        };
        Ok(window.shown_by(held, "reads held back"))
    }
}

/// Reads the topic from its beginning, again and again.
struct Consumer(Background<Result<u64, Error>>);

impl Consumer {
    fn start(scene: &Scene, fetch_bytes: u32) -> Result<Self, Error> {
        let connection = Connection::open(scene.address(), CONSUMER)?;
        let work = move |over: &AtomicBool| consume(connection, fetch_bytes, over);
        Ok(Self(Background::start("the consumer", work)))
    }

    /// Ends it when its fetch is answered; returns how many bytes it read.
    fn stop(self) -> Result<u64, Error> {
        self.0.stop()?
    }
}

fn consume(mut connection: Connection, fetch_bytes: u32, over: &AtomicBool) -> Result<u64, Error> {
    let (mut offset, mut bytes) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        let body = connection.call(&Request::fetch(TOPIC, 0, offset, fetch_bytes, 100))?;
        let brought = fetched(&body).filter(|brought| brought.error == 0);
        let brought = brought.ok_or_else(|| Error::Unusable("a fetch failed".to_owned()))?;
        bytes += u64::from(brought.bytes);
        offset = brought.next_offset.unwrap_or(0);
    }
    Ok(bytes)
}
