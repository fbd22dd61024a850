//! What stands for keys: threads, classes, methods, stacks and names, as their bytes, from a chunk's checkpoints. Does
//! not say what they mean: `names.rs` does.
//!
//! A checkpoint is its start, its duration, where the one before it is, a byte of flags, and pools: each a type, a
//! number of entries, and as many keys with values (`jfrCheckpointManager.cpp`, `jfrTypeSet.cpp`). Where the one before
//! is does not matter to who reads all events anyway. A value that comes again for its key is newer: a renamed thread.

use std::collections::HashMap;

use super::Error;
use super::bytes::Bytes;
use super::metadata::Types;

/// What all values of a chunk may take. A busy broker's stacks take a few megabytes an hour.
const MAX_BYTES: usize = 64 << 20;

/// What an entry takes beside its bytes.
const ENTRY_BYTES: usize = 64;

/// The types that somebody here looks up.
const KEPT: [&str; 10] = [
    "java.lang.Thread",
    "java.lang.Class",
    "java.lang.String",
    "jdk.types.Symbol",
    "jdk.types.Method",
    "jdk.types.StackTrace",
    "jdk.types.GCName",
    "jdk.types.GCCause",
    "jdk.types.VMOperationType",
    "jdk.types.ThreadGroup",
];

/// All pools of a chunk.
#[derive(Default)]
pub(super) struct Pools {
    by_type: HashMap<u64, HashMap<u64, Entry>>,
    bytes: Vec<u8>,
    entries: usize,
    /// Values that found no room.
    pub(super) lost: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    from: usize,
    to: usize,
    /// Its place in the file.
    at: u64,
}

impl Pools {
    /// Reads a checkpoint, from after its type. Says whether a value replaced another.
    pub(super) fn add(&mut self, types: &Types, mut event: Bytes<'_>) -> Result<bool, Error> {
        for _start_duration_previous in 0..3 {
            event.varint()?;
        }
        event.byte()?;
        let mut replaced = false;
        for _ in 0..event.count()? {
            let type_id = event.varint()?;
            replaced |= self.add_pool(types, type_id, &mut event)?;
        }
        Ok(replaced)
    }

    fn add_pool(&mut self, types: &Types, type_id: u64, event: &mut Bytes<'_>) -> Result<bool, Error> {
        let kept = types.class(type_id).is_some_and(|class| KEPT.contains(&&*class.name));
        let mut replaced = false;
        for _ in 0..event.count()? {
            let key = event.varint()?;
            let (value, at) = (event.rest(), event.at());
            types.pass(type_id, event, 0)?;
            if kept {
                let value = value.get(..value.len() - event.rest().len()).unwrap_or_default();
                replaced |= self.put(type_id, key, value, at);
            }
        }
        Ok(replaced)
    }

    fn put(&mut self, type_id: u64, key: u64, value: &[u8], at: u64) -> bool {
        let before = self.get(type_id, key).map(|before| before.rest() == value);
        if before == Some(true) {
            return false;
        }
        if self.size_bytes() + value.len() + ENTRY_BYTES > MAX_BYTES {
            self.lost += 1;
            return false;
        }
        let from = self.bytes.len();
        self.bytes.extend_from_slice(value);
        let entry = Entry { from, to: self.bytes.len(), at };
        self.by_type.entry(type_id).or_default().insert(key, entry);
        self.entries += usize::from(before.is_none());
        before.is_some()
    }

    fn size_bytes(&self) -> usize {
        self.bytes.len() + self.entries * ENTRY_BYTES
    }

    /// What stands for a key.
    pub(super) fn get(&self, type_id: u64, key: u64) -> Option<Bytes<'_>> {
        let entry = self.by_type.get(&type_id)?.get(&key)?;
        Some(Bytes::new(self.bytes.get(entry.from..entry.to)?, entry.at))
    }

    /// The keys of a type.
    pub(super) fn keys(&self, type_id: u64) -> impl Iterator<Item = u64> + '_ {
        self.by_type.get(&type_id).into_iter().flat_map(HashMap::keys).copied()
    }
}
