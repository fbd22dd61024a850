//! `HotSpot`'s own descriptions of its types and flags in a running JVM.
//!
//! `HotSpot` exports them for its Serviceability Agent (`src/hotspot/share/runtime/vmStructs.hpp`). Reads the process's
//! memory without stopping it, and changes nothing.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// JDK 25 has about 4,000 fields and 1,900 types.
const MAX_ENTRIES: u64 = 20_000;
const TEXT_BYTES: usize = 64;

/// Another process's memory.
pub(super) trait Memory {
    /// Fills the bytes; returns whether all of them could be read.
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool;
}

impl Memory for File {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        self.read_exact_at(bytes, address).is_ok()
    }
}

/// `HotSpot`'s descriptions of its types.
pub(super) struct Tables<'a> {
    pub(super) memory: &'a dyn Memory,
    /// Addresses of the library's variables.
    pub(super) exported: &'a HashMap<String, u64>,
}

impl Tables<'_> {
    /// Size of a type in bytes.
    pub(super) fn size_of(&self, kind: &str) -> Option<u64> {
        let name_at = self.variable("gHotSpotVMTypeEntryTypeNameOffset")?;
        let size_at = self.variable("gHotSpotVMTypeEntrySizeOffset")?;
        let entry = self.entry("gHotSpotVMTypes", "gHotSpotVMTypeEntryArrayStride", |entry| {
            self.names(entry, name_at, kind)
        })?;
        self.long(entry.checked_add(size_at)?)
    }

    /// A static field's address, or another field's offset.
    pub(super) fn field(&self, kind: &str, field: &str, fixed: bool) -> Option<u64> {
        let kind_at = self.variable("gHotSpotVMStructEntryTypeNameOffset")?;
        let field_at = self.variable("gHotSpotVMStructEntryFieldNameOffset")?;
        let place = if fixed { "Address" } else { "Offset" };
        let place_at = self.variable(&format!("gHotSpotVMStructEntry{place}Offset"))?;
        let entry = self.entry("gHotSpotVMStructs", "gHotSpotVMStructEntryArrayStride", |entry| {
            self.names(entry, kind_at, kind) && self.names(entry, field_at, field)
        })?;
        self.long(entry.checked_add(place_at)?)
    }

    /// The first entry of a table that satisfies `is_it`. Tables end with zeros.
    fn entry(&self, table: &str, stride: &str, is_it: impl Fn(u64) -> bool) -> Option<u64> {
        let (first, stride) = (self.variable(table)?, self.variable(stride)?);
        let entries = (0..MAX_ENTRIES).map_while(|index| first.checked_add(index.checked_mul(stride)?));
        entries
            .take_while(|&entry| self.long(entry).is_some_and(|word| word != 0))
            .find(|&entry| is_it(entry))
    }

    fn names(&self, entry: u64, at: u64, text: &str) -> bool {
        let address = entry.checked_add(at).and_then(|place| self.long(place));
        address.is_some_and(|address| self.is_text(address, text))
    }

    /// Whether exactly that text is at the address, NUL-terminated.
    pub(super) fn is_text(&self, address: u64, text: &str) -> bool {
        let mut room = [0; TEXT_BYTES];
        let Some(room) = room.get_mut(..=text.len()) else { return false };
        self.memory.read(address, room) && room.strip_suffix(&[0]) == Some(text.as_bytes())
    }

    fn variable(&self, name: &str) -> Option<u64> {
        self.long(*self.exported.get(name)?)
    }

    /// The 64-bit value at the address, if readable.
    pub(super) fn long(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.memory.read(address, &mut bytes).then(|| u64::from_ne_bytes(bytes))
    }
}

/// Largest size of a flag's entry; JDK 25 has 1,500 flags.
const MAX_STRIDE: u64 = 256;

/// The value of a boolean flag; `None` if the JVM has no such flag or its tables cannot be read.
pub(super) fn is_on(tables: &Tables<'_>, flag: &str) -> Option<bool> {
    // JDK 8 names it `Flag`.
    let (kind, size) = ["JVMFlag", "Flag"].iter().find_map(|kind| Some((*kind, tables.size_of(kind)?)))?;
    let [flags, count] =
        [("flags", true), ("numFlags", true)].map(|(name, fixed)| tables.field(kind, name, fixed));
    let [name_at, value_at] =
        [("_name", false), ("_addr", false)].map(|(name, fixed)| tables.field(kind, name, fixed));
    let (first, count) = (tables.long(flags?)?, tables.long(count?)?.min(MAX_ENTRIES));
    let (name_at, value_at) = (name_at?, value_at?);
    let places = (0..count).filter_map(|index| first.checked_add(index.checked_mul(size)?));
    let is_it = |place: &u64| {
        let name = place.checked_add(name_at).and_then(|address| tables.long(address));
        name.is_some_and(|address| tables.is_text(address, flag))
    };
    let place = places.filter(|_| size <= MAX_STRIDE).find(is_it)?;
    let value = tables.long(place.checked_add(value_at)?)?;
    let mut byte = [0];
    tables.memory.read(value, &mut byte).then_some(byte != [0])
}

#[cfg(test)]
pub(super) mod tests {
    use std::collections::HashMap;

