//! Declaration of a fault: how it is injected, and the truth about the requests that it slowed.
//!
//! The truth is declared before anything is recorded, with its reason. Accepted names after the first one are for the
//! same event seen from another place, never for another event.

use std::path::PathBuf;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::broker::Codec;
use super::ground_truth::Observation;
use super::test_bed::{SETTLE, TestBed};
use crate::broker::{Broker, BrokerOptions};
use crate::client::{Answer, Running, Topic, Traffic, now_ns};
use crate::error::{Error, Result};
use crate::experiment::setup::pairs;
use crate::host::{Cgroup, CpuHogs};
use crate::jvm::Jvm;
use crate::kafka;
use crate::net::Network;
use crate::session::{interrupt, print_status};
use crate::volume::{Extent, FileSystem};

/// The topic that the load writes to.
pub(super) const TOPIC: &str = "orders";
/// The maximum number of partitions drawn, and the number that the topic has.
pub(super) const MAX_PARTITIONS: u32 = 6;

/// A cause that is injected on a real broker, one window after the other: what it is, what it needs, what it does.
pub(super) struct Fault {
    /// The row of the confusion matrix, and the directory.
    pub(super) name: &'static str,
    /// One line about what it does to the broker.
    pub(super) story: &'static str,
    /// The volume of the broker's partitions; `None` for a plain directory of this machine.
    pub(super) volume: Option<VolumeKind>,
    /// Whether it can share a broker with other faults: it does not change how the broker starts, and leaves nothing
    /// behind that slows it.
    pub(super) shares: bool,
    /// Whether only a guest's hypervisor can inject it.
    pub(super) guest_only: bool,
    /// Why it has no truth if clients speak TLS: `--tls` then leaves it out, unless it is named.
    pub(super) no_truth_over_tls: Option<&'static str>,
    /// The version of Kafka.
    pub(super) kafka: &'static str,
    /// Lines of server.properties.
    pub(super) properties: &'static [(&'static str, &'static str)],
    /// Settings of the load's topic.
    pub(super) topic_configs: &'static [(&'static str, &'static str)],
    /// The brokers that have the load's topic, the leader first; if empty, the broker alone.
    pub(super) topic_brokers: &'static [u32],
    /// The load of a window.
    pub(super) load: fn(&mut Rng) -> Traffic,
    /// The range from which the threshold is drawn: requests that took at least that long are judged.
    pub(super) threshold_ms: (u64, u64),
    /// The right causes of requests; the first truth that applies to a request counts. Empty if nothing is injected.
    pub(super) truths: fn() -> Vec<Truth>,
    /// Changes how the broker is started. Numbers drawn here hold for all windows.
    pub(super) configure: fn(&mut BrokerOptions, &mut Tools, &mut Rng) -> Result<()>,
    /// Prepares the clients' network, before anything is sent.
    pub(super) connect: fn(&mut TestBed, &mut Tools) -> Result<()>,
    /// Creates further topics, fills them, starts what else is needed: none of it is recorded.
    pub(super) prepare: fn(&mut TestBed, &mut Tools, &mut Rng) -> Result<()>,
    /// Prepares one window, before its load starts.
    pub(super) prepare_window: fn(&mut TestBed, &mut Tools, &mut Rng) -> Result<()>,
    /// Injects it once beside the load and removes it; returns when the last operation that it delayed has ended.
    pub(super) inject: fn(&mut OpenWindow<'_>) -> Result<Proof>,
    /// Observations since [`Fault::prepare`] of causes that were not injected. The sources are independent of
    /// brokerscope. The log of the broker's own JVM is read for every fault.
    pub(super) observations: fn(&Tools) -> Result<Vec<Observation>>,
}

impl Fault {
    /// A fault on a plain directory, under the standard load, that does nothing.
    pub(super) const DEFAULT: Self = Self {
        name: "",
        story: "",
        volume: None,
        shares: false,
        guest_only: false,
        no_truth_over_tls: None,
        kafka: kafka::DEFAULT_VERSION,
        properties: &[],
        topic_configs: &[],
        topic_brokers: &[],
        load: standard_load,
        threshold_ms: (40, 80),
        truths: Vec::new,
        configure: |_, _, _| Ok(()),
        connect: |_, _| Ok(()),
        prepare: |_, _, _| Ok(()),
        prepare_window: |_, _, _| Ok(()),
        inject: |_| Ok(Proof::Slowest),
        observations: |_| Ok(Vec::new()),
    };

    /// Whether nothing is injected: the kernel's statistics are then the ground truth, for the device too.
    pub(super) fn is_quiet(&self) -> bool {
        (self.truths)().is_empty()
    }

