//! Faults of the writes of coordinators and the controller: offsets of groups, the cluster's metadata.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::plan::{Fault, OpenWindow, Proof, TOPIC, Truth, VolumeKind, standard_load};
use super::test_bed::{Slow, TestBed};
use crate::client::{Connection, Member, Request, Topic, Traffic, now_ns};
use crate::error::Result;
use crate::process::Background;
use crate::session::interrupt;

/// Groups commit offsets while writes to ext4's journal are slow. The coordinator appends them to `__consumer_offsets`
/// and then answers.
///
/// Truth: `journal-commit` for every slow request, as in `journal-stall`: the append of a group's record waits for the
/// commit, others for the coordinator's thread that performs such an append. Some producers run beside them.
pub(super) const OFFSETS_STALL: Fault = Fault {
    name: "offsets-stall",
    story: "groups commit offsets while writes into ext4's journal are held back",
    volume: VolumeKind::JOURNALED,
    load: |rng| Traffic { producers: 2, per_second: 10, ..standard_load(rng) },
    truths: || {
        let [commits, others] = [(); 2].map(|()| Truth::of(&["journal-commit"]));
        vec![commits.client(COMMITTER).api("OFFSET_COMMIT"), others.api("PRODUCE")]
    },
    prepare: |bed, _, _| (0..MAX_GROUPS).try_for_each(|number| Committer::start(bed, number).map(drop)),
    inject: |window| {
        let OpenWindow { bed, rng, threshold_ms, .. } = window;
        let (held_ms, length_ms) = (rng.u64(120..=350), rng.u64(2_200..=3_500));
        let (groups, pause_ms) = (rng.u32(3..=MAX_GROUPS), rng.u64(5..=20));
        let committers = (0..groups).map(|number| Committer::start(bed, number));
        let slow = Duration::from_millis(*threshold_ms);
        let committers: Vec<_> = committers.collect::<Result<_>>()?;
        let running: Vec<_> = committers
            .into_iter()
            .map(|committer| {
                let pause = Duration::from_millis(pause_ms);
                Background::start("a group", move |over| committer.commit_until(over, pause, slow))
            })
            .collect();
        bed.slow_down(Slow::JournalWrites, held_ms, length_ms, held_ms)?;
        let slow = running.into_iter().map(|running| running.stop()?).sum::<Result<usize>>()?;
        window.parameters = format!(
            "journal writes +{held_ms} ms for {length_ms} ms, {groups} groups, {pause_ms} ms between commits"
        );
        Ok(Proof::Counted(slow, "commits of offsets that their groups saw slow"))
    },
    ..Fault::DEFAULT
};

/// Clients create topics while writes of the cluster's metadata log are slow. The controller forces each change to the
/// device before it answers; the brokers' own logs are on another disk.
///
/// Truth: `metadata-fsync` anywhere in the chain of requests to the controller, on the clients' listener and on its
/// own: the fsync waits for the device, which is the next link. The client that creates topics ends before the device
/// is fast again.
pub(super) const CONTROLLER_STALL: Fault = Fault {
    name: "controller-stall",
    story: "topics are made while the cluster's metadata are on a slow device",
    volume: VolumeKind::WITHOUT_JOURNAL,
    load: |rng| Traffic { producers: 2, per_second: 10, ..standard_load(rng) },
    truths: || {
        let of = |api: &&str| Truth::of(&["metadata-fsync"]).through(&["metadata-fsync"]).api(api);
        ["CREATE_TOPICS", "ENVELOPE", "BROKER_HEARTBEAT"].iter().map(of).collect()
    },
    configure: |options, _, _| {
        options.metadata_dir = options.log_dir.take().map(|data| data.with_file_name("metadata"));
        Ok(())
    },
    inject: |window| {
        let OpenWindow { bed, rng, threshold_ms, start_ns, .. } = window;
        let (held_ms, length_ms) = (rng.u64(60..=200), rng.u64(2_200..=3_500));
        let slow = Duration::from_millis(*threshold_ms);
        let (maker, prefix) = (bed.connect("topic-maker")?, format!("made-{start_ns}"));
        bed.delay(Slow::Writes, held_ms)?;
        let making =
            Background::start("the topic maker", move |over| make_topics(maker, &prefix, over, slow));
        interrupt().sleep(Duration::from_millis(length_ms))?;
        let slow = making.stop()??;
        bed.clear_delays()?;
        interrupt().sleep(Duration::from_millis(2 * held_ms))?;
        window.parameters = format!("writes of the metadata +{held_ms} ms for {length_ms} ms");
        Ok(Proof::Counted(slow, "topics that took long to make"))
    },
    ..Fault::DEFAULT
};

