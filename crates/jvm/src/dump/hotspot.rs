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

use std::borrow::Cow;
use std::io::{self, BufRead};

use model::{Lock, LockKind, Tid};

use super::thread::{DefectKind, TextPool, Thread, ThreadState, Wait, WaitKind};
use crate::lines::Lines;

/// The beginning of every dump.
pub(super) const START: &str = "Full thread dump ";

/// The part of the dump that the next line is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Place {
    #[default]
    Outside,
    Stack,
    Synchronizers,
    /// After the last thread: lists deadlocks, with their threads' stacks again.
    Done,
}

/// A dump being read.
#[derive(Debug, Default)]
pub(super) struct HotSpot {
    pub(super) threads: Vec<Thread>,
    pub(super) deadlocks: u32,
    place: Place,
    /// The current thread is in `Object.wait()` on an object the JVM could not name.
    waits_unnamed: bool,
}

impl HotSpot {
    /// Whether the dump's end was seen.
    pub(super) fn is_done(&self) -> bool {
        self.place == Place::Done
    }

    /// Takes the next line.
    pub(super) fn line(&mut self, line: &str, texts: &mut TextPool) -> Result<(), DefectKind> {
        match self.place {
            Place::Done => {
                self.deadlocks += u32::from(line.starts_with("Found one Java-level deadlock"));
                Ok(())
            }
            _ if line.starts_with('"') => self.thread(line, texts),
            _ if line.starts_with("JNI global ref") => {
                self.place = Place::Done;
                Ok(())
            }
            Place::Stack | Place::Synchronizers if line.trim_end().is_empty() => {
                self.place = Place::Outside;
                Ok(())
            }
            Place::Stack => self.stack_line(line, texts),
            Place::Synchronizers => self.synchronizer(line, texts),
            Place::Outside => {
                if line.trim() == "Locked ownable synchronizers:" && !self.threads.is_empty() {
                    self.place = Place::Synchronizers;
                }
                Ok(())
            }
        }
    }

    fn thread(&mut self, line: &str, texts: &mut TextPool) -> Result<(), DefectKind> {
        let Some(header) = ThreadHeader::parse(line.as_bytes()) else {
            // Any other line that begins with a quotation mark is another program's text.
            let is_one = line.contains("\" #") && line.contains(" prio=");
            self.place = if is_one { Place::Outside } else { self.place };
            return if is_one { Err(DefectKind::BrokenThread) } else { Ok(()) };
        };
        // If there is no room for this thread, its frames must not be added to the last one.
        self.place = Place::Outside;
        let mut thread = Thread::new(texts.text(&header.name).ok_or(DefectKind::TooLarge)?);
        thread.java_id = header.java_id;
        thread.native_id = header.native_id;
        self.threads.push(thread);
        self.place = Place::Stack;
        self.waits_unnamed = false;
        Ok(())
    }

    fn stack_line(&mut self, line: &str, texts: &mut TextPool) -> Result<(), DefectKind> {
        let Some(thread) = self.threads.last_mut() else { return Ok(()) };
        let text = line.trim();
        if text.len() == line.trim_end().len() {
            // Every line of a thread is indented; this one is a log's.
            return Ok(());
        }
        if let Some(frame) = text.strip_prefix("at ") {
            let method = frame.split('(').next().unwrap_or(frame);
            thread.frames.push(texts.text(method).ok_or(DefectKind::TooLarge)?);
        } else if let Some(lock) = text.strip_prefix("- ") {
            self.lock(lock, texts)?;
        } else if let Some(state) = text.strip_prefix("java.lang.Thread.State: ") {
            thread.state = state_named(state);
        } else if let Some(number) = text.strip_prefix("Mounted virtual thread #") {
            self.virtual_thread(number, texts)?;
        }
        Ok(())
    }

    /// A virtual thread's stack follows its carrier's (JDK 21).
    /// It runs as the carrier's native thread.
    fn virtual_thread(&mut self, number: &str, texts: &mut TextPool) -> Result<(), DefectKind> {
        let carrier = self.threads.last().and_then(|carrier| carrier.native_id);
        let name = format!("virtual thread #{number}");
        let mut thread = Thread::new(texts.text(&name).ok_or(DefectKind::TooLarge)?);
        thread.java_id = number.parse().ok();
        thread.native_id = carrier;
        self.threads.push(thread);
        self.waits_unnamed = false;
        Ok(())
    }

