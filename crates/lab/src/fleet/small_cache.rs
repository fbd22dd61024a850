//! A page cache that has no room for large files, as that of a host whose state files are hundreds of megabytes each: what is
//! read of them is soon forgotten. Small files stay in it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use rustix::fs::{Advice, fadvise};

use crate::background::Background;

const EVERY: Duration = Duration::from_millis(50);

/// Forgets files until it is dropped.
#[derive(Debug)]
pub(super) struct SmallCache(Option<Background<()>>);

impl SmallCache {
    /// Keeps those out of the page cache that are larger.
    pub(super) fn with_room_for(bytes: u64, files: Vec<PathBuf>) -> Self {
        let work = move |over: &AtomicBool| {
            while !over.load(Ordering::Relaxed) {
                for file in &files {
                    forget(file, bytes);
                }
                thread::sleep(EVERY);
            }
        };
        Self(Some(Background::start("who forgets files", work)))
    }
}

impl Drop for SmallCache {
    fn drop(&mut self) {
        // Waited for: it has files open. It does not panic; and if it did, nothing is left to be forgotten.
        let _ = self.0.take().map(Background::stop);
    }
}

/// Where that is refused, nothing is read from the disk, and whoever looks for such reads says so.
fn forget(path: &Path, room_bytes: u64) {
    let Ok(file) = File::open(path) else { return };
    if file.metadata().is_ok_and(|about| about.len() > room_bytes) {
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
    }
}
