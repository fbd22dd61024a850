//! The running account of an experiment on stderr: what is done, and how long it took.

use std::io::Write;
use std::time::Instant;

/// Says what the lab does, a line a step; silent when told so.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    quiet: bool,
}

impl Steps {
    /// Speaks on stderr.
    #[must_use]
    pub fn aloud() -> Self {
        Self { quiet: false }
    }

    /// Says nothing: for tests.
    #[must_use]
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
