//! Faults that make the broker stand still: a file system that is frozen under it.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::plan::{Fault, OpenWindow, Proof, Truth, VolumeKind};
use crate::error::Result;
use crate::process;
use crate::session::interrupt;
use crate::volume::FileSystem;

/// The log dirs' file system is frozen for some hundred milliseconds, several times, as what takes a snapshot of it does.
///
/// Truth: `fs-frozen` for every slow request: appends wait in the write or in the store into a mapped index, others for the
/// logs and the handlers that these hold. A thread that is held up in such a store keeps the JVM from a safepoint too.
pub(super) const FS_FROZEN: Fault = Fault {
    name: "fs-frozen",
    story: "the log dirs' ext4 is frozen for a while, as for a snapshot",
    volume: VolumeKind::JOURNALED,
    truths: || vec![Truth::of(&["fs-frozen"]).slows_pauses()],
    inject: freeze_several_times,
    ..Fault::DEFAULT
};

/// The same of XFS.
pub(super) const FS_FROZEN_XFS: Fault = Fault {
    name: "fs-frozen-xfs",
    story: "the log dirs' XFS is frozen for a while, as for a snapshot",
    volume: Some(VolumeKind { file_system: FileSystem::Xfs, mount_options: "" }),
    ..FS_FROZEN
};

fn freeze_several_times(window: &mut OpenWindow<'_>) -> Result<Proof> {
    let (times, held_ms) = (window.rng.u32(2..=4), window.rng.u64(150..=500));
    let apart_ms = window.rng.u64(400..=900);
    let directory = window.bed.volume()?.directory().to_owned();
    for _ in 0..times {
        freeze(&directory, held_ms)?;
        interrupt().sleep(Duration::from_millis(apart_ms))?;
    }
    window.parameters = format!("{times} freezes of {held_ms} ms, {apart_ms} ms apart");
    Ok(Proof::SlowRequests)
}

/// By a separate process, which thaws it even if this one is killed meanwhile.
const FREEZE: &str =
    "trap '' INT TERM; fsfreeze --freeze \"$0\" && { sleep \"$1\"; fsfreeze --unfreeze \"$0\"; }";

/// Returns when the file system is thawed.
fn freeze(directory: &Path, held_ms: u64) -> Result<()> {
    let seconds = Duration::from_millis(held_ms).as_secs_f64().to_string();
    process::output(Command::new("sh").args(["-c", FREEZE]).arg(directory).arg(seconds)).map(drop)
}
