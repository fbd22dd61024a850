//! A limit on the dirty pages of one device (Linux 6.2, Documentation/ABI/testing/sysfs-class-bdi): whoever dirties
//! more has to pause. Loop devices outlive what they stand for, and their limits do: lifted when dropped.

use std::fs;
use std::path::PathBuf;

use crate::error::Error;

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
        let path = self.0.join(file);
        fs::write(&path, value).map_err(Error::io("write", &path))
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