/// Creates topics until `over`; returns how many took at least `slow`.
fn make_topics(mut maker: Connection, prefix: &str, over: &AtomicBool, slow: Duration) -> Result<usize> {
    let mut count = 0;
    for number in 0.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let name = format!("{prefix}-{number}");
        let sent = Instant::now();
        maker.order(&Request::create_topic(&Topic { name, partitions: 1, ..Topic::default() }))?;
        count += usize::from(sent.elapsed() >= slow);
    }
    Ok(count)
}

/// Clients create two thousand topics at once. Another client creates one at a time beside them.
///
/// Truth: `controller-busy` anywhere in the chain of requests that create topics: one thread of the controller decides
/// on all changes, one after the other. Its work for the many is what they wait for, and why the other waits. Its raft
/// thread lets changes gather for 25 ms by default, which nothing shows; here it waits for 1 ms. Producers are not
/// judged: the broker opens the new partitions' logs on the same processors.
pub(super) const METADATA_STORM: Fault = Fault {
    name: "metadata-storm",
    story: "clients make two thousand topics at once",
    properties: &[("controller.quorum.append.linger.ms", "1")],
    load: |rng| Traffic { producers: 2, per_second: 10, ..standard_load(rng) },
    // `record` samples a CPU 49 times a second: shorter waits are seen only by chance.
    threshold_ms: (100, 150),
    truths: || {
        let of = |api: &&str| Truth::of(&["controller-busy"]).through(&["controller-busy"]).api(api);
        ["CREATE_TOPICS", "ENVELOPE"].iter().map(of).collect()
    },
    inject: |window| {
        let OpenWindow { bed, rng, threshold_ms, start_ns, .. } = window;
        let clients = rng.usize(4..=10);
        let (maker, prefix) = (bed.connect("topic-maker")?, format!("made-{start_ns}"));
        let slow = Duration::from_millis(*threshold_ms);
        let making =
            Background::start("the topic maker", move |over| make_topics(maker, &prefix, over, slow));
        let names = (0..STORM_TOPICS).map(|number| format!("storm-{start_ns}-{number}"));
        let topics: Vec<Topic> =
            names.map(|name| Topic { name, partitions: 1, ..Topic::default() }).collect();
        let mut storm = Vec::new();
        for topics in topics.chunks(STORM_TOPICS.div_ceil(clients)) {
            let mut client = bed.connect("topic-storm")?;
            client.send(&Request::create_topics(topics))?;
            storm.push(client);
        }
        storm.iter_mut().try_for_each(|client| client.receive().map(drop))?;
        let slow = making.stop()??;
        window.parameters = format!("{STORM_TOPICS} topics by {clients} clients");
        Ok(Proof::Counted(slow, "topics that took long to make"))
    },
    ..Fault::DEFAULT
};
const STORM_TOPICS: usize = 2_000;

