//! Changes to the whole host: control groups, kernel settings, busy processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::{Error, Result};
use crate::files;
use crate::process::Process;
use crate::session::{interrupt, poll};

/// Mount point of version 1 controllers, a directory each.
const ROOT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "brokerscope-lab-";
/// How long the kernel may take to release a group once it is empty.
const EMPTY_TIMEOUT: Duration = Duration::from_secs(30);

/// A group of one controller; removed when dropped.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// Makes the site's group of `controller`, such as `cpu` or `memory`.
    ///
    /// # Errors
    /// The controller is not mounted as version 1.
    pub fn make(site: &Path, controller: &str) -> Result<Self> {
        let parent = Path::new(ROOT).join(controller);
        if !parent.join("tasks").exists() {
            return Err(Error::Missing {
                tool: format!("the cgroup v1 controller {controller}"),
                remedy: format!("mount it at {}", parent.display()),
            });
        }
        let path = parent.join(name(site));
        fs::create_dir(&path).map_err(Error::io("make", &path))?;
        Ok(Self { path })
    }

    /// Sets one of its files, such as `cpu.cfs_quota_us`.
    pub fn set(&self, file: &str, value: i64) -> Result<()> {
        files::write(&self.path.join(file), value.to_string())
    }

    /// Sets a limit on a device; 0 lifts it. `file` is one of the group's files, such as
    /// `blkio.throttle.read_bps_device`.
    ///
    /// # Errors
    /// The controller has no such file, or the kernel no such device.
    pub fn limit(&self, file: &str, (major, minor): (u32, u32), limit: u64) -> Result<()> {
        files::write(&self.path.join(file), format!("{major}:{minor} {limit}"))
    }

    /// A device's count in one of its files; 0 if the device is not yet in it. The file has lines of `MAJOR:MINOR KIND
    /// COUNT`: `kind` is, for example, `Read` in `blkio.throttle.io_serviced`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of_device(&self, file: &str, (major, minor): (u32, u32), kind: &str) -> Result<u64> {
        let text = files::read(&self.path.join(file))?;
        Ok(parse_figure(&text, &format!("{major}:{minor} {kind}")).unwrap_or(0))
    }

    /// The path of one of its files.
    pub(crate) fn file(&self, file: &str) -> PathBuf {
        self.path.join(file)
    }

    /// A number in one of its files, such as `memory.usage_in_bytes`.
    pub fn number(&self, file: &str) -> Result<u64> {
        let path = self.path.join(file);
        let text = files::read(&path)?;
        text.trim().parse().map_err(|_| Error::Unusable(format!("{}: {text:?}", path.display())))
    }

    /// Puts a whole process into it; threads that it starts later are in it too.
    pub fn put(&self, pid: u32) -> Result<()> {
        self.set("cgroup.procs", i64::from(pid))
    }

    /// A figure in one of its files of `name value` lines. For example, `nr_throttled` in `cpu.stat`.
    pub fn figure(&self, file: &str, name: &str) -> Result<u64> {
        let path = self.path.join(file);
        parse_figure(&files::read(&path)?, name)
            .ok_or_else(|| Error::Unusable(format!("{} has no {name}", path.display())))
    }

    /// A shell command that enters the group and then execs what follows it: `sh -c 'THIS exec "$@"'`.
    pub fn entering(&self) -> Vec<String> {
        let procs = self.path.join("cgroup.procs").display().to_string();
        ["sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", &procs].map(str::to_owned).to_vec()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Processes that are still in it stay alive, and move to the parent.
        if let (Ok(tasks), Some(parent)) =
            (fs::read_to_string(self.path.join("cgroup.procs")), self.path.parent())
        {
            for pid in tasks.lines() {
                let _ = fs::write(parent.join("cgroup.procs"), pid);
            }
        }
        remove(&self.path);
    }
}

/// Removes every group named after the site, whose processes have ended; returns those that stay.
pub(crate) fn remove_cgroups(site: &Path) -> Vec<PathBuf> {
    let Ok(controllers) = fs::read_dir(ROOT) else { return Vec::new() };
    let name = name(site);
    let groups = controllers.flatten().map(|entry| entry.path().join(&name));
    groups.filter(|group| group.is_dir() && !remove(group)).collect()
}

/// Removes a group; returns whether it is gone.
fn remove(path: &Path) -> bool {
    poll(EMPTY_TIMEOUT, || fs::remove_dir(path).is_ok() || !path.exists())
}

#[expect(clippy::expect_used, reason = "a site is a directory that was made in another one")]
fn name(site: &Path) -> String {
    format!("{PREFIX}{}", site.file_name().expect("a site has a name").to_string_lossy())
}

