//! The constants that an event's values refer to: threads, classes, the texts of stacks.
//! Builds each once a chunk and then shares it. Does not know any event.

use std::collections::HashMap;
use std::sync::Arc;

use model::Tid;

use super::bytes::{Bytes, Text};
use super::error::Error;
use super::metadata::{Selection, Shape, Types, Value};

/// Names longer than this are cut.
const MAX_NAME_BYTES: usize = 1024;

/// A deeper stack keeps its innermost frames. A JVM records 64 by default.
const MAX_FRAMES: usize = 128;

/// A longer stack keeps the innermost frames that fit.
const MAX_STACK_BYTES: usize = 16 << 10;

/// Memory limit for the texts of a chunk; beyond it they are dropped and rebuilt.
const MAX_CACHED_BYTES: usize = 8 << 20;

/// Maximum number of listed threads; a busy broker has some hundreds.
const MAX_THREADS: usize = 10_000;

/// Limit of nesting: a name in a pool may refer to a name in another pool. No JVM nests deeper.
const MAX_NAMES_DEEP: usize = 4;

/// A thread of the JVM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The kernel's id of it; 0 for a virtual thread.
    pub tid: Tid,
    /// Its full name.
    pub name: Arc<str>,
}

/// The types and pools of a chunk, and a cache of lookups in them.
#[derive(Default)]
pub(super) struct Constants {
    pub(super) types: Types,
    pub(super) pools: Pools,
    select: Option<Select>,
    cached: Cache,
}

/// The positions of fields in the types that are looked up.
struct Select {
    thread: Selection<3>,
    class: Selection<1>,
    method: Selection<2>,
    stack: Selection<1>,
    frame: Selection<1>,
}

#[derive(Default)]
struct Cache {
    /// Names, methods and stacks by type and key.
    texts: HashMap<(u64, u64), Arc<str>>,
    threads: HashMap<u64, Thread>,
    bytes: usize,
}

impl Constants {
    /// Sets a chunk's types, which may be more than before.
    pub(super) fn set_types(&mut self, types: Types) {
        self.select = Select::of(&types);
        self.types = types;
        self.cached = Cache::default();
    }

    /// Reads a checkpoint, starting after its type.
    pub(super) fn add(&mut self, event: Bytes<'_>) -> Result<(), Error> {
        if self.pools.add(&self.types, event)? {
            self.cached = Cache::default();
        }
        Ok(())
    }

    /// All threads that the chunk has named so far.
    pub(super) fn threads(&mut self) -> Vec<Thread> {
        let Some(class) = self.types.named("java.lang.Thread") else { return Vec::new() };
        let type_id = class.id;
        let keys: Vec<u64> = self.pools.keys(type_id).take(MAX_THREADS).collect();
        keys.into_iter().filter_map(|key| self.thread(Value::Pooled { type_id, key })).collect()
    }

    /// The thread that a value refers to.
    pub(super) fn thread(&mut self, value: Value<'_>) -> Option<Thread> {
        let (type_id, key) = value.key()?;
        if let Some(thread) = self.cached.threads.get(&key) {
            return Some(thread.clone());
        }
        let [tid, os_name, java_name] = self.fields(&self.select.as_ref()?.thread, (type_id, key))?;
        let java_name = self.text(java_name);
        let name = if java_name.is_empty() { self.text(os_name) } else { java_name };
        let thread = Thread { tid: u32::try_from(tid.integer()).unwrap_or(0), name: name.into() };
        self.cached.make_room(thread.name.len());
        self.cached.threads.insert(key, thread.clone());
        Some(thread)
    }

    /// The text for a key: from the cache, or as `make` builds it.
    fn cached(
        &mut self,
        (type_id, key): (u64, u64),
        make: impl FnOnce(&mut Self) -> Option<String>,
    ) -> Arc<str> {
        if let Some(text) = self.cached.texts.get(&(type_id, key)) {
            return Arc::clone(text);
        }
        let text: Arc<str> = make(self).unwrap_or_default().into();
        self.cached.make_room(text.len());
        self.cached.texts.insert((type_id, key), Arc::clone(&text));
        text
    }

