//! What runs on the CPUs: functions by the number of samples, and the work that they are part of. Takes no samples and reads
//! no dumps.

mod work;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use model::CpuSample;

pub use work::Work;

/// Limit on the functions counted, and on the frames remembered.
const MAX_FUNCTIONS: usize = 20_000;
/// Libraries of the JVM itself whose functions have no names.
const UNNAMED: [&str; 3] = ["[libjvm.so]", "[libj9vm", "[libj9thr"];

/// Functions, each with its number of samples.
/// A sample is a CPU sample, or one runnable thread of one dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    seen: u64,
    functions: HashMap<(Arc<str>, Option<Work>), u64>,
    works: BTreeMap<Work, u64>,
    /// Samples of the JVM's own code without names, whose work is unknown.
    pub(crate) unnamed: u64,
    /// Samples of functions beyond the limit.
    uncounted: u64,
    /// Frames that only one of the JVMs has.
    hotspot: u64,
    openj9: u64,
    /// Cache of the frames' work.
    known: HashMap<Arc<str>, Option<Work>>,
}

/// A function that ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its name as in stacks, with the marks of kernel and compiled code.
    pub name: Arc<str>,
    /// The work that it does or is part of; `None` if that is not well known.
    pub work: Option<Work>,
    /// Number of samples in which it ran.
    pub seen: u64,
}

/// The JVMs that are recognized by their own functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Machine {
    /// `OpenJDK`'s.
    HotSpot,
    /// Eclipse's, IBM's.
    OpenJ9,
}

impl Profile {
    /// Adds a CPU sample.
    pub fn sample(&mut self, sample: &CpuSample) {
        let frames = sample.stack.rsplit(';').filter(|frame| !frame.is_empty());
        self.thread(&sample.thread, frames);
    }

    /// Adds a runnable thread: its frames, innermost first.
    /// A thread that only waits for sockets does not count.
    pub fn thread<'f>(&mut self, thread: &str, innermost_first: impl Iterator<Item = &'f str>) {
        let mut function = None;
        let mut work = Work::of_thread(thread);
        for frame in innermost_first {
            function.get_or_insert(frame);
            work = work.or_else(|| self.work_of(frame));
            if work.is_some() {
                break;
            }
        }
        let Some(function) = function.filter(|_| work != Some(Work::Polling)) else { return };
        self.seen += 1;
        match work {
            Some(work) => *self.works.entry(work).or_default() += 1,
            None if UNNAMED.iter().any(|library| function.starts_with(library)) => self.unnamed += 1,
            None => {}
        }
        self.count(function, work);
    }

    fn work_of(&mut self, frame: &str) -> Option<Work> {
        match machine_of(frame) {
            Some(Machine::HotSpot) => self.hotspot += 1,
            Some(Machine::OpenJ9) => self.openj9 += 1,
            None => {}
        }
        if let Some(known) = self.known.get(frame) {
            return *known;
        }
        let work = Work::of_frame(frame);
        if self.known.len() < MAX_FUNCTIONS {
            self.known.insert(frame.into(), work);
        }
        work
    }

    fn count(&mut self, function: &str, work: Option<Work>) {
        let known = self.known.get_key_value(function);
        let name: Arc<str> = known.map_or_else(|| function.into(), |(name, _)| Arc::clone(name));
        let key = (name, work);
        if self.functions.len() >= MAX_FUNCTIONS && !self.functions.contains_key(&key) {
            self.uncounted += 1;
            return;
        }
        *self.functions.entry(key).or_default() += 1;
    }

    /// Number of samples.
    pub fn seen(&self) -> u64 {
        self.seen
    }

    /// Number of samples of functions beyond the limit.
    pub fn uncounted(&self) -> u64 {
        self.uncounted
    }

    /// The `most` functions that ran most often, the most frequent first.
    pub fn top(&self, most: usize) -> Vec<Function> {
        let function = |((name, work), seen): (&(Arc<str>, Option<Work>), &u64)| Function {
            name: Arc::clone(name),
            work: *work,
            seen: *seen,
        };
        let mut all: Vec<_> = self.functions.iter().map(function).collect();
        all.sort_by(|a, b| b.seen.cmp(&a.seen).then_with(|| (&a.name, a.work).cmp(&(&b.name, b.work))));
        all.truncate(most);
        all
    }

    /// Samples by the work they are part of, the most frequent first: each sample is part of at most one.
    pub fn by_work(&self) -> Vec<(Work, u64)> {
        let mut all: Vec<_> = self.works.iter().map(|(work, seen)| (*work, *seen)).collect();
        all.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(&b.0)));
        all
    }

    /// Samples of one kind of work.
    pub fn of(&self, work: Work) -> u64 {
        self.works.get(&work).copied().unwrap_or(0)
    }

    /// Share of a number of samples in all samples.
    pub fn share(&self, seen: u64) -> f64 {
        if self.seen == 0 { 0.0 } else { seen as f64 / self.seen as f64 }
    }

    /// The JVM whose functions were seen.
    pub(crate) fn machine(&self) -> Option<Machine> {
        match (self.hotspot, self.openj9) {
            (0, 0) => None,
            (hotspot, openj9) if hotspot >= openj9 => Some(Machine::HotSpot),
            _ => Some(Machine::OpenJ9),
        }
    }
}

