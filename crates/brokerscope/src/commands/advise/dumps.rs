//! Thread dumps as rules want them: which locks keep whom waiting. Does not parse dumps.

use std::io::BufReader;
use std::path::PathBuf;

use advise::{BlockedOn, Dumps as Series};
use anyhow::Context as _;
use jvm::dump::{Blocked, BlockedLock, Dumps, Zone};

use crate::failure;

/// Why there are none where the user gave none.
pub(super) const NONE: &str =
    "none were given: --dump takes files that jstack, jcmd PID Thread.print or OpenJ9 wrote";
/// Locks that rules may look at: those in the most dumps.
const MOST_LOCKS: usize = 100;

/// What these files hold.
pub(super) fn read(files: &[PathBuf], notes: &mut Vec<String>) -> anyhow::Result<Series> {
    let (mut blocked, mut damaged) = (Blocked::default(), 0);
    for path in files {
        for dump in Dumps::new(BufReader::new(failure::open(path)?), Zone::system()) {
            let dump = dump.with_context(|| path.display().to_string())?;
            damaged += u64::from(!dump.defects.is_empty());
            blocked.add(&dump);
        }
    }
    if damaged > 0 {
        notes.push(format!(
            "{damaged} of {} thread dumps are damaged: `locks --dump` says where",
            blocked.dumps
        ));
    }
    Ok(Series { dumps: blocked.dumps, blocked: blocked.locks().iter().take(MOST_LOCKS).map(lock).collect() })
}

fn lock(lock: &BlockedLock) -> BlockedOn {
    BlockedOn {
        class: lock.lock.class.clone(),
        method: lock.method.clone(),
        dumps: lock.dumps,
        waits: lock.waits,
        owners: lock.owners.iter().map(|owner| owner.thread.thread.clone()).collect(),
    }
}
