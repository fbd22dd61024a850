//! Makes a file system commit its journal several times per second. Other writers on it would do the same. Stops when
//! dropped.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(150);

/// The thread that causes commits.
pub(super) struct Commits {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Commits {
    /// Starts on a directory's file system.
    pub(super) fn start(directory: &Path) -> Self {
        let mut sync = Command::new("sync");
        sync.arg("--file-system").arg(directory);
        let stop = Arc::<AtomicBool>::default();
        let stop_flag = Arc::clone(&stop);
        let run = move || {
            // If it fails, there are too few waits, which is reported.
            while !stop_flag.load(Ordering::Relaxed) && sync.status().is_ok_and(|status| status.success()) {
                sleep(PAUSE);
            }
        };
        Self { stop, thread: Some(spawn(run)) }
    }
}

impl Drop for Commits {
    /// Stops the thread, so that the directory is not open when it is unmounted.
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
