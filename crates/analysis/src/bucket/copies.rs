//! Local copies of recordings, each in a directory with mode 0700.
//! A copy is removed when it is no longer read, even if the command fails or SIGINT or SIGTERM ends it. (What other
//! signals leave behind is called `brokerscope-copy-…`.)

use std::borrow::Cow;
use std::fs::Permissions;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use signal_hook::consts::{SIGINT, SIGTERM};
use stores::Location;

use crate::{Error, stop};

/// All current copies, with the URLs that they were copied from.
static COPIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
/// Set once signals are caught, which they are from then on.
static CAUGHT: OnceLock<()> = OnceLock::new();

/// A copy in the global list.
struct Entry {
    directory: PathBuf,
    recording: PathBuf,
    url: String,
}

/// A copy of a recording, or an empty directory for one.
#[derive(Debug)]
pub struct Copy {
    directory: PathBuf,
    recording: PathBuf,
}

impl Copy {
    /// Creates an empty directory for a copy. It has the name of the location's last part.
    ///
    /// # Errors
    /// The directory cannot be created.
    pub(super) fn new(location: &Location) -> Result<Self, Error> {
        catch_signals().map_err(|error| Error::System("cannot catch signals", error))?;
        let place = std::env::temp_dir();
        let cannot = |error| {
            let place = place.display();
            Error::disk(format!("{place}: cannot create a directory: set TMPDIR to another place"))(error)
        };
        // Locked until the directory is in the list: a signal in between waits for that.
        let mut copies = copies();
        let mode = Permissions::from_mode(0o700);
        let temp_dir = tempfile::Builder::new().prefix("brokerscope-copy-").permissions(mode).tempdir();
        let temp_dir = temp_dir.map_err(cannot)?;
        let name =
            location.key.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(&location.bucket);
        let recording = temp_dir.path().join(name);
        std::fs::create_dir(&recording).map_err(cannot)?;
        let directory = temp_dir.keep();
        let url = location.to_string();
        copies.push(Entry { directory: directory.clone(), recording: recording.clone(), url });
        Ok(Self { directory, recording })
    }

    /// The copy's directory.
    pub fn path(&self) -> &Path {
        &self.recording
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // It may have been removed already: it is in the directory for temporary files.
        let _ = std::fs::remove_dir_all(&self.directory);
        copies().retain(|copy| copy.directory != self.directory);
    }
}

fn copies() -> MutexGuard<'static, Vec<Entry>> {
    COPIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Replaces the paths of copies in a sentence by their URLs: the copies do not outlive the command.
pub fn with_urls(sentence: &str) -> Cow<'_, str> {
    let mut sentence = Cow::Borrowed(sentence);
    for Entry { recording, url, .. } in copies().iter() {
        let path = recording.display().to_string();
        if sentence.contains(&path) {
            sentence = Cow::Owned(sentence.replace(&path, url));
        }
    }
    sentence
}

/// Catches signals: from now on, a signal removes the directories before it ends the process, unless the command handles
/// signals itself. Then the command removes the directories when it ends.
fn catch_signals() -> io::Result<()> {
    if CAUGHT.get().is_some() {
        return Ok(());
    }
    let (mut signals, sender) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    let handle_signals = move || {
        while signals.read_exact(&mut [0]).is_ok() {
            if !stop::is_caught() {
                // The lock keeps other threads from creating more.
                let copies = copies();
                copies.iter().for_each(|copy| remove_in_use(&copy.directory));
                std::process::exit(stop::INTERRUPTED);
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(handle_signals)?;
    // If another thread was faster, its result serves as well.
    let _ = CAUGHT.set(());
    Ok(())
}

/// Removes a directory in which another thread may still create files by path: renames it first.
fn remove_in_use(directory: &Path) {
    let away = directory.with_extension("gone");
    let _ = std::fs::rename(directory, &away);
    let _ = std::fs::remove_dir_all(&away);
}

#[cfg(test)]
mod tests {
    use std::fs;

    use stores::Location;

    use super::{Copy, with_urls};

    #[test]
    fn copy_is_named_like_its_key_private_and_removed_on_drop() {
        use std::os::unix::fs::PermissionsExt as _;
        let location = Location::parse("s3://bucket/cluster=a/10h").unwrap();
        let copy = Copy::new(&location).unwrap();
        assert_eq!(copy.path().file_name().unwrap(), "10h");
        let above = copy.path().parent().unwrap().to_owned();
        assert_eq!(fs::metadata(&above).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(copy.path().join("file"), "bytes").unwrap();
        let message = format!("{}/file is damaged", copy.path().display());
        assert_eq!(with_urls(&message), "s3://bucket/cluster=a/10h/file is damaged");
        assert_eq!(with_urls("nothing of it"), "nothing of it");
        drop(copy);
        assert!(!above.exists());
        assert_eq!(with_urls(&message), message);
        let whole = Copy::new(&Location::parse("s3://bucket").unwrap()).unwrap();
        assert_eq!(whole.path().file_name().unwrap(), "bucket");
    }
}
