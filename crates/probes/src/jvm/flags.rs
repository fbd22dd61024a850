//! The value that one of `HotSpot`'s flags has in a running JVM, wherever it was set: command line, file, environment. Read
//! from its memory by [`Tables`], without stopping it.

use super::tables::{MOST_ENTRIES, Tables};

/// A flag's entry; JDK 25 has 1,500 flags.
const MOST_STRIDE: u64 = 256;

/// The value of a flag that is on or off; none where the JVM has no such flag or its tables cannot be read.
pub(super) fn is_on(tables: &Tables<'_>, flag: &str) -> Option<bool> {
    // JDK 8 calls it `Flag`.
    let (kind, size) = ["JVMFlag", "Flag"].iter().find_map(|kind| Some((*kind, tables.size_of(kind)?)))?;
    let [flags, count] =
        [("flags", true), ("numFlags", true)].map(|(name, fixed)| tables.field(kind, name, fixed));
    let [name_at, value_at] =
        [("_name", false), ("_addr", false)].map(|(name, fixed)| tables.field(kind, name, fixed));
    let (first, count) = (tables.long(flags?)?, tables.long(count?)?.min(MOST_ENTRIES));
    let (name_at, value_at) = (name_at?, value_at?);
    let places = (0..count).filter_map(|index| first.checked_add(index.checked_mul(size)?));
    let is_it = |place: &u64| {
        let name = place.checked_add(name_at).and_then(|address| tables.long(address));
        name.is_some_and(|address| tables.is_text(address, flag))
    };
    let place = places.filter(|_| size <= MOST_STRIDE).find(is_it)?;
    let value = tables.long(place.checked_add(value_at)?)?;
    let mut byte = [0];
    tables.memory.read(value, &mut byte).then_some(byte != [0])
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::super::tables::tests::{BASE, Bytes, jvm};
    use super::super::tables::{Memory, Tables};

    fn is_on(memory: &dyn Memory, exported: &HashMap<String, u64>, flag: &str) -> Option<bool> {
        super::is_on(&Tables { memory, exported }, flag)
    }

    #[test]
    fn a_flag_has_the_value_that_memory_holds() {
        for value in [0, 1] {
            let (memory, exported) = jvm(value);
            assert_eq!(is_on(&memory, &exported, "DTraceMonitorProbes"), Some(value == 1));
            assert_eq!(is_on(&memory, &exported, "DTraceMonitorProbe"), None, "a name that only begins so");
            assert_eq!(is_on(&memory, &exported, &"x".repeat(100)), None);
        }
    }

    #[test]
    fn memory_that_is_not_there_or_makes_no_sense_gives_no_value() {
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
