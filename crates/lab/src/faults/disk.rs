//! Faults of the disk and of the file system on it.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

use super::plan::{Fault, OpenWindow, Proof, Truth, VolumeKind, prepared, standard_load};
use super::test_bed::{Slow, TestBed};
use crate::client::{Connection, Request, Traffic};
use crate::error::{Error, Result};
use crate::files;
use crate::host::Cgroup;
use crate::process::{Background, Process};
use crate::session::interrupt;
use crate::volume::{DirtyLimit, FileSystem};

/// Writes to ext4's journal are slow, everything else is fast: commits take long, and threads that need a buffer held
/// by a commit wait for it (`do_get_write_access`, fs/jbd2/transaction.c).
///
/// Truth: `journal-commit` for every slow request. An append holds its partition's lock and a request handler while it
/// waits, so others queue behind it, at the lock, for a handler, or behind an earlier request of their connection; the
/// commit is the root of all of them.
pub(super) const JOURNAL_STALL: Fault = Fault {
    name: "journal-stall",
    story: "writes into ext4's journal are held back",
    volume: VolumeKind::JOURNALED,
    shares: true,
    truths: || vec![Truth::of(&["journal-commit"])],
    inject: |window| {
        let (held_ms, length_ms) = (window.rng.u64(120..=350), window.rng.u64(2_200..=3_500));
        // Writes that are already held back stay so.
        window.bed.slow_down(Slow::JournalWrites, held_ms, length_ms, held_ms)?;
        window.parameters = format!("journal writes +{held_ms} ms for {length_ms} ms");
        Ok(Proof::HeldBack("writes into the journal held back"))
    },
    ..Fault::DEFAULT
};

/// Another process calls fsync on the same ext4, whose journal is slow. It does so again and again. On its own the
/// journal is committed every five minutes; each of these fsyncs commits it at once, and threads that need a buffer
/// held by the commit wait for it.
///
/// Truth: `journal-commit` for every slow request, as in `journal-stall`.
pub(super) const BLOCKED_BY_NEIGHBOUR: Fault = Fault {
    name: "blocked-by-neighbour",
    story: "another process calls fsync on the log dirs' ext4, whose journal is slow",
    volume: Some(VolumeKind { file_system: FileSystem::Ext4, mount_options: "commit=300" }),
    truths: || vec![Truth::of(&["journal-commit"])],
    inject: |window| {
        let (held_ms, length_ms) = (window.rng.u64(120..=250), window.rng.u64(2_200..=3_500));
        let file = window.bed.volume()?.directory().join("neighbour");
        let mut command = Command::new("sh");
        command.args(["-c", FSYNCS]).arg(&file).stdin(Stdio::null());
        let mut neighbour = Process::spawn(&mut command, Some(window.bed.site.path()))?;
        neighbour.is_throwaway = true;
        window.bed.slow_down(Slow::JournalWrites, held_ms, length_ms, held_ms)?;
        drop(neighbour);
        window.parameters =
            format!("another process's fsyncs for {length_ms} ms, journal writes +{held_ms} ms");
        Ok(Proof::HeldBack("writes into the journal held back"))
    },
    ..Fault::DEFAULT
};

/// One page at a time, until it is killed.
const FSYNCS: &str =
    "while dd if=/dev/zero of=\"$0\" bs=4k count=1 conv=notrunc,fsync status=none; do :; done";

/// XFS with a slow log, and a topic that is flushed after every message. Each append's fsync forces XFS's log
/// (`xfs_file_fsync`, `fs/xfs/xfs_file.c`) under the partition's lock. Without the flushes, appends on XFS wait for no
/// log: four thousand files created beside them in three seconds, with the log's writes held back, slowed none.
///
/// Truth: the chain leads through `roll-fsync`, the name for an fsync under the log's lock whether or not a segment
/// rolls, for the request that calls it and for those behind it. It waits for the device of XFS's log: `slow-device` is
/// the next link of the same chain.
pub(super) const XFS_LOG: Fault = Fault {
    name: "xfs-log",
    story: "XFS, whose log is slow, and a topic that is flushed after every message",
    volume: Some(VolumeKind { file_system: FileSystem::Xfs, mount_options: "" }),
    topic_configs: &[("flush.messages", "1")],
    // The rate that a fast device can flush: some tens of requests per second.
    load: |rng| Traffic {
        producers: rng.u32(4..=8),
        per_second: rng.u32(10..=20),
        in_flight: 1,
        ..standard_load(rng)
    },
    truths: || vec![Truth::of(&["roll-fsync", "slow-device"]).through(&["roll-fsync"])],
    inject: |window| {
        let (held_ms, length_ms) = (window.rng.u64(100..=250), window.rng.u64(1_800..=2_600));
        window.bed.slow_down(Slow::JournalWrites, held_ms, length_ms, 2 * held_ms)?;
        window.parameters = format!("log writes +{held_ms} ms for {length_ms} ms");
        Ok(Proof::HeldBack("writes into the log held back"))
    },
    ..Fault::DEFAULT
};

