//! What an event's values stand for: the thread, the class, the stack's text. Each is put together once a chunk and
//! then shared. Does not know any event.

use std::collections::HashMap;
use std::sync::Arc;

use model::Tid;

use super::Error;
use super::bytes::{Bytes, Text};
use super::metadata::{Shape, Types};
use super::pools::Pools;
use super::value::{Selection, Value};

/// Names longer than this are cut.
const MAX_NAME_BYTES: usize = 1024;

/// Of a deeper stack the innermost frames are told. A JVM records 64 if not asked for more.
const MAX_FRAMES: usize = 128;

/// Of a longer stack the innermost frames that fit are told.
const MAX_STACK_BYTES: usize = 16 << 10;

/// What the texts of a chunk may take before they are put together anew.
const MAX_CACHED_BYTES: usize = 16 << 20;

/// A name in a pool in a name in a pool: no JVM goes deeper.
const MAX_NAMES_DEEP: usize = 4;

/// A thread of the JVM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The kernel's number for it; 0 for a virtual thread.
    pub tid: Tid,
    /// Its full name.
    pub name: Arc<str>,
}

/// The types and pools of a chunk, and what was looked up in them.
#[derive(Default)]
pub(super) struct Constants {
    pub(super) types: Types,
    pub(super) pools: Pools,
    select: Option<Select>,
    cached: Cached,
}

/// Where the fields of types that are looked up are.
struct Select {
    thread: Selection<3>,
    class: Selection<1>,
    method: Selection<2>,
    stack: Selection<1>,
    frame: Selection<1>,
}

#[derive(Default)]
struct Cached {
    names: HashMap<(u64, u64), Arc<str>>,
    threads: HashMap<u64, Thread>,
    methods: HashMap<u64, Arc<str>>,
    stacks: HashMap<u64, Arc<str>>,
    bytes: usize,
}

impl Constants {
    /// Takes a chunk's types, which it may have more of than before.
    pub(super) fn set_types(&mut self, types: Types) {
        self.select = Select::of(&types);
        self.types = types;
        self.cached = Cached::default();
    }

    /// Reads a checkpoint, from after its type.
    pub(super) fn add(&mut self, event: Bytes<'_>) -> Result<(), Error> {
        if self.pools.add(&self.types, event)? {
            self.cached = Cached::default();
        }
        Ok(())
    }

    /// All threads that the chunk has named so far.
    pub(super) fn threads(&mut self) -> Vec<Thread> {
        let Some(class) = self.types.named("java.lang.Thread") else { return Vec::new() };
        let type_id = class.id;
        let keys: Vec<u64> = self.pools.keys(type_id).collect();
        keys.into_iter().filter_map(|key| self.thread(Value::Pooled { type_id, key })).collect()
    }

    /// The thread that a value is.
    pub(super) fn thread(&mut self, value: Value<'_>) -> Option<Thread> {
        let Value::Pooled { type_id, key } = value else { return None };
        if let Some(thread) = self.cached.threads.get(&key) {
            return Some(thread.clone());
        }
        let select = &self.select.as_ref()?.thread;
        let [tid, os_name, java_name] = select.read(&self.types, &mut self.pools.get(type_id, key)?).ok()?;
        let java_name = self.text(java_name);
        let name = if java_name.is_empty() { self.text(os_name) } else { java_name };
        let thread = Thread { tid: u32::try_from(tid.integer()).unwrap_or(0), name: name.into() };
        self.cached.make_room(thread.name.len());
        self.cached.threads.insert(key, thread.clone());
        Some(thread)
    }

    /// The text of a value that is a string, or has one as its first field.
    pub(super) fn name(&mut self, value: Value<'_>) -> Arc<str> {
        let Value::Pooled { type_id, key } = value else { return self.text(value).into() };
        if let Some(name) = self.cached.names.get(&(type_id, key)) {
            return Arc::clone(name);
        }
        let name: Arc<str> = self.text(value).into();
        self.cached.make_room(name.len());
        self.cached.names.insert((type_id, key), Arc::clone(&name));
        name
    }

