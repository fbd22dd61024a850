//! Small text files in `/proc`, `/sys` and cgroups: reads them with a size limit and parses them leniently. If a file is
//! missing or has another format, the figure is absent.

#![allow(clippy::disallowed_methods, reason = "/proc or /sys")]

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use ahash::RandomState;

/// The kernel's virtual file systems; other directories in tests.
#[derive(Debug)]
pub(super) struct Kernel {
    pub(super) proc: PathBuf,
    pub(super) sys: PathBuf,
    /// Files that are read every second, and therefore stay open.
    /// Opening one takes two or three times as long as reading it. `None` for missing files.
    open: RefCell<HashMap<PathBuf, Option<File>, RandomState>>,
}

/// Limit of files that stay open or are known to be missing.
/// An open file takes a descriptor and a page of kernel memory.
const MAX_KNOWN_FILES: usize = 128;

impl Default for Kernel {
    fn default() -> Self {
        Self::at("/proc".into(), "/sys".into())
    }
}

impl Kernel {
    pub(super) fn at(proc: PathBuf, sys: PathBuf) -> Self {
        Self { proc, sys, open: RefCell::default() }
    }

    /// The current text of a file that is read repeatedly.
    pub(super) fn text(&self, path: &Path) -> Option<String> {
        self.bytes(path).map(of)
    }

    /// Like [`Self::text`], for files that need not be text.
    pub(super) fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let mut open = self.open.borrow_mut();
        if let Some(known) = open.get(path) {
            match known.as_ref().map(read_again) {
                Some(Err(_)) => {}
                read => return read.and_then(Result::ok),
            }
        }
        // The file's object may be gone, and another in its place.
        open.remove(path);
        let file = match File::open(path) {
            Ok(file) => Some(file),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(_) => return None,
        };
        let bytes = file.as_ref().and_then(|file| read_again(file).ok());
        if open.len() < MAX_KNOWN_FILES {
            open.insert(path.to_owned(), file);
        }
        bytes
    }

    /// Closes all files, and forgets which were missing.
    pub(super) fn close(&self) {
        self.open.borrow_mut().clear();
    }

    /// Path of a file below `/proc`; `PID` in its name stands for a process, if there is one.
    pub(super) fn file(&self, name: &str, pid: Option<u32>) -> Option<PathBuf> {
        match name.strip_prefix("PID/") {
            Some(name) => Some(self.of_process(pid?, name)),
            None => Some(self.proc.join(name)),
        }
    }

    /// Path of a process's file.
    pub(super) fn of_process(&self, pid: u32, name: &str) -> PathBuf {
        self.proc.join(pid.to_string()).join(name)
    }
}

/// Limit of a file: ten times `/proc/diskstats` with a thousand devices.
const MAX_BYTES: u64 = 1 << 20;
/// Bytes of one read; most files are smaller.
const CHUNK_BYTES: usize = 8 << 10;

/// Reads a file once, as text.
pub(super) fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(of(bytes))
}

/// Converts bytes to text.
pub(super) fn of(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Reads an open file from its beginning.
fn read_again(file: &File) -> io::Result<Vec<u8>> {
    let (mut bytes, mut length) = (Vec::new(), 0);
    loop {
        bytes.resize(length + CHUNK_BYTES, 0);
        let (_, free) = bytes.split_at_mut(length);
        let read = file.read_at(free, length as u64)?;
        length += read;
        // The kernel returns long files in pieces: only an empty read is the end.
        if read == 0 || length as u64 >= MAX_BYTES {
            bytes.truncate(length);
            return Ok(bytes);
        }
    }
}

/// Reads a file that is a single number.
pub(super) fn number(path: &Path) -> Option<u64> {
    read(path)?.trim().parse().ok()
}

/// The number after a key: `key 12`, `key: 12 kB`, `key=12`.
pub(super) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?;
        let value = rest.strip_prefix([':', ' ', '=', '\t'])?;
        value.split_ascii_whitespace().next()?.parse().ok()
    })
}

/// A field of `/proc/PID/stat` by its number in `proc_pid_stat(5)`.
/// The name may contain blanks and parentheses; the first field after it is 3.
pub(super) fn process_stat(line: &str, number: usize) -> Option<&str> {
    line.rsplit_once(')')?.1.split_ascii_whitespace().nth(number.checked_sub(3)?)
}

/// A counter such as `Tcp: InSegs`: the kernel writes a line of names and a line of numbers, both with the protocol in front
/// (net/ipv4/proc.c).
pub(super) fn counter(text: &str, key: &str) -> Option<u64> {
    let (protocol, name) = key.split_once(' ')?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split_ascii_whitespace().position(|candidate| candidate == name)?;
    numbers.split_ascii_whitespace().nth(at)?.parse().ok()
}

/// Like [`keyed`], for a number of `kB`, which are 1024 bytes.
/// Used for `/proc/meminfo` and `/proc/PID/status`.
pub(super) fn keyed_kib(text: &str, key: &str) -> Option<f64> {
    keyed(text, key).map(|kib| kib as f64 * 1024.0)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{CHUNK_BYTES, keyed};
    use crate::host::tests::fixture::Fixture;

    #[test]
    fn open_file_yields_its_current_content() {
        let (fixture, path) = (Fixture::new("open-files"), "proc/stat");
        let kernel = fixture.kernel();
        assert_eq!(kernel.text(&fixture.path(path)), None);
        kernel.close();
        let long = "0123456789".repeat(CHUNK_BYTES / 5);
        for text in ["cpu 1", &long, "cpu 2", ""] {
            fixture.file(path, text);
            assert_eq!(kernel.text(&fixture.path(path)).as_deref(), Some(text));
        }
        fs::remove_file(fixture.path(path)).unwrap();
        kernel.close();
        assert_eq!(kernel.text(&fixture.path(path)), None);
    }

    #[test]
    fn matches_whole_keys_and_skips_values_that_are_not_numbers() {
        let text = "Cached:          100 kB\nSwapCached: 7 kB\nmax max\nrbytes=5\n\nCach 1\n";
        assert_eq!(keyed(text, "Cached"), Some(100));
        assert_eq!(keyed(text, "SwapCached"), Some(7));
        assert_eq!(keyed(text, "rbytes"), Some(5));
        assert_eq!(keyed(text, "max"), None);
        assert_eq!(keyed(text, "Cache"), None);
        assert_eq!(keyed(text, "absent"), None);
    }
}
