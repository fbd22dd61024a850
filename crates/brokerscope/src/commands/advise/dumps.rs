//! Thread dumps as rules want them: which locks keep whom waiting, and what the other threads do. Does not parse dumps.

use std::io::BufReader;
use std::path::PathBuf;

use advise::{ContendedLock, Dumps as Series, Profile};
use anyhow::Context as _;
use jvm::dump::{BlockedLock, Dump, Dumps, LockContention, ThreadState, Zone};
use report::blocked::BlockedRow;

use crate::commands::locks;
use crate::failure;

/// Why there are none where the user gave none.
pub(super) const NONE: &str =
    "none were given: --dump takes files that jstack, jcmd PID Thread.print or OpenJ9 wrote";
/// Locks that rules may look at: those in the most dumps.
const MOST_LOCKS: usize = 100;

/// What these files hold: for rules, and the same locks for people.
pub(super) fn read(files: &[PathBuf], notes: &mut Vec<String>) -> anyhow::Result<(Series, Vec<BlockedRow>)> {
    let (mut blocked, mut running, mut damaged) = (LockContention::default(), Profile::default(), 0);
    for path in files {
        for dump in Dumps::new(BufReader::new(failure::open(path)?), Zone::system()) {
            let dump = dump.with_context(|| path.display().to_string())?;
            damaged += u64::from(!dump.defects.is_empty());
            blocked.add(&dump);
            run(&dump, &mut running);
        }
    }
    if damaged > 0 {
        notes.push(format!(
            "{damaged} of {} thread dumps are damaged: `locks --dump` says where",
            blocked.dumps
        ));
    }
    let locks = blocked.locks();
    let locks = locks.get(..locks.len().min(MOST_LOCKS)).unwrap_or_default();
    let rows = locks.iter().map(|lock| locks::dump::row(lock, blocked.dumps)).collect();
    let series = Series { dumps: blocked.dumps, blocked: locks.iter().map(lock).collect(), running };
    Ok((series, rows))
}

/// Threads that run, or may: one without a stack is the JVM's own, of which a dump does not say what it does.
fn run(dump: &Dump, running: &mut Profile) {
    let runs = dump.threads.iter().filter(|thread| thread.state == ThreadState::Runnable);
    for thread in runs {
        running.thread(&thread.name, thread.frames.iter().map(|frame| &**frame));
    }
}

fn lock(lock: &BlockedLock) -> ContendedLock {
    ContendedLock {
        class: lock.lock.class.clone(),
        method: lock.method.clone(),
        dumps: lock.dumps,
        waits: lock.waits,
        owners: lock.owners.iter().map(|owner| owner.thread.thread.clone()).collect(),
    }
}
