//! How far an experiment is: a line a run, and on a terminal a bar while it runs.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::interrupt::Interrupt;

/// How often the bar is drawn anew.
const REDRAWN: Duration = Duration::from_millis(500);
const WIDTH: usize = 30;

/// Sleeps for `time`, with a bar where stderr is a terminal.
///
/// # Errors
/// [`Error::Interrupted`], and what `check` fails with.
pub(crate) fn watch(
    time: Duration,
    interrupt: &Interrupt,
    mut check: impl FnMut() -> Result<(), Error>,
) -> Result<(), Error> {
    let shown = std::io::stderr().is_terminal();
    let started = Instant::now();
    let watched = loop {
        let passed = started.elapsed();
        if passed >= time {
            break Ok(());
        }
        if shown {
            let _ = write!(std::io::stderr(), "\r{}", bar(passed, time));
        }
        if let Err(error) = check().and_then(|()| interrupt.sleep(REDRAWN.min(time.saturating_sub(passed)))) {
            break Err(error);
        }
    };
    if shown {
        let _ = write!(std::io::stderr(), "\r{:1$}\r", "", WIDTH + 24);
    }
    watched
}

fn bar(passed: Duration, whole: Duration) -> String {
    let share = (passed.as_secs_f64() / whole.as_secs_f64()).clamp(0.0, 1.0);
    let done = (share * WIDTH as f64) as usize;
    format!(
        "  [{}{}] {} of {} s",
        "#".repeat(done),
        ".".repeat(WIDTH - done),
        passed.as_secs(),
        whole.as_secs()
    )
}

/// `about 14 min`, `about 40 s`.
pub(crate) fn roughly(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=90 => format!("about {seconds} s"),
        seconds => format!("about {} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills() {
        let whole = Duration::from_secs(20);
        assert_eq!(bar(Duration::ZERO, whole), format!("  [{}] 0 of 20 s", ".".repeat(30)));
        assert!(bar(Duration::from_secs(10), whole).starts_with("  [###############..............."));
        assert_eq!(bar(Duration::from_secs(30), whole), format!("  [{}] 30 of 20 s", "#".repeat(30)));
    }

    #[test]
    fn times_are_said_roughly() {
        assert_eq!(roughly(Duration::from_secs(42)), "about 42 s");
        assert_eq!(roughly(Duration::from_secs(840)), "about 14 min");
        assert_eq!(roughly(Duration::from_secs(841)), "about 15 min");
    }

    #[test]
    fn what_is_checked_meanwhile_ends_it() {
        let failed = watch(Duration::from_secs(60), &Interrupt::never(), || Err(Error::Interrupted));
        assert!(matches!(failed, Err(Error::Interrupted)));
    }
}