fn parse_figure(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

/// The directory of the old values in a site: a file each.
const SYSCTL_DIRECTORY: &str = "sysctl";

/// A changed setting; restored when dropped.
#[derive(Debug)]
pub(crate) struct Sysctl {
    saved: PathBuf,
}

impl Sysctl {
    /// Sets `name`, such as `vm.dirty_expire_centisecs`.
    ///
    /// # Errors
    /// There is no such setting, or it must not be changed.
    pub(crate) fn set(site: &Path, name: &str, value: &str) -> Result<Self> {
        Self::set_in(Path::new("/proc/sys"), site, name, value)
    }

    fn set_in(root: &Path, site: &Path, name: &str, value: &str) -> Result<Self> {
        let file = root.join(name.replace('.', "/"));
        let before = files::read(&file)?;
        files::make(&site.join(SYSCTL_DIRECTORY))?;
        let changed = Self { saved: site.join(SYSCTL_DIRECTORY).join(name) };
        files::write(&changed.saved, format!("{}\n{before}", file.display()))?;
        files::write(&file, value)?;
        Ok(changed)
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        restore(&self.saved);
    }
}

/// Restores what experiments of `site` changed; returns what could not be restored.
pub(crate) fn restore_all(site: &Path) -> Vec<String> {
    let Ok(listing) = fs::read_dir(site.join(SYSCTL_DIRECTORY)) else { return Vec::new() };
    let saved = listing.filter_map(|entry| Some(entry.ok()?.path()));
    saved.filter(|saved| !restore(saved)).map(|saved| format!("the setting {}", saved.display())).collect()
}

/// Restores a setting; returns whether it is as it was.
fn restore(saved: &Path) -> bool {
    let Ok(text) = fs::read_to_string(saved) else { return !saved.exists() };
    let Some((file, before)) = text.split_once('\n') else { return false };
    fs::write(file, before).is_ok() && fs::remove_file(saved).is_ok()
}

/// How long a process may take to start.
const START_TIMEOUT: Duration = Duration::from_secs(60);

/// Busy processes that can be halted and resumed; dropping them ends them.
#[derive(Debug)]
pub(crate) struct CpuHogs {
    pub(crate) processes: Vec<Process>,
    pub(crate) niceness: i32,
}

impl CpuHogs {
    /// Starts `count` halted processes on the processors of `cpus`, at this niceness. `cpus` is a list as for
    /// taskset(1).
    pub(crate) fn start(site: &Path, count: u32, cpus: &str, niceness: i32) -> Result<Self> {
        let mut hogs = Self { processes: Vec::new(), niceness };
        for _ in 0..count {
            let mut command = Command::new("taskset");
            command.args(["--cpu-list", cpus, "nice", "-n", &niceness.to_string(), "sh", "-c"]);
            command.arg("kill -STOP $$; while :; do :; done");
            command.stdin(Stdio::null()).stdout(Stdio::null());
            hogs.processes.push(Process::spawn(&mut command, Some(site))?);
        }
        let all_halted = || Ok(hogs.processes.iter().all(|process| is_halted(process.pid())).then_some(()));
        interrupt().wait(START_TIMEOUT, "the busy processes' start", all_halted)?;
        Ok(hogs)
    }

    /// Resumes or halts them (`CONT`, `STOP`).
    pub(crate) fn signal(&self, signal: Signal) {
        for process in &self.processes {
            process.signal(signal);
        }
    }
}

impl Drop for CpuHogs {
    fn drop(&mut self) {
        // A halted process does not receive SIGTERM until it continues.
        self.signal(Signal::KILL);
    }
}

/// Whether a process is in state T. The state is the word after the name in parentheses (`proc_pid_stat(5)`).
fn is_halted(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
}

/// Halts or resumes a process.
pub(crate) fn send(pid: u32, signal: Signal) -> Result<()> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| Error::Unusable(format!("no process: {pid}")))?;
    kill_process(number, signal).map_err(Error::system(&format!("signal process {pid}")))
}

#[cfg(test)]
mod cgroup_tests {
    use super::*;

    #[test]
    fn finds_figures_by_their_whole_name() {
        let text = "nr_periods 12\nnr_throttled 3\nthrottled_time 4005\n";
        assert_eq!(parse_figure(text, "nr_throttled"), Some(3));
        assert_eq!(parse_figure(text, "throttled_time"), Some(4005));
        assert_eq!(parse_figure(text, "nr"), None);
    }

    #[test]
    fn cgroups_are_named_after_the_site() {
        assert_eq!(name(Path::new("/a/sites/site-x1")), "brokerscope-lab-site-x1");
    }
}

#[cfg(test)]
mod sysctl_tests {
    use super::*;

    fn machine() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("vm")).unwrap();
        let file = root.path().join("vm/dirty_expire_centisecs");
        fs::write(&file, "3000\n").unwrap();
        (root, file)
    }

    #[test]
    fn drop_restores_the_sysctl() {
        let ((root, file), site) = (machine(), tempfile::tempdir().unwrap());
        let set = Sysctl::set_in(root.path(), site.path(), "vm.dirty_expire_centisecs", "200").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "200");
        drop(set);
        assert_eq!(fs::read_to_string(&file).unwrap(), "3000\n");
        assert!(restore_all(site.path()).is_empty());
    }

    #[test]
    fn restores_sysctls_of_a_killed_lab_from_its_site() {
        let ((root, file), site) = (machine(), tempfile::tempdir().unwrap());
        let set = Sysctl::set_in(root.path(), site.path(), "vm.dirty_expire_centisecs", "200").unwrap();
        std::mem::forget(set);
        assert!(restore_all(site.path()).is_empty());
        assert_eq!(fs::read_to_string(&file).unwrap(), "3000\n");
        assert!(Sysctl::set_in(root.path(), site.path(), "vm.no_such_thing", "1").is_err());
    }
}
