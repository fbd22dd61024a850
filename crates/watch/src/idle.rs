//! Makes the recorder's own cgroup idle if no other process is in it: its threads then yield to all others at once, even across
//! cgroups, where scheduling policies and weights do little (`cpu.idle`, Linux 5.15: Documentation/admin-guide/cgroup-v2.rst).
//! Does not know the broker.

#![allow(clippy::disallowed_methods, reason = "/proc or /sys")]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Reasons why the cgroup was left as it is.
#[derive(Debug, thiserror::Error)]
pub enum NotIdle {
    /// This process has no cgroup with the CPU controller here.
    /// No cgroup file system with both is mounted.
    #[error("no cgroup of this process with the CPU controller was found")]
    NoGroup,
    /// Other processes would become idle too.
    #[error("{}: other processes are in it or below it", group.display())]
    Shared {
        /// The cgroup's directory.
        group: PathBuf,
    },
    /// The file does not exist or is not writable.
    /// It does not exist in the root cgroup, for example, or before Linux 5.15.
    #[error("{}: {source}", file.display())]
    Refused {
        /// The file.
        file: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
}

/// Makes this process's cgroup idle if no other process is in it.
/// Returns the cgroup's directory. The cgroup stays idle after this process has ended.
///
/// # Errors
/// The reason why the cgroup was left as it is; nothing depends on it.
pub fn set_cgroup_idle() -> Result<PathBuf, NotIdle> {
    let pid = std::process::id();
    let group = crate::host::cpu_group_of(pid).ok_or(NotIdle::NoGroup)?;
    set_idle(&group, pid)?;
    Ok(group)
}

fn set_idle(group: &Path, pid: u32) -> Result<(), NotIdle> {
    let file = group.join("cpu.idle");
    let refused = |source| NotIdle::Refused { file: file.clone(), source };
    if fs::read_to_string(&file).map_err(refused)?.trim() == "1" {
        return Ok(());
    }
    if !is_alone(group, pid) {
        return Err(NotIdle::Shared { group: group.to_owned() });
    }
    // The kernel refuses this for version 1's root cgroup, which has the file.
    fs::write(&file, "1").map_err(refused)
}

/// Whether a cgroup has this process, no other, and no child cgroups.
/// A process in another PID namespace is listed as 0.
fn is_alone(group: &Path, pid: u32) -> bool {
    let Ok(processes) = fs::read_to_string(group.join("cgroup.procs")) else { return false };
    let Ok(entries) = fs::read_dir(group) else { return false };
    let has_groups = entries.flatten().any(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    processes.split_whitespace().eq([pid.to_string()]) && !has_groups
}

#[cfg(test)]
mod tests {
    use super::{NotIdle, set_idle};
    use std::fs;

    /// A directory that looks like a cgroup with these processes.
    fn group(processes: &str) -> tempfile::TempDir {
        let group = tempfile::tempdir().unwrap();
        fs::write(group.path().join("cgroup.procs"), processes).unwrap();
        fs::write(group.path().join("cpu.idle"), "0\n").unwrap();
        group
    }

    #[test]
    fn sets_an_unshared_cgroup_idle() {
        let group = group("7\n");
        set_idle(group.path(), 7).unwrap();
        assert_eq!(fs::read_to_string(group.path().join("cpu.idle")).unwrap(), "1");
    }

    #[test]
    fn leaves_a_shared_cgroup_unchanged() {
        let below = group("7\n");
        fs::create_dir(below.path().join("session")).unwrap();
        for group in [group("7\n8\n"), group("0\n"), group(""), below] {
            let result = set_idle(group.path(), 7);
            assert!(matches!(result, Err(NotIdle::Shared { .. })), "{result:?}");
            assert_eq!(fs::read_to_string(group.path().join("cpu.idle")).unwrap(), "0\n");
        }
    }

    #[test]
    fn accepts_a_shared_cgroup_that_is_already_idle() {
        let group = group("7\n8\n");
        fs::write(group.path().join("cpu.idle"), "1\n").unwrap();
        set_idle(group.path(), 7).unwrap();
    }

    #[test]
    fn missing_cpu_idle_file_is_an_error() {
        let group = tempfile::tempdir().unwrap();
        let result = set_idle(group.path(), 7);
        assert!(matches!(result, Err(NotIdle::Refused { .. })), "{result:?}");
    }
}
