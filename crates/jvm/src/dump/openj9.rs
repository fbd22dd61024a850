//! OpenJ9's javacores, a line at a time. Does not find where they begin.
//!
//! Each line begins with a tag. Source: "Java dump" in Eclipse OpenJ9's documentation (`dump_javadump`), "Interpreting
//! a Javadump" in IBM's, and OpenJ9's `runtime/rasdump/javadump.cpp`:
//!
//! ```text
//! 0SECTION       LOCKS subcomponent dump routine
//! 2LKMONINUSE      sys_mon_t:0x… infl_mon_t: 0x…:
//! 3LKMONOBJECT       java/lang/Object@0x…: owner "NAME" (J9VMThread:0x…), entry count 1
//! 3LKWAITERQ            Waiting to enter:
//! 3LKWAITER                "NAME" (J9VMThread:0x…)
//! 0SECTION       THREADS subcomponent dump routine
//! 3XMTHREADINFO      "NAME" J9VMThread:0x…, omrthread_t:0x…, java/lang/Thread:0x…, state:B, prio=5
//! 3XMJAVALTHREAD            (java/lang/Thread getId:0x2E, isDaemon:true)
//! 3XMTHREADINFO1            (native thread ID:0x1184, native priority:0x5, …)
//! 3XMTHREADBLOCK     Blocked on: java/lang/Object@0x… Owned by: "NAME" (J9VMThread:0x…, java/lang/Thread:0x…)
//! 4XESTACKTRACE                at kafka/log/Log.append(Log.scala:1085(Compiled Code))
//! 5XESTACKTRACE                   (entered lock: java/lang/Object@0x…, entry count: 1)
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use jiff::civil::DateTime;
use model::{Lock, LockHolder, LockKind, Pid};

use super::thread::{self, DefectKind, TextPool, Thread, ThreadState, Wait, WaitKind};

/// A javacore being read.
#[derive(Debug, Default)]
pub(super) struct OpenJ9 {
    pub(super) threads: Vec<Thread>,
    pub(super) deadlocks: u32,
    pub(super) pid: Pid,
    /// When the dump was taken by the JVM's wall clock, and whether that is UTC.
    pub(super) taken: Option<(DateTime, bool)>,
    monitors: Monitors,
    /// The `J9VMThread` of each thread, which distinguishes threads of one name.
    vm_threads: Vec<u64>,
    in_thread: bool,
    /// Whether the dump's end was seen.
    pub(super) is_done: bool,
}

impl OpenJ9 {
    /// Takes the next line.
    pub(super) fn line(&mut self, line: &str, texts: &mut TextPool) -> Result<(), DefectKind> {
        let (tag, text) = line.split_once(' ').map_or((line, ""), |(tag, text)| (tag, text.trim()));
        match tag {
            "NULL" => self.is_done |= text.contains("END OF DUMP"),
            "0SECTION" => self.in_thread = false,
            "1TIDATETIMEUTC" => self.taken = thread::parse(text).map(|time| (time, true)).or(self.taken),
            "1TIDATETIME" if !self.taken.is_some_and(|(_, is_utc)| is_utc) => {
                self.taken = thread::parse(text).map(|time| (time, false));
            }
            "1CIPROCESSID" => self.pid = number_after(text, "Process ID: ").unwrap_or(0),
            "1LKDEADLOCK" => self.deadlocks += u32::from(text.starts_with("Deadlock detected")),
            _ if tag.starts_with("3LK") || tag.starts_with("2LK") => self.monitors.line(tag, text, texts)?,
            "3XMTHREADINFO" => self.thread(text, texts)?,
            _ if self.in_thread => self.thread_line(tag, text, texts)?,
            _ => {}
        }
        Ok(())
    }

    /// Merges the section on monitors with the threads.
    pub(super) fn finish(&mut self) {
        self.monitors.settle(&mut self.threads, &self.vm_threads);
    }

    fn thread(&mut self, text: &str, texts: &mut TextPool) -> Result<(), DefectKind> {
        self.in_thread = false;
        let Some((name, rest)) = quoted(text) else {
            // `Anonymous native thread`.
            return if text.starts_with('"') { Err(DefectKind::BrokenThread) } else { Ok(()) };
        };
        let mut thread = Thread::new(texts.text(name).ok_or(DefectKind::TooLarge)?);
        thread.state = rest.split("state:").nth(1).map_or(ThreadState::Unknown, state_named);
        self.threads.push(thread);
        self.vm_threads.push(vm_thread(rest).unwrap_or(0));
        self.in_thread = true;
        Ok(())
    }

