//! Control groups (version 1) of an experiment, named after its site: so that what a killed lab left is found by name.
//!
//! A group can be removed when nobody is in it any more: processes are ended first.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;
use crate::files;
use crate::session::poll;

/// Where controllers of version 1 are mounted, a directory each.
const ROOT: &str = "/sys/fs/cgroup";
const PREFIX: &str = "brokerscope-lab-";
/// How long the kernel may take to let a group go once it is empty.
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
    /// Where the controller is not mounted as version 1.
    pub fn make(site: &Path, controller: &str) -> Result<Self, Error> {
        let parent = Path::new(ROOT).join(controller);
        if !parent.join("tasks").exists() {
            return Err(Error::Missing {
                tool: format!("the cgroup controller {controller} of version 1"),
                remedy: format!("mount it at {}", parent.display()),
            });
        }
        let path = parent.join(name(site));
        fs::create_dir(&path).map_err(Error::io("make", &path))?;
        Ok(Self { path })
    }

    /// Sets one of its files, such as `cpu.cfs_quota_us`.
    pub fn set(&self, file: &str, value: i64) -> Result<(), Error> {
        files::write(&self.path.join(file), value.to_string())
    }

    /// A number that one of its files holds, such as `memory.usage_in_bytes`.
    pub fn number(&self, file: &str) -> Result<u64, Error> {
        let path = self.path.join(file);
        let text = files::read(&path)?;
        text.trim().parse().map_err(|_| Error::Unusable(format!("{}: {text:?}", path.display())))
    }

    /// Puts a whole process into it; threads it starts later are in it too.
    pub fn put(&self, pid: u32) -> Result<(), Error> {
        self.set("cgroup.procs", i64::from(pid))
    }

    /// A figure of one of its files of `name value` lines, such as `nr_throttled` of `cpu.stat`.
    pub fn figure(&self, file: &str, name: &str) -> Result<u64, Error> {
        let path = self.path.join(file);
        parse_figure(&files::read(&path)?, name)
            .ok_or_else(|| Error::Unusable(format!("{} has no {name}", path.display())))
    }

    /// A shell command that is put into the group before it becomes what follows it: `sh -c 'THIS exec "$@"'`.
    pub fn entering(&self) -> Vec<String> {
        let procs = self.path.join("cgroup.procs").display().to_string();
        ["sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", &procs].map(str::to_owned).to_vec()
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        // Those still in it stay alive, as do all others: of the parent from now on.
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

/// Removes every group that is named after the site; returns those that stay. Its processes have ended.
pub(crate) fn remove_all(site: &Path) -> Vec<PathBuf> {
    let Ok(controllers) = fs::read_dir(ROOT) else { return Vec::new() };
    let name = name(site);
    let groups = controllers.filter_map(Result::ok).map(|entry| entry.path().join(&name));
    groups.filter(|group| group.is_dir() && !remove(group)).collect()
}

/// Whether it has gone.
fn remove(path: &Path) -> bool {
    poll(EMPTY_TIMEOUT, || fs::remove_dir(path).is_ok() || !path.exists())
}

fn name(site: &Path) -> String {
    let site = site.file_name().unwrap_or_default().to_string_lossy();
    format!("{PREFIX}{site}")
}

fn parse_figure(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_by_their_whole_name() {
        let text = "nr_periods 12\nnr_throttled 3\nthrottled_time 4005\n";
        assert_eq!(parse_figure(text, "nr_throttled"), Some(3));
        assert_eq!(parse_figure(text, "throttled_time"), Some(4005));
        assert_eq!(parse_figure(text, "nr"), None);
    }

    #[test]
    fn groups_are_named_after_the_site() {
        assert_eq!(name(Path::new("/a/sites/site-x1")), "brokerscope-lab-site-x1");
    }
}
