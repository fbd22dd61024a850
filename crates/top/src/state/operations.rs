//! The slowest file operations, and all operations by file. The slowest ones have the reasons for their waits. Both are
//! bounded.

use std::collections::HashMap;
use std::sync::Arc;

use diagnose::{Reason, Reasons};
use model::{Event, FileOp, Nanos};

/// Number of slowest operations to retain.
const MAX_KEPT: usize = 500;
/// Maximum number of files counted separately; further ones are counted together.
const MAX_FILES: usize = 5_000;

/// A retained operation.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    /// Its number in the order in which operations ended.
    pub(crate) number: u64,
    pub(crate) op: FileOp,
    /// Reasons for its time, longest first.
    pub(crate) reasons: Vec<Reason>,
}

/// The operations on one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct OfFile {
    pub(crate) count: u64,
    pub(crate) time: Nanos,
    pub(crate) slowest: Nanos,
    pub(crate) bytes: u64,
    pub(crate) last: Nanos,
    /// The reason for most of the slowest operation's time.
    pub(crate) reason: Option<&'static str>,
}

/// The operations.
#[derive(Debug)]
pub(crate) struct Operations {
    reasons: Reasons,
    /// Slowest first; of equal ones, the earlier first.
    pub(crate) slowest: Vec<Operation>,
    by_file: HashMap<Arc<str>, OfFile>,
    others: OfFile,
    count: u64,
}

impl Operations {
    /// `off_cpu`: whether off-CPU time is watched.
    pub(crate) fn new(off_cpu: bool) -> Self {
        Self {
            reasons: Reasons::new(off_cpu),
            slowest: Vec::new(),
            by_file: HashMap::new(),
            others: OfFile::default(),
            count: 0,
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::FileOp(op) => self.file_op(op),
            other => self.reasons.event(other),
        }
    }

    fn file_op(&mut self, op: &FileOp) {
        self.count += 1;
        // Called for every operation, because it also discards the operation's reasons.
        let reasons = self.reasons.of(op);
        self.of_file(&op.file).add(op, &reasons);
        self.keep_if_slowest(op, reasons);
    }

    fn of_file(&mut self, file: &Arc<str>) -> &mut OfFile {
        if self.by_file.len() >= MAX_FILES && !self.by_file.contains_key(file) {
            return &mut self.others;
        }
        self.by_file.entry(Arc::clone(file)).or_default()
    }

    fn keep_if_slowest(&mut self, op: &FileOp, reasons: Vec<Reason>) {
        let latency = op.latency();
        if self.slowest.len() >= MAX_KEPT {
            if self.slowest.last().is_some_and(|quickest| quickest.op.latency() >= latency) {
                return;
            }
            self.slowest.pop();
        }
        let place = self.slowest.partition_point(|other| other.op.latency() >= latency);
        self.slowest.insert(place, Operation { number: self.count, op: op.clone(), reasons });
    }

    /// Operations by file; those of files beyond the limit have no name.
    pub(crate) fn by_file(&self) -> impl Iterator<Item = (Option<&Arc<str>>, &OfFile)> {
        let others = (self.others.count > 0).then_some((None, &self.others));
        self.by_file.iter().map(|(file, of)| (Some(file), of)).chain(others)
    }
}

/// A copy for display: later events are not explained with earlier ones.
impl Clone for Operations {
    fn clone(&self) -> Self {
        Self {
            reasons: Reasons::default(),
            slowest: self.slowest.clone(),
            by_file: self.by_file.clone(),
            others: self.others.clone(),
            count: self.count,
        }
    }
}

impl OfFile {
    fn add(&mut self, op: &FileOp, reasons: &[Reason]) {
        let latency = op.latency().at_least_zero();
        self.count += 1;
        self.time += latency;
        self.bytes = self.bytes.saturating_add(op.bytes.unwrap_or(0));
        self.last = self.last.max(op.end);
        if latency >= self.slowest {
            self.slowest = latency;
            self.reason = reasons.first().map(|reason| reason.name);
        }
    }

    /// The mean latency.
    pub(crate) fn mean(&self) -> Nanos {
        Nanos(self.time.0 / i64::try_from(self.count.max(1)).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use model::{Event, Nanos};

    use super::{MAX_FILES, MAX_KEPT, Operations};
    use crate::state::sample;

    #[test]
    fn retains_the_slowest_operations_and_bounds_files() {
        let mut operations = Operations::new(true);
        for number in 0..6_000_i64 {
            let mut op = sample::write(Nanos(number * 1_000), Nanos(number * 1_000 + number));
            op.file = format!("orders-{number}/0.log").into();
            operations.event(&Event::FileOp(Box::new(op)));
        }
        let latencies = operations.slowest.iter().map(|one| one.op.latency().0).collect::<Vec<_>>();
        let expected = (6_000 - MAX_KEPT as i64..6_000).rev().collect::<Vec<_>>();
        assert_eq!(latencies, expected);
        let files = operations.by_file().collect::<Vec<_>>();
        assert_eq!(files.len(), MAX_FILES + 1);
        let others = files.iter().find(|(file, _)| file.is_none()).unwrap().1;
        assert_eq!((others.count, operations.count), (1_000, 6_000));
        assert_eq!(others.slowest, Nanos(5_999));
    }
}