    fn thread_line(&mut self, tag: &str, text: &str, texts: &mut TextPool) -> Result<(), DefectKind> {
        let Some(thread) = self.threads.last_mut() else { return Ok(()) };
        match tag {
            "3XMJAVALTHREAD" => thread.java_id = hex_after(text, "getId:0x"),
            "3XMTHREADINFO1" => {
                let id = hex_after(text, "native thread ID:0x");
                thread.native_id = id.and_then(|id| u32::try_from(id).ok()).filter(|&id| id != 0);
            }
            "3XMTHREADBLOCK" => thread.wait = wait(text, texts)?,
            "4XESTACKTRACE" => {
                let frame = text.strip_prefix("at ").unwrap_or(text);
                let method = frame.split('(').next().unwrap_or(frame).replace('/', ".");
                thread.frames.push(texts.text(&method).ok_or(DefectKind::TooLarge)?);
            }
            "5XESTACKTRACE" => {
                let entered = text.split("entered lock: ").nth(1).and_then(object);
                if let Some((class, address, _)) = entered {
                    let class = texts.text(&class).ok_or(DefectKind::TooLarge)?;
                    thread.holds.push(Lock { kind: LockKind::Monitor, class, address });
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// `Blocked on: java/lang/Object@0x… Owned by: "NAME" (J9VMThread:0x…)`, or `Parked on`, or `Waiting on`.
fn wait(text: &str, texts: &mut TextPool) -> Result<Option<Wait>, DefectKind> {
    let Some((verb, rest)) = text.split_once(" on: ") else { return Ok(None) };
    let how = match verb {
        "Blocked" => WaitKind::Enter,
        "Parked" => WaitKind::Park,
        _ => WaitKind::Notify,
    };
    let Some((class, address, rest)) = object(rest) else { return Ok(None) };
    let mut wait = Wait::new(how, texts.text(&class).ok_or(DefectKind::TooLarge)?, address);
    if let Some((name, _)) = rest.split_once("Owned by: ").and_then(|(_, owner)| quoted(owner)) {
        let thread = texts.text(name).ok_or(DefectKind::TooLarge)?;
        wait.owner = Some(LockHolder { tid: None, thread });
    }
    Ok(Some(wait))
}

/// Parses a state, by the table in OpenJ9's documentation of the THREADS section.
fn state_named(text: &str) -> ThreadState {
    match text.split(|c: char| !c.is_ascii_alphanumeric()).next() {
        Some("R") => ThreadState::Runnable,
        Some("B") => ThreadState::Blocked,
        Some("CW" | "P" | "S") => ThreadState::Waiting,
        Some("Z") => ThreadState::Terminated,
        _ => ThreadState::Unknown,
    }
}

fn hex_after(text: &str, mark: &str) -> Option<u64> {
    Some(hex(text.split_once(mark)?.1)?.0)
}

/// The hexadecimal number at the start of a text, and the rest.
fn hex(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(text.len());
    Some((u64::from_str_radix(text.get(..end)?, 16).ok()?, text.get(end..)?))
}

fn number_after(text: &str, mark: &str) -> Option<u32> {
    text.split_once(mark)?.1.split(' ').next()?.parse().ok()
}

// A javacore's section on monitors: the owner and the waiters of each. Does not read stacks.

/// A thread as the section names it: by name and by its `J9VMThread`, 0 if that is missing.
type MonitorUser = (Arc<str>, u64);

#[derive(Debug)]
struct Monitor {
    class: Arc<str>,
    address: u64,
    owner: Option<MonitorUser>,
    /// Threads that wait to enter.
    waiters: Vec<MonitorUser>,
}

/// The object monitors of a javacore.
#[derive(Debug, Default)]
struct Monitors {
    all: Vec<Monitor>,
    /// Whether the last monitor named is an object's: the JVM's own monitors have waiters too.
    is_object: bool,
}

impl Monitors {
    /// Adds a line with a tag of this section.
    fn line(&mut self, tag: &str, text: &str, texts: &mut TextPool) -> Result<(), DefectKind> {
        match tag {
            "3LKMONOBJECT" => self.monitor(text, texts)?,
            "3LKWAITER" if self.is_object => {
                if let (Some(monitor), Some(waiter)) = (self.all.last_mut(), named(text, texts)?) {
                    monitor.waiters.push(waiter);
                }
            }
            "2LKMONINUSE" | "2LKREGMON" => self.is_object = false,
            _ => {}
        }
        Ok(())
    }

    fn monitor(&mut self, text: &str, texts: &mut TextPool) -> Result<(), DefectKind> {
        self.is_object = false;
        let Some((class, address, rest)) = object(text) else { return Ok(()) };
        let class = texts.text(&class).ok_or(DefectKind::TooLarge)?;
        // `owner "NAME" (…)` or `Flat locked by "NAME" (…)`, or `<unowned>`.
        let owner =
            rest.find('"').and_then(|at| rest.get(at..)).map_or(Ok(None), |text| named(text, texts))?;
        self.all.push(Monitor { class, address, owner, waiters: Vec::new() });
        self.is_object = true;
        Ok(())
    }

    /// Adds to the threads what only this section has; that is everything if the section on threads is cut off.
    fn settle(&self, threads: &mut Vec<Thread>, vm_threads: &[u64]) {
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

/// Makes a thread wait to enter this monitor, unless its own lines say otherwise.
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

/// Finds threads by their `J9VMThread`, or else by name.
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

    /// The thread's index; adds the thread if the section on threads does not have it.
    fn find(&mut self, (name, vm_thread): &MonitorUser, threads: &mut Vec<Thread>) -> usize {
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

/// Parses `"NAME" REST`: the name, which may contain quotation marks, and the rest.
fn quoted(text: &str) -> Option<(&str, &str)> {
    let rest = text.strip_prefix('"')?;
    let close = ["\" J9VMThread:", "\" (J9VMThread:", "\" (0x", "\" (TID:"]
        .iter()
        .find_map(|mark| rest.rfind(mark))
        .or_else(|| rest.rfind('"'))?;
    Some((rest.get(..close)?, rest.get(close + 1..)?))
}

fn named(text: &str, texts: &mut TextPool) -> Result<Option<MonitorUser>, DefectKind> {
    let Some((name, rest)) = quoted(text) else { return Ok(None) };
    let name = texts.text(name).ok_or(DefectKind::TooLarge)?;
    Ok(Some((name, vm_thread(rest).unwrap_or(0))))
}

/// The first number after a name: its `J9VMThread`, which older javacores write without that word.
fn vm_thread(text: &str) -> Option<u64> {
    hex_after(text, "0x")
}

/// `java/lang/Object@0x00000000E0A24848: REST`: class with dots, address, and the rest.
fn object(text: &str) -> Option<(String, u64, &str)> {
    let (class, rest) = text.split_once("@0x")?;
    let (address, rest) = hex(rest)?;
    Some((class.replace('/', "."), address, rest))
}