    use super::{Memory, Tables};

    /// Memory that begins at `BASE`.
    pub(in crate::jvm) struct Bytes(pub(in crate::jvm) Vec<u8>);
    pub(in crate::jvm) const BASE: u64 = 0x1000;

    impl Memory for Bytes {
        fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
            let at = usize::try_from(address.wrapping_sub(BASE)).unwrap_or(usize::MAX);
            let found = self.0.get(at..at.saturating_add(bytes.len()));
            found.is_some_and(|found| {
                bytes.copy_from_slice(found);
                true
            })
        }
    }

    impl Bytes {
        fn add(&mut self, bytes: &[u8]) -> u64 {
            self.0.extend(bytes);
            BASE + (self.0.len() - bytes.len()) as u64
        }

        fn words(&mut self, words: &[u64]) -> u64 {
            self.add(&words.iter().flat_map(|word| word.to_ne_bytes()).collect::<Vec<_>>())
        }

        fn text(&mut self, text: &str) -> u64 {
            self.add(format!("{text}\0").as_bytes())
        }
    }

    /// A JVM with two flags: one that is off, then `DTraceMonitorProbes`; and a monitor's owner field.
    pub(in crate::jvm) fn jvm(value: u8) -> (Bytes, HashMap<String, u64>) {
        let mut memory = Bytes(Vec::new());
        let kind = memory.text("JVMFlag");
        let monitor = memory.text("ObjectMonitor");
        let texts = ["flags", "numFlags", "_name", "_addr", "Other", "DTraceMonitorProbes", "_owner"]
            .map(|text| memory.text(text));
        let (off, on) = (memory.add(&[0]), memory.add(&[value]));
        let flags = memory.words(&[off, texts[4], on, texts[5]]);
        let (flags_at, count_at) = (memory.words(&[flags]), memory.words(&[2]));
        // Entries of kind, field, offset, address; of kind, size.
        let structs = memory.words(
            &[
                [kind, texts[0], 0, flags_at],
                [kind, texts[1], 0, count_at],
                [kind, texts[2], 8, 0],
                [kind, texts[3], 0, 0],
                [monitor, texts[6], 64, 0],
                [0; 4],
            ]
            .concat(),
        );
        let types = memory.words(&[kind, 16, 0, 0]);
        let exported = [
            ("gHotSpotVMStructs", structs),
            ("gHotSpotVMStructEntryArrayStride", 32),
            ("gHotSpotVMStructEntryTypeNameOffset", 0),
            ("gHotSpotVMStructEntryFieldNameOffset", 8),
            ("gHotSpotVMStructEntryOffsetOffset", 16),
            ("gHotSpotVMStructEntryAddressOffset", 24),
            ("gHotSpotVMTypes", types),
            ("gHotSpotVMTypeEntryArrayStride", 16),
            ("gHotSpotVMTypeEntryTypeNameOffset", 0),
            ("gHotSpotVMTypeEntrySizeOffset", 8),
        ]
        .map(|(name, value)| (name.to_owned(), memory.words(&[value])));
        (memory, exported.into())
    }

    #[test]
    fn finds_field_offsets_and_type_sizes_in_the_tables() {
        let (memory, exported) = jvm(1);
        let tables = Tables { memory: &memory, exported: &exported };
        assert_eq!(tables.field("ObjectMonitor", "_owner", false), Some(64));
        assert_eq!(tables.field("ObjectMonitor", "_name", false), None, "another type's");
        assert_eq!(tables.size_of("JVMFlag"), Some(16));
        let no_fields = HashMap::new();
        let tables = Tables { memory: &memory, exported: &no_fields };
        assert_eq!(tables.field("ObjectMonitor", "_owner", false), None);
    }

    fn is_on(memory: &dyn Memory, exported: &HashMap<String, u64>, flag: &str) -> Option<bool> {
        super::is_on(&Tables { memory, exported }, flag)
    }

    #[test]
    fn reads_a_flag_from_memory() {
        for value in [0, 1] {
            let (memory, exported) = jvm(value);
            assert_eq!(is_on(&memory, &exported, "DTraceMonitorProbes"), Some(value == 1));
            assert_eq!(is_on(&memory, &exported, "DTraceMonitorProbe"), None, "a name that only begins so");
            assert_eq!(is_on(&memory, &exported, &"x".repeat(100)), None);
        }
    }

    #[test]
    fn missing_or_invalid_memory_yields_no_value() {
        let (memory, exported) = jvm(1);
        for missing in exported.keys() {
            let mut fewer = exported.clone();
            fewer.remove(missing);
            assert_eq!(is_on(&memory, &fewer, "DTraceMonitorProbes"), None, "without {missing}");
        }
        for length in (0..memory.0.len()).step_by(5) {
            let cut = Bytes(memory.0[..length].to_vec());
            let _ = is_on(&cut, &exported, "DTraceMonitorProbes");
        }
        let mut full = Bytes(vec![0xff; 4096]);
        full.0[..8].copy_from_slice(&BASE.to_ne_bytes());
        assert_eq!(is_on(&full, &exported, "DTraceMonitorProbes"), None);
    }
}
