//! Faults of tiered storage (KIP-405): old segments are only in a remote storage, which is slow.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{Advice, fadvise};

use super::plan::{Fault, OpenWindow, Proof, Truth, VolumeKind, prepared};
use super::test_bed::{Slow, TestBed};
use crate::broker::BrokerOptions;
use crate::client::{Connection, Request};
use crate::error::{Error, Result};
use crate::process::Background;
use crate::session::interrupt;
use crate::{files, kafka};

/// A consumer reads records that only tiered storage has: Kafka's own `LocalTieredStorage`, a directory on a device
/// whose reads are held back. A thread `remote-log-reader` reads for each fetch; if it takes longer than
/// `remote.fetch.max.wait.ms`, half a second by default, the broker answers without records, and the consumer asks
/// again. Another consumer waits for records that are never written.
///
/// Truth: `remote-tier-read` for the fetches of the first, anywhere in the chain: the reader waits for the storage's
/// device, which is the next link. The other's are a `long-poll`, if they are reported at all.
pub(super) const TIERED_READ: Fault = Fault {
    name: "tiered-read",
    story: "a consumer reads old records from a tiered storage that is slow",
    volume: VolumeKind::WITHOUT_JOURNAL,
    properties: PROPERTIES,
    truths: || {
        vec![
            Truth::of(&["remote-tier-read"]).through(&["remote-tier-read"]).client(CONSUMER).api("FETCH"),
            Truth::of(&["long-poll"]).client(PATIENT).api("FETCH"),
        ]
    },
    configure: |options, _, _| configure(options),
    prepare: |bed, _, rng| {
        bed.create_filled_topic(SILENT, &[], (0, 0), rng)?;
        bed.create_filled_topic(OLD, TOPIC_CONFIGS, (BATCHES, BATCH_BYTES), rng)?;
        wait_until_tiered(&bed.partition_directory(OLD, 0))
    },
    prepare_window: |bed, _, _| evict(&tier_of(bed)?),
    inject: inject_slow_tier,
    ..Fault::DEFAULT
};

const CONSUMER: &str = "history-reader";
const PATIENT: &str = "patient";
const OLD: &str = "history";
/// Nothing is written to it.
const SILENT: &str = "silent";
/// Settings of the topic. Segments are as small as Kafka 4.1 allows, and leave the broker as soon as the storage has
/// them.
const TOPIC_CONFIGS: &[(&str, &str)] = &[
    ("remote.storage.enable", "true"),
    ("segment.bytes", "1048576"),
    ("local.retention.bytes", "1"),
    ("file.delete.delay.ms", "100"),
];
/// Content of the topic.
const BATCH_BYTES: usize = 32 << 10;
const BATCHES: usize = 640;
/// Timeout for moving it.
const TIER_TIMEOUT: Duration = Duration::from_secs(120);
/// The default of consumers.
const MAX_WAIT_MS: u32 = 500;

/// Settings of the broker except paths. It looks for segments to move every half second.
const PROPERTIES: &[(&str, &str)] = &[
    ("remote.log.storage.system.enable", "true"),
    (
        "remote.log.storage.manager.class.name",
        "org.apache.kafka.server.log.remote.storage.LocalTieredStorage",
    ),
    ("remote.log.metadata.manager.listener.name", "PLAINTEXT"),
    ("rlmm.config.remote.log.metadata.topic.replication.factor", "1"),
    ("rlmm.config.remote.log.metadata.topic.num.partitions", "1"),
    ("remote.log.manager.task.interval.ms", "500"),
    ("log.initial.task.delay.ms", "500"),
    ("log.retention.check.interval.ms", "500"),
];

/// Puts the storage on the volume, and the broker's own logs elsewhere.
fn configure(options: &mut BrokerOptions) -> Result<()> {
    let tier = prepared(options.log_dir.take().as_ref())?.with_file_name(TIER);
    files::make(&tier)?;
    let jar = kafka::tier_jar(kafka::DEFAULT_VERSION)?;
    let paths =
        [("remote.log.storage.manager.class.path", jar.display()), ("rsm.config.dir", tier.display())];
    let paths = paths.iter().map(|(key, path)| ((*key).to_owned(), path.to_string()));
    options.properties.extend(paths);
    Ok(())
}

const TIER: &str = "tier";

fn tier_of(bed: &mut TestBed) -> Result<PathBuf> {
    Ok(bed.volume()?.directory().join(TIER))
}

/// Waits until the broker has nothing but the active segment.
fn wait_until_tiered(partition: &Path) -> Result<()> {
    let is_moved = || {
        let segments = files::list(partition)?;
        let count = segments.iter().filter(|path| path.extension().is_some_and(|end| end == "log")).count();
        Ok((count == 1).then_some(()))
    };
    interrupt().wait(TIER_TIMEOUT, "the move of old segments to tiered storage", is_moved)
}

/// Evicts all files of the storage from the page cache.
fn evict(directory: &Path) -> Result<()> {
    for path in files::list(directory)? {
        if path.is_dir() {
            evict(&path)?;
            continue;
        }
        let file = File::open(&path).map_err(Error::io("open", &path))?;
        file.sync_data().map_err(Error::io("write back", &path))?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(Error::io("evict", &path))?;
    }
    Ok(())
}

fn inject_slow_tier(window: &mut OpenWindow<'_>) -> Result<Proof> {
    let OpenWindow { bed, rng, .. } = window;
    let (held_ms, length_ms) = (rng.u64(60..=200), rng.u64(1_800..=2_600));
    let (first, fetch_bytes) = (rng.usize(..BATCHES / 2) as i64, rng.u32(48 << 10..=192 << 10));
    let mut consumer = bed.connect(CONSUMER)?;
    // The response shows how much there is.
    consumer.fetch(&Request::fetch(OLD, 0, BATCHES as i64, 1, 0))?;
    let patient = bed.connect(PATIENT)?;
    let patient = Background::start("the patient consumer", move |over| wait_for_nothing(patient, over));
    bed.delay(Slow::Reads, held_ms)?;
    let consumer = Background::start("the consumer", move |over| consume(consumer, first, fetch_bytes, over));
    interrupt().sleep(Duration::from_millis(length_ms))?;
    let slowest = consumer.stop()??;
    bed.clear_delays()?;
    patient.stop()??;
    window.parameters = format!(
        "reads of the storage +{held_ms} ms, fetches of {fetch_bytes} B from offset {first} for {length_ms} ms, the \
         slowest of which took {} ms",
        slowest.as_millis()
    );
    Ok(Proof::HeldBack("reads of the storage held back"))
}

/// Reads on from an offset; returns how long the slowest fetch took.
fn consume(
    mut connection: Connection,
    mut offset: i64,
    fetch_bytes: u32,
    over: &AtomicBool,
) -> Result<Duration> {
    let mut slowest = Duration::ZERO;
    while !over.load(Ordering::Relaxed) {
        let sent = Instant::now();
        let fetched = connection.fetch(&Request::fetch(OLD, 0, offset, fetch_bytes, MAX_WAIT_MS))?;
        slowest = slowest.max(sent.elapsed());
        offset = fetched.next_offset.unwrap_or(offset) % BATCHES as i64;
    }
    Ok(slowest)
}

fn wait_for_nothing(mut connection: Connection, over: &AtomicBool) -> Result<()> {
    while !over.load(Ordering::Relaxed) {
        connection.fetch(&Request::fetch(SILENT, 0, 0, 1 << 10, MAX_WAIT_MS))?;
    }
    Ok(())
}