    /// The text of a value that is a string or has one as its first field.
    pub(super) fn name(&mut self, value: Value<'_>) -> Arc<str> {
        match value.key() {
            Some(key) => self.cached(key, |this| Some(this.text(value))),
            None => self.text(value).into(),
        }
    }

    /// The name of a class in Java's form: `java.lang.Object`.
    pub(super) fn class(&mut self, value: Value<'_>) -> Arc<str> {
        let Some(key) = value.key() else { return Arc::default() };
        self.cached(key, |this| this.class_name(key))
    }

    fn class_name(&self, key: (u64, u64)) -> Option<String> {
        let [name] = self.fields(&self.select.as_ref()?.class, key)?;
        Some(self.text(name).replace('/', "."))
    }

    /// A stack, outermost method first: `Thread.run;Log.append`, each with its class's full name.
    pub(super) fn stack(&mut self, value: Value<'_>) -> Arc<str> {
        let Some(key) = value.key() else { return Arc::default() };
        self.cached(key, |this| this.frames(key).map(|frames| join(&frames)))
    }

    /// The methods of a stack, innermost first.
    fn frames(&mut self, key: (u64, u64)) -> Option<Vec<Arc<str>>> {
        let select = self.select.as_ref()?;
        let [frames] = self.fields(&select.stack, key)?;
        let Value::Array { count, mut bytes } = frames else { return None };
        let mut methods = Vec::new();
        for _ in 0..count.min(MAX_FRAMES) {
            let [method] = select.frame.read(&self.types, &mut bytes).ok()?;
            methods.push(method.key()?);
        }
        Some(methods.into_iter().map(|key| self.method(key)).collect())
    }

    /// The method that a value refers to, with its class; empty if it is none.
    pub(super) fn method_of(&mut self, value: Value<'_>) -> Arc<str> {
        value.key().map(|key| self.method(key)).unwrap_or_default()
    }

    /// A method with its class.
    fn method(&mut self, key: (u64, u64)) -> Arc<str> {
        self.cached(key, |this| this.method_name(key).or_else(|| Some("?".to_owned())))
    }

    fn method_name(&self, key: (u64, u64)) -> Option<String> {
        let [class, name] = self.fields(&self.select.as_ref()?.method, key)?;
        let name = self.text(name);
        let class = self.class_name(class.key()?).unwrap_or_default();
        // async-profiler's native frames have no class.
        let whole = if class.is_empty() { name } else { format!("{class}.{name}") };
        Some(whole.replace(';', ":"))
    }

    /// The fields of the value for a key.
    fn fields<const N: usize>(&self, select: &Selection<N>, key: (u64, u64)) -> Option<[Value<'_>; N]> {
        select.read(&self.types, &mut self.pools.get(key.0, key.1)?).ok()
    }

    fn text(&self, value: Value<'_>) -> String {
        let mut out = String::new();
        self.append(value, &mut out, 0);
        out
    }

    fn append(&self, value: Value<'_>, out: &mut String, depth: usize) {
        match value {
            _ if depth > MAX_NAMES_DEEP => {}
            Value::Text(Text::Pooled(key)) => {
                let strings = self.types.named("java.lang.String").map(|class| class.id);
                if let Some(type_id) = strings {
                    self.append(Value::Pooled { type_id, key }, out, depth + 1);
                }
            }
            Value::Text(text) => text.append_to(out, MAX_NAME_BYTES),
            Value::Pooled { type_id, key } => {
                let pooled = self.pools.get(type_id, key);
                if let Some(first) = pooled.and_then(|bytes| self.first(type_id, bytes)) {
                    self.append(first, out, depth + 1);
                }
            }
            Value::Absent | Value::Integer(_) | Value::Array { .. } | Value::Other => {}
        }
    }

