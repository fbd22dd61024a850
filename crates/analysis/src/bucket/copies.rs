//! Copies of recordings on this disk: each in a directory that nobody else may enter, gone when it is not read any
//! more, also where the command fails, or SIGINT or SIGTERM ends it. (What others leave behind is called `brokerscope-copy-…`.)

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

/// The copies there are, with the URLs of what is in them.
static COPIES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
/// Whether signals are caught; caught once, they stay so.
static CAUGHT: OnceLock<()> = OnceLock::new();

/// A copy, for who has to find it.
struct Entry {
    directory: PathBuf,
    recording: PathBuf,
    url: String,
}

/// A copy, or the directory for one.
#[derive(Debug)]
pub struct Copy {
    directory: PathBuf,
    recording: PathBuf,
}

impl Copy {
    /// An empty directory for what is at a location, called as that is.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn new(location: &Location) -> Result<Self, Error> {
        catch_signals().map_err(|error| Error::System("cannot catch signals", error))?;
        let place = std::env::temp_dir();
        let cannot = |error| {
            let place = place.display();
            Error::disk(format!("{place}: cannot create a directory: set TMPDIR to another place"))(error)
        };
        // Held until it is noted: a signal that comes in between waits for that.
        let mut copies = copies();
        let own = Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix("brokerscope-copy-").permissions(own).tempdir();
        let made = made.map_err(cannot)?;
        let name =
            location.key.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(&location.bucket);
        let recording = made.path().join(name);
        std::fs::create_dir(&recording).map_err(cannot)?;
        let directory = made.keep();
        let url = location.to_string();
        copies.push(Entry { directory: directory.clone(), recording: recording.clone(), url });
        Ok(Self { directory, recording })
    }

    /// Where the copy is.
    pub fn path(&self) -> &Path {
        &self.recording
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // Somebody may have removed it before, as one may remove what is temporary.
        let _ = std::fs::remove_dir_all(&self.directory);
        copies().retain(|copy| copy.directory != self.directory);
    }
}

fn copies() -> MutexGuard<'static, Vec<Entry>> {
    COPIES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A sentence in which copies are called by their URLs: nobody finds them later.
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

/// From now on a signal removes the directories before it ends the process, unless the command heeds signals itself: then
/// it ends in its own time, and they with it.
fn catch_signals() -> io::Result<()> {
    if CAUGHT.get().is_some() {
        return Ok(());
    }
    let (mut signals, sender) = UnixStream::pair()?;
    for signal in [SIGINT, SIGTERM] {
        signal_hook::low_level::pipe::register(signal, sender.try_clone()?)?;
    }
    let heed = move || {
        while signals.read_exact(&mut [0]).is_ok() {
            if !stop::is_caught() {
                // No more are made meanwhile.
                let copies = copies();
                copies.iter().for_each(|copy| remove_under_way(&copy.directory));
                std::process::exit(stop::INTERRUPTED);
            }
        }
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(heed)?;
    // Another thread has done the same, which will do.
    let _ = CAUGHT.set(());
    Ok(())
}

/// Removes a directory that somebody still makes files in, by their paths: under another name first.
fn remove_under_way(directory: &Path) {
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
    fn a_copy_has_its_name_is_nobody_elses_and_goes() {
        use std::os::unix::fs::PermissionsExt as _;
        let location = Location::parse("s3://bucket/cluster=a/10h").unwrap();
        let copy = Copy::new(&location).unwrap();
        assert_eq!(copy.path().file_name().unwrap(), "10h");
        let above = copy.path().parent().unwrap().to_owned();
        assert_eq!(fs::metadata(&above).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(copy.path().join("file"), "bytes").unwrap();
        let said = format!("{}/file is damaged", copy.path().display());
        assert_eq!(with_urls(&said), "s3://bucket/cluster=a/10h/file is damaged");
        assert_eq!(with_urls("nothing of it"), "nothing of it");
        drop(copy);
        assert!(!above.exists());
        assert_eq!(with_urls(&said), said);
        let whole = Copy::new(&Location::parse("s3://bucket").unwrap()).unwrap();
        assert_eq!(whole.path().file_name().unwrap(), "bucket");
    }
}