/// Groups of one member rebalance while writes to ext4's journal are slow. They do so again and again.
///
/// Truth: `journal-commit` for every slow `SyncGroup`: the leader's waits for the append of the assignment. The time
/// that members wait for each other is not part of the latency, and `JoinGroup` is not judged.
pub(super) const REBALANCE: Fault = Fault {
    name: "rebalance",
    story: "groups rebalance while writes into ext4's journal are held back",
    volume: VolumeKind::JOURNALED,
    load: |rng| Traffic { producers: 2, per_second: 10, ..standard_load(rng) },
    truths: || {
        let [syncs, others] = [(); 2].map(|()| Truth::of(&["journal-commit"]));
        vec![syncs.client(COMMITTER).api("SYNC_GROUP"), others.api("PRODUCE")]
    },
    prepare: |bed, _, _| (0..MAX_GROUPS).try_for_each(|number| Committer::start(bed, number).map(drop)),
    inject: |window| {
        let OpenWindow { bed, rng, threshold_ms, .. } = window;
        let (held_ms, length_ms) = (rng.u64(120..=350), rng.u64(2_200..=3_500));
        let (groups, pause_ms) = (rng.u32(3..=MAX_GROUPS), rng.u64(5..=20));
        let slow = Duration::from_millis(*threshold_ms);
        let members: Vec<_> =
            (0..groups).map(|number| Committer::start(bed, number)).collect::<Result<_>>()?;
        let running: Vec<_> = members
            .into_iter()
            .map(|member| {
                let pause = Duration::from_millis(pause_ms);
                Background::start("a group", move |over| member.rebalance_until(over, pause, slow))
            })
            .collect();
        bed.slow_down(Slow::JournalWrites, held_ms, length_ms, held_ms)?;
        let slow = running.into_iter().map(|running| running.stop()?).sum::<Result<usize>>()?;
        window.parameters = format!(
            "journal writes +{held_ms} ms for {length_ms} ms, {groups} groups, {pause_ms} ms between rebalances"
        );
        Ok(Proof::Counted(slow, "assignments that their groups saw slow"))
    },
    ..Fault::DEFAULT
};

const COMMITTER: &str = "committer";
const MAX_GROUPS: u32 = 8;
/// Timeout for the creation of the coordinator's topic.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A group that stores an offset again and again.
struct Committer {
    connection: Connection,
    group: String,
}

impl Committer {
    /// Connects, and waits until the group's coordinator accepts its offsets.
    fn start(bed: &TestBed, number: u32) -> Result<Self> {
        let group = format!("{COMMITTER}-{number}");
        let mut connection = bed.connect(&group)?;
        let is_ready = || {
            let is_found = connection.is_accepted(&Request::find_coordinator(&group))?;
            let is_stored =
                is_found && connection.is_accepted(&Request::commit_offset(&group, TOPIC, 0, 0))?;
            Ok(is_stored.then_some(()))
        };
        interrupt().wait(TIMEOUT, "the coordinator of groups", is_ready)?;
        Ok(Self { connection, group })
    }

    /// Makes a new group rebalance until `over`; returns how many assignments took at least `slow`.
    fn rebalance_until(mut self, over: &AtomicBool, pause: Duration, slow: Duration) -> Result<usize> {
        // The member of the previous window stays in its group until its session ends.
        let group = format!("{}-{}", self.group, now_ns());
        let (mut member, mut count) = (Member::default(), 0);
        while !over.load(Ordering::Relaxed) {
            member = self.connection.join(&Request::join_group(&group, &member.id))?;
            let sent = Instant::now();
            self.connection.order(&Request::sync_group(&group, &member))?;
            count += usize::from(sent.elapsed() >= slow);
            thread::sleep(pause);
        }
        Ok(count)
    }

    /// Commits until `over`; returns how many took at least `slow`.
    fn commit_until(mut self, over: &AtomicBool, pause: Duration, slow: Duration) -> Result<usize> {
        let mut count = 0;
        for offset in 1.. {
            if over.load(Ordering::Relaxed) {
                break;
            }
            let sent = Instant::now();
            self.connection.order(&Request::commit_offset(&self.group, TOPIC, 0, offset))?;
            count += usize::from(sent.elapsed() >= slow);
            thread::sleep(pause);
        }
        Ok(count)
    }
}
