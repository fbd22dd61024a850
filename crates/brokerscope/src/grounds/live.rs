//! What verdicts rest on while a broker serves its requests: a watch of everything that bears on them, and its events as they
//! come. Whoever judges a running broker takes it from here, so that all of them judge alike. Reaches no verdicts.

use std::path::PathBuf;
use std::time::Duration;

use broker::Broker;
use diagnose::{Config, Coverage};
use model::{Event, LossKind, Nanos, Pid};
use report::explanation::Unobservable;
use watch::{Memory, Outcome, Purpose, Watch, WatchSummary};

use crate::grounds;
use crate::options::{AskJvm, CPU_SAMPLES, Filter, Jfr, LEAST_LOCK_WAIT, Target};
use crate::watched;

/// Events taken between two looks at the clock and the signals.
const BURST: usize = 1_000;

/// What to watch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) target: &'a Target,
    pub(crate) filter: &'a Filter,
    /// A network interface, or `any`.
    pub(crate) interface: &'a str,
    pub(crate) jvm: AskJvm,
    /// What may be taken of it.
    pub(crate) memory: Memory,
}

/// Who takes the events.
pub(crate) trait Taker {
    /// Takes one, nearly in the order of [`Event::time`].
    fn event(&mut self, event: Event) -> anyhow::Result<()>;

    /// All that was seen up to now has been taken; sources that are read seldom come within the engine's disorder.
    fn tick(&mut self, now: Nanos) -> anyhow::Result<()>;
}

/// A running watch.
pub(crate) struct LiveGrounds {
    watch: Watch,
    broker: Broker,
    jvm: AskJvm,
}

/// What is known when it has ended.
pub(crate) struct Rest {
    /// What could not be observed, and why.
    pub(crate) unobservable: Vec<Unobservable>,
    /// What was lost beside what events told of.
    pub(crate) losses: Vec<(LossKind, u64)>,
    /// What else to say.
    pub(crate) notes: Vec<String>,
}

impl LiveGrounds {
    /// Finds the broker and watches it.
    ///
    /// # Errors
    /// Where there is no such broker, or nothing at all can be seen of it.
    pub(crate) fn start(asked: Asked<'_>) -> anyhow::Result<Self> {
        let broker = watched::broker(asked.target)?;
        let packets = watched::packets(asked.filter, &broker, asked.interface);
        let jvm = asked.jvm.recording();
        let mut watch = watched::start(asked.target, &broker, Some(packets), true, jvm, asked.memory)?;
        watch.sample_cpu(broker.pid, CPU_SAMPLES);
        watched::probe_jvm(&mut watch, broker.pid, LEAST_LOCK_WAIT);
        watched::drop_privileges(None);
        Ok(Self { watch, broker, jvm: asked.jvm })
    }

    /// The broker's process when the watch began.
    pub(crate) fn pid(&self) -> Pid {
        self.broker.pid
    }

    /// Its `node.id`, where it says.
    pub(crate) fn node_id(&self) -> Option<i32> {
        self.broker.node_id
    }

    /// Where it keeps its logs.
    pub(crate) fn log_dirs(&self) -> &[PathBuf] {
        &self.broker.log_dirs
    }

    /// How the engine works on it: as soon as everything has had time to be told. The JVM's flight recorder takes its time.
    pub(crate) fn config(&self, slower_than: Nanos) -> Config {
        let live = Config { file_ops_observed: self.watch.sees_files(), ..Config::live(slower_than) };
        if matches!(self.jvm.flight_recorder, Jfr::Never) { live } else { live.with_jvm() }
    }

    /// What is seen and what is not.
    pub(crate) fn plan(&self) -> &[Purpose] {
        self.watch.plan()
    }

    /// What cannot be observed, and why.
    pub(crate) fn unobservable(&self) -> Vec<Unobservable> {
        missing(self.watch.plan())
    }

    /// What is watched.
    pub(crate) fn watched(&self) -> Coverage {
        grounds::watched(&self.unobservable())
    }

    /// The time, on the clock of what is seen.
    pub(crate) fn now(&self) -> Nanos {
        self.watch.clock().0.from_monotonic(watch::now().monotonic_ns)
    }

    /// Hands on what is there, waiting at most so long for the first of it.
    ///
    /// # Errors
    /// The taker's.
    pub(crate) fn take(&self, wait: Duration, taker: &mut impl Taker) -> anyhow::Result<()> {
        let mut wait = wait;
        for _ in 0..BURST {
            let Some(event) = self.watch.next(wait) else { return taker.tick(self.now()) };
            taker.event(event)?;
            wait = Duration::ZERO;
        }
        Ok(())
    }

    /// Ends the watch and hands on what was seen before it did.
    ///
    /// # Errors
    /// The taker's.
    pub(crate) fn end(self, taker: &mut impl Taker) -> anyhow::Result<Rest> {
        let unobservable = self.unobservable();
        let mut last = Ok(());
        let ended = self.watch.stop(&mut |rest| {
            if last.is_ok() {
                last = taker.event(rest);
            }
        });
        last?;
        let losses = vec![(LossKind::EventsDropped, ended.unreported)];
        Ok(Rest { unobservable, losses, notes: notes(ended) })
    }
}

fn missing(plan: &[Purpose]) -> Vec<Unobservable> {
    let missing = plan.iter().filter_map(|purpose| match &purpose.outcome {
        Outcome::Missing(why) => Some(Unobservable { what: purpose.purpose.clone(), why: why.clone() }),
        Outcome::Active(_) => None,
    });
    missing.collect()
}

fn notes(ended: WatchSummary) -> Vec<String> {
    let kernel = ended.kernel.map(|error| format!("the probes ended early: {error}"));
    let packets = ended.packets.and_then(Result::err);
    let packets = packets.map(|error| format!("the capture ended early: {error}"));
    kernel.into_iter().chain(packets).chain(ended.trouble).collect()
}
