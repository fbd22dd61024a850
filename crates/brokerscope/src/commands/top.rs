//! `top`: a broker's activity and the reasons for slow requests, full-screen, live or from a recording.

#[cfg(feature = "live")]
mod live;
mod replay;
mod verdicts;

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use analysis::Stop;
use anyhow::{Context as _, bail};
use clap::Args;
use model::{Event, Nanos, Request};
use signal_hook::consts::{SIGHUP, SIGQUIT, SIGTSTP};
use top::{Outcome, Palette, Screen, State, Ui, draw};

use super::Run;
use crate::args::{Filter, Flags, Interface, RequestLog, Scope, Source, Speed};
use crate::log::LogHold;
use crate::output::Pace;
use crate::own_process::OverheadMeter;
use crate::selection::{RequestConditions, Selection};

/// Minimum time between two drawings, unless a key is pressed.
const FRAME: Duration = Duration::from_millis(200);
const NO_TERMINAL: &str = "cannot draw on the terminal";

/// `top`.
#[derive(Debug, Args)]
#[command(mut_arg("interface", |flag| flag.conflicts_with("from")))]
#[command(mut_arg("request_log", |flag| flag.conflicts_with("from")))]
#[command(after_help = "Keys are those of htop; F1 lists them.

Examples:
  brokerscope top
  brokerscope top --slower-than 50ms --topic orders
  brokerscope top --from DIR --speed 10")]
pub(crate) struct Top {
    #[command(flatten)]
    speed: Speed,
    #[command(flatten)]
    interface: Interface,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    log: RequestLog,
    #[command(flatten)]
    scope: Scope,
}

impl Run for Top {
    const FLAGS: Flags = Flags {
        hidden: &["format", "wide", "message-id"],
        help: &[
            ("slower-than", "Explain requests that took at least this long"),
            ("speed", "Replay a recording this many times as fast as it was [default: 1]"),
            ("pid", "Watch this broker's process; without it, the broker that runs here (live)"),
            ("log-dir", "Use this log dir of the broker (repeatable); without it, the broker's own (live)"),
            ("port", "Show only this broker port (repeatable); without it, the broker's own"),
            (
                "flight-recorder",
                "Record lock waits with JDK Flight Recorder in the broker's JVM (live): verdicts then come 3 s later",
            ),
        ],
        // By itself nothing here stalls the broker.
        defaults: &[("slower-than", "100ms"), ("flight-recorder", "never")],
        ..Flags::NONE
    };

    fn run(&self) -> anyhow::Result<()> {
        self.scope.filter.requests().check()?;
        let recording = self.source.recording()?;
        check_terminal()?;
        if let Some(directory) = recording {
            return replay::run(self, directory);
        }
        #[cfg(feature = "live")]
        return live::run(self);
        #[cfg(not(feature = "live"))]
        return crate::args::cannot_watch();
    }
}

/// Filter for what is shown. Verdicts are computed from all events.
#[derive(Clone, Debug)]
struct ScreenFilter<'a> {
    filter: &'a Filter,
    conditions: RequestConditions<'a>,
}

impl<'a> ScreenFilter<'a> {
    fn new(args: &'a Top) -> Self {
        let conditions = RequestConditions::new(&args.scope.filter, &args.selection, Nanos::ZERO);
        Self { filter: &args.scope.filter, conditions }
    }

    /// Whether an event is counted and listed.
    fn event(&self, event: &Event) -> bool {
        match event {
            Event::Request(request) => self.request(request),
            Event::FileOp(op) => self.filter.admits_topic(op.topic_partition.as_ref()),
            _ => true,
        }
    }

    /// Whether a request is counted and listed.
    fn request(&self, request: &Request) -> bool {
        self.conditions.matches(request)
    }
}

/// Feeds events and verdicts to the screen.
trait Feed {
    /// Adds the events and verdicts that are due.
    fn update(&mut self, state: &mut State) -> anyhow::Result<()>;

    /// Longest wait for keys until more events are due.
    fn key_timeout(&self) -> Duration;

    /// Pauses or resumes.
    /// Returns whether the feed continues even while paused; then only the screen pauses.
    fn pause(&mut self, paused: bool) -> bool;