/// Small segments on a slow disk, with a Kafka that fsyncs when a segment rolls. This version (until 3.7, KAFKA-15046)
/// writes the producers' snapshot with an fsync, in the request's own thread and under the log's lock.
///
/// Truth: `roll-fsync` for every slow request: the one whose append rolled the segment, and those behind it. ext4 has
/// no journal, so that an fsync delays others only through the lock: appends that do not roll write to memory. The
/// device, which the fsync waited for, is the next link of the same chain and equally right.
pub(super) const ROLL_FSYNC: Fault = Fault {
    name: "roll-fsync",
    story: "segments of 1 MiB on a slow disk, with a Kafka that fsyncs when one rolls",
    volume: VolumeKind::WITHOUT_JOURNAL,
    // The last release line that fsyncs there.
    kafka: "3.6.2",
    topic_configs: &[("segment.bytes", "1048576")],
    // About one segment per second for each of a few partitions.
    load: |rng| {
        let (partitions, record_bytes) = (rng.u32(1..=3), rng.u32(4 << 10..=8 << 10));
        Traffic { partitions, record_bytes, per_second: 45, ..standard_load(rng) }
    },
    truths: || vec![Truth::of(&["roll-fsync"]).through(&["roll-fsync"])],
    inject: |window| {
        let (held_ms, length_ms) = (window.rng.u64(100..=250), window.rng.u64(2_000..=3_000));
        window.bed.slow_down(Slow::Writes, held_ms, length_ms, 2 * held_ms)?;
        window.parameters = format!("writes +{held_ms} ms for {length_ms} ms");
        Ok(Proof::HeldBack("writes held back"))
    },
    ..Fault::DEFAULT
};

/// Producers write more than the device's share of dirty pages allows: the kernel pauses threads that dirty another
/// page (`balance_dirty_pages`, mm/page-writeback.c). ext4 has no journal, so that no commit waits for the same pages.
///
/// Truth: `dirty-throttling` for every slow request: the pause is inside the append, under the lock, so that others
/// wait for the paused thread.
pub(super) const DIRTY_THROTTLING: Fault = Fault {
    name: "dirty-throttling",
    story: "producers dirty more pages than the device may have",
    volume: VolumeKind::WITHOUT_JOURNAL,
    shares: true,
    // Six to twelve producers, 10 to 30 MiB per second altogether.
    load: |rng| {
        let (record_bytes, per_second) = (rng.u32(48 << 10..=96 << 10), rng.u32(25..=30));
        Traffic { record_bytes, per_second, in_flight: 1, ..standard_load(rng) }
    },
    threshold_ms: (40, 70),
    truths: || vec![Truth::of(&["dirty-throttling"])],
    prepare: |bed, _, _| {
        // A loop device may still have the limits that a killed lab set.
        drop(DirtyLimit::set(bed.volume()?.device_number()?, 1 << 30)?);
        Ok(())
    },
    inject: |window| {
        let (held_ms, length_ms) = (window.rng.u64(20..=50), window.rng.u64(1_800..=2_600));
        let max_bytes = window.rng.u64(1 << 20..=3 << 20);
        let limit = DirtyLimit::set(window.bed.volume()?.device_number()?, max_bytes)?;
        window.bed.slow_down(Slow::Writes, held_ms, length_ms, 0)?;
        drop(limit);
        interrupt().sleep(Duration::from_millis(MAX_PAUSE_MS))?;
        window.parameters = format!("{max_bytes} B may be dirty for {length_ms} ms, writes +{held_ms} ms");
        Ok(Proof::HeldBack("writes that the limit had begin"))
    },
    ..Fault::DEFAULT
};

/// The longest pause (`MAX_PAUSE`, HZ/5): after it, any pause that started before the limit was lifted has ended.
const MAX_PAUSE_MS: u64 = 200;

/// A slow device below ext4 without a journal: the segments' last pages are evicted from the page cache, and reads are
/// held back, so that the next append to each partition, which starts in the middle of such a page, has to read it.
///
/// Truth: `slow-device` for every slow request: one append to each partition waits for the device, and other slow
/// requests wait for that append: at the lock, for a handler, or behind it on the connection.
pub(super) const SLOW_DEVICE: Fault = Fault {
    name: "slow-device",
    story: "no journal; appends must read their segment's last page from a slow device",
    volume: VolumeKind::WITHOUT_JOURNAL,
    shares: true,
    truths: || vec![Truth::of(&["slow-device"])],
    inject: inject_cold_appends,
    ..Fault::DEFAULT
};

