//! Finds and ends the processes that carry a site's mark in their environment, whoever their parent is now.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use std::os::unix::ffi::OsStrExt;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::site::MARK;

/// The environment variable that tells the device's server from the processes that use the device.
pub(crate) const ROLE: &str = "BROKERSCOPE_LAB_ROLE";
/// Its value in the device's server.
pub(crate) const DEVICE: &str = "device";
/// How long they may take to end after SIGTERM, and again after SIGKILL.
const PATIENCE: Duration = Duration::from_secs(10);

/// Which of a site's processes are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    /// Everything but the device's server: that one must outlive the file system on it.
    Clients,
    /// Everything.
    All,
}

/// The processes of `site`, this one excepted.
pub(crate) fn processes(site: &Path, which: Which) -> Vec<u32> {
    let Ok(listing) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = listing.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id() && belongs(*pid, site, which)).collect()
}

/// Ends the processes of `site`: SIGTERM, then SIGKILL for those that stay.
pub(crate) fn end(site: &Path, which: Which) {
    for signal in [Signal::TERM, Signal::KILL] {
        for pid in processes(site, which) {
            send(pid, site, which, signal);
        }
        let end = Instant::now() + PATIENCE;
        while !processes(site, which).is_empty() && Instant::now() < end {
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Signals `pid` through a handle taken before looking again, so that a reused id is never hit.
fn send(pid: u32, site: &Path, which: Which, signal: Signal) {
    let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return };
    let Ok(handle) = pidfd_open(number, PidfdFlags::empty()) else { return };
    if belongs(pid, site, which) {
        let _ = pidfd_send_signal(&handle, signal);
    }
}

/// A process that has ended, or that is not ours to look at, has no environment and belongs to nobody.
fn belongs(pid: u32, site: &Path, which: Which) -> bool {
    let Ok(environment) = fs::read(format!("/proc/{pid}/environ")) else { return false };
    let value = |name: &str| {
        let prefix = format!("{name}=");
        environment.split(|byte| *byte == 0).find_map(|entry| entry.strip_prefix(prefix.as_bytes()))
    };
    value(MARK) == Some(site.as_os_str().as_bytes())
        && (which == Which::All || value(ROLE) != Some(DEVICE.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;
    use crate::process::Process;

    #[test]
    fn only_the_site_s_processes_end_and_the_device_stays_while_clients_go() {
        let ours = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        let sleep = |site: &Path, role: &str| {
            let mut command = Command::new("sleep");
            Process::spawn(command.arg("600").env(ROLE, role), Some(site)).unwrap()
        };
        let (mut client, mut device) = (sleep(ours.path(), ""), sleep(ours.path(), DEVICE));
        let mut bystander = sleep(other.path(), "");
        // The environment goes before the process can be waited for.
        let ends = |process: &mut Process| {
            let limit = Instant::now() + PATIENCE;
            while process.ended().unwrap().is_none() && Instant::now() < limit {
                thread::sleep(Duration::from_millis(5));
            }
            process.ended().unwrap().is_some()
        };
        end(ours.path(), Which::Clients);
        assert!(ends(&mut client));
        assert!(device.ended().unwrap().is_none());
        end(ours.path(), Which::All);
        assert!(ends(&mut device));
        assert!(bystander.ended().unwrap().is_none());
    }
}