    /// Creates the load's topic.
    pub(super) fn create_topic(&self, bed: &TestBed) -> Result<()> {
        bed.create_topic(&Topic {
            name: TOPIC.to_owned(),
            partitions: MAX_PARTITIONS,
            brokers: self.topic_brokers.to_vec(),
            configs: pairs(self.topic_configs),
        })
    }
}

/// What a fault has created outside the test bed; ends on drop, before the test bed. Fields are dropped in order.
#[derive(Default)]
pub(super) struct Tools {
    // Before their network.
    pub(super) followers: Vec<Broker>,
    /// The followers' logs of their JVM pauses.
    pub(super) follower_logs: Vec<PathBuf>,
    pub(super) cgroup: Option<Cgroup>,
    /// In the hierarchy of the freezer controller, which is another one.
    pub(super) freezer: Option<Cgroup>,
    pub(super) network: Option<Network>,
    pub(super) hogs: Option<CpuHogs>,
    pub(super) jvm: Option<Jvm>,
    /// The jar of an agent to load into the JVM.
    pub(super) agent: Option<PathBuf>,
    pub(super) codec: Option<Codec>,
    /// Request handlers of the broker.
    pub(super) handlers: u32,
    /// Base offsets of closed segments, and the extents of their indexes on the device.
    pub(super) old_segments: Vec<i64>,
    pub(super) old_indexes: Vec<Extent>,
}

/// Returns what a fault has prepared.
///
/// # Errors
/// It was not prepared.
pub(super) fn prepared<T>(tool: Option<&T>) -> Result<&T> {
    tool.ok_or_else(|| Error::Unusable("the fault was not prepared".to_owned()))
}

/// A window in which a fault is being injected.
pub(super) struct OpenWindow<'a> {
    pub(super) bed: &'a mut TestBed,
    pub(super) tools: &'a mut Tools,
    pub(super) rng: &'a mut Rng,
    pub(super) traffic: &'a Traffic,
    pub(super) start_ns: i64,
    pub(super) threshold_ms: u64,
    /// The drawn parameters, for people: `journal writes +213 ms for 2.4 s`.
    pub(super) parameters: String,
    load: Option<Running>,
    answers: Vec<Answer>,
}

/// Evidence that the fault was injected.
pub(super) enum Proof {
    /// Operations that the device held back.
    HeldBack(&'static str),
    /// Requests of the load that were slow by their producers' measurement.
    SlowRequests,
    /// This many of these.
    Counted(usize, &'static str),
    /// No evidence is needed; the slowest requests are judged.
    Slowest,
}

impl OpenWindow<'_> {
    /// Pauses or resumes the load.
    pub(super) fn pause(&self, paused: bool) {
        if let Some(load) = &self.load {
            load.pause(paused);
        }
    }

    /// Ends the load once all requests are answered.
    pub(super) fn stop_load(&mut self) -> Result<()> {
        self.load.take().map_or(Ok(()), |load| load.stop().map(|answers| self.answers = answers))
    }

    /// Number of responses that took at least the threshold.
    fn slow(&self) -> usize {
        slower_than(&self.answers, self.threshold_ms)
    }
}

/// Injects a fault once, with the load that it needs; returns when the broker has recovered, after a short stretch of
/// load without the fault.
pub(super) fn inject(fault: &Fault, tools: &mut Tools, bed: &mut TestBed, rng: &mut Rng) -> Result<Window> {
    let traffic = (fault.load)(rng);
    let (least, most) = fault.threshold_ms;
    let mut threshold_ms = rng.u64(least..=most);
    (fault.prepare_window)(bed, tools, rng)?;
    let load = Some(bed.produce(&traffic, rng)?);
    interrupt().sleep(SETTLE)?;
    bed.held_back()?;
    let start_ns = now_ns();
    let (traffic, parameters, answers) = (&traffic, String::new(), Vec::new());
    let mut open = OpenWindow { bed, tools, rng, traffic, start_ns, threshold_ms, parameters, load, answers };
    let proof = (fault.inject)(&mut open)?;
    let end_ns = now_ns();
    interrupt().sleep(SETTLE)?;
    let held = open.bed.held_back()?;
    open.stop_load()?;
    let (count, what) = match proof {
        Proof::HeldBack(what) => (held, what),
        Proof::SlowRequests => (open.slow(), "requests that their producers saw slow"),
        Proof::Counted(count, what) => (count, what),
        Proof::Slowest => {
            threshold_ms = slowest(open.answers.iter().filter(|answer| answer.sent_ns >= start_ns));
            (open.answers.len(), "requests answered")
        }
    };
    let parameters = [open.parameters, describe(traffic)].map(|part| part.trim().to_owned());
    let window = Window {
        start_ns,
        end_ns,
        threshold_ms,
        parameters: parameters.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; "),
        truths: (fault.truths)(),
        ..Window::default()
    };
    Ok(window.with_proof(count, what))
}

/// Draws the load of most faults: small produce requests, 60 to 130 per second from each of 6 to 12 producers, 100
/// bytes to 4 KiB each, on 1 to 6 partitions, one to three unanswered per connection, acks 1.
pub(super) fn standard_load(rng: &mut Rng) -> Traffic {
    Traffic {
        client: TOPIC.to_owned(),
        topic: TOPIC.to_owned(),
        partitions: rng.u32(1..=MAX_PARTITIONS),
        producers: rng.u32(6..=12),
        per_second: rng.u32(60..=130),
        record_bytes: rng.u32(100..=4096),
        in_flight: rng.u32(1..=3),
        acks: 1,
    }
}

/// Describes a load for people.
pub(super) fn describe(traffic: &Traffic) -> String {
    let Traffic { producers, per_second, record_bytes, partitions, in_flight, .. } = traffic;
    format!(
        "{producers} producers × {per_second}/s × {record_bytes} B on {partitions} partition(s), {in_flight} in flight"
    )
}

/// Number of requests that took at least `ms`, as their producers measured.
pub(super) fn slower_than(answers: &[Answer], ms: u64) -> usize {
    let least = i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    answers.iter().filter(|answer| answer.latency_ns >= least).count()
}

/// One in this many requests is judged where nothing is injected. Producers measure these latencies, with their own
/// waits for a processor.
const SLOW_IN: usize = 50;

/// The shortest latency of the slowest requests, as their producers measured it: whole milliseconds, at least one.
fn slowest<'a>(answers: impl Iterator<Item = &'a Answer>) -> u64 {
    let mut latencies: Vec<i64> = answers.map(|answer| answer.latency_ns).collect();
    latencies.sort_unstable_by_key(|latency| std::cmp::Reverse(*latency));
    let slow = latencies.get(latencies.len() / SLOW_IN).copied().unwrap_or_default();
    u64::try_from(slow / 1_000_000).unwrap_or_default().max(1)
}