/// The JVM of a function or library that only one of them has.
fn machine_of(frame: &str) -> Option<Machine> {
    let starts_with_any = |names: &[&str]| names.iter().any(|name| frame.starts_with(name));
    if starts_with_any(&["ObjectMonitor::", "ObjectSynchronizer::", "JavaThread::"]) {
        Some(Machine::HotSpot)
    } else if starts_with_any(&["[libj9", "objectMonitorEnter", "VM_BytecodeInterpreter"]) {
        Some(Machine::OpenJ9)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::{Machine, Profile, Work};

    fn of(stacks: &[(&str, &str, u64)]) -> Profile {
        let mut profile = Profile::default();
        for (thread, stack, times) in stacks {
            for _ in 0..*times {
                profile.thread(thread, stack.rsplit(';'));
            }
        }
        profile
    }

    #[test]
    fn sample_counts_for_its_top_function_and_innermost_known_work() {
        let append = "kafka.log.UnifiedLog.append_[j];ext4_file_write_iter_[k];ext4_dirty_inode_[k]";
        let zstd = "a.B.c_[j];com.github.luben.zstd.ZstdInputStream.read_[j];[libzstd-jni-1.5.6.so];__memmove_avx_unaligned_erms";
        let profile = of(&[("handler", append, 3), ("handler", zstd, 2), ("handler", "a.B.c_[j]", 1)]);
        let top = profile.top(10);
        let rows: Vec<_> = top.iter().map(|row| (&*row.name, row.work, row.seen)).collect();
        assert_eq!(
            rows,
            [
                ("ext4_dirty_inode_[k]", Some(Work::FileWrite), 3),
                ("__memmove_avx_unaligned_erms", Some(Work::Copying), 2),
                ("a.B.c_[j]", None, 1),
            ]
        );
        assert_eq!((profile.seen(), profile.by_work()), (6, vec![(Work::FileWrite, 3), (Work::Copying, 2)]));
        assert!((profile.share(profile.of(Work::FileWrite)) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn skips_socket_waits_and_knows_collectors_by_thread() {
        let profile = of(&[
            ("data-plane-kafka-network-thread-1", "sun.nio.ch.SelectorImpl.select;sun.nio.ch.EPoll.wait", 9),
            ("GC Thread#3", "[libjvm.so]", 2),
            ("data-plane-kafk", "[libjvm.so]", 1),
        ]);
        assert_eq!((profile.seen(), profile.of(Work::Collector), profile.unnamed), (3, 2, 1));
        assert_eq!(profile.top(1)[0].work, Some(Work::Collector));
        assert_eq!(profile.machine(), None);
    }

    #[test]
    fn detects_the_jvm_by_its_function_names() {
        let hotspot = of(&[("h", "a.B.c_[j];ObjectMonitor::enter;ObjectMonitor::TrySpin", 4)]);
        assert_eq!((hotspot.machine(), hotspot.of(Work::MonitorEnter)), (Some(Machine::HotSpot), 4));
        let openj9 = of(&[("h", "[libj9vm29.so];objectMonitorEnterNonBlocking", 4)]);
        assert_eq!((openj9.machine(), openj9.of(Work::MonitorEnter)), (Some(Machine::OpenJ9), 4));
    }

    #[test]
    fn functions_beyond_the_limit_are_only_counted() {
        let mut profile = Profile::default();
        for at in 0..super::MAX_FUNCTIONS + 5 {
            profile.thread("t", [format!("f{at}").as_str()].into_iter());
        }
        assert_eq!((profile.seen(), profile.uncounted()), (super::MAX_FUNCTIONS as u64 + 5, 5));
        assert_eq!(profile.top(3).len(), 3);
    }
}
