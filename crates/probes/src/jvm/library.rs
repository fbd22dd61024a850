//! A process's `libjvm.so`: where this process reaches it, which probes it has, where its exported variables are. Does not
//! read the process's memory.

use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _};

use super::notes;
use crate::user::mappings::{CodeSource, Mapping, Mappings};

const NAME: &str = "libjvm.so";
/// JDK 25's is 30 MB.
const MAX_BYTES: u64 = 128 << 20;
/// What `HotSpot` exports for the Serviceability Agent begins so.
const EXPORTED: &[u8] = b"gHotSpotVM";

/// A JVM's library as one process has mapped it.
#[derive(Debug)]
pub(super) struct Library {
    /// Where this process reaches it, also if the other one has another root.
    pub(super) path: PathBuf,
    /// Provider and name, with a colon between.
    pub(super) probes: BTreeSet<String>,
    /// Addresses of exported variables in that process.
    pub(super) exported: HashMap<String, u64>,
}

impl Library {
    /// That of a process; why there is none.
    pub(super) fn of(pid: u32) -> Result<Self, String> {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let mappings = Mappings::read(&process)
            .map_err(|error| format!("the mappings of process {pid} cannot be read: {error}"))?;
        let mapping =
            mappings.of_file(NAME).ok_or_else(|| format!("process {pid} is no JVM: it has no {NAME}"))?;
        let path = reached(&process, mapping);
        let unreadable = |error: String| format!("{} cannot be read: {error}", path.display());
        let bytes = read(&path).map_err(|error| unreadable(error.to_string()))?;
        let file = object::File::parse(&*bytes).map_err(|error| unreadable(error.to_string()))?;
        Ok(Self { probes: probes(&file), exported: exported(&file, mapping), path })
    }
}

/// By the process's own root; where the file has been replaced since, by the mapping itself.
fn reached(process: &Path, mapping: &Mapping) -> PathBuf {
    match &mapping.what {
        CodeSource::File(path) => process.join("root").join(path.trim_start_matches('/')),
        _ => process.join("map_files").join(format!("{:x}-{:x}", mapping.start, mapping.end)),
    }
}

fn read(path: &Path) -> std::io::Result<Vec<u8>> {
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return Err(std::io::Error::other("no regular file, or a very large one"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn probes(file: &object::File<'_>) -> BTreeSet<String> {
    let section = file.section_by_name(".note.stapsdt").and_then(|section| section.data().ok());
    section.map(notes::probes).unwrap_or_default()
}

/// The library lies in memory as in its file, moved as a whole.
fn exported(file: &object::File<'_>, mapping: &Mapping) -> HashMap<String, u64> {
    let holds = |(start, length): (u64, u64)| mapping.offset >= start && mapping.offset - start < length;
    let Some(segment) = file.segments().find(|segment| holds(segment.file_range())) else {
        return HashMap::new();
    };
    let in_file = segment.address().wrapping_add(mapping.offset.wrapping_sub(segment.file_range().0));
    let moved_by = mapping.start.wrapping_sub(in_file);
    let variables = file.dynamic_symbols().filter_map(|symbol| {
        let name = symbol.name_bytes().ok().filter(|name| name.starts_with(EXPORTED))?;
        Some((String::from_utf8(name.to_vec()).ok()?, symbol.address().wrapping_add(moved_by)))
    });
    variables.collect()
}

#[cfg(test)]
mod tests {
    use super::{Library, reached};
    use crate::user::mappings::{CodeSource, Mapping};
    use std::path::Path;

    #[test]
    fn a_library_is_reached_through_its_process() {
        let mapping = |what| Mapping { start: 0x7f00, end: 0x8f00, offset: 0, what };
        let path = |what| reached(Path::new("/proc/7"), &mapping(what)).display().to_string();
        assert_eq!(path(CodeSource::File("/opt/java/libjvm.so".into())), "/proc/7/root/opt/java/libjvm.so");
        assert_eq!(path(CodeSource::Deleted("/opt/java/libjvm.so".into())), "/proc/7/map_files/7f00-8f00");
    }

    #[test]
    fn this_process_is_no_jvm() {
        let why = Library::of(std::process::id()).unwrap_err();
        assert!(why.contains("is no JVM"), "{why}");
    }
}