/// A file system to inject faults in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VolumeKind {
    /// Its kind.
    pub(super) file_system: FileSystem,
    /// Its mount options.
    pub(super) mount_options: &'static str,
}

impl VolumeKind {
    /// ext4 with a commit every second instead of every five: several per window.
    pub(super) const JOURNALED: Option<Self> =
        Some(Self { file_system: FileSystem::Ext4, mount_options: "commit=1" });
    /// ext4 without a journal: no commit waits for the same pages.
    pub(super) const WITHOUT_JOURNAL: Option<Self> =
        Some(Self { file_system: FileSystem::Ext4WithoutJournal, mount_options: "" });
}

/// One injection of a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Window {
    /// From when it can have slowed a request, UTC nanoseconds.
    pub(super) start_ns: i64,
    /// Until when, including the last delayed operation.
    pub(super) end_ns: i64,
    /// Requests that took at least this long are judged.
    pub(super) threshold_ms: u64,
    /// The drawn parameters, for people: `journal writes +213 ms for 2.4 s; 9 producers`.
    pub(super) parameters: String,
    /// Evidence that it was injected (`31 writes held back`).
    pub(super) proof: Option<String>,
    /// Why there is no such evidence.
    pub(super) failure: Option<String>,
    /// The right causes of requests; the first truth that applies to a request counts.
    pub(super) truths: Vec<Truth>,
    /// Earlier attempts without evidence that they injected anything.
    #[serde(default)]
    pub(super) failed_attempts: Vec<FailedAttempt>,
}

/// An attempt to inject a fault without evidence that it did: its slow requests have no ground truth.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FailedAttempt {
    /// Start, UTC nanoseconds.
    pub(super) start_ns: i64,
    /// End.
    pub(super) end_ns: i64,
    /// The missing evidence.
    pub(super) failure: String,
    /// The drawn parameters.
    pub(super) parameters: String,
}

/// Maximum number of attempts to inject a window's fault.
const MAX_ATTEMPTS: usize = 3;

/// Tries to inject a fault until there is evidence that it was injected; draws other numbers each time.
pub(super) fn inject_until_proven(mut attempt: impl FnMut() -> Result<Window>) -> Result<Window> {
    let mut failed_attempts = Vec::new();
    loop {
        let window = attempt()?;
        match window.failure {
            Some(failure) if failed_attempts.len() + 1 < MAX_ATTEMPTS => {
                let Window { start_ns, end_ns, parameters, .. } = window;
                print_status(&format!("  not injected, tried again: {failure} ({parameters})"));
                failed_attempts.push(FailedAttempt { start_ns, end_ns, failure, parameters });
            }
            _ => return Ok(Window { failed_attempts, ..window }),
        }
    }
}

