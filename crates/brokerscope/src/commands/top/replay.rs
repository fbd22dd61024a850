//! Shows a recording, as fast as it was made or faster. Its events come in their own time; verdicts, which rest on what came
//! after their requests, are reached ahead of that, so that each is shown when its request is answered.

mod ahead;

use std::path::Path;
use std::time::{Duration, Instant};

use model::{Event, Nanos};
use recording::{Events, Manifest, Table};
use top::{BrokerInfo, Progress, State};

use self::ahead::Verdicts;
use super::wanted::WantedOnScreen;
use super::{Feed, show, stop};
use crate::cli::Top;
use crate::commands::record;
use crate::{failure, input, output};

/// Events told at once: keys wait for as long as that takes.
const BURST: usize = 20_000;
/// How long keys are waited for while it runs, and while it stands still.
const PATIENCE: Duration = Duration::from_millis(25);
const STILL: Duration = Duration::from_millis(100);
const SLOWEST: f64 = 0.001;
const FASTEST: f64 = 1e6;
/// What a plan calls it that threads off the CPU are seen.
const OFF_CPU: &str = "off-cpu";

/// Shows it until the user has seen enough.
pub(super) fn run(args: &Top, dir: &Path) -> anyhow::Result<()> {
    let stop = stop()?;
    let recording = input::open_recording(dir)?;
    let mut state = State::new(about(args, recording.manifest()));
    let mut replay = Replay {
        events: recording.events_ahead(&Table::ALL),
        next: None,
        verdicts: Verdicts::of(args, dir)?,
        clock: Clock::new(args.speed),
        start: None,
        end: Nanos(recording.manifest().ended_ns.unwrap_or(0)),
        ended: false,
        damaged: 0,
        wanted: WantedOnScreen::new(args),
    };
    recording.notes().into_iter().for_each(|note| state.note(note));
    show(args, &mut replay, &mut state, &stop)?;
    failure::of_parts(dir, replay.damaged)
}

fn about(args: &Top, manifest: &Manifest) -> BrokerInfo {
    let id = manifest.broker.as_ref().and_then(|broker| broker.node_id);
    let broker = id.map_or_else(|| "broker".to_owned(), |id| format!("broker {id}"));
    let unobservable = record::missing(&manifest.plan);
    let planned = manifest.plan.iter().any(|(what, _)| what == OFF_CPU);
    BrokerInfo {
        broker: format!("{broker} on {}", manifest.host.name),
        slower_than: args.slower_than,
        zone: args.presentation.zone(),
        off_cpu: planned && !unobservable.iter().any(|missing| missing.what == OFF_CPU),
        unobservable,
    }
}

struct Replay<'a> {
    events: Events,
    /// The event that comes next, where it is known.
    next: Option<Event>,
    verdicts: Verdicts,
    clock: Clock,
    start: Option<Nanos>,
    end: Nanos,
    ended: bool,
    damaged: u64,
    wanted: WantedOnScreen<'a>,
}

impl Feed for Replay<'_> {
    fn tell(&mut self, state: &mut State) -> anyhow::Result<()> {
        let Some(at) = self.now()? else {
            self.ended = true;
            state.reach(Nanos::ZERO, self.progress(Nanos::ZERO));
            return Ok(());
        };
        let reached = self.tell_events(at, state);
        for verdict in self.verdicts.until(reached) {
            if self.wanted.request(&verdict.request) {
                state.verdict(verdict, None);
            }
        }
        self.clock.at = Some(reached);
        state.reach(reached, self.progress(reached));
        Ok(())
    }

    fn patience(&self) -> Duration {
        if self.clock.paused || self.ended { STILL } else { PATIENCE }
    }

    fn pause(&mut self, paused: bool) -> bool {
        self.clock.pause(paused);
        false
    }

    fn hasten(&mut self, times: f64) {
        self.clock.speed = (self.clock.speed * times).clamp(SLOWEST, FASTEST);
    }
}

impl Replay<'_> {
    /// How late it is by now in the recording, as far as verdicts were reached; none of a recording of nothing.
    fn now(&mut self) -> anyhow::Result<Option<Nanos>> {
        let start = match self.start {
            Some(start) => start,
            None => match self.peek().map(Event::time) {
                Some(first) => *self.start.insert(first),
                None => return Ok(None),
            },
        };
        let wanted = self.clock.wanted(start);
        let wanted = if self.ended { wanted.min(self.clock.at.unwrap_or(start)) } else { wanted };
        let reached = self.verdicts.reach(wanted)?;
        Ok(Some(wanted.min(reached).max(self.clock.at.unwrap_or(start))))
    }

    /// Tells what happened until then, or as much of it as is good at once; until when that was.
    fn tell_events(&mut self, until: Nanos, state: &mut State) -> Nanos {
        let mut last = self.clock.at.or(self.start).unwrap_or(until);
        for _ in 0..BURST {
            let Some(time) = self.peek().map(Event::time) else {
                self.ended = true;
                return last.max(self.end).min(until);
            };
            if time > until {
                return until;
            }
            last = last.max(time);
            let Some(event) = self.next.take() else { return last };
            if self.wanted.event(&event) {
                state.event(&event);
            }
        }
        last
    }

    fn peek(&mut self) -> Option<&Event> {
        while self.next.is_none() {
            match self.events.next()? {
                Ok(event) => self.next = Some(event),
                // The other parts still tell.
                Err(error) => {
                    self.damaged += 1;
                    output::warn(&error.to_string());
                }
            }
        }
        self.next.as_ref()
    }

    fn progress(&self, at: Nanos) -> Progress {
        let start = self.start.unwrap_or(at);
        let of = self.end.max(at) - start;
        Progress::Replay { at: at - start, of, speed: self.clock.speed, ended: self.ended }
    }
}

/// How time goes by in a replay.
struct Clock {
    /// What was reached; none before the beginning.
    at: Option<Nanos>,
    asked: Instant,
    speed: f64,
    paused: bool,
}

impl Clock {
    fn new(speed: f64) -> Self {
        Self { at: None, asked: Instant::now(), speed, paused: false }
    }

    /// What is to be reached by now, of what starts there. Time in which nobody asked goes by like any other; time that
    /// was not made use of does not come back.
    fn wanted(&mut self, start: Nanos) -> Nanos {
        let elapsed = self.asked.elapsed();
        self.asked += elapsed;
        let at = self.at.unwrap_or(start);
        if self.paused { at } else { at + Nanos((elapsed.as_nanos() as f64 * self.speed) as i64) }
    }

    fn pause(&mut self, paused: bool) {
        self.paused = paused;
        self.asked = Instant::now();
    }
}
