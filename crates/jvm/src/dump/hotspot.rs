//! HotSpot's thread dumps, a line at a time. Does not find where dumps begin.
//!
//! Source: HotSpot's `Threads::print_on` (runtime/threads.cpp), `javaVFrame::print_lock_info_on`
//! (runtime/vframe.cpp) and `ConcurrentLocksDump` (services/management.cpp, runtime/vmOperations.cpp):
//!
//! ```text
//! "name" #80 daemon prio=5 os_prio=0 … tid=0x… nid=0x4b91 waiting for monitor entry  [0x…]
//!    java.lang.Thread.State: BLOCKED (on object monitor)
//!         at org.apache.kafka.storage.internals.log.UnifiedLog.append(UnifiedLog.java:1103)
//!         - waiting to lock <0x00000000fd694cd8> (a java.lang.Object)
//!         - locked <0x…> (a …)
//!
//!    Locked ownable synchronizers:
//!         - <0x…> (a java.util.concurrent.locks.ReentrantLock$NonfairSync)
//!
//! JNI global refs: 15, weak refs: 0
//! ```
//!
//! Lines of a log may stand between any two of these.

use model::{Lock, LockKind};

use super::error::DefectKind;
use super::header::ThreadHeader;
use super::kept::Kept;
use super::thread::{Thread, ThreadState, Wait, WaitKind};

/// How every dump begins.
pub(super) const START: &str = "Full thread dump ";

/// Where in the dump the next line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Outside,
    Stack,
    Synchronizers,
    /// Past the last thread, where deadlocks are told with their threads' stacks once more.
    Done,
}

/// A dump being read.
#[derive(Debug)]
pub(super) struct HotSpot {
    pub(super) threads: Vec<Thread>,
    pub(super) deadlocks: u32,
    place: Place,
    /// The current thread is in `Object.wait()` on an object that the JVM could not name.
    waits_unnamed: bool,
}

impl HotSpot {
    pub(super) fn new() -> Self {
        Self { threads: Vec::new(), deadlocks: 0, place: Place::Outside, waits_unnamed: false }
    }

    /// Whether the dump's end was seen.
    pub(super) fn is_done(&self) -> bool {
        self.place == Place::Done
    }

    /// Takes the next line.
    pub(super) fn line(&mut self, line: &str, kept: &mut Kept) -> Result<(), DefectKind> {
        match self.place {
            Place::Done => {
                self.deadlocks += u32::from(line.starts_with("Found one Java-level deadlock"));
                Ok(())
            }
            _ if line.starts_with('"') => self.thread(line, kept),
            _ if line.starts_with("JNI global ref") => {
                self.place = Place::Done;
                Ok(())
            }
            Place::Stack | Place::Synchronizers if line.trim_end().is_empty() => {
                self.place = Place::Outside;
                Ok(())
            }
            Place::Stack => self.stack_line(line, kept),
            Place::Synchronizers => self.synchronizer(line, kept),
            Place::Outside => {
                if line.trim() == "Locked ownable synchronizers:" && !self.threads.is_empty() {
                    self.place = Place::Synchronizers;
                }
                Ok(())
            }
        }
    }

    fn thread(&mut self, line: &str, kept: &mut Kept) -> Result<(), DefectKind> {
        let Some(header) = ThreadHeader::parse(line.as_bytes()) else {
            // What else begins with a quotation mark is another program's text.
            let is_one = line.contains("\" #") && line.contains(" prio=");
            self.place = if is_one { Place::Outside } else { self.place };
            return if is_one { Err(DefectKind::BrokenThread) } else { Ok(()) };
        };
        // Frames that follow must not be taken for the last thread's where there is no room for this one.
        self.place = Place::Outside;
        let mut thread = Thread::new(kept.text(&header.name).ok_or(DefectKind::TooLarge)?);
        thread.java_id = header.java_id;
        thread.native_id = header.native_id;
        self.threads.push(thread);
        self.place = Place::Stack;
        self.waits_unnamed = false;
        Ok(())
    }

