//! `top`: what a broker does and why its requests are slow, on the whole screen, live or from a recording.

#[cfg(feature = "live")]
mod live;
mod replay;
mod wanted;

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use signal_hook::consts::{SIGHUP, SIGQUIT, SIGTSTP};
use top::{Outcome, Palette, Screen, State, Ui, draw};

use crate::cli::Top;
use crate::output::{HeldBack, Pace};
use crate::own_cost::OwnCost;
use crate::packets;
use crate::stop::Stop;

/// What is drawn changes no more often than this, unless a key was pressed.
const FRAME: Duration = Duration::from_millis(200);
const NO_TERMINAL: &str = "cannot draw on the terminal";

/// Who has events and verdicts for the screen.
trait Feed {
    /// Tells what there is by now.
    fn tell(&mut self, state: &mut State) -> anyhow::Result<()>;

    /// How long keys may be waited for until it has more to tell.
    fn patience(&self) -> Duration;

    /// Stands still, or goes on. Says whether it goes on all the same: then the screen stands still.
    fn pause(&mut self, paused: bool) -> bool;

    /// Goes so many times as fast, where that is possible.
    fn hasten(&mut self, times: f64);
}

/// Shows it until the user has seen enough.
pub(crate) fn run(args: &Top) -> anyhow::Result<()> {
    packets::check_apis(&args.filter)?;
    let recording = args.source.recording()?;
    check_terminal()?;
    match recording {
        Some(dir) => replay::run(args, dir),
        None => live(args),
    }
}

#[cfg(feature = "live")]
fn live(args: &Top) -> anyhow::Result<()> {
    live::run(args)
}

#[cfg(not(feature = "live"))]
fn live(_args: &Top) -> anyhow::Result<()> {
    Err(crate::options::cannot_watch().into())
}

fn check_terminal() -> anyhow::Result<()> {
    let lines = "`brokerscope explain` writes lines";
    if !io::stdout().is_terminal() {
        bail!("top draws on a terminal, and standard output is none; {lines}");
    }
    if std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb") {
        bail!("top draws on a terminal, and TERM says that this one cannot be drawn on; {lines}");
    }
    Ok(())
}

/// What asks it to stop, beside keys.
fn stop() -> anyhow::Result<Stop> {
    Stop::after(None)?.also_by(&[SIGHUP, SIGQUIT])
}

/// Shows what is fed until the user has seen enough, and gives the terminal back.
fn show(args: &Top, feed: &mut impl Feed, state: &mut State, stop: &Stop) -> anyhow::Result<()> {
    let colour = args.presentation.look(Pace::AllThere).colour;
    // What is said meanwhile is said when the terminal is back: this is dropped after the screen.
    let said = HeldBack::begin();
    let screen = Screen::take().context(NO_TERMINAL)?;
    let palette = Palette::new(colour);
    let mut shown = Shown { screen, palette, ui: Ui::new(), frozen: None, drawn: None, ended: false };
    let mut overhead = OwnCost::default();
    while !shown.ended && !stop.is_due() {
        feed.tell(state)?;
        said.fresh().into_iter().for_each(|sentence| state.note(sentence));
        if let Some(overhead) = overhead.told() {
            state.overhead(overhead);
        }
        shown.keys(feed, state)?;
        shown.draw_if_due(state)?;
    }
    Ok(())
}

/// The screen, and what is on it.
struct Shown {
    screen: Screen,
    palette: Palette,
    ui: Ui,
    /// What is looked at while the original goes on.
    frozen: Option<Box<State>>,
    /// When it was drawn last; none where it is to be drawn at once.
    drawn: Option<Instant>,
    ended: bool,
}

impl Shown {
    /// Takes the keys that were pressed, and waits a little for the first.
    fn keys(&mut self, feed: &mut impl Feed, state: &State) -> anyhow::Result<()> {
        let mut wait = feed.patience();
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
                let paused = !self.ui.is_paused();
                self.ui.set_paused(paused);
                self.frozen = (feed.pause(paused) && paused).then(|| Box::new(state.frozen()));
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
        signal_hook::low_level::emulate_default_handler(SIGTSTP).context("cannot stop")?;
        self.screen.take_again().context(NO_TERMINAL)
    }

    fn draw_if_due(&mut self, state: &State) -> anyhow::Result<()> {
        if !self.screen.is_taken() {
            bail!("a thread of it ended where it must not; what it said is above");
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
