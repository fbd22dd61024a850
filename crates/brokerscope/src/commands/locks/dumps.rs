//! Lists blocked threads in thread dumps, with their locks and the holders. Does not parse dumps.

use std::io::BufReader;
use std::path::{Path, PathBuf};

use advise::{ContendedLock, Dumps as Series, Profile};
use analysis::open_file;
use anyhow::Context as _;
use jvm::dump::{BlockedLock, Dump, Dumps, LockContention, ThreadCount, ThreadState, Zone};
use model::{LockKind, Nanos};
use report::Writer;
use report::blocked::{BlockedRow, BlockedThreads, ThreadDumpCount};
use report::quantity::{format_count, format_count_of};

use super::Locks;
use crate::file_access::FileAccess;
use crate::output::{self, Pace};

/// Maximum number of notes about damaged dumps.
const MAX_NOTES: usize = 20;
/// Maximum number of locks passed to rules: those in the most dumps.
const MAX_LOCKS: usize = 100;

/// Shows the locks in the dumps that the user named.
pub(super) fn show(args: &Locks) -> anyhow::Result<()> {
    args.refuse_duration()?;
    FileAccess::of(&args.dump.dump)?.enter()?;
    let ignored_flags = [
        ("--slower-than", args.scope.slow.slower_than > Nanos::ZERO),
        ("--topic", !args.scope.filter.topics.is_empty()),
        ("--pid", args.scope.target.pid.is_some()),
    ];
    for (flag, _) in ignored_flags.iter().filter(|(_, is_given)| *is_given) {
        tracing::info!("{flag} has no effect on locks --dump");
    }
    let mut blocked = LockContention::default();
    let mut notes = Notes::default();
    for_each_dump(&args.dump.dump, &mut |path, dump| {
        notes.of(path, dump);
        blocked.add(dump);
    })?;
    let locks = blocked.locks();
    let rows: Vec<_> = locks.iter().map(|lock| row(lock, blocked.dumps)).collect();
    write(args, &rows).context(output::CANNOT_WRITE)?;
    tracing::info!("{}", summary(&blocked, &rows));
    output::log_notes(&notes.sentences);
    if notes.more > 0 {
        tracing::info!("and {} more like these", format_count(notes.more));
    }
    let about: Vec<_> = about_owners(&rows).into_iter().chain(about_processes(&blocked)).collect();
    output::log_notes(&about);
    Ok(())
}

fn for_each_dump(files: &[PathBuf], take: &mut dyn FnMut(&Path, &Dump)) -> anyhow::Result<()> {
    for path in files {
        for dump in Dumps::new(BufReader::new(open_file(path)?), Zone::system()) {
            take(path, &dump.with_context(|| path.display().to_string())?);
        }
    }
    Ok(())
}

/// Reads dumps for advice rules, and the same locks for people.
pub(crate) fn read(files: &[PathBuf], notes: &mut Vec<String>) -> anyhow::Result<(Series, Vec<BlockedRow>)> {
    let (mut blocked, mut running, mut damaged) = (LockContention::default(), Profile::default(), 0);
    for_each_dump(files, &mut |_, dump| {
        damaged += u64::from(!dump.defects.is_empty());
        blocked.add(dump);
        // A thread without a stack is one of the JVM's; a dump does not show what it does.
        for thread in dump.threads.iter().filter(|thread| thread.state == ThreadState::Runnable) {
            running.thread(&thread.name, thread.frames.iter().map(|frame| &**frame));
        }
    })?;
    if damaged > 0 {
        let dumps = blocked.dumps;
        notes.push(format!("{damaged} of {dumps} thread dumps are damaged: `locks --dump` says where"));
    }
    let locks = blocked.locks();
    let locks = locks.get(..locks.len().min(MAX_LOCKS)).unwrap_or(&locks);
    let rows = locks.iter().map(|lock| row(lock, blocked.dumps)).collect();
    let contended = |lock: &BlockedLock| ContendedLock {
        class: lock.lock.class.clone(),
        method: lock.method.clone(),
        dumps: lock.dumps,
        waits: lock.waits,
        owners: lock.owners.iter().map(|owner| owner.thread.thread.clone()).collect(),
    };
    let series = Series { dumps: blocked.dumps, blocked: locks.iter().map(contended).collect(), running };
    Ok((series, rows))
}

fn write(args: &Locks, rows: &[BlockedRow]) -> std::io::Result<()> {
    let form = args.scope.presentation.form(Pace::Buffered);
    Writer::new(output::stdout(Pace::Buffered), &BlockedThreads, &form).write_all(rows)
}

/// The row of a lock.
fn row(lock: &BlockedLock, of_dumps: u64) -> BlockedRow {
    let threads = |counts: &[ThreadCount]| -> Vec<ThreadDumpCount> {
        counts.iter().map(|one| ThreadDumpCount { thread: one.thread.clone(), dumps: one.dumps }).collect()
    };
    BlockedRow {
        lock: lock.lock.clone(),
        method: lock.method.clone(),
        owners: threads(&lock.owners),
        threads: threads(&lock.threads),
        dumps: lock.dumps,
        of_dumps,
        waits: lock.waits,
    }
}

/// Notes about damaged dumps, bounded because a file may hold thousands.
#[derive(Default)]
struct Notes {
    sentences: Vec<String>,
    more: u64,
}

impl Notes {
    fn of(&mut self, path: &Path, dump: &Dump) {
        for defect in &dump.defects {
            self.note(path, &defect.to_string());
        }
        if dump.deadlocks > 0 {
            let found = format_count_of(u64::from(dump.deadlocks), "deadlock");
            self.note(path, &format!("line {}: the JVM found {found}", dump.line));
        }
    }

    fn note(&mut self, path: &Path, text: &str) {
        if self.sentences.len() < MAX_NOTES {
            self.sentences.push(format!("{}: {text}", path.display()));
        } else {
            self.more += 1;
        }
    }
}

fn summary(blocked: &LockContention, rows: &[BlockedRow]) -> String {
    let dumps = format_count_of(blocked.dumps, "thread dump");
    match rows.iter().map(|row| row.waits).sum() {
        0 => format!("in {dumps} no thread waits for another's lock"),
        waits => format!("{} for locks in {dumps}", format_count_of(waits, "wait")),
    }
}

/// Advice if a dump does not show who holds a lock.
fn about_owners(rows: &[BlockedRow]) -> Option<String> {
    let unknown = rows.iter().any(|row| row.lock.kind == LockKind::Park && row.owners.is_empty());
    let advice = "only jstack -l and jcmd PID Thread.print -l show who has a lock of java.util.concurrent";
    unknown.then(|| advice.to_owned())
}

/// Note if the dumps are from several JVMs.
fn about_processes(blocked: &LockContention) -> Option<String> {
    let pids: Vec<_> = blocked.pids.iter().map(ToString::to_string).collect();
    (pids.len() > 1).then(|| {
        format!(
            "the dumps are of processes {}: locks with the same class and address are taken as one",
            pids.join(", ")
        )
    })
}