    /// A string itself, or a value's first field.
    fn first<'a>(&self, type_id: u64, mut bytes: Bytes<'a>) -> Option<Value<'a>> {
        let class = self.types.class(type_id)?;
        match class.shape {
            Shape::Text => bytes.text().ok().map(Value::Text),
            _ => self.types.read(class.fields.first()?, &mut bytes).ok(),
        }
    }
}

impl Select {
    /// `None` if the chunk does not describe them: then nothing is looked up.
    fn of(types: &Types) -> Option<Self> {
        Some(Self {
            thread: Selection::of(types.named("java.lang.Thread")?, ["osThreadId", "osName", "javaName"]),
            class: Selection::of(types.named("java.lang.Class")?, ["name"]),
            method: Selection::of(types.named("jdk.types.Method")?, ["type", "name"]),
            stack: Selection::of(types.named("jdk.types.StackTrace")?, ["frames"]),
            frame: Selection::of_element(types.named("jdk.types.StackFrame")?, ["method"]),
        })
    }
}

impl Cache {
    /// Charges a text that is about to be cached.
    fn make_room(&mut self, bytes: usize) {
        const ENTRY_BYTES: usize = 96;
        self.bytes += bytes + ENTRY_BYTES;
        if self.bytes > MAX_CACHED_BYTES {
            *self = Self { bytes: bytes + ENTRY_BYTES, ..Self::default() };
        }
    }
}

/// Joins frames, innermost first, to a text that is outermost first.
fn join(frames: &[Arc<str>]) -> String {
    let mut room = MAX_STACK_BYTES;
    let fits = frames.iter().take_while(|frame| {
        let fits = frame.len() < room;
        room = room.saturating_sub(frame.len() + 1);
        fits
    });
    let fitting = fits.count();
    let outermost_first: Vec<&str> = frames.iter().take(fitting).rev().map(AsRef::as_ref).collect();
    outermost_first.join(";")
}

// The values of keys: the bytes of threads, classes, methods, stacks and names, from a chunk's checkpoints. Does not
// interpret them.
//
// A checkpoint is its start, its duration, the position of the one before it, a byte of flags, and pools: each a type,
// a number of entries, and as many keys with values (`jfrCheckpointManager.cpp`, `jfrTypeSet.cpp`). The position does
// not matter to a reader of all events. A second value for a key is newer: a renamed thread.

/// Memory limit for all values of a chunk. A busy broker's stacks take a few megabytes an hour.
const MAX_BYTES: usize = 32 << 20;

/// Overhead of an entry: its place in a map that doubles as it grows.
const ENTRY_BYTES: usize = 112;

/// The types that are looked up.
const TYPES: [&str; 10] = [
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
    /// Values dropped at the memory limit.
    pub(super) lost: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    from: usize,
    to: usize,
    /// Its offset in the file.
    at: u64,
}

impl Pools {
    /// Reads a checkpoint, starting after its type; returns whether a value replaced another.
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
        let is_needed = types.class(type_id).is_some_and(|class| TYPES.contains(&&*class.name));
        let mut replaced = false;
        for _ in 0..event.count()? {
            let key = event.varint()?;
            let (value, at) = (event.rest, event.at);
            types.skip(type_id, event, 0)?;
            if is_needed {
                let value = value.get(..value.len() - event.rest.len()).unwrap_or_default();
                replaced |= self.put(type_id, key, value, at);
            }
        }
        Ok(replaced)
    }

    fn put(&mut self, type_id: u64, key: u64, value: &[u8], at: u64) -> bool {
        let before = self.get(type_id, key).map(|before| before.rest == value);
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

    /// The value for a key.
    pub(super) fn get(&self, type_id: u64, key: u64) -> Option<Bytes<'_>> {
        let entry = self.by_type.get(&type_id)?.get(&key)?;
        Some(Bytes::new(self.bytes.get(entry.from..entry.to)?, entry.at))
    }

    /// The keys of a type.
    pub(super) fn keys(&self, type_id: u64) -> impl Iterator<Item = u64> + '_ {
        self.by_type.get(&type_id).into_iter().flat_map(HashMap::keys).copied()
    }
}
