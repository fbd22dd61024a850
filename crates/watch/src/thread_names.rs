//! Full names of the broker's threads, for all sources: one thread publishes them, and readers look them up without waiting
//! for each other. Does not query the JVM.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jvm::threads::Names;
use model::{Pid, Tid};

use crate::queue::lock;

/// Full names by thread, each with the kernel's name of the thread at that time.
/// Ids are reused and threads renamed, so the kernel's name must still match.
pub(crate) type Table = HashMap<Tid, ThreadName>;

/// A thread's names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadName {
    /// The kernel's name, at most 15 characters.
    pub(crate) comm: Box<str>,
    /// The JVM's name.
    pub(crate) full: Arc<str>,
}

/// The current table.
#[derive(Clone, Default)]
pub(crate) struct ThreadNames(Arc<NameStore>);

#[derive(Default)]
struct NameStore {
    edition: AtomicU64,
    table: Mutex<Arc<Table>>,
}

/// A reader's copy of the table, renewed when there is a new one.
pub(crate) struct NameReader {
    names: ThreadNames,
    edition: u64,
    table: Arc<Table>,
    /// Cache of recently looked-up threads, by the last digits of their ids: lookups repeat.
    recent: Vec<Option<Recent>>,
}

/// A thread's full name, valid while its kernel name is this one.
struct Recent {
    tid: Tid,
    comm: Arc<str>,
    full: Arc<str>,
}

/// Slots of the cache: a power of two, more than the threads that take turns. Hundreds of request handlers do.
const SLOTS: usize = 1_024;

impl ThreadNames {
    pub(crate) fn publish(&self, table: Table) {
        *lock(&self.0.table) = Arc::new(table);
        self.0.edition.fetch_add(1, Ordering::Release);
    }

    pub(crate) fn reader(&self) -> NameReader {
        let recent = (0..SLOTS).map(|_| None).collect();
        NameReader { names: self.clone(), edition: 0, table: Arc::default(), recent }
    }
}

impl NameReader {
    /// Returns the thread's full name if it is known, else the kernel's.
    pub(crate) fn full(&mut self, tid: Tid, mut comm: Arc<str>) -> Arc<str> {
        self.complete(tid, &mut comm);
        comm
    }

    /// Replaces the kernel's name by the thread's full name, if it is known.
    pub(crate) fn complete(&mut self, tid: Tid, name: &mut Arc<str>) {
        self.renew();
        let Some(slot) = self.recent.get_mut(tid as usize % SLOTS) else { return };
        if let Some(recent) = slot.as_ref().filter(|it| it.tid == tid && Arc::ptr_eq(&it.comm, name)) {
            *name = Arc::clone(&recent.full);
            return;
        }
        let known = self.table.get(&tid).filter(|named| *named.comm == **name);
        let full = Arc::clone(known.map_or(&*name, |named| &named.full));
        let comm = std::mem::replace(name, Arc::clone(&full));
        *slot = Some(Recent { tid, comm, full });
    }

    /// Returns the full name of the thread with this id, if it is known.
    pub(crate) fn of(&mut self, tid: Tid) -> Option<&str> {
        self.renew();
        self.table.get(&tid).map(|named| &*named.full)
    }

    /// The number of the current table: as long as it is the same, so are all names.
    pub(crate) fn edition(&mut self) -> u64 {
        self.renew();
        self.edition
    }

    fn renew(&mut self) {
        let edition = self.names.0.edition.load(Ordering::Acquire);
        if edition != self.edition {
            self.edition = edition;
            self.recent.fill_with(|| None);
            self.table = Arc::clone(&lock(&self.names.0.table));
        }
    }
}

/// Bytes of a name that the kernel keeps; shorter names are complete (`TASK_COMM_LEN`, include/linux/sched.h).
const MAX_COMM_BYTES: usize = 15;
/// The kernel's name of threads that were never named.
/// The thread of `main` is one of them.
const UNNAMED: &str = "java";
/// Readings after which a thread has its name: threads are named after they have started.
const YOUNG_READINGS: u32 = 2;
/// Shortest interval of queries to the JVM; doubled after each response without new names, up to the longest.
const MIN_INTERVAL: Duration = Duration::from_secs(5);
const MAX_INTERVAL: Duration = Duration::from_secs(300);
/// Limit of threads to read.
const MAX_THREADS: usize = 8_192;

/// Checks after which threads are listed again even if their number is the same: they may be different threads.
const LIST_EVERY: u32 = 10;

/// Counts the threads of a process by the links of its `/proc/PID/task`: one for each directory in it, and two more.
pub(crate) fn count_threads(tasks: &Path) -> Option<usize> {
    usize::try_from(fs::metadata(tasks).ok()?.nlink()).ok()?.checked_sub(2)
}

