//! Faults that stop the broker: its file system is frozen, its process stopped, its cgroup frozen, or its machine is
//! without a CPU.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::plan::{Fault, OpenWindow, Proof, Truth, VolumeKind, standard_load};
use crate::client::Traffic;
use crate::error::Result;
use crate::host::Cgroup;
use crate::process;
use crate::session::{ask_hypervisor, interrupt};
use crate::volume::FileSystem;

/// The log dirs' file system is frozen several times, as a snapshot does. Each freeze lasts some hundred milliseconds.
///
/// Truth: `fs-frozen` for every slow request: appends wait in the write or in the store into a mapped index, others for
/// the logs and the handlers that these hold. A thread that waits in such a store also keeps the JVM from a safepoint.
pub(super) const FS_FROZEN: Fault = Fault {
    name: "fs-frozen",
    story: "the log dirs' ext4 is frozen for a while, as for a snapshot",
    volume: VolumeKind::JOURNALED,
    truths: || vec![Truth::of(&["fs-frozen"]).slows_pauses()],
    inject: freeze_several_times,
    ..Fault::DEFAULT
};

/// Like [`FS_FROZEN`], for XFS.
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

/// In a separate process, which thaws it even if this one is killed meanwhile.
const FREEZE: &str =
    "trap '' INT TERM; fsfreeze --freeze \"$0\" && { sleep \"$1\"; fsfreeze --unfreeze \"$0\"; }";

/// Returns once the file system is thawed.
fn freeze(directory: &Path, held_ms: u64) -> Result<()> {
    process::output(Command::new("sh").args(["-c", FREEZE]).arg(directory).arg(seconds(held_ms))).map(drop)
}

/// The broker is stopped by `SIGSTOP` for some hundred milliseconds, several times.
///
/// Truth: `process-stopped` for every slow request: none of its threads ran. JVM pauses during a stop are longer by it.
pub(super) const STOPPED: Fault = Fault {
    name: "stopped",
    story: "the broker's process is stopped by a signal for a while",
    shares: true,
    truths: || vec![Truth::of(&["process-stopped"]).slows_pauses()],
    inject: |window| stop_several_times(window, STOP),
    ..Fault::DEFAULT
};

/// Like [`STOPPED`], but the broker's cgroup is frozen, as `docker pause` does; with version 1's freezer, where that is
/// mounted.
pub(super) const FROZEN_CGROUP: Fault = Fault {
    name: "frozen-cgroup",
    story: "the broker's cgroup is frozen for a while",
    shares: true,
    truths: || vec![Truth::of(&["process-stopped"]).slows_pauses()],
    prepare: |bed, tools, _| {
        tools.freezer.insert(Cgroup::make(bed.site.path(), "freezer")?).put(bed.broker.pid)
    },
    inject: |window| stop_several_times(window, FREEZE_GROUP),
    ..Fault::DEFAULT
};

/// Scripts that stop the broker or its cgroup, and resume it. They run in separate processes, which resume it even if
/// this one is killed meanwhile.
const STOP: &str = "trap '' INT TERM; kill -STOP \"$0\" && { sleep \"$1\"; kill -CONT \"$0\"; }";
const FREEZE_GROUP: &str = "trap '' INT TERM; echo FROZEN >\"$2\" && { sleep \"$1\"; echo THAWED >\"$2\"; }";

fn stop_several_times(window: &mut OpenWindow<'_>, script: &str) -> Result<Proof> {
    let (times, held_ms) = (window.rng.u32(2..=4), window.rng.u64(150..=500));
    let apart_ms = window.rng.u64(400..=900);
    let pid = window.bed.broker.pid.to_string();
    let group = window.tools.freezer.as_ref().map(|group| group.file("freezer.state")).unwrap_or_default();
    for _ in 0..times {
        let mut command = Command::new("sh");
        command.args(["-c", script, &pid, &seconds(held_ms)]).arg(&group);
        process::output(&mut command)?;
        interrupt().sleep(Duration::from_millis(apart_ms))?;
    }
    window.parameters = format!("{times} stops of {held_ms} ms, {apart_ms} ms apart");
    Ok(Proof::SlowRequests)
}

/// The hypervisor gives the machine no CPU, several times. Each time lasts some hundred milliseconds. Runs only in a
/// guest of `vmtest/hypervisor`, which obeys a line on stderr. An emulated machine counts no steal time, and both its
/// CPUs are one thread of the host, so that it never loses only one of them.
///
/// Truth: `host-paused` for every slow request, or `cpu-steal`: nothing ran on the machine. A request in progress took
/// at least as long as the pause; an emulated machine is slow enough to have other requests of half a second.
pub(super) const STEAL: Fault = Fault {
    name: "steal",
    story: "the hypervisor gives the machine no CPU for a while",
    guest_only: true,
    // An emulated processor is about thirty times slower.
    load: |rng| Traffic { producers: 2, per_second: rng.u32(2..=4), in_flight: 1, ..standard_load(rng) },
    threshold_ms: (600, 650),
    truths: || vec![Truth::of(&["host-paused", "cpu-steal"]).slows_pauses()],
    inject: |window| {
        let (times, held_ms) = (window.rng.u32(5..=8), window.rng.u64(700..=1_000));
        let apart_ms = window.rng.u64(1_500..=2_500);
        for _ in 0..times {
            ask_hypervisor(&format!("process {}", seconds(held_ms)));
            interrupt().sleep(Duration::from_millis(held_ms + apart_ms))?;
        }
        window.parameters = format!("{times} times no CPU for {held_ms} ms, {apart_ms} ms apart");
        Ok(Proof::SlowRequests)
    },
    ..Fault::DEFAULT
};

fn seconds(ms: u64) -> String {
    Duration::from_millis(ms).as_secs_f64().to_string()
}