    fn stack_line(&mut self, line: &str, kept: &mut Kept) -> Result<(), DefectKind> {
        let Some(thread) = self.threads.last_mut() else { return Ok(()) };
        let text = line.trim();
        if text.len() == line.trim_end().len() {
            // Every line of a thread is indented; this one is a log's.
            return Ok(());
        }
        if let Some(frame) = text.strip_prefix("at ") {
            let method = frame.split('(').next().unwrap_or(frame);
            thread.frames.push(kept.text(method).ok_or(DefectKind::TooLarge)?);
        } else if let Some(lock) = text.strip_prefix("- ") {
            self.lock(lock, kept)?;
        } else if let Some(state) = text.strip_prefix("java.lang.Thread.State: ") {
            thread.state = state_named(state);
        } else if let Some(number) = text.strip_prefix("Mounted virtual thread #") {
            self.virtual_thread(number, kept)?;
        }
        Ok(())
    }

    /// A virtual thread's stack follows its carrier's (JDK 21). It runs as the carrier's native thread.
    fn virtual_thread(&mut self, number: &str, kept: &mut Kept) -> Result<(), DefectKind> {
        let carrier = self.threads.last().and_then(|carrier| carrier.native_id);
        let name = format!("virtual thread #{number}");
        let mut thread = Thread::new(kept.text(&name).ok_or(DefectKind::TooLarge)?);
        thread.java_id = number.parse().ok();
        thread.native_id = carrier;
        self.threads.push(thread);
        self.waits_unnamed = false;
        Ok(())
    }

    fn lock(&mut self, text: &str, kept: &mut Kept) -> Result<(), DefectKind> {
        if text.starts_with("waiting on <no object reference available>") {
            self.waits_unnamed = true;
            return Ok(());
        }
        let Some(thread) = self.threads.last_mut() else { return Ok(()) };
        let Some((verb, class, address)) = lock_named(text) else { return Ok(()) };
        let class = kept.text(class).ok_or(DefectKind::TooLarge)?;
        let how = match verb {
            "locked" if self.waits_unnamed => Some(WaitKind::Notify),
            "locked" => {
                thread.holds.push(Lock { kind: LockKind::Monitor, class, address });
                return Ok(());
            }
            "waiting to lock" => Some(WaitKind::Enter),
            // Of a frame further out it says what follows from the wait.
            "waiting to re-lock in wait()" if thread.frames.len() == 1 => Some(WaitKind::Reenter),
            "waiting to re-lock in wait()" | "waiting on" => Some(WaitKind::Notify),
            "parking to wait for" => Some(WaitKind::Park),
            _ => None,
        };
        self.waits_unnamed = false;
        if let (Some(how), None) = (how, &thread.wait) {
            thread.wait = Some(Wait::new(how, class, address));
        }
        Ok(())
    }

    fn synchronizer(&mut self, line: &str, kept: &mut Kept) -> Result<(), DefectKind> {
        let (Some(thread), Some(text)) = (self.threads.last_mut(), line.trim().strip_prefix("- ")) else {
            return Ok(());
        };
        if let Some((_, class, address)) = lock_named(text) {
            let class = kept.text(class).ok_or(DefectKind::TooLarge)?;
            thread.holds.push(Lock { kind: LockKind::Park, class, address });
        }
        Ok(())
    }
}

/// `VERB <0x00000000fd694cd8> (a java.lang.Object)`: what is said of the lock, its class and its address.
fn lock_named(text: &str) -> Option<(&str, &str, u64)> {
    let (verb, rest) = text.split_once('<')?;
    let (address, class) = rest.split_once("> (a ")?;
    let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
    Some((verb.trim_end(), class.strip_suffix(')')?, address))
}

/// `WAITING (parking)`, as `java_lang_Thread::thread_status_name` has it (classfile/javaClasses.cpp).
fn state_named(text: &str) -> ThreadState {
    match text.split(' ').next() {
        Some("NEW") => ThreadState::New,
        Some("RUNNABLE") => ThreadState::Runnable,
        Some("BLOCKED") => ThreadState::Blocked,
        Some("WAITING") => ThreadState::Waiting,
        Some("TIMED_WAITING") => ThreadState::TimedWaiting,
        Some("TERMINATED") => ThreadState::Terminated,
        _ => ThreadState::Unknown,
    }
}