/// Lists the threads of a process from its `/proc/PID/task`.
pub(crate) fn list_threads(tasks: &Path) -> Vec<Tid> {
    let tasks = fs::read_dir(tasks).into_iter().flatten().flatten().take(MAX_THREADS);
    tasks.filter_map(|task| task.file_name().to_str()?.parse().ok()).collect()
}

/// The threads of a process.
pub(crate) struct ThreadList {
    tasks: PathBuf,
    threads: HashMap<Tid, Thread>,
    last_query: Option<Instant>,
    pause: Duration,
    /// Checks since the threads were last listed.
    looks: u32,
}

struct Thread {
    comm: String,
    full: Option<Arc<str>>,
    readings: u32,
    /// Whether the JVM was queried since the thread got its name.
    is_queried: bool,
}

impl ThreadList {
    pub(crate) fn of(pid: Pid) -> Self {
        Self::at(Path::new("/proc"), pid)
    }

    fn at(proc: &Path, pid: Pid) -> Self {
        let tasks = proc.join(format!("{pid}/task"));
        Self { tasks, threads: HashMap::new(), last_query: None, pause: MIN_INTERVAL, looks: 0 }
    }

    /// Updates the list of threads. Returns whether full names were removed.
    pub(crate) fn refresh(&mut self) -> bool {
        self.looks += 1;
        if self.looks < LIST_EVERY && self.is_settled() {
            return false;
        }
        self.looks = 0;
        let mut before = std::mem::take(&mut self.threads);
        let named = before.values().filter(|thread| thread.full.is_some()).count();
        for tid in list_threads(&self.tasks) {
            if let Some(thread) = self.read_thread(tid, before.remove(&tid)) {
                self.threads.insert(tid, thread);
            }
        }
        self.threads.values().filter(|thread| thread.full.is_some()).count() < named
    }

    /// Whether the number of threads is the same, and all of them have their names.
    fn is_settled(&self) -> bool {
        self.threads.values().all(|thread| thread.readings >= YOUNG_READINGS)
            && count_threads(&self.tasks) == Some(self.threads.len())
    }

    fn read_thread(&self, tid: Tid, before: Option<Thread>) -> Option<Thread> {
        let old = before.as_ref().is_some_and(|thread| thread.readings >= YOUNG_READINGS);
        let comm = if old { None } else { Some(self.comm(tid)?) };
        let same = before.filter(|thread| comm.as_ref().is_none_or(|comm| *comm == thread.comm));
        let thread = same.or_else(|| comm.map(Thread::new))?;
        Some(Thread { readings: thread.readings.saturating_add(1), ..thread })
    }

    /// Whether to query the JVM now.
    pub(crate) fn wants_names(&self, now: Instant) -> bool {
        let waited = self.last_query.is_none_or(|last| now.duration_since(last) >= self.pause);
        waited && self.threads.values().any(Thread::wants_name)
    }

    /// Stores the thread names from the JVM.
    pub(crate) fn set_names(&mut self, names: &Names, now: Instant) {
        let mut news = 0;
        let comms: HashMap<Tid, String> =
            self.threads.keys().filter_map(|&tid| Some((tid, self.comm(tid)?))).collect();
        for (tid, thread) in &mut self.threads {
            let Some(comm) = comms.get(tid) else { continue };
            let full = names.get(tid).filter(|full| ***full != **comm).cloned();
            news += usize::from(full.is_some() && thread.full != full);
            thread.comm.clone_from(comm);
            (thread.full, thread.is_queried) = (full, true);
        }
        self.pause = if news > 0 { MIN_INTERVAL } else { (self.pause * 2).min(MAX_INTERVAL) };
        self.last_query = Some(now);
    }

    /// All full names.
    pub(crate) fn table(&self) -> Table {
        let named = |(tid, thread): (&Tid, &Thread)| {
            let full = Arc::clone(thread.full.as_ref()?);
            Some((*tid, ThreadName { comm: thread.comm.as_str().into(), full }))
        };
        self.threads.iter().filter_map(named).collect()
    }

    #[allow(clippy::disallowed_methods, reason = "/proc")]
    fn comm(&self, tid: Tid) -> Option<String> {
        let bytes = fs::read(self.tasks.join(format!("{tid}/comm"))).ok()?;
        Some(String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes)).into_owned())
    }
}

impl Thread {
    fn new(comm: String) -> Self {
        Self { comm, full: None, readings: 0, is_queried: false }
    }

    fn wants_name(&self) -> bool {
        !self.is_queried && (self.comm.len() >= MAX_COMM_BYTES || self.comm == UNNAMED)
    }
}

#[cfg(test)]
mod tests {
    use super::{Table, ThreadName, ThreadNames};

