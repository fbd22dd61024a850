//! Journal commits and calls of file-system functions on one time axis. In the order of their starts.
//!
//! A call is known by its own entry and return if those were recorded, else by a stretch off the CPU inside it: such
//! a call may have begun earlier and ended later. It is named by the outermost function of the file system.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::{Device, Event, FileOp, JournalCommit, KernelSpan, Nanos, OffCpu, Reclaim, SpanSource, Tid};

use crate::file_op_reasons::RUN_QUEUE;
use crate::kernel_stack;
use crate::kernel_stack::Wait;
use crate::time::{Span, TimeSpan};

/// The function that a journal commit is. Its tracepoints report its entry and return (fs/jbd2/commit.c).
const COMMIT: &str = "jbd2_journal_commit_transaction";
/// A thread that frees memory is in one of these (mm/vmscan.c).
const RECLAIM: [&str; 2] = ["try_to_free_pages", "try_to_free_mem_cgroup_pages"];
/// Maximum time between stretches off the CPU that are one call. They are in the same function.
const PAUSE: Nanos = Nanos::from_millis(1);
/// Calls that wait to be put in order; beyond it, calls are released early.
const MAX_UNORDERED_CALLS: usize = 200_000;
/// Calls of one thread that wait for the operation that names their file.
const MAX_CALLS_WITHOUT_FILE: usize = 1_024;
/// At this number of threads, those without calls are dropped.
const MAX_THREADS: usize = 4_096;

/// One call of a kernel function.
#[derive(Clone, Debug, PartialEq)]
pub struct Call {
    /// Its entry, as far as it was seen.
    pub start: Nanos,
    /// Its return, as far as it was seen.
    pub end: Nanos,
    /// The function.
    pub function: Arc<str>,
    /// How its ends were seen.
    pub seen_by: SpanSource,
    /// The device of the file system, where it is known.
    pub device: Option<Device>,
    /// The thread and its name, where they are known.
    pub thread: Option<(Tid, Arc<str>)>,
    /// The file of the operation that it was part of, where it was part of one.
    pub file: Option<Arc<str>>,
    /// Details.
    pub detail: Detail,
}

/// Details of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum Detail {
    /// Nothing.
    Nothing,
    /// A journal commit.
    Commit(JournalCommit),
    /// What the longest stretch off the CPU in it was for: its name in `io`, and the function that shows it, if there
    /// is one.
    Wait(&'static str, Arc<str>),
    /// Direct reclaim.
    Reclaim {
        /// Pages freed.
        pages: u64,
        /// Whether a memory cgroup's limit was the reason.
        memcg: bool,
    },
}

impl Call {
    fn new(of: &impl Span, function: impl Into<Arc<str>>, seen_by: SpanSource, detail: Detail) -> Self {
        let (TimeSpan { start, end }, function) = (of.span(), function.into());
        Self { start, end, function, seen_by, device: None, thread: None, file: None, detail }
    }

    /// How long it took, as far as it was seen.
    pub fn latency(&self) -> Nanos {
        self.end - self.start
    }
}

type Key = (Nanos, u64);

/// Puts calls in order. Feed it with [`Calls::event`] in the order of [`Event::time`], and take ordered calls with
/// [`Calls::take`].
#[derive(Debug)]
pub struct Calls {
    slower_than: Nanos,
    /// How long after its start a call is released: a call that starts before it may end that much later.
    reorder_window: Nanos,
    newest: Nanos,
    next_number: u64,
    pending: BTreeMap<Key, Call>,
    threads: HashMap<Tid, ThreadCalls>,
}

/// The latest calls of one thread.
#[derive(Debug, Default)]
struct ThreadCalls {
    /// Calls that wait for the operation that they are part of. Each comes with the stack that it is known from.
    unnamed: Vec<(Key, Option<Arc<str>>)>,
    /// The last call, and the length of the longest stretch off the CPU in it.
    last: Option<(Key, Nanos)>,
}

