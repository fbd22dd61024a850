//! Destinations of data: standard output, or a named file.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write};
use std::path::Path;

use anyhow::Context as _;
use report::{Style, Zone};

use crate::log;

/// Rows of a table that are buffered to find its column widths. Only if nobody waits for them.
const MAX_LOOKAHEAD_ROWS: usize = 200;

/// Message for a failed write, before the reason.
pub(crate) const CANNOT_WRITE: &str = "cannot write to standard output";

/// Standard output.
pub(crate) type Stdout = Box<dyn Write>;

/// Opens standard output: line-buffered if a user waits for rows, else with a large buffer.
pub(crate) fn stdout(pace: Pace) -> Stdout {
    match pace {
        Pace::Immediate => Box::new(io::stdout().lock()),
        Pace::Buffered | Pace::Batched => Box::new(BufWriter::with_capacity(64 * 1024, io::stdout().lock())),
    }
}

/// When rows are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Rows are written at once.
    Immediate,
    /// Rows are written when flushed, several together: writing each one by itself costs more than finding it.
    Batched,
    /// Rows are written when a large buffer is full.
    #[default]
    Buffered,
}

/// Style of output for people.
pub(crate) fn look(zone: Zone, wide: bool, pace: Pace) -> Style {
    let lookahead = if pace == Pace::Buffered { MAX_LOOKAHEAD_ROWS } else { 0 };
    Style { zone, wide, verbose: log::is_verbose(), colour: colour(), lookahead }
}

/// Logs notes on the data, unless `--quiet` was given.
pub(crate) fn log_notes(sentences: &[String]) {
    for sentence in sentences {
        tracing::info!("{sentence}");
    }
}

/// Destination of a whole output: a file, or standard output for `-`.
pub(crate) struct Destination<'a> {
    path: &'a Path,
    file: Option<File>,
}

impl<'a> Destination<'a> {
    /// Opens the file, before anything is measured or read for it. Later, a sandbox forbids opening files for
    /// writing. The file's contents stay until [`Self::write`].
    ///
    /// # Errors
    /// The file cannot be written.
    pub(crate) fn open(path: &'a Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self { path, file: None });
        }
        check_place(path)?;
        let file = File::options().write(true).create(true).truncate(false).open(path);
        Ok(Self { path, file: Some(file.with_context(|| cannot_write(path))?) })
    }

    /// Writes the output and returns the length of the file; `None` for standard output.
    pub(crate) fn write(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<Option<u64>> {
        let Some(file) = &self.file else {
            let mut out = stdout(Pace::Buffered);
            return write(&mut out).and_then(|()| out.flush()).context(CANNOT_WRITE).map(|()| None);
        };
        Self::fill(file, write).map(Some).with_context(|| cannot_write(self.path))
    }

    fn fill(file: &File, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<u64> {
        // A pipe or a device has no length.
        if file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        let mut out = BufWriter::new(file);
        write(&mut out)?;
        out.flush()?;
        Ok(file.metadata()?.len())
    }
}

/// Fails if a file cannot be written because its directory does not exist.
///
/// # Errors
/// The path is a directory, or its directory does not exist.
pub(crate) fn check_place(path: &Path) -> anyhow::Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let (place, directory) = (path.display(), parent.is_none_or(Path::is_dir));
    anyhow::ensure!(!path.is_dir(), "{place}: it is a directory; name a file to write");
    anyhow::ensure!(directory, "{place}: cannot write: its directory does not exist; create it first");
    Ok(())
}

impl fmt::Display for Destination<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.display().fmt(f)
    }
}

fn cannot_write(path: &Path) -> String {
    format!("{}: cannot write", path.display())
}

/// Whether to use colour. Honours NO_COLOR if set and not empty: <https://no-color.org>.
#[allow(clippy::doc_markdown)]
fn colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !refused && !dumb && io::stdout().is_terminal()
}
