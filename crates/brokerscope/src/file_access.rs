//! The rights of commands that read files. A command declares them with [`FileAccess`] before it reads: see
//! [`sandbox`]. A live watch is not such a command.

use std::path::{Path, PathBuf};

use analysis::source::ReadOptions;
use analysis::{file_error, input};
use sandbox::Access;

/// Files, directories and URLs that a command reads, and other rights it needs.
#[derive(Default)]
pub(crate) struct FileAccess(Access);

impl FileAccess {
    /// Allows reading these; `-` is open already.
    ///
    /// # Errors
    /// One does not exist. Reported before anything is written, so that nothing is left behind.
    pub(crate) fn of<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> anyhow::Result<Self> {
        paths.into_iter().try_fold(Self::default(), |access, path| access.and(path.as_ref()))
    }

    fn and(self, path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(self);
        }
        if input::url(path).is_some() {
            // A copy is stored in a directory there.
            return Ok(Self(self.0.use_network().write(std::env::temp_dir())));
        }
        std::fs::metadata(path).map_err(|error| file_error(path, &error))?;
        Ok(Self(self.0.read(path)))
    }

    /// Allows reading these as [`analysis::source::open`] does.
    /// Reads topic names for captures now: the log dirs of a running broker are known from its process, and the sandbox
    /// drops the capabilities to read them.
    ///
    /// # Errors
    /// As [`Self::of`], or the process is not a broker.
    pub(crate) fn of_sources(paths: &[PathBuf], options: ReadOptions) -> anyhow::Result<(Self, ReadOptions)> {
        let access = Self::of(paths.iter().chain(&options.jfr))?;
        let is_recording = |path: &PathBuf| path.is_dir() || input::url(path).is_some();
        let is_capture = !paths.iter().all(is_recording);
        Ok((access, if is_capture { options.with_topic_names()? } else { options }))
    }

    /// Adds rights.
    pub(crate) fn with(self, more: impl FnOnce(Access) -> Access) -> Self {
        Self(more(self.0))
    }

    /// Enters the sandbox: from here on the command has no other rights.
    /// Must be called before threads are started, because it does not affect running threads.
    ///
    /// # Errors
    /// Capabilities cannot be dropped.
    pub(crate) fn enter(&self) -> anyhow::Result<()> {
        let status = sandbox::enter(&self.0)?;
        tracing::debug!("sandbox: {status}");
        Ok(())
    }
}
