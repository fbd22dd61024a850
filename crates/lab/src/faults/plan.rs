//! What a fault is: one declaration, how it is injected, and the truth about the requests that it slowed.
//!
//! The truth is declared before anything is recorded, with why. Names that are accepted beside the first are those of the
//! same event seen from another place, never of another event.

use fastrand::Rng;
use serde::{Deserialize, Serialize};

use super::ground_truth::Observation;
use super::test_bed::TestBed;
use crate::broker::BrokerOptions;
use crate::client::{Answer, Running, Topic, Traffic, now_ns};
use crate::error::Error;
use crate::kafka;
use crate::volume::FileSystem;

/// The topic that the load writes to.
pub(super) const TOPIC: &str = "orders";
/// The most partitions that are drawn; the topic has as many.
pub(super) const MAX_PARTITIONS: u32 = 6;

/// What a fault is and what it needs.
pub(crate) struct Declaration {
    /// The row of the confusion matrix, and the directory.
    pub(crate) name: &'static str,
    /// One line: what is done to the broker.
    pub(crate) story: &'static str,
    /// What the broker's partitions lie on; `None` is a plain directory of this machine.
    pub(crate) volume: Option<VolumeKind>,
    /// Whether it can share a broker with other faults: it starts the broker in no special way, and leaves nothing behind
    /// that slows it.
    pub(crate) shares: bool,
    /// Which Kafka.
    pub(crate) kafka: &'static str,
    /// Lines of server.properties.
    pub(crate) properties: &'static [(&'static str, &'static str)],
    /// Settings of the load's topic.
    pub(crate) topic_configs: &'static [(&'static str, &'static str)],
    /// The load of a window.
    pub(crate) load: fn(&mut Rng) -> Traffic,
    /// Within which the threshold is drawn: requests that took at least so long are judged.
    pub(crate) threshold_ms: (u64, u64),
    /// Which requests must be blamed on what; the first that fits a request counts. Nothing where nothing is injected.
    pub(crate) truths: fn() -> Vec<Truth>,
}

impl Declaration {
    /// A fault on a plain directory, under the standard load.
    pub(crate) const DEFAULT: Self = Self {
        name: "",
        story: "",
        volume: None,
        shares: false,
        kafka: kafka::DEFAULT_VERSION,
        properties: &[],
        topic_configs: &[],
        load: standard_load,
        threshold_ms: (40, 80),
        truths: Vec::new,
    };

    /// Whether nothing is injected: the kernel's statistics are the ground truth then, of the device too.
    pub(crate) fn is_quiet(&self) -> bool {
        (self.truths)().is_empty()
    }
}

/// A cause that is injected on a real broker, one window after the other. What it holds outside the test bed (cgroups,
/// limits, networks) ends when it is dropped, before the test bed.
pub(crate) trait Fault {
    /// What it is.
    fn declaration(&self) -> &'static Declaration;

    /// Changes how the broker is started. Numbers drawn here hold for all windows.
    fn configure(&mut self, _options: &mut BrokerOptions, _rng: &mut Rng) -> Result<(), Error> {
        Ok(())
    }

    /// Prepares the clients' network, before anything is sent.
    fn connect(&mut self, _bed: &mut TestBed) -> Result<(), Error> {
        Ok(())
    }

    /// Makes the load's topic.
    fn create_topic(&mut self, bed: &mut TestBed) -> Result<(), Error> {
        let configs = self.declaration().topic_configs.iter();
        let configs = configs.map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let (name, partitions) = (TOPIC.to_owned(), MAX_PARTITIONS);
        bed.create_topic(&Topic { name, partitions, configs, ..Topic::default() })
    }

    /// Makes further topics, fills them, starts what else is needed: nothing of it is recorded.
    fn prepare(&mut self, _bed: &mut TestBed, _rng: &mut Rng) -> Result<(), Error> {
        Ok(())
    }

    /// Prepares one window, before its load starts.
    fn prepare_window(&mut self, _bed: &mut TestBed, _rng: &mut Rng) -> Result<(), Error> {
        Ok(())
    }

    /// Injects it once beside the load and takes it back; returns when the last operation that it held up has ended.
    fn inject(&mut self, window: &mut OpenWindow<'_>) -> Result<Injection, Error>;

    /// What others than brokerscope observed since [`Fault::prepare`] that was not injected. What the broker's own JVM
    /// logged is known of every fault.
    fn observations(&mut self) -> Result<Vec<Observation>, Error> {
        Ok(Vec::new())
    }
}

/// A window while a fault is injected in it.
pub(crate) struct OpenWindow<'a> {
    pub(crate) bed: &'a mut TestBed,
    pub(crate) rng: &'a mut Rng,
    pub(crate) traffic: &'a Traffic,
    pub(crate) start_ns: i64,
    pub(crate) threshold_ms: u64,
    load: Option<Running>,
    answers: Vec<Answer>,
}

