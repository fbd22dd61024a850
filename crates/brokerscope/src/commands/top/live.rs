//! Shows the broker that runs here.

use std::time::{Duration, Instant};

use diagnose::Engine;
use model::{Event, Nanos};
use top::{BrokerInfo, Progress, State};
use watch::{Memory, Outcome};

use super::wanted::WantedOnScreen;
use super::{Feed, show, stop};
use crate::cli::Top;
use crate::grounds::live::{Asked, LiveGrounds, Taker};

/// The longest that is waited for an event: keys wait as long.
const WAIT: Duration = Duration::from_millis(40);
/// What the plan calls it that threads off the CPU are seen.
const OFF_CPU: &str = "off-cpu";

/// Shows it until the user has seen enough.
pub(super) fn run(args: &Top) -> anyhow::Result<()> {
    let stop = stop()?;
    let Top { target, filter, interface, .. } = args;
    let grounds = LiveGrounds::start(Asked {
        target,
        filter,
        interface,
        jvm: args.source.jvm,
        memory: Memory::default(),
    })?;
    let stop = stop.within(args.source.duration);
    let mut state = State::new(about(args, &grounds));
    let engine = Engine::new(grounds.config(args.slower_than));
    let wanted = WantedOnScreen::new(args);
    let mut live = Live { begun: Instant::now(), grounds, engine, wanted };
    let shown = show(args, &mut live, &mut state, &stop);
    // From here on a second signal ends it at once.
    stop.asked();
    let rest = live.grounds.end(&mut Passed)?;
    args.presentation.say_each(&rest.notes);
    shown
}

fn about(args: &Top, grounds: &LiveGrounds) -> BrokerInfo {
    let is_off_cpu = |seen: &Outcome| matches!(seen, Outcome::Active(_));
    let off_cpu = grounds.plan().iter().any(|of| of.purpose == OFF_CPU && is_off_cpu(&of.outcome));
    let pid = grounds.pid();
    BrokerInfo {
        broker: grounds
            .node_id()
            .map_or_else(|| format!("broker, process {pid}"), |id| format!("broker {id}, process {pid}")),
        slower_than: args.slower_than,
        zone: args.presentation.zone(),
        off_cpu,
        unobservable: grounds.unobservable(),
    }
}

struct Live<'a> {
    grounds: LiveGrounds,
    engine: Engine,
    wanted: WantedOnScreen<'a>,
    begun: Instant,
}

impl Feed for Live<'_> {
    fn tell(&mut self, state: &mut State) -> anyhow::Result<()> {
        let Self { grounds, engine, wanted, begun } = self;
        grounds.take(WAIT, &mut Shown { engine, state, wanted: *wanted })?;
        let now = grounds.now();
        for verdict in engine.take_verdicts() {
            if wanted.request(&verdict.request) {
                let lag = now - verdict.request.last_seen();
                state.verdict(verdict, Some(lag));
            }
        }
        state.reach(now, Progress::Live { since: begun.elapsed().into() });
        Ok(())
    }

    /// It waits for events itself.
    fn patience(&self) -> Duration {
        Duration::ZERO
    }

    fn pause(&mut self, _paused: bool) -> bool {
        true
    }

    fn hasten(&mut self, _times: f64) {}
}

/// Events for the engine and for the screen.
struct Shown<'t, 'a> {
    engine: &'t mut Engine,
    state: &'t mut State,
    wanted: WantedOnScreen<'a>,
}

impl Taker for Shown<'_, '_> {
    fn event(&mut self, event: Event) -> anyhow::Result<()> {
        if self.wanted.event(&event) {
            self.state.event(&event);
        }
        self.engine.push(event);
        Ok(())
    }

    fn tick(&mut self, now: Nanos) -> anyhow::Result<()> {
        self.engine.tick(now);
        Ok(())
    }
}

/// Nobody looks any more.
struct Passed;

impl Taker for Passed {
    fn event(&mut self, _event: Event) -> anyhow::Result<()> {
        Ok(())
    }

    fn tick(&mut self, _now: Nanos) -> anyhow::Result<()> {
        Ok(())
    }
}