    #[test]
    fn full_name_requires_the_kernels_current_name_to_match() {
        let names = ThreadNames::default();
        let mut reader = names.reader();
        assert_eq!(&*reader.full(7, "data-plane-kafk".into()), "data-plane-kafk");
        let handler = "data-plane-kafka-request-handler-7";
        let entry = ThreadName { comm: "data-plane-kafk".into(), full: handler.into() };
        names.publish(Table::from([(7, entry)]));
        assert_eq!(&*reader.full(7, "data-plane-kafk".into()), handler);
        assert_eq!(&*reader.full(7, "kafka-scheduler".into()), "kafka-scheduler", "another has its id now");
        assert_eq!(&*reader.full(8, "data-plane-kafk".into()), "data-plane-kafk");
        names.publish(Table::new());
        assert_eq!(&*reader.full(7, "data-plane-kafk".into()), "data-plane-kafk");
    }
}

#[cfg(test)]
mod thread_list_tests {
    use std::fs;
    use std::path::Path;
    use std::time::Instant;

    use super::{LIST_EVERY, MAX_INTERVAL, MIN_INTERVAL, ThreadList, count_threads, list_threads};
    use jvm::threads::Names;
    use model::Tid;

    const HANDLER: &str = "data-plane-kafka-request-handler-0";

    fn start(proc: &Path, tid: Tid, comm: &str) {
        let task = proc.join(format!("1/task/{tid}"));
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("comm"), format!("{comm}\n")).unwrap();
    }

    fn end(proc: &Path, tid: Tid) {
        fs::remove_dir_all(proc.join(format!("1/task/{tid}"))).unwrap();
    }

    fn names(named: &[(Tid, &str)]) -> Names {
        named.iter().map(|(tid, name)| (*tid, (*name).into())).collect()
    }

    #[test]
    fn queries_the_jvm_once_for_truncated_thread_names() {
        let proc = tempfile::tempdir().unwrap();
        let mut list = ThreadList::at(proc.path(), 1);
        let began = Instant::now();
        start(proc.path(), 10, "GC Thread#0");
        assert!(!list.refresh() && !list.wants_names(began), "that is its whole name");
        start(proc.path(), 11, "data-plane-kafk");
        start(proc.path(), 12, "some-native-thr");
        list.refresh();
        assert!(list.wants_names(began));
        list.set_names(&names(&[(10, "GC Thread#0"), (11, HANDLER), (99, "gone")]), began);
        assert!(!list.wants_names(began + MAX_INTERVAL), "what the JVM does not know, it will not know");
        let table = list.table();
        assert_eq!((table.len(), &*table[&11].full, &*table[&11].comm), (1, HANDLER, "data-plane-kafk"));
    }

    #[test]
    fn queries_for_new_threads_back_off() {
        let proc = tempfile::tempdir().unwrap();
        let mut list = ThreadList::at(proc.path(), 1);
        let began = Instant::now();
        start(proc.path(), 11, "data-plane-kafk");
        list.refresh();
        list.set_names(&names(&[(11, HANDLER)]), began);
        start(proc.path(), 12, "some-native-thr");
        list.refresh();
        assert!(!list.wants_names(began + MIN_INTERVAL / 2) && list.wants_names(began + MIN_INTERVAL));
        // The response had no new names: the next query waits longer.
        list.set_names(&names(&[(11, HANDLER)]), began);
        start(proc.path(), 13, "some-native-thr");
        list.refresh();
        assert!(!list.wants_names(began + MIN_INTERVAL) && list.wants_names(began + MIN_INTERVAL * 2));
    }

    #[test]
    fn ended_thread_has_no_name_and_its_id_is_reused() {
        let proc = tempfile::tempdir().unwrap();
        let mut list = ThreadList::at(proc.path(), 1);
        let began = Instant::now();
        start(proc.path(), 11, "data-plane-kafk");
        list.refresh();
        list.set_names(&names(&[(11, HANDLER)]), began);
        end(proc.path(), 11);
        assert!(list.refresh() && list.table().is_empty());
        // It starts under its parent's name, and is named a moment later.
        start(proc.path(), 11, "java");
        list.refresh();
        start(proc.path(), 11, "kafka-scheduler");
        list.refresh();
        assert!(list.wants_names(began + MIN_INTERVAL) && list.table().is_empty());
    }
    #[test]
    fn detects_a_replaced_thread_after_some_checks() {
        let proc = tempfile::tempdir().unwrap();
        let mut list = ThreadList::at(proc.path(), 1);
        start(proc.path(), 11, "GC Thread#0");
        (0..5).for_each(|_| _ = list.refresh());
        end(proc.path(), 11);
        start(proc.path(), 12, "data-plane-kafk");
        (0..LIST_EVERY).for_each(|_| _ = list.refresh());
        assert!(list.wants_names(Instant::now()));
    }

    #[test]
    fn link_count_of_the_task_directory_counts_threads() {
        let other = std::thread::spawn(std::thread::park);
        let tasks = Path::new("/proc/self/task");
        // Other tests start and end threads.
        assert!((0..1_000).any(|_| count_threads(tasks) == Some(list_threads(tasks).len())));
        other.thread().unpark();
        other.join().unwrap();
    }
}
