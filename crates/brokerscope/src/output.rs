//! Where data goes: standard output, or a file that was named.

use std::fmt;
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

/// Where all of an output goes: a file, or for `-` standard output.
pub(crate) struct Destination<'a> {
    path: &'a Path,
    file: Option<File>,
}

impl<'a> Destination<'a> {
    /// Opens the file before anything is measured or read for it: nothing can be opened to write in a sandbox. What is in it stays
    /// until [`Self::write`].
    ///
    /// # Errors
    /// What is in the way.
    pub(crate) fn open(path: &'a Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(Self { path, file: None });
        }
        check_place(path)?;
        let file = File::options().write(true).create(true).truncate(false).open(path);
        Ok(Self { path, file: Some(file.with_context(|| cannot_write(path))?) })
    }

    /// Writes it, and says how long the file is; none of standard output.
    pub(crate) fn write(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> anyhow::Result<Option<u64>> {
        let Some(file) = &self.file else {
            let mut out = stdout(Pace::AllThere);
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

/// Fails where a file cannot be written for want of a directory.
///
/// # Errors
/// What is in the way.
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

/// NO_COLOR: <https://no-color.org>, set and not empty.
#[allow(clippy::doc_markdown)]
fn colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !refused && !dumb && io::stdout().is_terminal()
}
