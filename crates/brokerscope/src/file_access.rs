//! What commands that read files may do once they read them, which each says by [`FileAccess`] before: see [`sandbox`]. A watch on
//! a broker is no such command.

use std::path::{Path, PathBuf};

use analysis::source::ReadOptions;
use analysis::{file_error, input};
use sandbox::Access;

/// Files, directories and URLs that a command reads, and what else it does.
#[derive(Default)]
pub(crate) struct FileAccess(Access);

impl FileAccess {
    /// Reads these; `-` is open already.
    ///
    /// # Errors
    /// One is not there: before anything is written, so that nothing is left behind.
    pub(crate) fn of<P: AsRef<Path>>(paths: impl IntoIterator<Item = P>) -> anyhow::Result<Self> {
        paths.into_iter().try_fold(Self::default(), |access, path| access.and(path.as_ref()))
    }

    fn and(self, path: &Path) -> anyhow::Result<Self> {
        if path == Path::new("-") {
            return Ok(self);
        }
        if input::url(path).is_some() {
            // A copy comes to a directory there.
            return Ok(Self(self.0.use_network().write(std::env::temp_dir())));
        }
        std::fs::metadata(path).map_err(|error| file_error(path, &error))?;
        Ok(Self(self.0.read(path)))
    }

    /// Reads these as [`analysis::source::open`] does. Topic names of captures are read now: a running broker's log dirs are
    /// known from its process, and root gives away what reading that takes.
    ///
    /// # Errors
    /// As [`Self::of`], and the process is no broker.
    pub(crate) fn of_sources(paths: &[PathBuf], options: ReadOptions) -> anyhow::Result<(Self, ReadOptions)> {
        let access = Self::of(paths.iter().chain(&options.jfr))?;
        let is_recording = |path: &PathBuf| path.is_dir() || input::url(path).is_some();
        let is_capture = !paths.iter().all(is_recording);
        Ok((access, if is_capture { options.with_topic_names()? } else { options }))
    }

    /// Says more about access.
    pub(crate) fn with(self, more: impl FnOnce(Access) -> Access) -> Self {
        Self(more(self.0))
    }

    /// From here on the command can do nothing else. Before threads are started: those that run go on as they were.
    ///
    /// # Errors
    /// Capabilities cannot be given away.
    pub(crate) fn enter(&self) -> anyhow::Result<()> {
        let status = sandbox::enter(&self.0)?;
        tracing::debug!("sandbox: {status}");
        Ok(())
    }
}
