//! Loop devices: attached with `losetup`, found again through sysfs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::tool;

/// How long the kernel may take to let go of a detached device.
const PATIENCE: Duration = Duration::from_secs(30);

/// An attached loop device; dropping it detaches.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    path: PathBuf,
}

impl LoopDevice {
    /// Attaches the first free loop device to `file`. With direct I/O, so that requests go to the file
    /// side by side: buffered, the loop driver's one worker would make all wait for a delayed one.
    pub(crate) fn attach(file: &Path) -> Result<Self, Error> {
        let mut command = Command::new("losetup");
        let said = tool::output(command.args(["--find", "--show", "--direct-io=on"]).arg(file))?;
        let path = said.lines().map(str::trim).find(|line| line.starts_with("/dev/loop"));
        let path = path.ok_or_else(|| Error::Tool { tool: "losetup".to_owned(), said: said.clone() })?;
        Ok(Self { path: PathBuf::from(path) })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = detach(&self.path);
    }
}

/// Detaches `device` and waits until the kernel has let go of its file.
pub(crate) fn detach(device: &Path) -> Result<(), Error> {
    tool::output(Command::new("losetup").arg("--detach").arg(device))?;
    let end = Instant::now() + PATIENCE;
    while backing_file(device).is_some() && Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The loop devices whose file lies beneath `site`.
pub(crate) fn loops_beneath(site: &Path) -> Vec<PathBuf> {
    let Ok(listing) = fs::read_dir("/sys/block") else { return Vec::new() };
    let names = listing.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let devices = names.filter(|name| name.starts_with("loop")).map(|name| Path::new("/dev").join(name));
    devices.filter(|device| backing_file(device).is_some_and(|file| file.starts_with(site))).collect()
}

fn backing_file(device: &Path) -> Option<PathBuf> {
    let name = device.file_name()?;
    let file = Path::new("/sys/block").join(name).join("loop/backing_file");
    fs::read_to_string(file).ok().map(|path| PathBuf::from(path.trim_end()))
}
