//! Where data goes: standard output, or a file that was named.

use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;

use anyhow::Context as _;
use report::{Style, Zone};

use crate::log;

/// Rows of a table held back to find its widths, where nobody waits for them.
const MAX_LOOKAHEAD_ROWS: usize = 200;

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Rows are shown at once.
    AsTheyCome,
    /// Rows are shown when they are flushed, several together: to write each by itself costs more than to find it.
    HandedOn,
    /// Rows are shown when it is convenient.
    #[default]
    AllThere,
}

/// How outputs for people look.
pub(crate) fn look(zone: Zone, wide: bool, pace: Pace) -> Style {
    let lookahead = if pace == Pace::AllThere { MAX_LOOKAHEAD_ROWS } else { 0 };
    Style { zone, wide, verbose: log::is_verbose(), colour: colour(), lookahead }
}

/// Says several things beside the data, unless the user wants quiet.
pub(crate) fn say_each(sentences: &[String]) {
    for sentence in sentences {
        tracing::info!("{sentence}");
    }
}

/// Writes all of an output: to a file, or for `-` to standard output.
pub(crate) fn write(path: &Path, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
    if path == Path::new("-") {
        let mut out = stdout(Pace::AllThere);
        return write(&mut out).and_then(|()| out.flush()).context(CANNOT_WRITE);
    }
    let written = File::create(path).map(BufWriter::new).and_then(|mut out| {
        write(&mut out)?;
        out.flush()
    });
    written.with_context(|| format!("{}: cannot write", path.display()))
}

/// Fails where one of several files cannot be written for want of a directory: before anything is measured or read for it.
///
/// # Errors
/// What is in the way.
pub(crate) fn check_places<'p>(paths: impl IntoIterator<Item = &'p Path>) -> anyhow::Result<()> {
    for path in paths.into_iter().filter(|path| *path != Path::new("-")) {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let (place, directory) = (path.display(), parent.is_none_or(Path::is_dir));
        anyhow::ensure!(!path.is_dir(), "{place}: it is a directory; name a file to write");
        anyhow::ensure!(directory, "{place}: cannot write: its directory does not exist; create it first");
    }
    Ok(())
}

/// NO_COLOR: <https://no-color.org>, set and not empty.
#[allow(clippy::doc_markdown)]
fn colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !refused && !dumb && io::stdout().is_terminal()
}
