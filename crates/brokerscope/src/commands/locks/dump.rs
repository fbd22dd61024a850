//! Who is blocked on which lock in thread dumps, held by whom. Does not parse dumps.

use std::io::BufReader;
use std::path::Path;

use anyhow::Context as _;
use jvm::dump::{BlockedLock, Dump, Dumps, LockContention, ThreadCount, Zone};
use model::{LockKind, Nanos};
use report::blocked::{self, BlockedRow, ThreadDumpCount};
use report::quantity::{format_count, format_count_of};

use crate::cli::Locks as Args;
use crate::failure::{self, Usage};
use crate::options::Format;
use crate::output::{self, Pace};

/// Sentences about damaged dumps at most.
const MOST_NOTES: usize = 20;

/// Shows what is in the dumps that the user named.
pub(super) fn read(args: &Args) -> anyhow::Result<()> {
    if args.source.duration.is_some() {
        return Err(Usage("--for is for live input; a file is read to its end".to_owned()).into());
    }
    let unused = [
        ("--slower-than", args.slower_than > Nanos::ZERO),
        ("--topic", !args.filter.topics.is_empty()),
        ("--pid", args.target.pid.is_some()),
    ];
    args.presentation.say_unused("locks --dump", &unused);
    let mut blocked = LockContention::default();
    let mut notes = Notes::default();
    for path in &args.dump {
        let file = failure::open(path)?;
        for dump in Dumps::new(BufReader::new(file), Zone::system()) {
            let dump = dump.with_context(|| path.display().to_string())?;
            notes.of(path, &dump);
            blocked.add(&dump);
        }
    }
    let locks = blocked.locks();
    let rows: Vec<_> = locks.iter().map(|lock| row(lock, blocked.dumps)).collect();
    write(args, &rows).context(output::CANNOT_WRITE)?;
    args.presentation.say(&summary(&blocked, &rows));
    args.presentation.say_each(&notes.sentences);
    if notes.more > 0 {
        args.presentation.say(&format!("and {} more like these", format_count(notes.more)));
    }
    let about: Vec<_> = about_owners(&rows).into_iter().chain(about_processes(&blocked)).collect();
    args.presentation.say_each(&about);
    Ok(())
}

fn write(args: &Args, rows: &[BlockedRow]) -> std::io::Result<()> {
    let out = output::stdout(Pace::AllThere);
    match args.presentation.format {
        Format::Table => blocked::write_table(out, &args.presentation.look(Pace::AllThere), rows),
        Format::Json => blocked::write_json(out, rows),
        Format::Csv => blocked::write_csv(out, rows),
    }
}

/// A lock for people to read.
pub(crate) fn row(lock: &BlockedLock, of_dumps: u64) -> BlockedRow {
    let threads = |seen: &[ThreadCount]| -> Vec<ThreadDumpCount> {
        seen.iter().map(|seen| ThreadDumpCount { thread: seen.thread.clone(), dumps: seen.dumps }).collect()
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

/// What is to be said of damaged dumps, bounded: a file may hold thousands.
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
        if self.sentences.len() < MOST_NOTES {
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

/// What to do where a dump does not say who has a lock.
fn about_owners(rows: &[BlockedRow]) -> Option<String> {
    let unknown = rows.iter().any(|row| row.lock.kind == LockKind::Park && row.owners.is_empty());
    let advice =
        "who has a lock of java.util.concurrent is told by jstack -l and jcmd PID Thread.print -l only";
    unknown.then(|| advice.to_owned())
}

/// What to know where dumps are of several JVMs.
fn about_processes(blocked: &LockContention) -> Option<String> {
    let pids: Vec<_> = blocked.pids.iter().map(ToString::to_string).collect();
    (pids.len() > 1).then(|| {
        format!(
            "the dumps are of processes {}: a lock is told apart by its class and address",
            pids.join(", ")
        )
    })
}