    fn lock(&mut self, text: &str, texts: &mut TextPool) -> Result<(), DefectKind> {
        if text.starts_with("waiting on <no object reference available>") {
            self.waits_unnamed = true;
            return Ok(());
        }
        let Some(thread) = self.threads.last_mut() else { return Ok(()) };
        let Some((verb, class, address)) = lock_named(text) else { return Ok(()) };
        let class = texts.text(class).ok_or(DefectKind::TooLarge)?;
        let how = match verb {
            "locked" if self.waits_unnamed => Some(WaitKind::Notify),
            "locked" => {
                thread.holds.push(Lock { kind: LockKind::Monitor, class, address });
                return Ok(());
            }
            "waiting to lock" => Some(WaitKind::Enter),
            // In an outer frame, this only repeats the wait.
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

    fn synchronizer(&mut self, line: &str, texts: &mut TextPool) -> Result<(), DefectKind> {
        let (Some(thread), Some(text)) = (self.threads.last_mut(), line.trim().strip_prefix("- ")) else {
            return Ok(());
        };
        if let Some((_, class, address)) = lock_named(text) {
            let class = texts.text(class).ok_or(DefectKind::TooLarge)?;
            thread.holds.push(Lock { kind: LockKind::Park, class, address });
        }
        Ok(())
    }
}

/// Parses `VERB <0x00000000fd694cd8> (a java.lang.Object)`: the verb, the lock's class and its address.
fn lock_named(text: &str) -> Option<(&str, &str, u64)> {
    let (verb, rest) = text.split_once('<')?;
    let (address, class) = rest.split_once("> (a ")?;
    let address = u64::from_str_radix(address.strip_prefix("0x")?, 16).ok()?;
    Some((verb.trim_end(), class.strip_suffix(')')?, address))
}

/// Parses a thread state such as `WAITING (parking)`. `java_lang_Thread::thread_status_name` prints it
/// (classfile/javaClasses.cpp).
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

// The line that begins a thread in a HotSpot thread dump: its name and ids. Does not read stacks.
//
// HotSpot's `JavaThread::print_on` and `Thread::print_on` (runtime/thread.cpp, javaThread.cpp):
//
// ```text
// JDK 8     "name" #12 daemon prio=5 os_prio=0 tid=0x00007f… nid=0x1184 waiting for monitor entry [0x00007f…]
// JDK 11    "name" #12 daemon prio=5 os_prio=0 cpu=1.2ms elapsed=3.4s tid=0x00007f… nid=0x1184 runnable [0x…]
// JDK 19    "name" #12 [4484] daemon prio=5 os_prio=0 cpu=… elapsed=… tid=0x… nid=4484 runnable [0x…]
// no Java   "VM Thread" os_prio=0 cpu=… elapsed=… tid=0x… nid=0x9 runnable
// ```
//
// The native id is the thread's in the process's own pid namespace.

/// A thread's first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadHeader<'a> {
    /// Its full name, as the program set it; invalid UTF-8 becomes U+FFFD.
    pub name: Cow<'a, str>,
    /// `java.lang.Thread.getId`; `None` for the JVM's own threads, which are not Java threads.
    pub java_id: Option<u64>,
    /// The operating system's id, as the process sees it; `None` while it has none.
    pub native_id: Option<Tid>,
}

impl<'a> ThreadHeader<'a> {
    /// Parses the line; `None` if it does not begin a thread.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_prefix(b"\"")?;
        // A name may contain quotes, but the rest of the line does not.
        let close = rest.iter().rposition(|&byte| byte == b'"')?;
        let (name, attributes) = rest.split_at_checked(close)?;
        let attributes = std::str::from_utf8(attributes.strip_prefix(b"\" ")?).ok()?;
        let words = || attributes.split_ascii_whitespace();
        words().find(|word| word.starts_with("tid=0x"))?;
        let native = words().find_map(|word| word.strip_prefix("nid="))?;
        let java_id = words().next().and_then(|word| word.strip_prefix('#')?.parse().ok());
        Some(Self { name: String::from_utf8_lossy(name), java_id, native_id: native_id(native) })
    }
}

