//! Faults of the JVM: pauses, and threads that stop late for them.

use std::time::Duration;
use std::{fs, thread};

use super::plan::{Fault, OpenWindow, Proof, TOPIC, Truth, VolumeKind, prepared};
use super::test_bed::TestBed;
use crate::client::Request;
use crate::device::Direction;
use crate::error::{Error, Result};
use crate::files;
use crate::host::Cgroup;
use crate::jvm::{Jvm, lock_holder};
use crate::session::interrupt;
use crate::volume::{Extent, FileSystem};

/// The JVM collects its whole heap several times, with all threads stopped: as `jcmd PID GC.run` does, and a heap that
/// is too small. Uses the serial collector, whose pauses grow with the number of live objects.
///
/// Truth: `gc-pause` for every slow request of the window: nothing else delays any for so long.
pub(super) const GC_PAUSE: Fault = Fault {
    name: "gc-pause",
    story: "the JVM collects its whole heap, its threads stopped",
    threshold_ms: (25, 40),
    truths: || vec![Truth::of(&["gc-pause"]).slows_pauses()],
    configure: |options, _, rng| {
        let heap = rng.u32(256..=512);
        options.jvm_arguments.extend(["-XX:-UseG1GC", "-XX:+UseSerialGC"].map(str::to_owned));
        options.jvm_arguments.extend(["ms", "mx"].map(|end| format!("-X{end}{heap}m")));
        Ok(())
    },
    prepare: |bed, tools, _| {
        tools.jvm = Some(Jvm::attach(bed.broker.pid)?);
        Ok(())
    },
    inject: |window| {
        let jvm = prepared(window.tools.jvm.as_ref())?;
        let (times, apart_ms) = (window.rng.u32(3..=5), window.rng.u64(250..=700));
        for _ in 0..times {
            jvm.order("GC.run")?;
            interrupt().sleep(Duration::from_millis(apart_ms))?;
        }
        let pauses = window.bed.pauses()?;
        let long = pauses.iter().filter(|pause| {
            let within = pause.end_ns >= window.start_ns - MAX_LATE_NS;
            within && pause.is_collection() && pause.length_ns() >= window.threshold_ms as i64 * 1_000_000
        });
        let long: Vec<String> = long.map(|pause| format!("{} ms", pause.length_ns() / 1_000_000)).collect();
        window.parameters = format!(
            "{times} collections {apart_ms} ms apart, those over the threshold of {}",
            long.join(", ")
        );
        Ok(Proof::Counted(long.len(), "collections over the threshold, by the JVM's own log"))
    },
    ..Fault::DEFAULT
};

/// How late the JVM's log may be, because its times are whole milliseconds.
const MAX_LATE_NS: i64 = 5_000_000;

/// The JVM wants its threads to stop, and one of them is in a page fault: a consumer asks for an old offset, the page
/// of the mapped index that locates it has left the page cache, and the device is slow. Threads poll for safepoints
/// between instructions, so that thread stops when its page is there; all others wait, stopped.
///
/// Index pages leave the cache because the broker's memory cgroup is emptied, as memory pressure would do. Everything
/// else is read back first, so that only the old topic's indexes are cold. Only reads of these are slow on the device:
/// slow reads of the file system's own blocks, within a journal handle, would make a commit wait, which is as true a
/// cause as the injected one.
///
/// Truth: `safepoint` for slow produce requests, or as their root what kept the thread from stopping: the page of the
/// index that had to be read, or the device that it was read from.
pub(super) const TIME_TO_SAFEPOINT: Fault = Fault {
    name: "time-to-safepoint",
    story: "a thread faults on a cold index page while the JVM wants all threads to stop",
    volume: Some(VolumeKind { file_system: FileSystem::Ext4, mount_options: "" }),
    truths: || {
        let causes = ["safepoint", "index-page-fault", "slow-device"];
        vec![Truth::of(&causes).through(&["safepoint"]).slows_pauses().api("PRODUCE")]
    },
    // In its cgroup from the start: pages are charged where they are first touched.
    configure: |options, tools, _| {
        let memory = Cgroup::make(prepared(options.site.as_ref())?, "memory")?;
        options.launcher.extend(memory.entering());
        tools.cgroup = Some(memory);
        Ok(())
    },
    prepare: |bed, tools, rng| {
        let segments = [("segment.bytes", &*SEGMENT_BYTES.to_string())];
        bed.create_filled_topic(OLD, &segments, (SEGMENTS * SEGMENT_BYTES / BATCH_BYTES, BATCH_BYTES), rng)?;
        tools.old_segments = closed_segments(bed)?;
        tools.old_indexes = index_extents(bed, &tools.old_segments)?;
        tools.jvm = Some(Jvm::attach(bed.broker.pid)?);
        Ok(())
    },
    prepare_window: |bed, tools, _| {
        rustix::fs::sync();
        prepared(tools.cgroup.as_ref())?.set("memory.force_empty", 0)?;
        read_back(bed)
    },
    inject: |window| {
        let OpenWindow { bed, tools, rng, start_ns, threshold_ms, .. } = window;
        let jvm = prepared(tools.jvm.as_ref())?;
        let (times, held_ms) = (rng.u32(2..=3), rng.u64(200..=500));
        let mut reader = bed.connect("reader")?;
        for _ in 0..times {
            let Some(base) = rng.choice(&tools.old_segments) else { break };
            // Not in the middle of a segment whose first entry answers without a search.
            let fetch = Request::fetch(OLD, 0, base + rng.i64(4..=20), 1 << 10, 0);
            bed.volume()?.delay(&tools.old_indexes, Direction::Read, (held_ms, held_ms))?;
            reader.send(&fetch)?;
            thread::sleep(HEAD_START);
            jvm.order("Thread.print")?;
            reader.receive()?;
            bed.clear_delays()?;
            interrupt().sleep(Duration::from_millis(rng.u64(150..=400)))?;
        }
        let long = bed
            .pauses()?
            .iter()
            .filter(|pause| pause.end_ns >= *start_ns)
            .filter(|pause| pause.reaching_ns >= *threshold_ms as i64 * 1_000_000)
            .count();
        window.parameters = format!("{times} faults on cold indexes, reads +{held_ms} ms");
        Ok(Proof::Counted(long, "safepoints that took long to reach, by the JVM's own log"))
    },
    ..Fault::DEFAULT
};

