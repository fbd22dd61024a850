//! Verdicts gathered by their root, so that one commit that slowed 37 requests appears once. Keeps a
//! bounded number of them; the totals of all are the engine's.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use model::{Cause, Doubt, Evidence, EvidenceKind, Nanos, Stage, Tid, Verdict};

use super::chain::shape;

/// Writes kept of one root, to show the longest and count the others.
const MAX_WRITES: usize = 1_000;

/// How many verdicts are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Requests of one root.
    pub(crate) requests: usize,
    /// Roots kept.
    pub(crate) roots: usize,
}

impl Limits {
    /// What a person reads.
    pub(crate) const SHORT: Self = Self { requests: 8, roots: 200 };
    /// What fits into memory without a doubt (a few hundred MB of verdicts at worst).
    pub(crate) const LONG: Self = Self { requests: 10_000, roots: 1_000 };
}

/// The verdicts of one root, the slowest request first, and what was seen of the root itself.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) verdicts: Vec<Verdict>,
    /// The longest event of the kernel or the JVM and the longest block request among the evidence.
    pub(crate) root: BTreeMap<Level, Evidence>,
    /// The writes that it held: each with what its thread did off the CPU.
    pub(crate) writes: BTreeMap<(Nanos, Option<Tid>), Vec<Evidence>>,
    /// The first arrival of a request that it slowed.
    pub(crate) first: Option<Nanos>,
    time: Nanos,
    /// How many of the verdicts kept have each shape.
    shapes: HashMap<Vec<Cause>, usize>,
}

/// What a root's own evidence is of, in the order in which it is shown.
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
        // A request that nothing explains has no root: its writes are its own.
        if verdict.cause != Cause::Unobserved {
            self.learn_root(&verdict.evidence);
        }
        let at = self.verdicts.partition_point(|kept| kept.latency() >= latency);
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

    /// The key of a write that is not known yet.
    fn learn_write(&mut self, seen: &Evidence) -> Option<(Nanos, Option<Tid>)> {
        let key = (seen.start, seen.tid);
        if self.writes.len() >= MAX_WRITES || self.writes.contains_key(&key) {
            return None;
        }
        self.writes.insert(key, vec![seen.clone()]);
        Some(key)
    }

    /// The fastest request whose way to the root another one shares: every way keeps its slowest example,
    /// the slow write itself as well as the wait behind another's.
    fn spare(&self) -> usize {
        let shared = |verdict: &Verdict| self.shapes.get(&shape(verdict)).is_some_and(|&count| count > 1);
        self.verdicts.iter().rposition(shared).unwrap_or(self.verdicts.len().saturating_sub(1))
    }

    /// The slowest request of each shape, the shortest way first, those behind requests of their connection
    /// last.
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

/// What to change, by cause.
#[derive(Debug, Default)]
pub(crate) struct Advice {
    by_cause: HashMap<Cause, Vec<&'static str>>,
    taken: HashSet<&'static str>,
}

impl Advice {
    /// Whether there is anything to change about a cause.
    pub(crate) fn has(&self, cause: Cause) -> bool {
        self.by_cause.get(&cause).is_some_and(|sentences| !sentences.is_empty())
    }

    /// What to change about a cause, but for what was taken before.
    pub(crate) fn take(&mut self, cause: Cause) -> Vec<&'static str> {
        let sentences = self.by_cause.remove(&cause).unwrap_or_default();
        sentences.into_iter().filter(|sentence| self.taken.insert(sentence)).collect()
    }
}

/// All groups, and what to say about their causes.
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
        // Pruned in bulk: twice the limit is held at most.
        if self.by_root.len() > self.limits.roots.saturating_mul(2) {
            self.prune();
        }
    }

    /// Forgets the roots that took least time.
    fn prune(&mut self) {
        let mut times = self.by_root.values().map(|group| group.time).collect::<Vec<_>>();
        times.sort_unstable_by(|a, b| b.cmp(a));
        let floor = times.get(self.limits.roots.saturating_sub(1)).copied().unwrap_or(Nanos::MIN);
        let mut room = self.limits.roots;
        self.by_root.retain(|_, group| {
            let keep = room > 0 && group.time >= floor;
            room -= usize::from(keep);
            keep
        });
    }

    /// The groups by root, and the advice by cause.
    pub(crate) fn take(&mut self) -> (HashMap<Arc<str>, Group>, Advice) {
        (std::mem::take(&mut self.by_root), std::mem::take(&mut self.advice))
    }
}

/// Different questions kept: they are of a few kinds, but losses have numbers in them.
const MAX_QUESTIONS: usize = 1_000;

/// A question and what is left open by it.
#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub(crate) doubt: Doubt,
    /// Of so many requests.
    pub(crate) requests: u64,
    /// All in all.
    pub(crate) time: Nanos,
}

/// All questions.
#[derive(Debug, Default)]
pub(crate) struct Questions(HashMap<(Stage, String, String), Question>);

impl Questions {
    /// Takes what was left open about a request.
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

    /// Those with the most time first.
    pub(crate) fn take(&mut self) -> Vec<Question> {
        let mut questions: Vec<Question> = std::mem::take(&mut self.0).into_values().collect();
        let key = |question: &Question| (question.doubt.stage, question.doubt.what.clone());
        questions.sort_by(|a, b| b.time.cmp(&a.time).then_with(|| key(a).cmp(&key(b))));
        questions
    }
}
