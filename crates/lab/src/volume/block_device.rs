//! Loop devices, and limits on the dirty pages of a device.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::error::Error;
use crate::session::poll;
use crate::{files, process};

/// How long the kernel may take to let go of a detached device.
const DETACH_TIMEOUT: Duration = Duration::from_secs(30);

/// An attached loop device; dropping it detaches.
#[derive(Debug)]
pub(crate) struct LoopDevice {
    /// Such as `/dev/loop0`.
    pub(super) path: PathBuf,
}

impl LoopDevice {
    /// Attaches the first free loop device to `file`. With direct I/O, so that requests go to the file
    /// side by side: buffered, the loop driver's one worker would make all wait for a delayed one.
    pub(crate) fn attach(file: &Path) -> Result<Self, Error> {
        let mut command = Command::new("losetup");
        let said = process::output(command.args(["--find", "--show", "--direct-io=on"]).arg(file))?;
        let path = said.lines().map(str::trim).find(|line| line.starts_with("/dev/loop"));
        let path = path.ok_or_else(|| Error::Tool { tool: "losetup".to_owned(), said: said.clone() })?;
        Ok(Self { path: PathBuf::from(path) })
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = detach(&self.path);
    }
}

/// Detaches `device` and waits until the kernel has let go of its file.
pub(crate) fn detach(device: &Path) -> Result<(), Error> {
    process::output(Command::new("losetup").arg("--detach").arg(device))?;
    poll(DETACH_TIMEOUT, || backing_file(device).is_none());
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

/// The limit, while it lives.
#[derive(Debug)]
pub(crate) struct DirtyLimit(PathBuf);

impl DirtyLimit {
    /// Limits device `major:minor` to so many bytes.
    pub(crate) fn set(device: (u32, u32), bytes: u64) -> Result<Self, Error> {
        let this = Self(path(device));
        this.write("strict_limit", "1")?;
        this.write("max_bytes", &bytes.to_string())?;
        Ok(this)
    }

    /// Lifts what a killed lab left on the loop device, where this kernel has such limits.
    pub(super) fn lift(device: (u32, u32)) {
        drop(Self(path(device)));
    }

    fn write(&self, file: &str, value: &str) -> Result<(), Error> {
        files::write(&self.0.join(file), value)
    }
}

impl Drop for DirtyLimit {
    fn drop(&mut self) {
        // Gone with the device, or the next to use it says why.
        let _ = self.write("strict_limit", "0");
        let _ = self.write("max_ratio", "100");
    }
}

fn path((major, minor): (u32, u32)) -> PathBuf {
    PathBuf::from(format!("/sys/class/bdi/{major}:{minor}"))
}
