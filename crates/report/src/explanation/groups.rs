//! Verdicts grouped by root. One commit that slowed 37 requests appears once. Keeps a bounded number of verdicts; the
//! totals of all come from the engine.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use model::{Cause, Doubt, Evidence, EvidenceKind, Nanos, Stage, Tid, Verdict};

use super::chain::shape;

/// Writes kept per root, to show the longest and count the others.
const MAX_WRITES: usize = 1_000;

/// Limits on the verdicts kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests per root.
    pub(crate) requests: usize,
    /// Roots.
    pub(crate) roots: usize,
}

impl Limits {
    /// As much as a person reads.
    pub(crate) const SHORT: Self = Self { requests: 8, roots: 200 };
    /// As much as certainly fits into memory (a few hundred MB of verdicts at worst).
    pub(crate) const LONG: Self = Self { requests: 10_000, roots: 1_000 };
}

/// The verdicts of one root, the slowest request first. Also the evidence of the root itself.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) verdicts: Vec<Verdict>,
    /// The longest event and the longest block request among the evidence. The event is one of the kernel or the JVM.
    pub(crate) root: BTreeMap<Level, Evidence>,
    /// The writes that the root delayed, each with what its thread did off-CPU.
    pub(crate) writes: BTreeMap<(Nanos, Option<Tid>), Vec<Evidence>>,
    /// First arrival of a request that the root slowed.
    pub(crate) first: Option<Nanos>,
    time: Nanos,
    /// Number of kept verdicts by the shape of their chain.
    shapes: HashMap<Vec<Cause>, usize>,
}

/// Level of a root's own evidence, in display order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Kernel,
    Device,
}

impl Group {
    fn add(&mut self, verdict: Verdict, most: usize) {
        let latency = verdict.latency();
        self.time += latency;
        let arrival = verdict.request.arrival;
        self.first = Some(self.first.map_or(arrival, |first| first.min(arrival)));
        // An unexplained request has no root: its writes are its own.
        if verdict.cause != Cause::Unobserved {
            self.learn_root(&verdict.evidence);
        }
        let at = self.verdicts.partition_point(|other| other.latency() >= latency);
        *self.shapes.entry(shape(&verdict)).or_default() += 1;
        self.verdicts.insert(at, verdict);
        if self.verdicts.len() > most {
            let spare = self.verdicts.remove(self.spare());
            self.shapes.entry(shape(&spare)).and_modify(|count| *count -= 1);
        }
    }

    fn learn_root(&mut self, evidence: &[Evidence]) {
        let mut write = None;
        for seen in evidence {
            match seen.kind {
                EvidenceKind::Kernel | EvidenceKind::Gc | EvidenceKind::Host => {
                    self.learn(Level::Kernel, seen);
                }
                EvidenceKind::BlockIo => self.learn(Level::Device, seen),
                EvidenceKind::FileOp => write = self.learn_write(seen),
                EvidenceKind::OffCpu => {
                    if let Some(parts) = write.and_then(|key| self.writes.get_mut(&key)) {
                        parts.push(seen.clone());
                    }
                    write = None;
                }
                EvidenceKind::LockWait | EvidenceKind::Request | EvidenceKind::Network => {}
            }
        }
    }

    fn learn(&mut self, level: Level, seen: &Evidence) {
        let known = self.root.entry(level).or_insert_with(|| seen.clone());
        if seen.end - seen.start > known.end - known.start {
            *known = seen.clone();
        }
    }

    /// Adds a new write and returns its key; `None` if it is known already or there are too many.
    fn learn_write(&mut self, seen: &Evidence) -> Option<(Nanos, Option<Tid>)> {
        let key = (seen.start, seen.tid);
        if self.writes.len() >= MAX_WRITES || self.writes.contains_key(&key) {
            return None;
        }
        self.writes.insert(key, vec![seen.clone()]);
        Some(key)
    }

    /// Index of the fastest request whose chain has the same shape as another's.
    /// So every shape keeps its slowest example: the slow write itself as well as the wait behind another request's
    /// write.
    fn spare(&self) -> usize {
        let shared = |verdict: &Verdict| self.shapes.get(&shape(verdict)).is_some_and(|&count| count > 1);
        self.verdicts.iter().rposition(shared).unwrap_or(self.verdicts.len().saturating_sub(1))
    }