/// Parses a native id: hexadecimal up to JDK 18, decimal since (JDK-8281628).
fn native_id(text: &str) -> Option<Tid> {
    match text.strip_prefix("0x") {
        Some(digits) => Tid::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
    .filter(|&tid| tid != 0)
}

/// Passes the thread headers of a dump to `each`. The dump may be the answer to `Thread.print`. Does not decode or keep
/// stacks, so memory does not grow with the dump. A line that is cut off at the end is left out.
///
/// # Errors
/// The reader's error.
pub fn thread_headers(reader: impl BufRead, mut each: impl FnMut(&ThreadHeader<'_>)) -> io::Result<()> {
    let mut lines = Lines::new(reader);
    while let Some(line) = lines.next()? {
        if let Some(header) = ThreadHeader::parse(line.bytes).filter(|_| line.is_whole) {
            each(&header);
        }
    }
    Ok(())
}

#[cfg(test)]
mod header_tests {
    use super::{ThreadHeader, thread_headers};

    fn parsed(line: &str) -> Option<(String, Option<u64>, Option<u32>)> {
        let header = ThreadHeader::parse(line.as_bytes())?;
        Some((header.name.into_owned(), header.java_id, header.native_id))
    }

    #[test]
    fn parses_the_thread_header_of_every_jdk() {
        for (line, name, java_id, native_id) in [
            (
                r#""data-plane-kafka-request-handler-24" #73 daemon prio=5 os_prio=0 tid=0x00007f6c2c5d1800 nid=0x1184 waiting for monitor entry [0x00007f6b0f3f2000]"#,
                "data-plane-kafka-request-handler-24",
                Some(73),
                Some(4484),
            ),
            (
                r#""main" #1 [4484] prio=5 os_prio=0 cpu=1.0ms elapsed=2.0s tid=0x00007f6c nid=4484 runnable  [0x0]"#,
                "main",
                Some(1),
                Some(4484),
            ),
            (
                r#""G1 Conc#0" os_prio=0 cpu=0.1ms elapsed=2s tid=0x0000 nid=0x9 runnable  "#,
                "G1 Conc#0",
                None,
                Some(9),
            ),
            (
                r#""a "quoted" #3 name" #12 prio=5 os_prio=0 tid=0x1 nid=0xa runnable"#,
                r#"a "quoted" #3 name"#,
                Some(12),
                Some(10),
            ),
            (r#""new" #12 prio=5 os_prio=0 tid=0x1 nid=NA new"#, "new", Some(12), None),
            (r#""new" #12 prio=5 os_prio=0 tid=0x1 nid=0x0 new"#, "new", Some(12), None),
        ] {
            assert_eq!(parsed(line), Some((name.to_owned(), java_id, native_id)), "{line}");
        }
    }

    #[test]
    fn other_lines_are_not_thread_headers() {
        for line in [
            "",
            "\"",
            "\"Thread-1\":",
            r#""name" #1 prio=5 os_prio=0 tid=0x1"#,
            r#""name" #1 prio=5 nid=0x1"#,
            "   java.lang.Thread.State: RUNNABLE",
            "\tat kafka.log.Log.append(Log.scala:1)",
        ] {
            assert_eq!(parsed(line), None, "{line}");
        }
    }

    #[test]
    fn thread_headers_omits_a_truncated_header() {
        let dump = b"Full thread dump\n\n\"\xffa\" #1 tid=0x1 nid=0x12 runnable\r\n\tat x.y(Z.java)\n\"b\" #2 tid=0x1 nid=0x34";
        let mut headers = Vec::new();
        thread_headers(&dump[..], |header| headers.push((header.name.to_string(), header.native_id)))
            .unwrap();
        assert_eq!(headers, [("\u{fffd}a".to_owned(), Some(0x12))]);
    }
}
