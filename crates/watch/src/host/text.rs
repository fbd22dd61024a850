//! Small text files of `/proc`, `/sys` and cgroups: read bounded, taken apart leniently. A file that is missing
//! or says something else is an absent figure.

use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Where the kernel shows itself: another place in tests.
#[derive(Clone, Debug)]
pub(super) struct Kernel {
    pub(super) proc: PathBuf,
    pub(super) sys: PathBuf,
}

impl Default for Kernel {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into() }
    }
}

impl Kernel {
    /// A file below `/proc`; `PID` in its name is a process, if there is one.
    pub(super) fn file(&self, name: &str, pid: Option<u32>) -> Option<PathBuf> {
        match name.strip_prefix("PID/") {
            Some(name) => Some(self.of_process(pid?, name)),
            None => Some(self.proc.join(name)),
        }
    }

    /// A file of a process.
    pub(super) fn of_process(&self, pid: u32, name: &str) -> PathBuf {
        self.proc.join(pid.to_string()).join(name)
    }
}

/// `/proc/diskstats` of a thousand devices is a tenth of this.
const MAX_BYTES: u64 = 1 << 20;

/// The text of a file, or none.
pub(super) fn read(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// The number that is all of a file.
pub(super) fn number(path: &Path) -> Option<u64> {
    read(path)?.trim().parse().ok()
}

/// The number behind a key: `key 12`, `key: 12 kB`, `key=12`.
pub(super) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(key)?;
        let value = rest.strip_prefix([':', ' ', '=', '\t'])?;
        value.split_whitespace().next()?.parse().ok()
    })
}

/// A field of `/proc/PID/stat` by its number in `proc_pid_stat(5)`. The name may hold blanks and parentheses itself; the first
/// field behind it is 3.
pub(super) fn process_stat(line: &str, number: usize) -> Option<&str> {
    line.rsplit_once(')')?.1.split_whitespace().nth(number.checked_sub(3)?)
}

/// `Tcp: InSegs`: the kernel writes a line of names and a line of numbers, both begun by the protocol (net/ipv4/proc.c).
pub(super) fn counter(text: &str, key: &str) -> Option<u64> {
    let (protocol, name) = key.split_once(' ')?;
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let at = names.split_whitespace().position(|candidate| candidate == name)?;
    numbers.split_whitespace().nth(at)?.parse().ok()
}

/// The same of `/proc/meminfo` and `/proc/PID/status`, whose `kB` are of 1024 bytes.
pub(super) fn keyed_kib(text: &str, key: &str) -> Option<f64> {
    keyed(text, key).map(|kib| kib as f64 * 1024.0)
}

#[cfg(test)]
mod tests {
    use super::keyed;

    #[test]
    fn keys_are_whole_words_and_what_is_no_number_is_absent() {
        let text = "Cached:          100 kB\nSwapCached: 7 kB\nmax max\nrbytes=5\n\nCach 1\n";
        assert_eq!(keyed(text, "Cached"), Some(100));
        assert_eq!(keyed(text, "SwapCached"), Some(7));
        assert_eq!(keyed(text, "rbytes"), Some(5));
        assert_eq!(keyed(text, "max"), None);
        assert_eq!(keyed(text, "Cache"), None);
        assert_eq!(keyed(text, "absent"), None);
    }
}
