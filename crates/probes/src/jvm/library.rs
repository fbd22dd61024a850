//! A process's `libjvm.so`: how this process reaches it, its probes, and the addresses of its exported variables. Does
//! not read the process's memory. Fuzzed by: symbols.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use object::{Object as _, ObjectSection as _, ObjectSegment as _, ObjectSymbol as _};

use crate::user::elf;
use crate::user::mappings::{CodeSource, Mapping, Mappings};

const NAME: &str = "libjvm.so";
/// Prefix of the variables that `HotSpot` exports for the Serviceability Agent.
const EXPORTED: &[u8] = b"gHotSpotVM";

/// A JVM's library as mapped by one process.
#[derive(Debug)]
pub(super) struct Library {
    /// Path by which this process reaches it. The other process may have another root.
    pub(super) path: PathBuf,
    /// Probes as `provider:name`.
    pub(super) probes: BTreeSet<String>,
    /// Addresses of exported variables in that process.
    pub(super) exported: HashMap<String, u64>,
}

impl Library {
    /// Finds the library of a process, or says why there is none.
    pub(super) fn of(pid: u32) -> Result<Self, String> {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let mappings = Mappings::read(&process)
            .map_err(|error| format!("the mappings of process {pid} cannot be read: {error}"))?;
        let mapping =
            mappings.of_file(NAME).ok_or_else(|| format!("process {pid} is not a JVM: it has no {NAME}"))?;
        let path = reachable_path(&process, mapping);
        let unreadable = |error: String| format!("{} cannot be read: {error}", path.display());
        let bytes = elf::read(&path).map_err(|error| unreadable(error.to_string()))?;
        let (probes, exported) = parse(&bytes, mapping).map_err(|error| unreadable(error.to_string()))?;
        Ok(Self { path, probes, exported })
    }
}

/// Parses the probes and exported variables of a library with this mapping.
pub(crate) fn parse(
    bytes: &[u8],
    mapping: &Mapping,
) -> object::Result<(BTreeSet<String>, HashMap<String, u64>)> {
    let file = object::File::parse(bytes)?;
    Ok((probes(&file), exported_variables(&file, mapping)))
}

/// Path through the process's own root; through the mapping itself if the file has been replaced since.
fn reachable_path(process: &Path, mapping: &Mapping) -> PathBuf {
    match &mapping.what {
        CodeSource::File(path) => process.join("root").join(path.trim_start_matches('/')),
        _ => process.join("map_files").join(format!("{:x}-{:x}", mapping.start, mapping.end)),
    }
}

fn probes(file: &object::File<'_>) -> BTreeSet<String> {
    let section = file.section_by_name(".note.stapsdt").and_then(|section| section.data().ok());
    section.map(parse_probes).unwrap_or_default()
}

/// In memory the library is laid out as in its file, moved as a whole.
fn exported_variables(file: &object::File<'_>, mapping: &Mapping) -> HashMap<String, u64> {
    let holds = |(start, length): (u64, u64)| mapping.offset >= start && mapping.offset - start < length;
    let Some(segment) = file.segments().find(|segment| holds(segment.file_range())) else {
        return HashMap::new();
    };
    let in_file = segment.address().wrapping_add(mapping.offset.wrapping_sub(segment.file_range().0));
    let moved_by = mapping.start.wrapping_sub(in_file);
    let variables = file.dynamic_symbols().filter_map(|symbol| {
        let name = symbol.name_bytes().ok();
        let name = name.filter(|name| name.starts_with(EXPORTED) && name.len() <= MAX_NAME_BYTES)?;
        Some((String::from_utf8(name.to_vec()).ok()?, symbol.address().wrapping_add(moved_by)))
    });
    variables.take(MAX_EXPORTED).collect()
}

/// Owner name of the notes that describe probes.
const OWNER: &[u8] = b"stapsdt\0";
const KIND: u32 = 3;
const HEADER_BYTES: usize = 12;
/// Location of the probe, base and semaphore, before the names.
const ADDRESSES_BYTES: usize = 24;
/// A libjvm exports about 40 of its variables.
const MAX_EXPORTED: usize = 8_192;
/// A libjvm has about 700.
const MAX_PROBES: usize = 8_192;
const MAX_NAME_BYTES: usize = 256;

