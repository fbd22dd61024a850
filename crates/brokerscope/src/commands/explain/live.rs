//! Explains a broker's slow requests while it serves them, until it is time to stop. What is held is bounded; what could
//! not be read in time is dropped and said, at once and at the end.

use std::time::Duration;

use diagnose::Config;
use model::{Event, LossKind, Nanos};
use report::explanation::Unobservable;
use watch::{Ended, Memory, Outcome, Purpose, Watch};

use super::config;
use super::judged::Judged;
use super::timeliness::Timeliness;
use crate::cli::Explain;
use crate::grounds::{self, Known};
use crate::options::{CPU_SAMPLES, Jfr, LEAST_LOCK_WAIT};
use crate::output::{self, Pace};
use crate::stop::Stop;
use crate::watched;

/// The longest that is waited for an event.
const WAIT: Duration = Duration::from_millis(50);
/// Events taken between two looks at the clock and the signals.
const BURST: usize = 1_000;

/// Explains until it is time to stop.
pub(super) fn run(args: &Explain, interface: &str) -> anyhow::Result<()> {
    let stop = Stop::after(None)?;
    let broker = watched::broker(&args.target)?;
    let packets = watched::packets(&args.filter, &broker, interface);
    let jvm = args.jvm.recording();
    let mut watch = watched::start(&args.target, &broker, Some(packets), true, jvm, Memory::default())?;
    watch.sample_cpu(broker.pid, CPU_SAMPLES);
    watched::probe_jvm(&mut watch, broker.pid, LEAST_LOCK_WAIT);
    watched::drop_privileges(None);
    let stop = stop.within(args.duration);
    let until = if args.duration.is_some() { "" } else { "; Ctrl-C ends it" };
    let slow = format!("explaining what takes broker {} {} or longer{until}", broker.pid, args.slower_than);
    args.presentation.say(&slow);
    let seen = grounds::watched(&missing(watch.plan()));
    let config = live(args, &watch);
    let timeliness = Timeliness::new(&config);
    let judged = Judged::new(args, config, seen, Pace::HandedOn)?;
    let mut explained = Explained { judged, timeliness, args, pid: broker.pid };
    while !stop.asked() {
        explained.burst(&watch)?;
    }
    explained.finish(watch)
}

/// As soon as everything has had time to be told: the JVM's flight recorder takes its time.
fn live(args: &Explain, watch: &Watch) -> Config {
    let live = Config { file_ops_observed: watch.sees_files(), ..Config::live(args.slower_than) };
    let live = config(args, live);
    if matches!(args.jvm.flight_recorder, Jfr::Never) { live } else { live.with_jvm() }
}

struct Explained<'a> {
    judged: Judged<'a>,
    timeliness: Timeliness,
    args: &'a Explain,
    pid: model::Pid,
}

impl Explained<'_> {
    /// Takes what is there, waiting briefly for the first of it, and hands on what was decided.
    fn burst(&mut self, watch: &Watch) -> anyhow::Result<()> {
        self.take(watch)?;
        self.judged.hand_on(|ended| self.timeliness.told(now(watch) - ended))?;
        if let Some(warning) = self.timeliness.warning(now(watch)) {
            output::warn(&warning);
        }
        Ok(())
    }

    fn take(&mut self, watch: &Watch) -> anyhow::Result<()> {
        let mut wait = WAIT;
        for _ in 0..BURST {
            let Some(event) = watch.next(wait) else {
                // What was seen up to now has been taken; sources that are read seldom come within the disorder.
                return self.judged.tick(now(watch));
            };
            self.event(event)?;
            wait = Duration::ZERO;
        }
        Ok(())
    }

    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        if let Event::BrokerChange(change) = &event {
            self.args.presentation.say_change(change, self.pid);
        }
        if let Event::Loss(loss) = &event {
            self.timeliness.lost(loss);
        }
        self.judged.event(event)
    }

    fn finish(mut self, watch: Watch) -> anyhow::Result<()> {
        let unobservable = missing(watch.plan());
        let mut last = Ok(());
        let ended = watch.stop(&mut |rest| {
            if last.is_ok() {
                last = self.event(rest);
            }
        });
        last?;
        let losses = vec![(LossKind::EventsDropped, ended.untold)];
        let lag = self.timeliness.conclude();
        self.judged.finish(Known { unobservable, notes: notes(ended), losses, lag, tallied: None })
    }
}

/// The time, on the clock of what was seen.
fn now(watch: &Watch) -> Nanos {
    watch.clock().0.from_monotonic(watch::now().monotonic_ns)
}

fn missing(plan: &[Purpose]) -> Vec<Unobservable> {
    let missing = plan.iter().filter_map(|purpose| match &purpose.outcome {
        Outcome::Missing(why) => Some(Unobservable { what: purpose.purpose.clone(), why: why.clone() }),
        Outcome::Seen(_) => None,
    });
    missing.collect()
}

fn notes(ended: Ended) -> Vec<String> {
    let kernel = ended.kernel.map(|error| format!("the probes ended early: {error}"));
    let packets = ended.packets.and_then(Result::err);
    let packets = packets.map(|error| format!("the capture ended early: {error}"));
    kernel.into_iter().chain(packets).chain(ended.trouble).collect()
}