/// A thread of the broker holds a partition's leadership lock for a while. It does so like a change of the in-sync
/// replicas (`java/HoldLock.java`). Handlers wait for it in a futex before they append; no source of the JVM reports
/// that without Flight Recorder, which is not started automatically on Java 17.
///
/// Truth: `java-wait` for slow produce requests, including those behind them in queues.
pub(super) const JAVA_LOCK: Fault = Fault {
    name: "java-lock",
    story: "a thread of the broker holds a partition's leadership lock",
    truths: || vec![Truth::of(&["java-wait"]).through(&["java-wait"]).api("PRODUCE")],
    prepare: |bed, tools, _| {
        tools.agent = Some(lock_holder(&bed.site.directory("agent")?)?);
        tools.jvm = Some(Jvm::attach(bed.broker.pid)?);
        Ok(())
    },
    inject: |window| {
        let jvm = prepared(window.tools.jvm.as_ref())?;
        let agent = prepared(window.tools.agent.as_ref())?;
        let (times, held_ms) = (window.rng.u32(2..=4), window.rng.u64(100..=400));
        let apart_ms = window.rng.u64(300..=700);
        let partition = window.rng.u32(0..window.traffic.partitions);
        for _ in 0..times {
            jvm.order(&format!("JVMTI.agent_load {} {TOPIC},{partition},{held_ms}", agent.display()))?;
            interrupt().sleep(Duration::from_millis(held_ms + apart_ms))?;
        }
        window.parameters = format!("{times} times {held_ms} ms, {apart_ms} ms apart, partition {partition}");
        Ok(Proof::SlowRequests)
    },
    ..Fault::DEFAULT
};

const OLD: &str = "history";
/// The smallest that Kafka 4.1 accepts.
const SEGMENT_BYTES: usize = 1 << 20;
const SEGMENTS: usize = 12;
const BATCH_BYTES: usize = 32 << 10;
/// Time between the fetch that faults and the order that stops all threads.
const HEAD_START: Duration = Duration::from_millis(40);

/// Base offsets of all segments but the newest.
fn closed_segments(bed: &TestBed) -> Result<Vec<i64>> {
    let directory = bed.partition_directory(OLD, 0);
    let paths = files::list(&directory)?;
    let names = paths.iter().filter_map(|path| path.file_name()?.to_str());
    let mut bases: Vec<i64> = names.filter_map(|name| name.strip_suffix(".log")?.parse().ok()).collect();
    bases.sort_unstable();
    bases.pop();
    Ok(bases)
}

/// Extents of these segments' indexes, after a sync: Kafka itself writes them back at any time.
fn index_extents(bed: &mut TestBed, bases: &[i64]) -> Result<Vec<Extent>> {
    rustix::fs::sync();
    let directory = bed.partition_directory(OLD, 0);
    let volume = bed.volume()?;
    let of = |base: &i64| volume.extents_of(&directory.join(format!("{base:020}.index")));
    let extents = bases.iter().map(of).collect::<Result<Vec<Vec<Extent>>>>()?.concat();
    if extents.len() < bases.len() {
        return Err(Error::Unusable(format!("some indexes in {} lie nowhere", directory.display())));
    }
    Ok(extents)
}

/// Reads everything back into the page cache except the indexes of the old topic.
fn read_back(bed: &TestBed) -> Result<()> {
    for partition in files::list(&bed.broker.log_dir)?.into_iter().filter(|path| path.is_dir()) {
        let is_old = partition == bed.partition_directory(OLD, 0);
        for file in files::list(&partition)? {
            let is_index = file.extension().is_some_and(|extension| extension == "index");
            if !(is_old && is_index) {
                // Kafka may have deleted it in the meantime.
                let _ = fs::read(&file);
            }
        }
    }
    Ok(())
}
