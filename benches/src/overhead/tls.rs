//! A recorder with TLS, and its agent, which pauses outside of measured windows. So the JVM does not load the agent
//! before each window, and the broker runs the same code in all of them.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::Context as _;
use capture::plaintext::PlaintextRing;

use crate::kernel::recorded;
use crate::kernel::test_bed::TestBed;
use crate::kernel::watcher::Watcher;

/// The agent polls for orders five times per second.
const SETTLE: Duration = Duration::from_millis(500);
/// Path of the agent's ring in links of descriptors.
const RING: &str = "/dev/shm/.brokerscope";

/// A running `brokerscope record --see-tls` with a paused agent.
pub(super) struct TlsRecorder {
    watcher: Watcher,
    recording: PathBuf,
    ring: PlaintextRing,
}

/// Makes the agent copy until this is stopped or dropped.
pub(super) struct Copying(PlaintextRing);

impl TlsRecorder {
    pub(super) fn start(brokerscope: &Path, bed: &TestBed) -> anyhow::Result<Self> {
        let recording = bed.path("recording");
        let watcher = Watcher::brokerscope(brokerscope, &recording, bed.pid(), &["--see-tls"])?;
        let ring = open_ring(watcher.pid())?;
        ring.pause(true)?;
        Ok(Self { watcher, recording, ring })
    }

    pub(super) fn pid(&self) -> u32 {
        self.watcher.pid()
    }

    pub(super) fn copy(&self) -> anyhow::Result<Copying> {
        let ring = open_ring(self.pid())?;
        ring.pause(false)?;
        sleep(SETTLE);
        Ok(Copying(ring))
    }

    pub(super) fn stop(self) -> anyhow::Result<()> {
        self.ring.pause(false)?;
        self.watcher.stop()?;
        println!("the recorder lost {}", recorded::lost_of_each_kind(&self.recording)?);
        fs::remove_dir_all(&self.recording).with_context(|| self.recording.display().to_string())
    }
}

impl Copying {
    pub(super) fn stop(self) -> anyhow::Result<()> {
        self.0.pause(true)?;
        sleep(SETTLE);
        Ok(())
    }
}

/// Opens the ring of a recorder. The recorder, or the process that parses for it, still has it open.
fn open_ring(recorder: u32) -> anyhow::Result<PlaintextRing> {
    let processes = std::iter::once(recorder).chain(lab::program::children(recorder));
    let mut descriptors =
        processes.flat_map(|pid| fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten());
    let is_ring = |path: &PathBuf| fs::read_link(path).is_ok_and(|to| to.to_string_lossy().starts_with(RING));
    let path = descriptors.find_map(|entry| Some(entry.ok()?.path()).filter(is_ring));
    let path = path.context("the recorder has no ring: does it see TLS?")?;
    let file =
        File::options().read(true).write(true).open(&path).with_context(|| path.display().to_string())?;
    // Only orders are written into it.
    Ok(PlaintextRing::new(file, 0, 0, || 0))
}
