//! Texts of the JVM: thread dumps of both formats, and the GC log.
//!
//! Input: a byte for the cuts; then the text, read as both.

use std::io::BufReader;

use jvm::dump::{Dump, Dumps, Zone, lock_contention, thread_headers};
use jvm::gc_log::GcLog;
use model::{JvmPause, Nanos};

use crate::Target;
use crate::chunks::{Cuts, Trickle};

/// The target.
pub const TARGET: Target = Target { name: "dump", check, spare_bytes: 2 << 20 };

fn check(data: &[u8]) {
    let Some((&cuts, text)) = data.split_first() else { return };
    dumps(text, cuts);
    pauses(text, cuts);
}

/// Checks that the result does not depend on the pieces; that every wait is of a thread in its dump, and is counted once.
fn dumps(text: &[u8], cuts: u8) {
    let whole = read(Trickle::new(text, Cuts::new(0)));
    assert_eq!(whole, read(Trickle::new(text, Cuts::new(cuts))));
    let Some(dumps) = whole else { return };
    let waits: usize = dumps.iter().map(|dump| dump.blocked().count()).sum();
    let rows = lock_contention(&dumps).locks();
    assert_eq!(rows.iter().map(|row| row.waits).sum::<u64>(), waits as u64);
    assert!(rows.iter().all(|row| row.dumps <= dumps.len() as u64 && row.dumps <= row.waits));
    for dump in &dumps {
        assert!(dump.line >= 1 && dump.defects.iter().all(|defect| defect.line >= dump.line));
        assert!(dump.taken.is_none() || dump.lock_waits().len() == dump.blocked().count());
    }
    let mut headers = 0;
    thread_headers(text, |_| headers += 1).ok();
    let lines = text.split(|&byte| byte == b'\n').count();
    assert!(headers <= lines);
}

fn read(text: Trickle) -> Option<Vec<Dump>> {
    Dumps::new(BufReader::new(text), Zone::utc()).collect::<Result<_, _>>().ok()
}

/// Checks that the pauses do not depend on the pieces; that none ends before it starts, and reaching the safepoint
/// takes no longer than the pause.
fn pauses(text: &[u8], cuts: u8) {
    let read = |cuts| {
        let log = BufReader::new(Trickle::new(text, Cuts::new(cuts)));
        GcLog::new(log, Some(Nanos::ZERO)).collect::<Result<Vec<JvmPause>, _>>().ok()
    };
    let whole = read(0);
    assert_eq!(whole, read(cuts));
    for pause in whole.into_iter().flatten() {
        assert!(pause.start <= pause.end);
        assert!(pause.time_to_safepoint.is_none_or(|reach| reach >= Nanos::ZERO && reach <= pause.length()));
    }
}
