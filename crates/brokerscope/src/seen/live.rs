//! Watches the broker that runs here and hands on what is seen of it, until it is time to stop.

use std::time::Duration;

use broker::Broker;
use model::{Event, LossKind, Pid};
use watch::{Jfr, Memory, Outcome, Watch, WatchSummary};

use super::{About, OFF_CPU, Reader, log_dirs};
use crate::options::{Filter, LEAST_LOCK_WAIT, Presentation, Source, Target};
use crate::output::{self, Pace};
use crate::stop::Stop;
use crate::watched;

/// The longest that is waited for an event.
const WAIT: Duration = Duration::from_millis(100);

pub(super) fn read<R: Reader>(
    source: &Source,
    target: &Target,
    presentation: &Presentation,
    locks: bool,
    start: impl FnOnce(&About) -> R,
) -> anyhow::Result<()> {
    let stop = Stop::after(None)?;
    let broker = watched::broker(target)?;
    let watch = begin(source, target, &broker, locks)?;
    let stop = stop.within(source.duration);
    let log_dirs = log_dirs(target, &broker.log_dirs);
    let off_cpu = sees_off_cpu(&watch);
    let about = About { log_dirs, off_cpu, pace: Pace::AsTheyCome, span: None, partial: false };
    let mut watched = Watched { reader: start(&about), presentation, first: broker.pid, notes: Vec::new() };
    let until = if source.duration.is_some() { "" } else { "; Ctrl-C ends it" };
    presentation.say(&format!("watching broker {}{until}", broker.pid));
    while !stop.asked() {
        watch.next(WAIT).map_or(Ok(()), |event| watched.event(event))?;
    }
    watched.end(watch)
}

/// Starts to watch; `locks` says whether waits for locks are wanted, from the JVM or by its requests.
fn begin(source: &Source, target: &Target, broker: &Broker, locks: bool) -> anyhow::Result<Watch> {
    let jvm = source.jvm.recording().map(|when| if locks { when } else { Jfr::Never });
    // Since when a thread could have waited is known of its request only.
    let packets = locks.then(|| watched::packets(&Filter::default(), broker, "any"));
    let mut watch = watched::start(target, broker, packets, true, jvm, Memory::default())?;
    if locks {
        watched::probe_jvm(&mut watch, broker.pid, LEAST_LOCK_WAIT);
        say_what_is_inferred(&watch);
    }
    watched::drop_privileges(None);
    Ok(watch)
}

fn sees_off_cpu(watch: &Watch) -> bool {
    let mut plan = watch.plan().iter();
    plan.any(|purpose| purpose.purpose == OFF_CPU && matches!(purpose.outcome, Outcome::Active(_)))
}

/// Where neither of the JVM's means tells of waits.
fn say_what_is_inferred(watch: &Watch) {
    let untold = watched::unseen(watch, &["lock-waits", "monitor-waits"]);
    let unseen = watched::unseen(watch, &["requests"]);
    for line in untold.iter().chain(&unseen) {
        output::warn(line);
    }
    if !untold.is_empty() && unseen.is_empty() {
        output::warn(
            "waits for a partition's log are inferred from the order of its appends; others are not seen",
        );
    }
}

/// Who reads, and what is to be said when it ends.
struct Watched<'a, R> {
    reader: R,
    presentation: &'a Presentation,
    /// The broker's process when the watch began.
    first: Pid,
    notes: Vec<String>,
}

impl<R: Reader> Watched<'_, R> {
    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        if let Event::BrokerChange(change) = &event {
            self.presentation.say_change(change, self.first);
        }
        self.notes.extend(lost(&event));
        self.reader.event(event)
    }

    /// Hands on what was seen before it stopped, and ends.
    fn end(mut self, watch: Watch) -> anyhow::Result<()> {
        let mut last = Ok(());
        let ended = watch.stop(&mut |rest| {
            if last.is_ok() {
                last = self.event(rest);
            }
        });
        last?;
        self.notes.extend(troubles(ended));
        self.reader.finish(&self.notes)
    }
}

fn lost(event: &Event) -> Option<String> {
    let Event::Loss(loss) = event else { return None };
    // They are said in one at the end.
    if loss.kind == LossKind::EventsDropped {
        return None;
    }
    let count = report::quantity::format_count(loss.count);
    Some(format!("lost {count} {}: {}", loss.kind.as_str(), loss.detail))
}

fn troubles(ended: WatchSummary) -> impl Iterator<Item = String> {
    let dropped = (ended.dropped > 0).then(|| {
        let dropped = report::quantity::format_count_of(ended.dropped, "event");
        format!("{dropped} came faster than they could be shown")
    });
    let early = ended.kernel.map(|error| format!("the probes ended early: {error}"));
    early.into_iter().chain(ended.trouble).chain(dropped)
}
