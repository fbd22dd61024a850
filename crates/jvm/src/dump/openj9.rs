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

mod locks;

use jiff::civil::DateTime;
use model::{Lock, LockHolder, LockKind, Pid};

use self::locks::{Monitors, object, quoted};
use super::error::DefectKind;
use super::kept::Kept;
use super::stamp;
use super::thread::{Thread, ThreadState, Wait, WaitKind};

/// A javacore being read.
#[derive(Debug)]
pub(super) struct OpenJ9 {
    pub(super) threads: Vec<Thread>,
    pub(super) deadlocks: u32,
    pub(super) pid: Pid,
    /// On the JVM's wall clock, and whether that is UTC.
    pub(super) taken: Option<(DateTime, bool)>,
    monitors: Monitors,
    /// The `J9VMThread` of each thread: what tells threads of one name apart.
    vm_threads: Vec<u64>,
    in_thread: bool,
    is_done: bool,
}

impl OpenJ9 {
    pub(super) fn new() -> Self {
        Self {
            threads: Vec::new(),
            deadlocks: 0,
            pid: 0,
            taken: None,
            monitors: Monitors::default(),
            vm_threads: Vec::new(),
            in_thread: false,
            is_done: false,
        }
    }

    /// Whether the dump's end was seen.
    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// Takes the next line.
    pub(super) fn line(&mut self, line: &str, kept: &mut Kept) -> Result<(), DefectKind> {
        let (tag, text) = line.split_once(' ').map_or((line, ""), |(tag, text)| (tag, text.trim()));
        match tag {
            "NULL" => self.is_done |= text.contains("END OF DUMP"),
            "0SECTION" => self.in_thread = false,
            "1TIDATETIMEUTC" => self.taken = stamp::parse(text).map(|time| (time, true)).or(self.taken),
            "1TIDATETIME" if !self.taken.is_some_and(|(_, is_utc)| is_utc) => {
                self.taken = stamp::parse(text).map(|time| (time, false));
            }
            "1CIPROCESSID" => self.pid = number_after(text, "Process ID: ").unwrap_or(0),
            "1LKDEADLOCK" => self.deadlocks += u32::from(text.starts_with("Deadlock detected")),
            _ if tag.starts_with("3LK") || tag.starts_with("2LK") => self.monitors.line(tag, text, kept)?,
            "3XMTHREADINFO" => self.thread(text, kept)?,
            _ if self.in_thread => self.thread_line(tag, text, kept)?,
            _ => {}
        }
        Ok(())
    }

    /// What the section on monitors says is brought together with the threads.
    pub(super) fn finish(&mut self) {
        self.monitors.settle(&mut self.threads, &self.vm_threads);
    }

    fn thread(&mut self, text: &str, kept: &mut Kept) -> Result<(), DefectKind> {
        self.in_thread = false;
        let Some((name, rest)) = quoted(text) else {
            // `Anonymous native thread`.
            return if text.starts_with('"') { Err(DefectKind::BrokenThread) } else { Ok(()) };
        };
        let mut thread = Thread::new(kept.text(name).ok_or(DefectKind::TooLarge)?);
        thread.state = rest.split("state:").nth(1).map_or(ThreadState::Unknown, state_named);
        self.threads.push(thread);
        self.vm_threads.push(locks::vm_thread(rest).unwrap_or(0));
        self.in_thread = true;
        Ok(())
    }

    fn thread_line(&mut self, tag: &str, text: &str, kept: &mut Kept) -> Result<(), DefectKind> {
        let Some(thread) = self.threads.last_mut() else { return Ok(()) };
        match tag {
            "3XMJAVALTHREAD" => thread.java_id = hex_after(text, "getId:0x"),
            "3XMTHREADINFO1" => {
                let id = hex_after(text, "native thread ID:0x");
                thread.native_id = id.and_then(|id| u32::try_from(id).ok()).filter(|&id| id != 0);
            }
            "3XMTHREADBLOCK" => thread.wait = wait(text, kept)?,
            "4XESTACKTRACE" => {
                let frame = text.strip_prefix("at ").unwrap_or(text);
                let method = frame.split('(').next().unwrap_or(frame).replace('/', ".");
                thread.frames.push(kept.text(&method).ok_or(DefectKind::TooLarge)?);
            }
            "5XESTACKTRACE" => {
                let entered = text.split("entered lock: ").nth(1).and_then(object);
                if let Some((class, address, _)) = entered {
                    let class = kept.text(&class).ok_or(DefectKind::TooLarge)?;
                    thread.holds.push(Lock { kind: LockKind::Monitor, class, address });
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// `Blocked on: java/lang/Object@0x… Owned by: "NAME" (J9VMThread:0x…)`, or `Parked on`, or `Waiting on`.
fn wait(text: &str, kept: &mut Kept) -> Result<Option<Wait>, DefectKind> {
    let Some((verb, rest)) = text.split_once(" on: ") else { return Ok(None) };
    let how = match verb {
        "Blocked" => WaitKind::Enter,
        "Parked" => WaitKind::Park,
        _ => WaitKind::Notify,
    };
    let Some((class, address, rest)) = object(rest) else { return Ok(None) };
    let mut wait = Wait::new(how, kept.text(&class).ok_or(DefectKind::TooLarge)?, address);
    if let Some((name, _)) = rest.split_once("Owned by: ").and_then(|(_, owner)| quoted(owner)) {
        let thread = kept.text(name).ok_or(DefectKind::TooLarge)?;
        wait.owner = Some(LockHolder { tid: None, thread });
    }
    Ok(Some(wait))
}

/// The table of states in OpenJ9's documentation of the THREADS section.
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
    let digits = text.split_once(mark)?.1;
    let end = digits.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(digits.len());
    u64::from_str_radix(digits.get(..end)?, 16).ok()
}

fn number_after(text: &str, mark: &str) -> Option<u32> {
    text.split_once(mark)?.1.split(' ').next()?.parse().ok()
}