/// Like [`SLOW_DEVICE`], but the broker's cgroup may read few bytes per second. The device is fast: blk-throttle
/// (version 1's `blkio.throttle.*`, version 2's `io.max`) holds back reads before they enter the device's queue.
///
/// Truth: `io-throttled` for every slow request, like `slow-device` there.
pub(super) const IO_LIMIT: Fault = Fault {
    name: "io-limit",
    story: "no journal; appends must read their segment's last page, and the broker's cgroup may read little",
    volume: VolumeKind::WITHOUT_JOURNAL,
    truths: || vec![Truth::of(&["io-throttled"])],
    // In the cgroup from the start and unlimited, as a container is.
    prepare: |bed, tools, _| tools.cgroup.insert(Cgroup::make(bed.site.path(), "blkio")?).put(bed.broker.pid),
    inject: |window| {
        let device = window.bed.volume()?.device_number()?;
        let bytes_per_second = window.rng.u64(MIN_LIMIT..=3 * MIN_LIMIT);
        let each = Duration::from_millis(1_000 * PAGE_BYTES / bytes_per_second);
        let reads = |window: &OpenWindow<'_>| {
            prepared(window.tools.cgroup.as_ref())?.of_device("blkio.throttle.io_serviced", device, "Read")
        };
        let limit = |window: &OpenWindow<'_>, limit| {
            prepared(window.tools.cgroup.as_ref())?.limit("blkio.throttle.read_bps_device", device, limit)
        };
        let before = reads(window)?;
        limit(window, bytes_per_second)?;
        interrupt().sleep(LIMIT_IS_KNOWN)?;
        let done = cold_appends(window, each * window.traffic.partitions);
        limit(window, 0)?;
        done?;
        let held_back = reads(window)?.saturating_sub(before);
        window.parameters = format!("reads of {bytes_per_second} B/s, {TIMES} times");
        Ok(Proof::Counted(held_back as usize, "reads of the broker under the limit"))
    },
    ..Fault::DEFAULT
};

/// Bytes that a cold append reads.
const PAGE_BYTES: u64 = 4_096;
/// A recorder reads the limits once a second.
const LIMIT_IS_KNOWN: Duration = Duration::from_millis(1_200);
/// The smallest limit of bytes per second. Such a page takes a quarter of a second, and as long again for each
/// partition that is read at once.
const MIN_LIMIT: u64 = 4 * PAGE_BYTES;

/// How often in a window, and the time in between.
const TIMES: u32 = 3;
const APART: Duration = Duration::from_millis(450);
/// No append may come meanwhile: a page that is dirtied again stays.
const PAUSE: Duration = Duration::from_millis(80);

/// Makes the next append to each partition read its page, several times. The device is slow meanwhile.
fn inject_cold_appends(window: &mut OpenWindow<'_>) -> Result<Proof> {
    let held_ms = window.rng.u64(120..=350);
    let held = Duration::from_millis(held_ms);
    window.bed.delay(Slow::Reads, held_ms)?;
    cold_appends(window, held)?;
    window.bed.clear_delays()?;
    interrupt().sleep(held)?;
    window.parameters = format!("reads +{held_ms} ms, {TIMES} times");
    Ok(Proof::HeldBack("reads held back"))
}

/// Makes the next append to each partition read its page, several times. Each read takes at most `held`.
fn cold_appends(window: &mut OpenWindow<'_>, held: Duration) -> Result<()> {
    for _ in 0..TIMES {
        window.pause(true);
        interrupt().sleep(PAUSE)?;
        for partition in 0..window.traffic.partitions {
            evict_segments(&window.bed.partition_directory(&window.traffic.topic, partition))?;
        }
        window.pause(false);
        interrupt().sleep(APART + held)?;
    }
    Ok(())
}

/// Many producers to one partition: when one's append is slow (as in [`SLOW_DEVICE`]), all others wait for the
/// partition's lock.
///
/// Truth: the chain leads through `log-lock` to what delayed the holder. The holder's own request waited for no lock:
/// for it, and as the root of all, `slow-device` is right. There are more request handlers than producers, so that no
/// request waits for a handler instead.
pub(super) const LOCK_CONTENTION: Fault = Fault {
    name: "lock-contention",
    story: "many producers to one partition, of which now and then one is slow under the lock",
    volume: VolumeKind::WITHOUT_JOURNAL,
    properties: &[("num.io.threads", "24")],
    // Ten to twenty producers with one unanswered request each.
    load: |rng| {
        let (producers, per_second) = (rng.u32(10..=20), rng.u32(40..=70));
        Traffic { partitions: 1, producers, per_second, in_flight: 1, ..standard_load(rng) }
    },
    truths: || vec![Truth::of(&["log-lock", "slow-device"]).through(&["log-lock"])],
    inject: inject_cold_appends,
    ..Fault::DEFAULT
};

