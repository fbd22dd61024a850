//! Reads the full names of a JVM's threads from one thread dump of the JVM. The kernel keeps only 15 characters of a
//! name. Does not keep the stacks.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use model::Tid;

use crate::attach::{Bounds, Client};
use crate::dump::thread_headers;
use crate::machine::own_tids;
use crate::{Error, Machine};

/// Limit of threads with names: a broker has one or two hundred.
const MAX_THREADS: usize = 8_192;
/// Longer names are cut.
const MAX_NAME_CHARS: usize = 200;
/// A dump of that many threads, with the stacks of a broker.
const BOUNDS: Bounds = Bounds { bytes: 32 << 20, time: Duration::from_secs(10) };

/// Names by the thread id that this process sees.
pub type Names = HashMap<Tid, Arc<str>>;

/// Asks the JVM for the names of its threads.
/// It stops all threads meanwhile: for 1.4 ms in a broker with a hundred threads.
///
/// # Errors
/// The JVM could not be queried.
pub fn read_names(client: &Client) -> Result<Names, Error> {
    let dump = client.jcmd("Thread.print", BOUNDS)?;
    let machine = client.machine();
    let visible_tids = (machine.own_pid != machine.pid).then(|| tids_by_own_tid(machine));
    let visible_tid = |own: Tid| match &visible_tids {
        Some(tids) => tids.get(&own).copied(),
        None => Some(own),
    };
    Ok(read(&dump, visible_tid))
}

/// Thread ids as this process sees them, by the ids in the JVM's pid namespace.
pub fn tids_by_own_tid(machine: &Machine) -> HashMap<Tid, Tid> {
    own_tids(&machine.path("")).into_iter().take(MAX_THREADS).map(|(tid, own)| (own, tid)).collect()
}

fn read(dump: &str, visible_tid: impl Fn(Tid) -> Option<Tid>) -> Names {
    let mut names = Names::new();
    // Reading from memory cannot fail.
    let _ = thread_headers(dump.as_bytes(), |header| {
        if let Some(tid) = header.native_id.and_then(&visible_tid).filter(|_| names.len() < MAX_THREADS) {
            names.insert(tid, header.name.chars().take(MAX_NAME_CHARS).collect::<String>().into());
        }
    });
    names
}

#[cfg(test)]
mod tests {
    use super::{MAX_NAME_CHARS, MAX_THREADS, read};

    #[test]
    fn read_returns_names_by_visible_tid() {
        let dump = "Full thread dump:\n\n\"first\" #1 prio=5 tid=0x1 nid=0x10 runnable\n\"second\" #2 tid=0x2 nid=17 \
            runnable\n\"gone\" #3 tid=0x3 nid=18 runnable\n";
        let names = read(dump, |own| (own < 18).then_some(own + 1_000));
        assert_eq!((names.len(), &*names[&1_016], &*names[&1_017]), (2, "first", "second"));
    }

    #[test]
    fn number_and_length_of_names_are_bounded() {
        let line = |tid: usize| format!("\"{}\" #1 tid=0x1 nid={tid} runnable\n", "é".repeat(10_000));
        let dump: String = (1..MAX_THREADS + 10)
            .map(|tid| if tid < 10 { line(tid) } else { format!("\"n\" #1 tid=0x1 nid={tid} x\n") })
            .collect();
        let names = read(&dump, Some);
        assert_eq!(names.len(), MAX_THREADS);
        assert!(names.values().all(|name| name.chars().count() <= MAX_NAME_CHARS));
    }
}
