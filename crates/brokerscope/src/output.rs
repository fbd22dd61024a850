//! Where output goes: data to standard output, everything else to standard error.

use std::collections::VecDeque;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};

use report::escape::escape;
use report::{Style, Zone};

use crate::options::Presentation;
use crate::remote;

/// Rows of a table held back to find its widths, where nobody waits for them.
const LOOKAHEAD: usize = 200;

/// What kept a command from writing its data, before the reason.
pub(crate) const CANNOT_WRITE: &str = "cannot write to standard output";

/// Standard output.
pub(crate) type Stdout = Box<dyn Write>;

/// Standard output: line by line where somebody waits for rows, else in large pieces.
pub(crate) fn stdout(pace: Pace) -> Stdout {
    match pace {
        Pace::AsTheyCome => Box::new(io::stdout().lock()),
        Pace::AllThere | Pace::HandedOn => Box::new(BufWriter::with_capacity(64 * 1024, io::stdout().lock())),
    }
}

/// Whether somebody watches rows come or a file is read through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Rows are shown at once.
    AsTheyCome,
    /// Rows are shown when they are handed on, several together: who writes each by itself spends more on that than on
    /// what it says.
    HandedOn,
    /// Rows are shown when it is convenient.
    AllThere,
}

impl Presentation {
    /// The time zone that was asked for.
    pub(crate) fn zone(&self) -> Zone {
        if self.utc { Zone::utc() } else { Zone::local() }
    }

    /// How outputs for people look.
    pub(crate) fn look(&self, pace: Pace) -> Style {
        Style {
            zone: self.zone(),
            wide: self.wide,
            colour: colour(),
            lookahead: if pace == Pace::AllThere { LOOKAHEAD } else { 0 },
        }
    }

    /// Says something beside the data, unless the user wants quiet.
    pub(crate) fn say(&self, sentence: &str) {
        if !self.quiet {
            warn(sentence);
        }
    }

    /// Says several things.
    pub(crate) fn say_each(&self, sentences: &[String]) {
        for sentence in sentences {
            self.say(sentence);
        }
    }
}

/// Says something beside the data that even those who want quiet must know.
pub(crate) fn warn(sentence: &str) {
    let sentence = &remote::with_urls(sentence);
    if let Some(held) = held_back().as_mut() {
        held.push(sentence);
        return;
    }
    // Nothing is left to do where standard error is gone.
    let _ = writeln!(io::stderr(), "{}", escape(sentence));
}

/// Sentences that are held back.
const MOST_HELD: usize = 100;

/// What was said since it is held back.
static HELD: Mutex<Option<Held>> = Mutex::new(None);

#[derive(Default)]
struct Held {
    sentences: VecDeque<String>,
    /// How many of them were never asked for.
    fresh: usize,
    dropped: u64,
}

/// As long as it lives, nothing is written to standard error: the terminal is drawn on. What was to be said is said when it is
/// dropped.
pub(crate) struct HeldBack(());

fn held_back() -> MutexGuard<'static, Option<Held>> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Held {
    fn push(&mut self, sentence: &str) {
        if self.sentences.len() >= MOST_HELD {
            self.sentences.pop_front();
            self.dropped += 1;
        }
        self.sentences.push_back(sentence.to_owned());
        self.fresh = (self.fresh + 1).min(self.sentences.len());
    }

    fn fresh(&mut self) -> Vec<String> {
        let known = self.sentences.len() - std::mem::take(&mut self.fresh);
        self.sentences.iter().skip(known).cloned().collect()
    }
}

impl HeldBack {
    /// Holds back what is said from now on.
    pub(crate) fn begin() -> Self {
        *held_back() = Some(Held::default());
        Self(())
    }

    /// What was said since this was asked last.
    #[expect(clippy::unused_self, reason = "only who holds it back may ask")]
    pub(crate) fn fresh(&self) -> Vec<String> {
        held_back().as_mut().map(Held::fresh).unwrap_or_default()
    }
}

impl Drop for HeldBack {
    fn drop(&mut self) {
        let Some(held) = held_back().take() else { return };
        held.sentences.iter().for_each(|sentence| warn(sentence));
        if held.dropped > 0 {
            warn(&format!("{} earlier warnings are not shown", held.dropped));
        }
    }
}

/// NO_COLOR: <https://no-color.org>, set and not empty.
#[allow(clippy::doc_markdown)]
fn colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !refused && !dumb && io::stdout().is_terminal()
}

#[cfg(test)]
mod tests {
    use super::{Held, MOST_HELD};

    #[test]
    fn what_is_held_back_is_told_once_and_bounded() {
        let mut held = Held::default();
        held.push("one");
        held.push("two");
        assert_eq!(held.fresh(), ["one", "two"]);
        assert_eq!(held.fresh(), [""; 0]);
        for number in 0..MOST_HELD + 20 {
            held.push(&number.to_string());
        }
        let fresh = held.fresh();
        assert_eq!((fresh.len(), fresh.last().map(String::as_str)), (MOST_HELD, Some("119")));
        assert_eq!(held.dropped, 22);
    }
}
