//! Files that a process has mapped, by inode: names for faults, of which the kernel's side knows no path. Reads
//! `/proc/PID/maps` only for a file that nothing else names, and seldom.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::mountinfo::DeviceNumber;

/// Reading the mappings of a process with many holds its faults up: not more often than this.
const AGAIN: Duration = Duration::from_secs(10);

/// The files mapped by a process when it was last looked at.
pub(crate) struct MappedFiles {
    pid: u32,
    looked: Option<Instant>,
    paths: HashMap<(DeviceNumber, u64), String>,
}

impl MappedFiles {
    pub(crate) fn of(pid: u32) -> Self {
        Self { pid, looked: None, paths: HashMap::new() }
    }

    /// The path of a mapped file, as the process sees it; none if it was not mapped when last looked at.
    pub(crate) fn path(&mut self, device: DeviceNumber, inode: u64) -> Option<&str> {
        let is_old = self.looked.is_none_or(|looked| looked.elapsed() >= AGAIN);
        if is_old && !self.paths.contains_key(&(device, inode)) {
            let text = std::fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap_or_default();
            self.paths = text.lines().filter_map(parse).collect();
            self.looked = Some(Instant::now());
        }
        self.paths.get(&(device, inode)).map(String::as_str)
    }

    /// Something was renamed or removed: no path is sure any more.
    pub(crate) fn forget(&mut self) {
        self.paths.clear();
    }
}

/// `7f1c2000-7f1c3000 rw-s 00000000 08:01 131 /path of it`, numbers in hexadecimal but for the inode's
fn parse(line: &str) -> Option<((DeviceNumber, u64), String)> {
    let mut rest = line;
    let mut next = || {
        let (word, after) = rest.split_once(' ')?;
        rest = after.trim_start();
        Some(word)
    };
    let (major, minor) =
        next().and_then(|_| next()).and_then(|_| next()).and_then(|_| next())?.split_once(':')?;
    let inode = next()?.parse().ok().filter(|&inode| inode != 0)?;
    let number = |text| u32::from_str_radix(text, 16).ok();
    let path = Some(rest).filter(|path| path.starts_with('/') && !path.ends_with(" (deleted)"))?;
    Some((((number(major)?, number(minor)?), inode), path.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn mappings_of_files_have_a_path() {
        let line =
            "7f1c2000-7f1c3000 rw-s 00000000 fe:1f 131                          /data/my topic-0/0.index";
        assert_eq!(parse(line), Some((((0xfe, 0x1f), 131), "/data/my topic-0/0.index".to_owned())));
        for line in [
            "7f1c2000-7f1c3000 rw-p 00000000 00:00 0 ",
            "7f1c2000-7f1c3000 rw-p 00000000 00:00 0                          [heap]",
            "7f1c2000-7f1c3000 rw-s 00000000 fe:01 131                        /data/0.index (deleted)",
            "7f1c2000",
            "",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
