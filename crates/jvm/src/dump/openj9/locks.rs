//! A javacore's section on monitors: who has each, who waits to enter it. Does not read stacks.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Lock, LockHolder, LockKind};

use crate::dump::error::DefectKind;
use crate::dump::kept::Kept;
use crate::dump::thread::{Thread, ThreadState, Wait, WaitKind};

/// A thread as the section names it: by name and by its `J9VMThread`, 0 where that is missing.
type Named = (Arc<str>, u64);

#[derive(Debug)]
struct Monitor {
    class: Arc<str>,
    address: u64,
    owner: Option<Named>,
    /// Those that wait to enter.
    waiters: Vec<Named>,
}

/// The object monitors of a javacore.
#[derive(Debug, Default)]
pub(super) struct Monitors {
    all: Vec<Monitor>,
    /// Whether the last line that named a monitor named an object's: the JVM's own have waiters too.
    is_object: bool,
}

impl Monitors {
    /// Takes a line with a tag of this section.
    pub(super) fn line(&mut self, tag: &str, text: &str, kept: &mut Kept) -> Result<(), DefectKind> {
        match tag {
            "3LKMONOBJECT" => self.monitor(text, kept)?,
            "3LKWAITER" if self.is_object => {
                if let (Some(monitor), Some(waiter)) = (self.all.last_mut(), named(text, kept)?) {
                    monitor.waiters.push(waiter);
                }
            }
            "2LKMONINUSE" | "2LKREGMON" => self.is_object = false,
            _ => {}
        }
        Ok(())
    }

    fn monitor(&mut self, text: &str, kept: &mut Kept) -> Result<(), DefectKind> {
        self.is_object = false;
        let Some((class, address, rest)) = object(text) else { return Ok(()) };
        let class = kept.text(&class).ok_or(DefectKind::TooLarge)?;
        // `owner "NAME" (…)` or `Flat locked by "NAME" (…)`, or `<unowned>`.
        let owner =
            rest.find('"').and_then(|at| rest.get(at..)).map_or(Ok(None), |text| named(text, kept))?;
        self.all.push(Monitor { class, address, owner, waiters: Vec::new() });
        self.is_object = true;
        Ok(())
    }

    /// Adds to the threads what only this section says: with the section on threads cut off, everything.
    pub(super) fn settle(&self, threads: &mut Vec<Thread>, vm_threads: &[u64]) {
        let mut index = Index::of(threads, vm_threads);
        for monitor in &self.all {
            let lock =
                Lock { kind: LockKind::Monitor, class: Arc::clone(&monitor.class), address: monitor.address };
            let mut owner = None;
            if let Some(at) = monitor.owner.as_ref().map(|named| index.find(named, threads)) {
                let Some(thread) = threads.get_mut(at) else { continue };
                owner = Some(thread.as_holder());
                if !thread.holds.contains(&lock) {
                    thread.holds.push(lock.clone());
                }
            }
            for waiter in &monitor.waiters {
                let at = index.find(waiter, threads);
                if let Some(thread) = threads.get_mut(at) {
                    enter(thread, &lock, owner.as_ref());
                }
            }
        }
        let known: HashMap<Arc<str>, LockHolder> =
            threads.iter().map(|thread| (Arc::clone(&thread.name), thread.as_holder())).collect();
        for owner in threads.iter_mut().filter_map(|thread| thread.wait.as_mut()?.owner.as_mut()) {
            if let Some(thread) = known.get(&owner.thread).filter(|_| owner.tid.is_none()) {
                owner.tid = thread.tid;
            }
        }
    }
}

/// The thread waits to enter this monitor, if its own lines do not say otherwise.
fn enter(thread: &mut Thread, lock: &Lock, owner: Option<&LockHolder>) {
    if thread.state == ThreadState::Unknown {
        thread.state = ThreadState::Blocked;
    }
    let wait =
        thread.wait.get_or_insert_with(|| Wait::new(WaitKind::Enter, Arc::clone(&lock.class), lock.address));
    if wait.lock.address == lock.address && owner.is_some() {
        wait.owner = owner.cloned();
    }
}

/// Finds threads by their `J9VMThread`, and by name where that fails.
struct Index {
    by_vm_thread: HashMap<u64, usize>,
    by_name: HashMap<Arc<str>, usize>,
}

impl Index {
    fn of(threads: &[Thread], vm_threads: &[u64]) -> Self {
        let numbered = vm_threads.iter().enumerate().filter(|&(_, &vm_thread)| vm_thread != 0);
        Self {
            by_vm_thread: numbered.map(|(at, &vm_thread)| (vm_thread, at)).collect(),
            by_name: threads.iter().enumerate().map(|(at, thread)| (Arc::clone(&thread.name), at)).collect(),
        }
    }

    /// The thread's place, a new one where the section on threads does not have it.
    fn find(&mut self, (name, vm_thread): &Named, threads: &mut Vec<Thread>) -> usize {
        let known = self.by_vm_thread.get(vm_thread).or_else(|| self.by_name.get(name));
        if let Some(&at) = known {
            return at;
        }
        let at = threads.len();
        threads.push(Thread::new(Arc::clone(name)));
        self.by_name.insert(Arc::clone(name), at);
        if *vm_thread != 0 {
            self.by_vm_thread.insert(*vm_thread, at);
        }
        at
    }
}

/// `"NAME" REST`: the name, which may have quotation marks in it, and what follows.
pub(super) fn quoted(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('"')?;
    let close = ["\" J9VMThread:", "\" (J9VMThread:", "\" (0x", "\" (TID:"]
        .iter()
        .find_map(|mark| rest.rfind(mark))
        .or_else(|| rest.rfind('"'))?;
    Some((rest.get(..close)?, rest.get(close + 1..)?))
}

fn named(text: &str, kept: &mut Kept) -> Result<Option<Named>, DefectKind> {
    let Some((name, rest)) = quoted(text) else { return Ok(None) };
    let name = kept.text(name).ok_or(DefectKind::TooLarge)?;
    Ok(Some((name, vm_thread(rest).unwrap_or(0))))
}

/// The first number of what follows a name: its `J9VMThread`, which older javacores write without that word.
pub(super) fn vm_thread(text: &str) -> Option<u64> {
    let digits = text.split_once("0x")?.1;
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    u64::from_str_radix(digits.get(..end)?, 16).ok()
}

/// `java/lang/Object@0x00000000E0A24848: REST`: class with dots, address, and what follows.
pub(super) fn object(text: &str) -> Option<(String, u64, &str)> {
    let (class, rest) = text.split_once("@0x")?;
    let end = rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len());
    let address = u64::from_str_radix(rest.get(..end)?, 16).ok()?;
    Some((class.replace('/', "."), address, rest.get(end..)?))
}