impl Calls {
    /// For calls that took at least `slower_than`.
    /// They are put in order among those that end up to `reorder_window` after their start.
    pub fn new(slower_than: Nanos, reorder_window: Nanos) -> Self {
        Self {
            slower_than,
            reorder_window,
            newest: Nanos::MIN,
            next_number: 0,
            pending: BTreeMap::new(),
            threads: HashMap::new(),
        }
    }

    /// Takes an event that may be a call or show one; ignores others.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::JournalCommit(commit) => self.commit(commit),
            Event::KernelSpan(span) => self.span(span),
            Event::Reclaim(reclaim) => self.reclaim(reclaim),
            Event::OffCpu(interval) => self.off_cpu(interval),
            Event::FileOp(op) => self.file_op(op),
            _ => {}
        }
        self.newest = self.newest.max(event.time());
    }

    /// The next call in order, once no earlier call can follow; any call that is left if `all` is set.
    pub fn take(&mut self, all: bool) -> Option<Call> {
        loop {
            let (&(start, _), _) = self.pending.first_key_value()?;
            if !all && start > self.newest - self.reorder_window && self.pending.len() <= MAX_UNORDERED_CALLS
            {
                return None;
            }
            let (_, call) = self.pending.pop_first()?;
            if call.latency() >= self.slower_than {
                return Some(call);
            }
        }
    }

    fn hold(&mut self, call: Call) -> Key {
        self.next_number += 1;
        let key = (call.start, self.next_number);
        self.pending.insert(key, call);
        key
    }

    fn commit(&mut self, commit: &JournalCommit) {
        let detail = Detail::Commit(commit.clone());
        let call = Call::new(commit, COMMIT, SpanSource::Tracepoints, detail);
        self.hold(Call { device: Some(commit.device.clone()), ..call });
    }

    /// A stretch off the CPU within the call is no separate call.
    fn span(&mut self, span: &KernelSpan) {
        let mut detail = Detail::Nothing;
        for (key, stack) in self.unnamed_within(span.tid, span.start, span.end) {
            if stack.is_some_and(|stack| kernel_stack::frames(&stack).any(|frame| *frame == *span.function)) {
                let replaced = self.pending.remove(&key);
                detail = replaced.map_or(detail, |call| call.detail);
            }
        }
        let call = Call::new(span, Arc::clone(&span.function), span.seen_by, detail);
        self.hold_unnamed(span.tid, &span.thread, Call { device: span.device.clone(), ..call }, None);
    }

    fn reclaim(&mut self, reclaim: &Reclaim) {
        let [global, memcg] = RECLAIM;
        let function = if reclaim.memcg { memcg } else { global };
        let detail = Detail::Reclaim { pages: reclaim.pages, memcg: reclaim.memcg };
        let call = Call::new(reclaim, function, SpanSource::Tracepoints, detail);
        self.hold_unnamed(reclaim.tid, &reclaim.thread, call, None);
    }

    fn off_cpu(&mut self, interval: &OffCpu) {
        let Some(function) = naming_function(&interval.stack) else { return };
        let detail = longer_part(interval);
        if self.extend_last_call(interval, function, &detail) {
            return;
        }
        let call = Call::new(interval, function, SpanSource::OffCpu, detail);
        let stack = Some(Arc::clone(&interval.stack));
        let key = self.hold_unnamed(interval.tid, &interval.thread, call, stack);
        self.threads.entry(interval.tid).or_default().last = Some((key, interval.length()));
    }

    /// Whether the interval continues the thread's last call, which it then extends.
    fn extend_last_call(&mut self, interval: &OffCpu, function: &str, detail: &Detail) -> bool {
        let last = self.threads.get_mut(&interval.tid).and_then(|thread| thread.last.as_mut());
        let Some((key, longest)) = last else { return false };
        let is_same = |call: &&mut Call| {
            *call.function == *function && interval.start >= call.end && interval.start - call.end <= PAUSE
        };
        let Some(call) = self.pending.get_mut(key).filter(is_same) else { return false };
        call.end = interval.end;
        if interval.length() > *longest {
            *longest = interval.length();
            call.detail = detail.clone();
        }
        true
    }

    /// The thread's calls within the operation were on its file; quick ones are dropped.
    fn file_op(&mut self, op: &FileOp) {
        for (key, _) in self.unnamed_within(op.tid, op.start, op.end) {
            let Some(call) = self.pending.get_mut(&key) else { continue };
            call.file = Some(Arc::clone(&op.file));
            call.device.get_or_insert_with(|| op.device.clone());
            if call.latency() < self.slower_than {
                self.pending.remove(&key);
            }
        }
        let pending = &self.pending;
        if let Some(thread) = self.threads.get_mut(&op.tid) {
            thread.last = None;
            thread.unnamed.retain(|(key, _)| pending.get(key).is_some_and(|call| call.end > op.end));
            if thread.unnamed.is_empty() {
                self.threads.remove(&op.tid);
            }
        }
    }

    fn unnamed_within(&self, tid: Tid, start: Nanos, end: Nanos) -> Vec<(Key, Option<Arc<str>>)> {
        let unnamed = self.threads.get(&tid).map(|thread| thread.unnamed.as_slice()).unwrap_or_default();
        let within = |call: &Call| call.start >= start && call.end <= end;
        unnamed.iter().filter(|(key, _)| self.pending.get(key).is_some_and(within)).cloned().collect()
    }

    fn hold_unnamed(&mut self, tid: Tid, name: &Arc<str>, call: Call, stack: Option<Arc<str>>) -> Key {
        let key = self.hold(Call { thread: Some((tid, Arc::clone(name))), ..call });
        let pending = &self.pending;
        if self.threads.len() >= MAX_THREADS {
            self.threads.retain(|_, thread| thread.unnamed.iter().any(|(key, _)| pending.contains_key(key)));
        }
        let thread = self.threads.entry(tid).or_default();
        if thread.unnamed.len() >= MAX_CALLS_WITHOUT_FILE {
            thread.unnamed.retain(|(key, _)| pending.contains_key(key));
            thread.unnamed.drain(..thread.unnamed.len().saturating_sub(MAX_CALLS_WITHOUT_FILE / 2));
        }
        thread.unnamed.push((key, stack));
        key
    }
}