    /// The slowest request of each shape, the shortest chain first; requests with head-of-line waits come last.
    pub(crate) fn examples(&self) -> Vec<&Verdict> {
        let mut examples: Vec<(Vec<Cause>, &Verdict)> = Vec::new();
        for verdict in &self.verdicts {
            let shape = shape(verdict);
            if !examples.iter().any(|(known, _)| *known == shape) {
                examples.push((shape, verdict));
            }
        }
        examples.sort_by_key(|(shape, _)| (shape.contains(&Cause::HeadOfLine), shape.len()));
        examples.into_iter().map(|(_, verdict)| verdict).collect()
    }
}

/// Advice by cause.
#[derive(Debug, Default)]
pub(crate) struct Advice {
    by_cause: HashMap<Cause, Vec<&'static str>>,
    taken: HashSet<&'static str>,
}

impl Advice {
    /// Whether there is advice on a cause.
    pub(crate) fn has(&self, cause: Cause) -> bool {
        self.by_cause.get(&cause).is_some_and(|sentences| !sentences.is_empty())
    }

    /// Takes the advice on a cause, without sentences that were taken before.
    pub(crate) fn take(&mut self, cause: Cause) -> Vec<&'static str> {
        let sentences = self.by_cause.remove(&cause).unwrap_or_default();
        sentences.into_iter().filter(|sentence| self.taken.insert(sentence)).collect()
    }
}

/// All groups, and the advice on their causes.
#[derive(Debug)]
pub(crate) struct Groups {
    limits: Limits,
    by_root: HashMap<Arc<str>, Group>,
    advice: Advice,
}

impl Groups {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, by_root: HashMap::new(), advice: Advice::default() }
    }

    pub(crate) fn add(&mut self, verdict: Verdict) {
        self.advice.by_cause.entry(verdict.cause).or_insert_with(|| verdict.advice.clone());
        self.by_root.entry(Arc::clone(&verdict.root)).or_default().add(verdict, self.limits.requests);
        // Prune in bulk: at most twice the limit is held.
        if self.by_root.len() > self.limits.roots.saturating_mul(2) {
            self.prune();
        }
    }

    /// Drops the roots that took the least time.
    fn prune(&mut self) {
        let mut times = self.by_root.values().map(|group| group.time).collect::<Vec<_>>();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let floor = times.get(self.limits.roots.saturating_sub(1)).copied().unwrap_or(Nanos::MIN);
        let mut remaining = self.limits.roots;
        self.by_root.retain(|_, group| {
            let keep = remaining > 0 && group.time >= floor;
            remaining -= usize::from(keep);
            keep
        });
    }

    /// Takes the groups by root, and the advice by cause.
    pub(crate) fn take(&mut self) -> (HashMap<Arc<str>, Group>, Advice) {
        (std::mem::take(&mut self.by_root), std::mem::take(&mut self.advice))
    }
}

/// Limit on distinct questions: there are few kinds, but losses contain numbers.
const MAX_QUESTIONS: usize = 1_000;

/// A doubt, summed over requests.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) doubt: Doubt,
    /// Requests that have this doubt.
    pub(crate) requests: u64,
    /// Their undecided time in total.
    pub(crate) time: Nanos,
}

/// All questions.
#[derive(Debug, Default)]
pub(crate) struct Questions(HashMap<(Stage, String, String), Question>);

impl Questions {
    /// Adds the doubts of a verdict.
    pub(crate) fn add(&mut self, verdict: &Verdict) {
        for doubt in &verdict.doubts {
            let key = (doubt.stage, doubt.what.clone(), doubt.tells.clone());
            if self.0.len() >= MAX_QUESTIONS && !self.0.contains_key(&key) {
                continue;
            }
            let question = self.0.entry(key).or_insert_with(|| Question {
                doubt: doubt.clone(),
                requests: 0,
                time: Nanos::ZERO,
            });
            question.requests += 1;
            question.time += doubt.time;
        }
    }

    /// Takes the questions, the one with the most time first.
    pub(crate) fn take(&mut self) -> Vec<Question> {
        let mut questions: Vec<Question> = std::mem::take(&mut self.0).into_values().collect();
        let key = |question: &Question| (question.doubt.stage, question.doubt.what.clone());
        questions.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| key(a).cmp(&key(b))));
        questions
    }
}
