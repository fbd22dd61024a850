//! Messages on standard error: one line each, by level. Under systemd, lines start with their priority, as in
//! sd-daemon(3). While the screen is in use, lines are held back. Not fuzzed: it only writes.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use report::escape::escape;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::filter::{FilterExt as _, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::args::Verbosity;

/// Maximum number of lines held back.
const MAX_HELD_LINES: usize = 100;

/// Starts logging at the requested level. Other libraries' events are not for users.
pub(crate) fn start(verbosity: &Verbosity) {
    let level = match (verbosity.quiet, verbosity.verbose) {
        (true, _) => LevelFilter::WARN,
        (false, true) => LevelFilter::DEBUG,
        (false, false) => LevelFilter::INFO,
    };
    let is_ours = |target: &str| target.starts_with("brokerscope") || target.starts_with("analysis");
    let ours = filter_fn(move |event| is_ours(event.target()));
    let lines = tracing_subscriber::fmt::layer()
        .event_format(Lines { priorities: is_journal() })
        .with_writer(|| StandardError)
        .with_filter(ours.and(level));
    tracing_subscriber::registry().with(lines).init();
}

/// Whether `--verbose` was given.
pub(crate) fn is_verbose() -> bool {
    tracing::enabled!(Level::DEBUG)
}

/// Whether standard error is the journal's (`JOURNAL_STREAM`, systemd.exec(5)).
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else { return false };
    let is_stream = |file: &std::fs::Metadata| stream == format!("{}:{}", file.dev(), file.ino());
    std::fs::metadata("/proc/self/fd/2").is_ok_and(|file| is_stream(&file))
}

/// Formats an event as one line with only its message.
struct Lines {
    priorities: bool,
}

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut out: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        let mut message = Message(String::new());
        event.record(&mut message);
        if self.priorities {
            write!(out, "<{}>", priority(*event.metadata().level()))?;
        }
        writeln!(out, "{}", escape(&analysis::bucket::with_urls(&message.0)))
    }
}

/// The priorities of syslog(3).
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// The message of an event.
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Standard error, or the lines held back.
struct StandardError;

impl Write for StandardError {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if let Some(held) = held().as_mut() {
            held.push(&String::from_utf8_lossy(line));
            return Ok(line.len());
        }
        io::stderr().write(line)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

static HELD_LINES: Mutex<Option<HeldLines>> = Mutex::new(None);

fn held() -> MutexGuard<'static, Option<HeldLines>> {
    HELD_LINES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lines held back.
#[derive(Default)]
struct HeldLines {
    lines: VecDeque<String>,
    /// How many of them [`HeldLines::take_new`] has not yet returned.
    fresh: usize,
    dropped: u64,
}

impl HeldLines {
    fn push(&mut self, line: &str) {
        if self.lines.len() >= MAX_HELD_LINES {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.lines.push_back(line.trim_end().to_owned());
        self.fresh = (self.fresh + 1).min(self.lines.len());
    }

    fn take_new(&mut self) -> Vec<String> {
        let known = self.lines.len() - std::mem::take(&mut self.fresh);
        self.lines.iter().skip(known).cloned().collect()
    }
}

/// Holds back lines for standard error, because the terminal is in use. The lines are written when it is dropped.
pub(crate) struct LogHold(());

impl LogHold {
    /// Starts holding lines back.
    pub(crate) fn start() -> Self {
        *held() = Some(HeldLines::default());
        Self(())
    }

    /// Returns the lines since the last call.
    #[expect(clippy::unused_self, reason = "only the holder may take lines")]
    pub(crate) fn take_new(&self) -> Vec<String> {
        held().as_mut().map(HeldLines::take_new).unwrap_or_default()
    }
}

impl Drop for LogHold {
    fn drop(&mut self) {
        let Some(held) = held().take() else { return };
        for line in held.lines {
            // Nothing can be done if standard error is closed.
            let _ = writeln!(io::stderr(), "{line}");
        }
        if held.dropped > 0 {
            tracing::warn!("{} earlier warnings are not shown", held.dropped);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{HeldLines, MAX_HELD_LINES};

    #[test]
    fn held_back_lines_are_returned_once_and_bounded() {
        let mut held = HeldLines::default();
        held.push("one\n");
        held.push("two\n");
        assert_eq!(held.take_new(), ["one", "two"]);
        assert_eq!(held.take_new(), [""; 0]);
        for number in 0..MAX_HELD_LINES + 20 {
            held.push(&number.to_string());
        }
        let fresh = held.take_new();
        assert_eq!((fresh.len(), fresh.last().map(String::as_str)), (MAX_HELD_LINES, Some("119")));
        assert_eq!(held.dropped, 22);
    }
}
