//! Shows a recording, at its own speed or faster. Events appear when they are due. Verdicts depend on events after their
//! requests, so they are computed ahead, and each is shown when its request is answered.

use std::path::Path;
use std::time::{Duration, Instant};

use analysis::recorder::plan;
use analysis::source;
use analysis::{EventSource, Step};
use model::{Event, Nanos};
use recording::Manifest;
use top::{BrokerInfo, Progress, State};

use super::verdicts::Verdicts;
use super::{Feed, ScreenFilter, Top, show, stop};
use crate::file_access::FileAccess;

/// Events added at once: keys wait for as long as that takes.
const MAX_BURST: usize = 20_000;
/// Longest wait for a key while the replay runs, and while it is paused.
const KEY_TIMEOUT: Duration = Duration::from_millis(25);
const PAUSED_KEY_TIMEOUT: Duration = Duration::from_millis(100);
const MIN_SPEED: f64 = 0.001;
const MAX_SPEED: f64 = 1e6;

/// Shows it until the user quits.
pub(super) fn run(args: &Top, dir: &Path) -> anyhow::Result<()> {
    let options = args.scope.read_options();
    FileAccess::of([dir])?.with(|access| access.write("/dev/tty")).enter()?;
    // Before signals are handled, so that one ends a download at once.
    let mut source = source::open_recording(dir, &options)?;
    let stop = stop()?;
    let manifest = source.reader.manifest();
    let mut state = State::new(info(args, manifest));
    let end = Nanos(manifest.ended_ns.unwrap_or(0));
    let verdicts = Verdicts::of(args.scope.slow.slower_than, source.reader.dir(), &options)?;
    source.reader.notes().into_iter().for_each(|note| state.note(note));
    let mut replay = Replay {
        source: &mut source,
        next: None,
        verdicts,
        clock: Clock::new(args.speed.speed.unwrap_or(1.0)),
        start: None,
        end,
        ended: false,
        filter: ScreenFilter::new(args),
    };
    show(args, &mut replay, &mut state, &stop)?;
    Ok(source.check()?)
}

fn info(args: &Top, manifest: &Manifest) -> BrokerInfo {
    let id = manifest.broker.as_ref().and_then(|broker| broker.node_id);
    let broker = id.map_or_else(|| "broker".to_owned(), |id| format!("broker {id}"));
    BrokerInfo {
        broker: format!("{broker} on {}", manifest.host.name),
        slower_than: args.scope.slow.slower_than,
        zone: args.scope.presentation.times.zone(),
        off_cpu: plan::sees(&manifest.plan, plan::OFF_CPU),
        unobservable: plan::missing(&manifest.plan),
    }
}

struct Replay<'a> {
    source: &'a mut source::Recording,
    /// The next event, if it was already read.
    next: Option<Event>,
    verdicts: Verdicts,
    clock: Clock,
    start: Option<Nanos>,
    end: Nanos,
    ended: bool,
    filter: ScreenFilter<'a>,
}

impl Feed for Replay<'_> {
    fn update(&mut self, state: &mut State) -> anyhow::Result<()> {
        let Some(at) = self.now()? else {
            self.ended = true;
            state.reach(Nanos::ZERO, self.progress(Nanos::ZERO));
            return Ok(());
        };
        let reached = self.add_events(at, state);
        for verdict in self.verdicts.until(reached) {
            if self.filter.request(&verdict.request) {
                state.verdict(verdict, None);
            }
        }
        self.clock.at = Some(reached);
        state.reach(reached, self.progress(reached));
        Ok(())
    }

    fn key_timeout(&self) -> Duration {
        if self.clock.paused || self.ended { PAUSED_KEY_TIMEOUT } else { KEY_TIMEOUT }
    }

    fn pause(&mut self, paused: bool) -> bool {
        self.clock.pause(paused);
        false
    }

    fn multiply_speed(&mut self, times: f64) {
        self.clock.speed = (self.clock.speed * times).clamp(MIN_SPEED, MAX_SPEED);
    }
}

impl Replay<'_> {
    /// The current time in the recording, at most as far as verdicts are known; `None` if the recording is empty.
    fn now(&mut self) -> anyhow::Result<Option<Nanos>> {
        let start = match self.start {
            Some(start) => start,
            None => match self.peek().map(Event::time) {
                Some(first) => *self.start.insert(first),
                None => return Ok(None),
            },
        };
        let due = self.clock.due(start);
        let due = if self.ended { due.min(self.clock.at.unwrap_or(start)) } else { due };
        let reached = self.verdicts.reach(due)?;
        Ok(Some(due.min(reached).max(self.clock.at.unwrap_or(start))))
    }

    /// Adds the events until then, or a burst of them; returns the time up to which events were added.
    fn add_events(&mut self, until: Nanos, state: &mut State) -> Nanos {
        let mut last = self.clock.at.or(self.start).unwrap_or(until);
        for _ in 0..MAX_BURST {
            let Some(time) = self.peek().map(Event::time) else {
                self.ended = true;
                return last.max(self.end).min(until);
            };
            if time > until {
                return until;
            }
            last = last.max(time);
            let Some(event) = self.next.take() else { return last };
            if self.filter.event(&event) {
                state.event(&event);
            }
        }
        last
    }

    fn peek(&mut self) -> Option<&Event> {
        if self.next.is_none() {
            if let Step::Event(event) = self.source.next() {
                self.next = Some(event);
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

/// The clock of a replay.
struct Clock {
    /// The time reached; `None` before the start.
    at: Option<Nanos>,
    last_read: Instant,
    speed: f64,
    paused: bool,
}

impl Clock {
    fn new(speed: f64) -> Self {
        Self { at: None, last_read: Instant::now(), speed, paused: false }
    }

    /// The time due by now in a recording that starts at `start`.
    /// Time between two calls counts in full; if the replay could not keep up, it does not catch up.
    fn due(&mut self, start: Nanos) -> Nanos {
        let elapsed = self.last_read.elapsed();
        self.last_read += elapsed;
        let at = self.at.unwrap_or(start);
        if self.paused { at } else { at + Nanos((elapsed.as_nanos() as f64 * self.speed) as i64) }
    }

    fn pause(&mut self, paused: bool) {
        self.paused = paused;
        self.last_read = Instant::now();
    }
}
