//! `top`: what a broker does and why its requests are slow, on the whole screen, live or from a recording.

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
use crate::args::{Filter, Flags, Interface, Scope, Source, Speed};
use crate::log::HeldBack;
use crate::output::Pace;
use crate::own_process::OverheadMeter;
use crate::selection::{RequestConditions, Selection};

/// What is drawn changes no more often than this, unless a key was pressed.
const FRAME: Duration = Duration::from_millis(200);
const NO_TERMINAL: &str = "cannot draw on the terminal";

/// `top`.
#[derive(Debug, Args)]
#[command(mut_arg("interface", |flag| flag.conflicts_with("from")))]
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

/// What the user wants to see of everything. Verdicts rest on all of it.
#[derive(Clone, Debug)]
struct ScreenFilter<'a> {
    filter: &'a Filter,
    wanted: RequestConditions<'a>,
}

impl<'a> ScreenFilter<'a> {
    fn new(args: &'a Top) -> Self {
        let wanted = RequestConditions::new(&args.scope.filter, &args.selection, Nanos::ZERO);
        Self { filter: &args.scope.filter, wanted }
    }

    /// Whether an event is counted and listed.
    fn event(&self, event: &Event) -> bool {
        match event {
            Event::Request(request) => self.request(request),
            Event::FileOp(op) => self.filter.admits_topic(op.topic_partition.as_ref()),
            _ => true,
        }
    }

    /// Whether a request is.
    fn request(&self, request: &Request) -> bool {
        self.wanted.wants(request)
    }
}

/// Feeds events and verdicts to the screen.
trait Feed {
    /// Adds what there is by now.
    fn update(&mut self, state: &mut State) -> anyhow::Result<()>;

    /// How long keys may be waited for until it has more.
    fn key_timeout(&self) -> Duration;

    /// Stands still, or goes on. Says whether it goes on all the same: then the screen stands still.
    fn pause(&mut self, paused: bool) -> bool;

    /// Goes so many times as fast, where that is possible.
    fn hasten(&mut self, times: f64);
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

/// What asks it to stop, beside keys.
fn stop() -> anyhow::Result<Stop> {
    Ok(Stop::after(None)?.also_by(&[SIGHUP, SIGQUIT])?)
}

/// Shows what is fed until the user has seen enough, and gives the terminal back.
fn show(args: &Top, feed: &mut impl Feed, state: &mut State, stop: &Stop) -> anyhow::Result<()> {
    let colour = args.scope.presentation.look(Pace::AllThere).colour;
    // What is said meanwhile is said when the terminal is back: this is dropped after the screen.
    let said = HeldBack::begin();
    let screen = Screen::take().context(NO_TERMINAL)?;
    let palette = Palette { colour };
    let mut shown = Display { screen, palette, ui: Ui::default(), frozen: None, drawn: None, ended: false };
    let mut overhead = OverheadMeter::default();
    while !shown.ended && !stop.is_due() {
        feed.update(state)?;
        said.fresh().into_iter().for_each(|sentence| state.note(sentence));
        if let Some(overhead) = overhead.read() {
            state.overhead = Some(overhead);
        }
        shown.keys(feed, state)?;
        shown.draw_if_due(state)?;
    }
    Ok(())
}

/// The screen, and what is on it.
struct Display {
    screen: Screen,
    palette: Palette,
    ui: Ui,
    /// What is looked at while the original goes on.
    frozen: Option<Box<State>>,
    /// When it was drawn last; none where it is to be drawn at once.
    drawn: Option<Instant>,
    ended: bool,
}

impl Display {
    /// Takes the keys that were pressed, and waits a little for the first.
    fn keys(&mut self, feed: &mut impl Feed, state: &State) -> anyhow::Result<()> {
        let mut wait = feed.key_timeout();
        while let Some(key) = self.screen.key(wait).context(NO_TERMINAL)? {
            wait = Duration::ZERO;
            self.drawn = None;
            let outcome = self.ui.key(key, self.frozen.as_deref().unwrap_or(state));
            self.heed(outcome, feed, state)?;
            if self.ended {
                break;
            }
        }
        Ok(())
    }

    fn heed(&mut self, outcome: Outcome, feed: &mut impl Feed, state: &State) -> anyhow::Result<()> {
        match outcome {
            Outcome::Shown => {}
            Outcome::Quit => self.ended = true,
            Outcome::Pause => {
                let paused = !self.ui.paused;
                self.ui.paused = paused;
                self.frozen = (feed.pause(paused) && paused).then(|| Box::new(state.clone()));
            }
            Outcome::Faster => feed.hasten(2.0),
            Outcome::Slower => feed.hasten(0.5),
            Outcome::Suspend => self.suspend()?,
            Outcome::Redraw => self.screen.clear().context(NO_TERMINAL)?,
        }
        Ok(())
    }

    /// Lets the shell have the terminal until it lets this go on.
    fn suspend(&mut self) -> anyhow::Result<()> {
        self.screen.give_back();
        signal_hook::low_level::emulate_default_handler(SIGTSTP).context("cannot suspend")?;
        self.screen.take_again().context(NO_TERMINAL)
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