/// The thread's wait, or its wait for a CPU afterwards if that was longer.
fn longer_part(interval: &OffCpu) -> Detail {
    let woken = if interval.preempted { interval.start } else { interval.woken.unwrap_or(interval.end) };
    if interval.end - woken > woken - interval.start {
        return Detail::Wait(RUN_QUEUE, Arc::default());
    }
    let (wait, function) = kernel_stack::read(&interval.stack);
    Detail::Wait(wait.as_str(), function.into())
}

/// Name patterns of functions of file systems and of their journals.
const FILE_SYSTEMS: &[&str] = &[
    "ext4_*", "__ext4_*", "jbd2_*", "__jbd2_*", "xfs_*", "xlog_*", "btrfs_*", "f2fs_*", "ext2_*", "fuse_*",
    "nfs_*",
];

/// Entry functions of ext4 that call generic code, which calls ext4 again: the inner function is more specific.
const WAYS_IN: &[&str] = &[
    "ext4_file_write_iter",
    "ext4_buffered_write_iter",
    "ext4_file_read_iter",
    "ext4_file_splice_read",
    "ext4_filemap_fault",
];

/// The function that names the call; `None` if the stack is in no file system.
pub(crate) fn naming_function(stack: &str) -> Option<&str> {
    let is_one_of =
        |frame: &str, names: &[&str]| names.iter().any(|name| kernel_stack::is_named(frame, name));
    let mut of_file_system = kernel_stack::frames(stack).filter(|frame| is_one_of(frame, FILE_SYSTEMS));
    let way_in = of_file_system.next()?;
    if !is_one_of(way_in, WAYS_IN) {
        return Some(way_in);
    }
    // A wait in the generic code itself is not the file system's.
    match kernel_stack::read(stack) {
        (Wait::DirtyPages, function) => Some(function),
        _ => Some(of_file_system.find(|frame| !is_one_of(frame, WAYS_IN)).unwrap_or(way_in)),
    }
}