    /// The name of a class, as Java writes it: `java.lang.Object`.
    pub(super) fn class(&mut self, value: Value<'_>) -> Arc<str> {
        let Value::Pooled { type_id, key } = value else { return Arc::default() };
        if let Some(name) = self.cached.names.get(&(type_id, key)) {
            return Arc::clone(name);
        }
        let name: Arc<str> = self.class_name(type_id, key).unwrap_or_default().into();
        self.cached.make_room(name.len());
        self.cached.names.insert((type_id, key), Arc::clone(&name));
        name
    }

    fn class_name(&self, type_id: u64, key: u64) -> Option<String> {
        let select = &self.select.as_ref()?.class;
        let [name] = select.read(&self.types, &mut self.pools.get(type_id, key)?).ok()?;
        Some(self.text(name).replace('/', "."))
    }

    /// A stack, outermost method first: `Thread.run;Log.append`, each with its class's full name.
    pub(super) fn stack(&mut self, value: Value<'_>) -> Arc<str> {
        let Value::Pooled { type_id, key } = value else { return Arc::default() };
        if let Some(stack) = self.cached.stacks.get(&key) {
            return Arc::clone(stack);
        }
        let frames = self.frames(type_id, key).unwrap_or_default();
        let stack: Arc<str> = join(&frames).into();
        self.cached.make_room(stack.len());
        self.cached.stacks.insert(key, Arc::clone(&stack));
        stack
    }

    /// The methods of a stack, innermost first.
    fn frames(&mut self, type_id: u64, key: u64) -> Option<Vec<Arc<str>>> {
        let select = self.select.as_ref()?;
        let [frames] = select.stack.read(&self.types, &mut self.pools.get(type_id, key)?).ok()?;
        let Value::Array { count, mut bytes } = frames else { return None };
        let mut methods = Vec::new();
        for _ in 0..count.min(MAX_FRAMES) {
            let [method] = select.frame.read(&self.types, &mut bytes).ok()?;
            methods.push(method.key()?);
        }
        Some(methods.into_iter().map(|(type_id, key)| self.method(type_id, key)).collect())
    }

    /// A method with its class.
    fn method(&mut self, type_id: u64, key: u64) -> Arc<str> {
        if let Some(name) = self.cached.methods.get(&key) {
            return Arc::clone(name);
        }
        let name: Arc<str> = self.method_name(type_id, key).unwrap_or_else(|| "?".to_owned()).into();
        self.cached.make_room(name.len());
        self.cached.methods.insert(key, Arc::clone(&name));
        name
    }

    fn method_name(&mut self, type_id: u64, key: u64) -> Option<String> {
        let select = &self.select.as_ref()?.method;
        let [class, name] = select.read(&self.types, &mut self.pools.get(type_id, key)?).ok()?;
        let name = self.text(name);
        let (class_type, class_key) = class.key()?;
        let class = self.class_name(class_type, class_key).unwrap_or_default();
        // async-profiler's native frames have no class.
        let whole = if class.is_empty() { name } else { format!("{class}.{name}") };
        Some(whole.replace(';', ":"))
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
    /// Nothing where the chunk does not describe them: then nothing is looked up.
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

impl Cached {
    /// Counts a text that is about to be held.
    fn make_room(&mut self, bytes: usize) {
        const ENTRY_BYTES: usize = 96;
        self.bytes += bytes + ENTRY_BYTES;
        if self.bytes > MAX_CACHED_BYTES {
            *self = Self { bytes: bytes + ENTRY_BYTES, ..Self::default() };
        }
    }
}

/// Joins frames that are innermost first to a text that is outermost first.
fn join(frames: &[Arc<str>]) -> String {
    let mut room = MAX_STACK_BYTES;
    let fits = frames.iter().take_while(|frame| {
        let fits = frame.len() < room;
        room = room.saturating_sub(frame.len() + 1);
        fits
    });
    let fitting = fits.count();
    let told: Vec<&str> = frames.iter().take(fitting).rev().map(AsRef::as_ref).collect();
    told.join(";")
}