impl Window {
    /// Sets the evidence if something was counted, and the failure if nothing was.
    pub(super) fn with_proof(self, count: usize, what: &str) -> Self {
        match count {
            0 => Self { failure: Some(format!("no {what}")), ..self },
            _ => Self { proof: Some(format!("{count} {what}")), ..self },
        }
    }
}

/// The right causes of some clients' requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Truth {
    /// Prefix of the clients' ids; empty for all.
    pub(super) client: String,
    /// The API, as Kafka spells it (`PRODUCE`); empty for any.
    pub(super) api: String,
    /// Right names of the root cause; the first is the injected one.
    pub(super) causes: Vec<String>,
    /// Names that are right anywhere in the chain. They count if the injected cause is not the root itself.
    pub(super) through: Vec<String>,
    /// What a doubt of the verdict must mention; empty for any verdict, with doubts or without.
    #[serde(default)]
    pub(super) doubt: String,
    /// Whether it also lengthens JVM pauses. Then it stays a true cause of a request that lay in a pause.
    #[serde(default, alias = "slows_stops")]
    pub(super) slows_pauses: bool,
}

impl Truth {
    /// Requires one of `causes` as the root of all requests. The first one is the injected one.
    pub(super) fn of(causes: &[&str]) -> Self {
        let causes = causes.iter().map(|&cause| cause.to_owned()).collect();
        Self { causes, ..Self::default() }
    }

    /// Restricts it to clients whose ids start with this.
    pub(super) fn client(self, client: &str) -> Self {
        Self { client: client.to_owned(), ..self }
    }

    /// Restricts it to one API.
    pub(super) fn api(self, api: &str) -> Self {
        Self { api: api.to_owned(), ..self }
    }

    /// Accepts names anywhere in the chain.
    pub(super) fn through(self, names: &[&str]) -> Self {
        Self { through: names.iter().map(|&name| name.to_owned()).collect(), ..self }
    }

    /// Also requires that the verdict mentions what was not seen.
    pub(super) fn because(self, doubt: &str) -> Self {
        Self { doubt: doubt.to_owned(), ..self }
    }

    /// For a cause that also lengthens JVM pauses, or is one.
    pub(super) fn slows_pauses(self) -> Self {
        Self { slows_pauses: true, ..self }
    }

    /// Whether it applies to a request.
    pub(super) fn is_about(&self, client: &str, api: &str) -> bool {
        client.starts_with(&self.client) && (self.api.is_empty() || self.api == api)
    }

    /// Whether a verdict is right.
    pub(super) fn allows(&self, cause: &str, chain: &[String]) -> bool {
        self.causes.iter().any(|right| right == cause)
            || self.through.iter().any(|right| chain.contains(right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_in_fifty_exceeds_the_threshold() {
        let answers: Vec<Answer> =
            (1..=300).map(|ms| Answer { sent_ns: 0, latency_ns: ms * 1_000_000 }).collect();
        assert_eq!(slowest(answers.iter()), 294);
        assert_eq!(slowest([].iter()), 1);
    }

    #[test]
    fn retries_failed_injections_up_to_a_limit() {
        let try_window = |of: &mut u32, at: u32| {
            *of += 1;
            let window = Window { start_ns: i64::from(*of), ..Window::default() };
            Ok(window.with_proof(usize::from(*of >= at), "writes"))
        };
        let run = |at: u32| {
            let mut attempts = 0;
            let window = inject_until_proven(|| try_window(&mut attempts, at)).unwrap();
            let before: Vec<i64> = window.failed_attempts.iter().map(|failed| failed.start_ns).collect();
            (attempts, window.failure.is_some(), before)
        };
        assert_eq!(run(1), (1, false, vec![]));
        assert_eq!(run(3), (3, false, vec![1, 2]));
        assert_eq!(run(9), (3, true, vec![1, 2]));
        assert!(inject_until_proven(|| Err(Error::Interrupted)).is_err());
    }

    #[test]
    fn truth_allows_its_root_or_a_cause_in_the_chain() {
        let truth = Truth::of(&["slow-device"]).through(&["handlers-busy"]).client("p-").api("PRODUCE");
        assert!(truth.is_about("p-1", "PRODUCE"));
        assert!(!truth.is_about("q-1", "PRODUCE") && !truth.is_about("p-1", "FETCH"));
        let chain = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert!(truth.allows("slow-device", &chain(&["log-lock", "slow-device"])));
        assert!(truth.allows("gc-pause", &chain(&["handlers-busy", "gc-pause"])));
        assert!(!truth.allows("log-lock", &chain(&["slow-device", "log-lock"])));
        assert!(Truth::of(&["x"]).is_about("", "FETCH"));
    }
}