/// Parses the probes in a note section, as `provider:name`. Stops at the first malformed note.
fn parse_probes(mut section: &[u8]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    while let Some((description, rest)) = note(section) {
        found.extend(description.and_then(name));
        if found.len() >= MAX_PROBES {
            break;
        }
        section = rest;
    }
    found
}

/// The first note's description if it describes a probe, and the remaining bytes.
fn note(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (owner_bytes, description_bytes, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
    let owner = bytes.get(HEADER_BYTES..HEADER_BYTES.checked_add(owner_bytes)?)?;
    let at = HEADER_BYTES.checked_add(round_up(owner_bytes)?)?;
    let description = bytes.get(at..at.checked_add(description_bytes)?)?;
    let rest = bytes.get(at.checked_add(round_up(description_bytes)?)?..).unwrap_or_default();
    Some(((owner == OWNER && kind == KIND).then_some(description), rest))
}

/// Rounds up to four bytes.
fn round_up(length: usize) -> Option<usize> {
    length.checked_next_multiple_of(4)
}

fn name(description: &[u8]) -> Option<String> {
    let mut texts = description.get(ADDRESSES_BYTES..)?.split(|&byte| byte == 0);
    let (provider, name) = (texts.next()?, texts.next()?);
    if provider.len() + name.len() > MAX_NAME_BYTES {
        return None;
    }
    // Without its terminating NUL, the name is cut.
    texts.next()?;
    Some(format!("{}:{}", std::str::from_utf8(provider).ok()?, std::str::from_utf8(name).ok()?))
}

#[cfg(test)]
mod tests {
    use super::{Library, reachable_path};
    use crate::user::mappings::{CodeSource, Mapping};
    use std::path::Path;

    #[test]
    fn reaches_a_library_through_its_process() {
        let mapping = |what| Mapping { start: 0x7f00, end: 0x8f00, offset: 0, what };
        let path = |what| reachable_path(Path::new("/proc/7"), &mapping(what)).display().to_string();
        assert_eq!(path(CodeSource::File("/opt/java/libjvm.so".into())), "/proc/7/root/opt/java/libjvm.so");
        assert_eq!(path(CodeSource::Deleted("/opt/java/libjvm.so".into())), "/proc/7/map_files/7f00-8f00");
    }

    #[test]
    fn test_process_is_not_a_jvm() {
        let why = Library::of(std::process::id()).unwrap_err();
        assert!(why.contains("is not a JVM"), "{why}");
    }
}

#[cfg(test)]
mod notes_tests {
    use super::parse_probes;

    fn note(owner: &[u8], kind: u32, texts: &[u8]) -> Vec<u8> {
        let description = [&[7; 24], texts].concat();
        let mut bytes = [owner.len() as u32, description.len() as u32, kind].map(u32::to_ne_bytes).concat();
        for part in [owner, &description] {
            bytes.extend(part);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes
    }

    #[test]
    fn parses_probe_names_from_elf_notes() {
        let mut section = note(b"stapsdt\0", 3, b"hotspot\0gc__end\0\0");
        section.extend(note(b"GNU\0", 3, b"not\0one\0\0"));
        section.extend(note(b"stapsdt\0", 1, b"not\0one\0\0"));
        section.extend(note(b"stapsdt\0", 3, b"hs_private\0safepoint__begin\x008@%rdi\0"));
        let found: Vec<_> = parse_probes(&section).into_iter().collect();
        assert_eq!(found, ["hotspot:gc__end", "hs_private:safepoint__begin"]);
    }

    #[test]
    fn truncated_or_invalid_notes_yield_no_probes() {
        let whole = note(b"stapsdt\0", 3, b"hotspot\0gc__end\0\0");
        for length in 0..whole.len() - 3 {
            assert!(parse_probes(&whole[..length]).is_empty(), "{length}");
        }
        for at in [0, 4] {
            let mut lying = whole.clone();
            lying[at..at + 4].copy_from_slice(&u32::MAX.to_ne_bytes());
            assert!(parse_probes(&lying).is_empty());
        }
        assert!(parse_probes(&note(b"stapsdt\0", 3, b"no end")).is_empty());
        assert!(parse_probes(&note(b"stapsdt\0", 3, &[0xff; 600])).is_empty());
    }
}
