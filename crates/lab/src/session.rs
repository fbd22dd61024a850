//! What every experiment starts with: an account on stderr, a flag for Ctrl-C, the `brokerscope` to run, and a machine on
//! which no killed lab has left anything.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::clean;
use crate::error::Error;
use crate::observer::Observer;

/// A running experiment's own.
pub(crate) struct Session {
    pub(crate) steps: Steps,
    pub(crate) interrupt: Interrupt,
    pub(crate) observer: Observer,
}

impl Session {
    /// Catches signals and takes down what killed labs left; runs the binary `brokerscope`, or the one beside this program.
    pub(crate) fn start(brokerscope: Option<&Path>) -> Result<Self, Error> {
        let (steps, interrupt) = (Steps::aloud(), Interrupt::catch()?);
        clean::sweep(steps)?;
        Ok(Self { steps, observer: Observer::new(brokerscope, &interrupt)?, interrupt })
    }
}

/// Writes to stdout.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::system("write to stdout"))
}

/// Those of these ids, or all where none is named.
///
/// # Errors
/// Where a name is none of them; `what` is what they are called.
pub(crate) fn chosen<T>(
    all: Vec<T>,
    names: &[String],
    what: &str,
    id: impl Fn(&T) -> &str,
) -> Result<Vec<T>, Error> {
    let known: Vec<&str> = all.iter().map(&id).collect();
    if let Some(name) = names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(Error::Unusable(format!("no {what} is called {name}; there are {}", known.join(", "))));
    }
    let is_meant = |one: &T| names.is_empty() || names.iter().any(|name| name == id(one));
    Ok(all.into_iter().filter(is_meant).collect())
}

/// Draws a seed that is short enough to be typed.
pub(crate) fn draw_seed() -> u64 {
    fastrand::u32(..).into()
}

/// How often a wait looks again.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Asks `ready` until it says yes or `limit` has passed; what it said last.
pub(crate) fn poll(limit: Duration, mut ready: impl FnMut() -> bool) -> bool {
    let end = Instant::now() + limit;
    loop {
        match ready() {
            false if Instant::now() < end => thread::sleep(POLL_INTERVAL),
            answer => return answer,
        }
    }
}

/// Whether this process has been asked to stop. Clones share one flag.
#[derive(Clone, Debug, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Catches SIGINT, SIGTERM and SIGHUP of this process from now on; a second one changes nothing, since
    /// leaving half-way is what the flag is there to prevent.
    pub fn catch() -> Result<Self, Error> {
        let flag = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM, SIGHUP] {
            signal_hook::flag::register(signal, Arc::clone(&flag)).map_err(Error::system("catch signals"))?;
        }
        Ok(Self(flag))
    }

    /// A flag that no signal raises: for tests and for callers with their own signal handling.
    pub fn never() -> Self {
        Self::default()
    }

    /// Whether a signal came.
    pub fn raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// [`Error::Interrupted`] once a signal came.
    pub fn check(&self) -> Result<(), Error> {
        if self.raised() { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Asks `ready` until it has an answer.
    ///
    /// # Errors
    /// What `ready` fails with; [`Error::Interrupted`]; `late()` once `limit` has passed.
    pub(crate) fn wait_or<T>(
        &self,
        limit: Duration,
        mut ready: impl FnMut() -> Result<Option<T>, Error>,
        late: impl FnOnce() -> Error,
    ) -> Result<T, Error> {
        let end = Instant::now() + limit;
        loop {
            if let Some(answer) = ready()? {
                return Ok(answer);
            }
            self.check()?;
            if Instant::now() >= end {
                return Err(late());
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Asks `ready` until it has an answer; `what` is waited for.
    ///
    /// # Errors
    /// What `ready` fails with; [`Error::Interrupted`]; [`Error::TooSlow`] once `limit` has passed.
    pub(crate) fn wait<T>(
        &self,
        limit: Duration,
        what: &str,
        ready: impl FnMut() -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        let late = || Error::TooSlow { what: what.to_owned(), limit, hint: String::new() };
        self.wait_or(limit, ready, late)
    }

    /// Sleeps for `time` unless interrupted.
    pub(crate) fn sleep(&self, time: Duration) -> Result<(), Error> {
        let end = Instant::now() + time;
        while Instant::now() < end {
            self.check()?;
            thread::sleep(POLL_INTERVAL.min(end.saturating_duration_since(Instant::now())));
        }
        self.check()
    }
}

/// Says what the lab does, a line a step; silent when told so.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    quiet: bool,
}

impl Steps {
    /// Speaks on stderr.
    pub fn aloud() -> Self {
        Self { quiet: false }
    }

    /// Says nothing: for tests.
    pub fn silent() -> Self {
        Self { quiet: true }
    }

    /// Says one line.
    pub fn say(self, line: &str) {
        if !self.quiet {
            // A closed stderr is no reason to leave an experiment half taken down.
            let _ = writeln!(std::io::stderr(), "lab: {line}");
        }
    }

    /// Says one line about what has been done since `started`.
    pub fn took(self, started: Instant, line: &str) {
        self.say(&format!("{line} ({:.1} s)", started.elapsed().as_secs_f64()));
    }
}

#[cfg(test)]
mod interrupt_tests {
    use super::*;

    #[test]
    fn a_raised_flag_ends_a_wait_before_its_limit() {
        let interrupt = Interrupt::never();
        interrupt.0.store(true, Ordering::Relaxed);
        let waited = interrupt.wait_or(
            Duration::from_secs(3600),
            || Ok(None::<()>),
            || Error::Unusable("not reached".to_owned()),
        );
        assert!(matches!(waited, Err(Error::Interrupted)));
        assert!(interrupt.sleep(Duration::from_secs(3600)).is_err());
    }

    #[test]
    fn an_answer_counts_even_when_interrupted() {
        let interrupt = Interrupt::never();
        interrupt.0.store(true, Ordering::Relaxed);
        let answer = interrupt.wait_or(Duration::ZERO, || Ok(Some(7)), || Error::Interrupted);
        assert_eq!(answer.unwrap(), 7);
    }
}