    /// Multiplies the speed, if the feed has one.
    fn multiply_speed(&mut self, times: f64);
}

fn check_terminal() -> anyhow::Result<()> {
    let lines = "use `brokerscope explain` instead";
    if !io::stdout().is_terminal() {
        bail!("top needs a terminal, and standard output is not one; {lines}");
    }
    if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        bail!("top needs a terminal that it can draw on, and TERM is empty or dumb; {lines}");
    }
    Ok(())
}

/// Signals that stop it, besides keys.
fn stop() -> anyhow::Result<Stop> {
    Ok(Stop::after(None)?.also_by(&[SIGHUP, SIGQUIT])?)
}

/// Shows the feed until the user quits, and restores the terminal.
fn show(args: &Top, feed: &mut impl Feed, state: &mut State, stop: &Stop) -> anyhow::Result<()> {
    let colour = args.scope.presentation.look(Pace::Buffered).colour;
    // Messages are held back until the terminal is restored: this is dropped after the screen.
    let log_hold = LogHold::start();
    let screen = Screen::take().context(NO_TERMINAL)?;
    let palette = Palette { colour };
    let mut display = Display { screen, palette, ui: Ui::default(), frozen: None, drawn: None, ended: false };
    let mut overhead = OverheadMeter::default();
    while !display.ended && !stop.is_due() {
        feed.update(state)?;
        log_hold.take_new().into_iter().for_each(|sentence| state.note(sentence));
        if let Some(overhead) = overhead.read() {
            state.overhead = Some(overhead);
        }
        display.handle_keys(feed, state)?;
        display.draw_if_due(state)?;
    }
    Ok(())
}

/// The screen and its contents.
struct Display {
    screen: Screen,
    palette: Palette,
    ui: Ui,
    /// The state on the screen while the original changes.
    frozen: Option<Box<State>>,
    /// Time of the last drawing; `None` to draw at once.
    drawn: Option<Instant>,
    ended: bool,
}

impl Display {
    /// Handles the keys that were pressed, and waits a little for the first.
    fn handle_keys(&mut self, feed: &mut impl Feed, state: &State) -> anyhow::Result<()> {
        let mut wait = feed.key_timeout();
        while let Some(key) = self.screen.key(wait).context(NO_TERMINAL)? {
            wait = Duration::ZERO;
            self.drawn = None;
            let outcome = self.ui.key(key, self.frozen.as_deref().unwrap_or(state));
            self.apply(outcome, feed, state)?;
            if self.ended {
                break;
            }
        }
        Ok(())
    }

    fn apply(&mut self, outcome: Outcome, feed: &mut impl Feed, state: &State) -> anyhow::Result<()> {
        match outcome {
            Outcome::Draw => {}
            Outcome::Quit => self.ended = true,
            Outcome::Pause => {
                let paused = !self.ui.paused;
                self.ui.paused = paused;
                self.frozen = (feed.pause(paused) && paused).then(|| Box::new(state.clone()));
            }
            Outcome::Faster => feed.multiply_speed(2.0),
            Outcome::Slower => feed.multiply_speed(0.5),
            Outcome::Suspend => self.suspend()?,
            Outcome::Redraw => self.screen.clear().context(NO_TERMINAL)?,
        }
        Ok(())
    }

    /// Returns the terminal to the shell until it resumes this process.
    fn suspend(&mut self) -> anyhow::Result<()> {
        self.screen.restore();
        signal_hook::low_level::emulate_default_handler(SIGTSTP).context("cannot suspend")?;
        self.screen.retake().context(NO_TERMINAL)
    }

    fn draw_if_due(&mut self, state: &State) -> anyhow::Result<()> {
        if !self.screen.is_taken() {
            bail!("a thread panicked; its message is above");
        }
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < FRAME) {
            return Ok(());
        }
        let state = self.frozen.as_deref().unwrap_or(state);
        let Self { screen, ui, palette, .. } = self;
        screen.draw(|frame| draw(frame, state, ui, *palette)).context(NO_TERMINAL)?;
        self.drawn = Some(Instant::now());
        Ok(())
    }
}
