//! A process's executable mappings, from `/proc/PID/maps`. Reads no code.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;

/// `vm.max_map_count` is 65,530 unless raised, 1,048,576 on some systems; a line has about 100 bytes.
const MAX_BYTES: u64 = 256 << 20;

/// One executable mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Offset in the file.
    pub(crate) offset: u64,
    /// What is mapped.
    pub(crate) what: CodeSource,
}

/// What a mapping holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CodeSource {
    /// A file, by its path in the process's own root.
    File(Arc<str>),
    /// A file that has been deleted or replaced since: its path may name another file now.
    Deleted(Arc<str>),
    /// The kernel's own code for user space (`[vdso]`).
    Kernel(Arc<str>),
    /// Memory without a file: code that the process generated.
    Memory,
}

/// Executable mappings in address order.
#[derive(Debug, Default)]
pub(crate) struct Mappings(pub(crate) Vec<Mapping>);

impl Mappings {
    /// Reads the mappings of a process by its directory in `/proc`.
    #[allow(clippy::disallowed_methods, reason = "/proc")]
    pub(crate) fn read(process: &Path) -> io::Result<Self> {
        Self::parse(BufReader::new(File::open(process.join("maps"))?.take(MAX_BYTES)))
    }

    pub(crate) fn parse(mut lines: impl BufRead) -> io::Result<Self> {
        let mut found = Vec::new();
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            found.extend(parse_line(String::from_utf8_lossy(&line).trim_end_matches('\n')));
            line.clear();
        }
        found.sort_by_key(|mapping| mapping.start);
        Ok(Self(found))
    }

    /// The mapping that holds an address.
    pub(crate) fn mapping_at(&self, address: u64) -> Option<&Mapping> {
        let after = self.0.partition_point(|mapping| mapping.start <= address);
        self.0.get(after.checked_sub(1)?).filter(|mapping| address < mapping.end)
    }

    /// The first mapping of a file with that name.
    pub(crate) fn of_file(&self, name: &str) -> Option<&Mapping> {
        self.0.iter().find(|mapping| {
            let (CodeSource::File(path) | CodeSource::Deleted(path)) = &mapping.what else { return false };
            path.rsplit('/').next() == Some(name)
        })
    }
}

/// Parses a line of `/proc/PID/maps`. `None` if it is not executable.
/// Example: `7f1c2000-7f1c8000 r-xp 00026000 fe:00 1835 /usr/lib/x86_64-linux-gnu/libc.so.6`.
fn parse_line(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = (hex(start)?, hex(end)?);
    if !words.next()?.contains('x') {
        return None;
    }
    let offset = hex(words.next()?)?;
    let (_device, inode) = (words.next()?, words.next()?);
    let name = words.next().unwrap_or_default().trim_start();
    let what = match name {
        // Shared memory has an inode and a name too, but no readable file.
        _ if name.starts_with('/') && inode != "0" && !is_memory(name) => {
            match name.strip_suffix(" (deleted)") {
                Some(path) => CodeSource::Deleted(path.into()),
                None => CodeSource::File(name.into()),
            }
        }
        "[vdso]" | "[vsyscall]" | "[uprobes]" => CodeSource::Kernel(name.into()),
        _ => CodeSource::Memory,
    };
    Some(Mapping { start, end, offset, what })
}

fn is_memory(name: &str) -> bool {
    ["/memfd:", "/dev/zero", "/SYSV", "/anon_hugepage", "/dev/shm/"]
        .iter()
        .any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::{CodeSource, Mappings};

    const MAPS: &str = "\
55d0c8a00000-55d0c8a01000 r--p 00000000 fe:00 42                         /usr/bin/java
55d0c8a01000-55d0c8a02000 r-xp 00001000 fe:00 42                         /usr/bin/java
7f0000000000-7f0000100000 rwxp 00000000 00:00 0 
7f1000000000-7f1000100000 r-xp 00026000 fe:00 18                         /opt/a b/libjvm.so (deleted)
7f2000000000-7f2000100000 rwxs 00000000 00:01 7                          /memfd:jit (deleted)
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0                          [vdso]
nonsense
7f-80 r-xp
";

    #[test]
    fn finds_the_executable_mapping_of_an_address() {
        let mappings = Mappings::parse(MAPS.as_bytes()).unwrap();
        let what = |address| mappings.mapping_at(address).map(|mapping| mapping.what.clone());
        assert_eq!(what(0x55d0_c8a0_0010), None, "not executable");
        assert_eq!(what(0x55d0_c8a0_1010), Some(CodeSource::File("/usr/bin/java".into())));
        assert_eq!(what(0x7f00_000f_ffff), Some(CodeSource::Memory));
        assert_eq!(what(0x7f00_0010_0000), None);
        assert_eq!(what(0x7f10_0000_0000), Some(CodeSource::Deleted("/opt/a b/libjvm.so".into())));
        assert_eq!(what(0x7f20_0000_0000), Some(CodeSource::Memory));
        assert_eq!(what(0x7ffd_0000_0000), Some(CodeSource::Kernel("[vdso]".into())));
        assert_eq!(mappings.mapping_at(0x7f10_0000_0000).unwrap().offset, 0x26000);
        assert!(mappings.of_file("libjvm.so").is_some() && mappings.of_file("libc.so.6").is_none());
    }

    #[test]
    fn finds_the_mapping_of_this_test() {
        let mappings = Mappings::read(std::path::Path::new("/proc/self")).unwrap();
        let here = finds_the_mapping_of_this_test as fn() as usize as u64;
        assert!(matches!(mappings.mapping_at(here).unwrap().what, CodeSource::File(_)));
    }
}
