//! A process's own list of the code that it compiled at run time: `/tmp/perf-PID.map`, as written by
//! `jcmd PID Compiler.perfmap` (JDK 17: `CodeCache::write_perf_map`) and by agents. The process may write anything, so
//! it is read with bounds, and malformed lines are skipped.

use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use model::beginning;

/// A large broker's list has about 5 MiB.
const MAX_BYTES: u64 = 64 << 20;
const MAX_ENTRIES: usize = 1 << 20;
/// Longer names are cut.
const MAX_NAME_BYTES: usize = 256;
/// If entries overlap, how many before an address are examined.
const LOOK_BACK: usize = 16;

/// Names of compiled code, by address.
#[derive(Debug, Default)]
pub(crate) struct PerfMap {
    /// Sorted by start; of entries with the same start the last one of the file is last.
    pub(super) entries: Vec<Entry>,
    names: String,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    start: u64,
    end: u64,
    name_at: u32,
    name_length: u16,
}

impl PerfMap {
    /// Reads the list. The file must be regular and belong to `owner` or root, because anyone can write to `/tmp`.
    pub(crate) fn read(path: &Path, owner: u32) -> io::Result<Self> {
        let file = foreign::open(path)?;
        let user = file.metadata()?.uid();
        if user != owner && user != 0 {
            return Err(io::Error::other("it belongs neither to the process's user nor to root"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(Self::parse(&bytes))
    }

    pub(crate) fn parse(bytes: &[u8]) -> Self {
        let mut map = Self::default();
        for line in bytes.split(|&byte| byte == b'\n') {
            if map.entries.len() >= MAX_ENTRIES {
                break;
            }
            map.add(line);
        }
        map.entries.sort_by_key(|entry| entry.start);
        map
    }

    /// Parses `7f3c5c0a1b20 1a0 int java.lang.String.hashCode()`; the numbers may begin with 0x.
    fn add(&mut self, line: &[u8]) {
        let mut words = line.splitn(3, |&byte| byte == b' ');
        let mut number = || parse_hex(words.next()?);
        let (Some(start), Some(size)) = (number(), number()) else { return };
        let name = String::from_utf8_lossy(words.next().unwrap_or_default());
        let name = short_name(beginning(name.trim(), MAX_NAME_BYTES));
        let (Some(end), Ok(name_at)) = (start.checked_add(size), u32::try_from(self.names.len())) else {
            return;
        };
        if name.is_empty() || size == 0 {
            return;
        }
        self.names.push_str(name);
        self.entries.push(Entry { start, end, name_at, name_length: name.len() as u16 });
    }

    /// Name of the code that holds an address; of several, the one that starts last.
    pub(crate) fn name_of(&self, address: u64) -> Option<&str> {
        let after = self.entries.partition_point(|entry| entry.start <= address);
        let before = self.entries.get(..after)?;
        let found = before.iter().rev().take(LOOK_BACK).find(|entry| address < entry.end)?;
        self.names.get(found.name_at as usize..found.name_at as usize + usize::from(found.name_length))
    }
}

fn parse_hex(word: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(word).ok()?;
    u64::from_str_radix(digits.strip_prefix("0x").unwrap_or(digits), 16).ok()
}

/// Shortens `int java.lang.String.hashCode()` to `java.lang.String.hashCode`: a flame graph has no room for types, and
/// overloads belong together. Other names (`Interpreter`, `StubRoutines (1)`) are unchanged.
fn short_name(name: &str) -> &str {
    let Some((head, _)) = name.split_once('(') else { return name };
    let method = head.rsplit(' ').next().unwrap_or(head);
    if method.contains('.') { method } else { name }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::{MAX_NAME_BYTES, PerfMap};

    #[test]
    fn finds_entries_by_address_in_any_order() {
        let map = PerfMap::parse(
            b"0x00007f0000002000 0x0000000000000100 void java.util.ArrayList.add(int, java.lang.Object)\n\
              7f0000001000 40 Interpreter\n\
              7f0000003000 40 StubRoutines (1)\n",
        );
        assert_eq!(map.name_of(0x7f00_0000_2000), Some("java.util.ArrayList.add"));
        assert_eq!(map.name_of(0x7f00_0000_20ff), Some("java.util.ArrayList.add"));
        assert_eq!(map.name_of(0x7f00_0000_2100), None, "an entry ends");
        assert_eq!(map.name_of(0x7f00_0000_103f), Some("Interpreter"));
        assert_eq!(map.name_of(0x7f00_0000_3000), Some("StubRoutines (1)"));
        assert_eq!(map.name_of(0), None);
        assert_eq!(map.name_of(u64::MAX), None);
    }

    #[test]
    fn overlapping_entries_prefer_the_last_start_then_the_last_line() {
        let map = PerfMap::parse(b"1000 1000 whole\n1800 100 inner\n1800 80 newer\n");
        assert_eq!(map.name_of(0x1810), Some("newer"));
        assert_eq!(map.name_of(0x1890), Some("inner"));
        assert_eq!(map.name_of(0x1910), Some("whole"));
        assert_eq!(map.name_of(0x1010), Some("whole"));
    }

    #[test]
    fn skips_invalid_entries() {
        let map = PerfMap::parse(
            b"\n \nnonsense\n1000\n1000 10\n1000 0 empty\nffffffffffffffff 10 beyond the end\n\
              g000 10 no number\n-1 10 negative\n2000 10 \xff\xfe\n",
        );
        assert_eq!(map.name_of(0x1000), None);
        assert_eq!(map.name_of(u64::MAX), None);
        assert_eq!(map.name_of(0x2000), Some("\u{fffd}\u{fffd}"), "bytes that are no text are shown as such");
        assert!(PerfMap::parse(b"").entries.is_empty());
    }

    #[test]
    fn long_names_are_truncated_between_characters() {
        let line = format!("1000 10 {}", "é".repeat(MAX_NAME_BYTES));
        let map = PerfMap::parse(line.as_bytes());
        let name = map.name_of(0x1000).unwrap();
        assert_eq!(name.len(), MAX_NAME_BYTES);
        assert!(name.chars().all(|c| c == 'é'));
    }

    #[test]
    fn reads_only_a_regular_file_of_the_right_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("perf-1.map");
        std::fs::write(&path, "1000 10 Interpreter\n").unwrap();
        let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&path).unwrap());
        assert!(!PerfMap::read(&path, owner).unwrap().entries.is_empty());
        if owner != 0 {
            PerfMap::read(&path, owner + 1).unwrap_err();
        }
        let link = dir.path().join("perf-2.map");
        symlink(&path, &link).unwrap();
        PerfMap::read(&link, owner).unwrap_err();
        PerfMap::read(dir.path(), owner).unwrap_err();
    }
}
