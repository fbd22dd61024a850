//! The full names of a JVM's threads, from one thread dump of the JVM. The kernel keeps only 15 characters of a name.
//! Does not keep the stacks.
//! Fuzzed by: dump.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::Tid;

use crate::attach::{Bounds, Client};
use crate::dump::thread_headers;
use crate::machine::own_tids;
use crate::{Error, Machine};

/// Limit of threads with names: a broker has one or two hundred.
pub const MAX_THREADS: usize = 8_192;
/// Longer names are cut.
const MAX_NAME_CHARS: usize = 200;
/// Limit of a thread dump: that many threads, with the stacks of a broker.
pub const MAX_DUMP_BYTES: usize = 32 << 20;
const BOUNDS: Bounds = Bounds { bytes: MAX_DUMP_BYTES, time: Duration::from_secs(10) };

/// Names by thread id.
pub type Names = HashMap<Tid, Arc<str>>;

/// Asks the JVM for a thread dump.
/// It stops all threads meanwhile: for 1.4 ms in a broker with a hundred threads.
///
/// # Errors
/// The JVM could not be queried.
pub fn request_dump(client: &Client) -> Result<String, Error> {
    client.jcmd("Thread.print", BOUNDS)
}

/// Reads the names in a thread dump, by the ids in the JVM's pid namespace.
pub fn parse_names(dump: &[u8]) -> Names {
    let mut names = Names::new();
    // Reading from memory cannot fail.
    let _ = thread_headers(dump, |header| {
        if let Some(tid) = header.native_id.filter(|_| names.len() < MAX_THREADS) {
            names.insert(tid, header.name.chars().take(MAX_NAME_CHARS).collect::<String>().into());
        }
    });
    names
}

/// Replaces the ids in the JVM's pid namespace by those that this process sees.
pub fn by_visible_tid(machine: &Machine, names: Names) -> Names {
    if machine.own_pid == machine.pid {
        return names;
    }
    let tids = tids_by_own_tid(machine);
    names.into_iter().filter_map(|(own, name)| Some((*tids.get(&own)?, name))).collect()
}

/// Thread ids as this process sees them, by the ids in the JVM's pid namespace.
pub fn tids_by_own_tid(machine: &Machine) -> HashMap<Tid, Tid> {
    own_tids(&machine.path("")).into_iter().take(MAX_THREADS).map(|(tid, own)| (own, tid)).collect()
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAME_CHARS, MAX_THREADS, parse_names};

    #[test]
    fn parse_names_returns_names_by_native_id() {
        let dump = "Full thread dump:\n\n\"first\" #1 prio=5 tid=0x1 nid=0x10 runnable\n\"second\" #2 tid=0x2 nid=17 \
            runnable\n\"none\" #3 tid=0x3 runnable\n";
        let names = parse_names(dump.as_bytes());
        assert_eq!((names.len(), &*names[&16], &*names[&17]), (2, "first", "second"));
    }

    #[test]
    fn number_and_length_of_names_are_bounded() {
        let line = |tid: usize| format!("\"{}\" #1 tid=0x1 nid={tid} runnable\n", "é".repeat(10_000));
        let dump: String = (1..MAX_THREADS + 10)
            .map(|tid| if tid < 10 { line(tid) } else { format!("\"n\" #1 tid=0x1 nid={tid} x\n") })
            .collect();
        let names = parse_names(dump.as_bytes());
        assert_eq!(names.len(), MAX_THREADS);
        assert!(names.values().all(|name| name.chars().count() <= MAX_NAME_CHARS));
    }
}