/// What was injected.
pub(crate) struct Injection {
    /// What was drawn, for people: `journal writes +213 ms for 2.4 s`.
    pub(crate) parameters: String,
    pub(crate) proof: Proof,
}

/// What shows that it was injected.
pub(crate) enum Proof {
    /// Operations of the device that were held back.
    HeldBack(&'static str),
    /// Requests of the load that their producers saw slow.
    SlowRequests,
    /// So many of these.
    Counted(usize, &'static str),
    /// Nothing needs to be shown; the slowest requests are judged.
    Slowest,
}

impl OpenWindow<'_> {
    /// Has the load send nothing, or go on.
    pub(crate) fn pause(&self, paused: bool) {
        if let Some(load) = &self.load {
            load.pause(paused);
        }
    }

    /// Ends the load, when all that was sent is answered.
    pub(crate) fn stop_load(&mut self) -> Result<(), Error> {
        self.load.take().map_or(Ok(()), |load| load.stop().map(|answers| self.answers = answers))
    }

    /// Of the answers, those of requests that took at least so long.
    fn slow(&self) -> usize {
        slower_than(&self.answers, self.threshold_ms)
    }
}

/// Injects a fault once, with the load that it needs; returns when the broker is well again, after a short stretch of load
/// without the fault.
pub(super) fn inject(fault: &mut dyn Fault, bed: &mut TestBed, rng: &mut Rng) -> Result<Window, Error> {
    let declared = fault.declaration();
    let traffic = (declared.load)(rng);
    let (least, most) = declared.threshold_ms;
    let mut threshold_ms = rng.u64(least..=most);
    fault.prepare_window(bed, rng)?;
    let load = Some(bed.produce(&traffic, rng)?);
    bed.settle()?;
    bed.held_back()?;
    let start_ns = now_ns();
    let mut open =
        OpenWindow { bed, rng, traffic: &traffic, start_ns, threshold_ms, load, answers: Vec::new() };
    let Injection { parameters, proof } = fault.inject(&mut open)?;
    let end_ns = now_ns();
    open.bed.settle()?;
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
    let parameters = [parameters, describe(&traffic)].map(|part| part.trim().to_owned());
    let window = Window {
        start_ns,
        end_ns,
        threshold_ms,
        parameters: parameters.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; "),
        truths: (declared.truths)(),
        ..Window::default()
    };
    Ok(window.shown_by(count, what))
}

/// Draws the load of most faults: small produce requests, 60 to 130 a second of each of 6 to 12 producers, 100 bytes to
/// 4 KiB each, on 1 to 6 partitions, one to three of a connection unanswered, acks 1.
pub(super) fn standard_load(rng: &mut Rng) -> Traffic {
    Traffic {
        client: "orders".to_owned(),
        topic: TOPIC.to_owned(),
        partitions: rng.u32(1..=MAX_PARTITIONS),
        producers: rng.u32(6..=12),
        per_second: rng.u32(60..=130),
        record_bytes: rng.u32(100..=4096),
        in_flight: rng.u32(1..=3),
        acks: 1,
    }
}

/// For people.
pub(super) fn describe(traffic: &Traffic) -> String {
    let Traffic { producers, per_second, record_bytes, partitions, in_flight, .. } = traffic;
    format!(
        "{producers} producers × {per_second}/s × {record_bytes} B on {partitions} partition(s), {in_flight} in flight"
    )
}

/// How many requests took at least so long, as their producers saw it.
pub(super) fn slower_than(answers: &[Answer], ms: u64) -> usize {
    let least = i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    answers.iter().filter(|answer| answer.latency_ns >= least).count()
}

/// One request in so many is judged where nothing is injected, as producers see it: their own waits for a processor are in
/// it.
const SLOW_IN: usize = 50;

/// What the slowest took at least, as their producers saw it: whole milliseconds, at least one.
fn slowest<'a>(answers: impl Iterator<Item = &'a Answer>) -> u64 {
    let mut latencies: Vec<i64> = answers.map(|answer| answer.latency_ns).collect();
    latencies.sort_unstable_by_key(|latency| std::cmp::Reverse(*latency));
    let slow = latencies.get(latencies.len() / SLOW_IN).copied().unwrap_or_default();
    u64::try_from(slow / 1_000_000).unwrap_or_default().max(1)
}