/// A consumer that catches up reads an evicted segment from a slow device. The handler only looks up the position;
/// `sendfile` reads the bytes on the network thread (KAFKA-7504), the only one, so that all connections wait for the
/// device.
///
/// Truth: for the producers, `disk-read-in-network-thread`: their requests wait in their sockets, or their responses in
/// the network thread's queue, until its read ends. `cache-eviction` is the same event, named after why the pages were
/// missing. The consumer's own fetches wait for the same reads, and for the handler's read of the batches' headers, a
/// read like any other: `slow-device` is right for them too.
pub(super) const COLD_READS: Fault = Fault {
    name: "cold-reads",
    story: "a catch-up consumer has the only network thread read from a slow device",
    volume: VolumeKind::WITHOUT_JOURNAL,
    properties: &[("num.network.threads", "1")],
    threshold_ms: (40, 40),
    truths: || {
        let names = ["disk-read-in-network-thread", "cache-eviction", "slow-device"];
        let [network, eviction, _] = names;
        vec![
            Truth::of(&names).client(CONSUMER),
            Truth::of(&[network, eviction]).through(&[network]).api("PRODUCE"),
        ]
    },
    prepare: |bed, _, rng| {
        bed.create_filled_topic(ARCHIVE, &[], (BATCHES, BATCH_BYTES), rng)?;
        let consumer = start_consumer(bed, BATCH_BYTES as u32)?;
        bed.warm_up(&standard_load(rng), rng)?;
        consumer.stop()?.map(drop)
    },
    prepare_window: |bed, _, _| evict_segments(&bed.partition_directory(ARCHIVE, 0)),
    inject: |window| {
        let (held_ms, length_ms) = (window.rng.u64(80..=200), window.rng.u64(1_500..=2_500));
        let fetch_bytes = window.rng.u32(128 << 10..=1 << 20);
        let consumer = start_consumer(window.bed, fetch_bytes)?;
        window.bed.slow_down(Slow::Reads, held_ms, length_ms, 0)?;
        let read_bytes = consumer.stop()??;
        window.parameters = format!(
            "reads +{held_ms} ms, fetches of {fetch_bytes} B for {length_ms} ms ({read_bytes} B read)"
        );
        Ok(Proof::HeldBack("reads held back"))
    },
    ..Fault::DEFAULT
};

const ARCHIVE: &str = "archive";
const CONSUMER: &str = "archive-reader";
/// Content of the topic.
const BATCH_BYTES: usize = 512 << 10;
const BATCHES: usize = 192;

/// Starts a consumer that reads the topic from its start, again and again; at its end it returns how many bytes it
/// read.
fn start_consumer(bed: &TestBed, fetch_bytes: u32) -> Result<Background<Result<u64>>> {
    let connection = bed.connect(CONSUMER)?;
    Ok(Background::start("the consumer", move |over| consume(connection, fetch_bytes, over)))
}

fn consume(mut connection: Connection, fetch_bytes: u32, over: &AtomicBool) -> Result<u64> {
    let (mut offset, mut bytes) = (0, 0);
    while !over.load(Ordering::Relaxed) {
        let fetched = connection.fetch(&Request::fetch(ARCHIVE, 0, offset, fetch_bytes, 100))?;
        bytes += fetched.bytes;
        offset = fetched.next_offset.unwrap_or(0);
    }
    Ok(bytes)
}

/// Nothing is injected: load as in the other runs, on the file system that most of them have. The slowest requests of a
/// window are judged, however fast they were.
///
/// Truth: no request may be given a cause that no independent observation shows. Those are the JVM's own log of its
/// pauses, and the kernel's statistics of how long the broker's request threads waited for a processor and when its
/// device was busy: real causes, without which there is no machine. A request that was slow without a cause
/// (`unobserved`) is the machine's affair.
pub(super) const QUIET: Fault = Fault {
    name: "quiet",
    story: "nothing is injected",
    volume: VolumeKind::JOURNALED,
    shares: true,
    inject: |_| {
        interrupt().sleep(Duration::from_millis(2_500))?;
        Ok(Proof::Slowest)
    },
    ..Fault::DEFAULT
};

/// Evicts all segments in a partition's directory from the page cache. Writes back dirty pages and drops them: the next
/// reads come from the device. Pages dirtied meanwhile stay.
fn evict_segments(directory: &Path) -> Result<()> {
    let segments = files::list(directory)?.into_iter();
    segments.filter(|path| path.extension().is_some_and(|end| end == "log")).try_for_each(|path| {
        let file = File::open(&path).map_err(Error::io("open", &path))?;
        file.sync_data().map_err(Error::io("write back", &path))?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(Error::io("evict", &path))
    })
}
