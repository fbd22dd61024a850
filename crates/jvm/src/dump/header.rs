//! The line that begins a thread in a HotSpot thread dump: its name and ids. Does not read stacks.
//!
//! HotSpot's `JavaThread::print_on` and `Thread::print_on` (runtime/thread.cpp, javaThread.cpp):
//!
//! ```text
//! JDK 8     "name" #12 daemon prio=5 os_prio=0 tid=0x00007f… nid=0x1184 waiting for monitor entry [0x00007f…]
//! JDK 11    "name" #12 daemon prio=5 os_prio=0 cpu=1.2ms elapsed=3.4s tid=0x00007f… nid=0x1184 runnable [0x…]
//! JDK 19    "name" #12 [4484] daemon prio=5 os_prio=0 cpu=… elapsed=… tid=0x… nid=4484 runnable [0x…]
//! no Java   "VM Thread" os_prio=0 cpu=… elapsed=… tid=0x… nid=0x9 runnable
//! ```
//!
//! The native id is the thread's in the process's own pid namespace.

use std::borrow::Cow;
use std::io::{self, BufRead};

use model::Tid;

use crate::lines::Lines;

/// A thread's first line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadHeader<'a> {
    /// Its full name, as the program gave it; what is no UTF-8 is U+FFFD.
    pub name: Cow<'a, str>,
    /// `java.lang.Thread.getId`; `None` for the JVM's own threads, which are no Java threads.
    pub java_id: Option<u64>,
    /// The operating system's id of it, as the process sees it; `None` while it has none.
    pub native_id: Option<Tid>,
}

impl<'a> ThreadHeader<'a> {
    /// Reads the line; `None` for one that begins no thread.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let rest = line.strip_prefix(b"\"")?;
        // A name may have quotes in it, what follows it does not.
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

/// Hexadecimal up to JDK 18, decimal since (JDK-8281628).
fn native_id(text: &str) -> Option<Tid> {
    match text.strip_prefix("0x") {
        Some(digits) => Tid::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
    .filter(|&tid| tid != 0)
}

/// Hands over the thread headers of a dump, such as the answer to `Thread.print`, and reads nothing else of it: no
/// stack is kept, and memory does not grow with the dump. A line that is cut off at the end is left out.
///
/// # Errors
/// What the reader says.
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
mod tests {
    use super::{ThreadHeader, thread_headers};

    fn parsed(line: &str) -> Option<(String, Option<u64>, Option<u32>)> {
        let header = ThreadHeader::parse(line.as_bytes())?;
        Some((header.name.into_owned(), header.java_id, header.native_id))
    }

    #[test]
    fn every_jdk_says_name_and_ids_in_its_own_way() {
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
    fn other_lines_begin_no_thread() {
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
    fn headers_come_one_by_one_and_a_cut_one_not_at_all() {
        let dump = b"Full thread dump\n\n\"\xffa\" #1 tid=0x1 nid=0x12 runnable\r\n\tat x.y(Z.java)\n\"b\" #2 tid=0x1 nid=0x34";
        let mut seen = Vec::new();
        thread_headers(&dump[..], |header| seen.push((header.name.to_string(), header.native_id))).unwrap();
        assert_eq!(seen, [("\u{fffd}a".to_owned(), Some(0x12))]);
    }
}