/// A file system to inject faults in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct VolumeKind {
    /// Which.
    pub(crate) file_system: FileSystem,
    /// Its mount options.
    pub(crate) mount_options: &'static str,
}

impl VolumeKind {
    /// ext4 with a commit every second instead of every five: several in a window.
    pub(crate) const JOURNALED: Option<Self> =
        Some(Self { file_system: FileSystem::Ext4, mount_options: "commit=1" });
    /// ext4 without a journal: no commit waits for the same pages.
    pub(crate) const WITHOUT_JOURNAL: Option<Self> =
        Some(Self { file_system: FileSystem::Ext4WithoutJournal, mount_options: "" });
}

/// One injection of a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Window {
    /// From when it can have slowed a request, UTC nanoseconds.
    pub(crate) start_ns: i64,
    /// Until when, the last held-up operation included.
    pub(crate) end_ns: i64,
    /// Requests that took at least this long are judged.
    pub(crate) threshold_ms: u64,
    /// What was drawn, for people: `journal writes +213 ms for 2.4 s; 9 producers`.
    pub(crate) parameters: String,
    /// What shows that it was injected (`31 writes held back`).
    pub(crate) proof: Option<String>,
    /// Why it was not, where nothing shows that it was.
    pub(crate) failure: Option<String>,
    /// Which requests must be blamed on what; the first that fits a request counts.
    pub(crate) truths: Vec<Truth>,
}

impl Window {
    /// Says that it was injected where something was counted, and that it was not where nothing was.
    pub(crate) fn shown_by(self, count: usize, what: &str) -> Self {
        match count {
            0 => Self { failure: Some(format!("no {what}")), ..self },
            _ => Self { proof: Some(format!("{count} {what}")), ..self },
        }
    }
}

/// What requests of some clients must be blamed on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Truth {
    /// How their client ids begin; empty is everybody.
    pub(crate) client: String,
    /// Of which API, as Kafka spells it (`PRODUCE`); empty is any.
    pub(crate) api: String,
    /// Names of the root cause that are right; the first is the injected one.
    pub(crate) causes: Vec<String>,
    /// Names that are right wherever they are in the chain, where what was injected is not the root itself.
    pub(crate) through: Vec<String>,
    /// Whether it also lengthens what the JVM pauses for, so that it stays a true cause of a request that lay in a stop.
    #[serde(default, alias = "slows_stops")]
    pub(crate) slows_pauses: bool,
}

impl Truth {
    /// Everybody's root must be one of `causes`, of which the first is the injected one.
    pub(crate) fn of(causes: &[&str]) -> Self {
        let causes = causes.iter().map(|&cause| cause.to_owned()).collect();
        Self { causes, ..Self::default() }
    }

    /// The same of those whose client ids begin with this.
    pub(crate) fn client(self, client: &str) -> Self {
        Self { client: client.to_owned(), ..self }
    }

    /// The same of one API.
    pub(crate) fn api(self, api: &str) -> Self {
        Self { api: api.to_owned(), ..self }
    }

    /// Names that are right wherever they are in the chain.
    pub(crate) fn through(self, names: &[&str]) -> Self {
        Self { through: names.iter().map(|&name| name.to_owned()).collect(), ..self }
    }

    /// The same of what also lengthens the JVM's pauses, or is one.
    pub(crate) fn slows_pauses(self) -> Self {
        Self { slows_pauses: true, ..self }
    }

    /// Whether it speaks of a request.
    pub(crate) fn is_about(&self, client: &str, api: &str) -> bool {
        client.starts_with(&self.client) && (self.api.is_empty() || self.api == api)
    }

    /// Whether a verdict is right.
    pub(crate) fn allows(&self, cause: &str, chain: &[String]) -> bool {
        self.causes.iter().any(|right| right == cause)
            || self.through.iter().any(|right| chain.contains(right))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_in_fifty_is_slower_than_the_threshold() {
        let answers: Vec<Answer> =
            (1..=300).map(|ms| Answer { sent_ns: 0, latency_ns: ms * 1_000_000 }).collect();
        assert_eq!(slowest(answers.iter()), 294);
        assert_eq!(slowest([].iter()), 1);
    }

    #[test]
    fn a_root_must_be_named_and_what_leads_through_may_be() {
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
