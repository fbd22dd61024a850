//! Where output goes: data to standard output, everything else to standard error.

use std::io::{self, BufWriter, IsTerminal as _, Write};

use report::escape::escape;
use report::{Look, Zone};

use crate::options::Presentation;

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
    #[cfg_attr(
        not(feature = "live"),
        expect(dead_code, reason = "rows come fast where they are of a live broker")
    )]
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
    pub(crate) fn look(&self, pace: Pace) -> Look {
        Look {
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
    // Nothing is left to do where standard error is gone.
    let _ = writeln!(io::stderr(), "{}", escape(sentence));
}

/// NO_COLOR: <https://no-color.org>, set and not empty.
#[allow(clippy::doc_markdown)]
fn colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !refused && !dumb && io::stdout().is_terminal()
}
