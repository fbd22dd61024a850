//! What a comparison is made of: runs, counted as recordings are read, for a comparison alone or beside a page of them, and what
//! is to be said of the recordings. Reads nothing itself.

use std::sync::{Mutex, PoisonError};

use compare::{Comparison, Part, Run, Setup};
use model::{Nanos, Request, Verdict};
use recording::Recording;
use report::comparison::ComparisonReport;
use report::explanation::Conclusion;

use crate::filter::same_api;
use crate::options::Filter;

/// Collects runs.
pub(crate) struct Comparing {
    slo: Nanos,
    filter: Filter,
    hosts: Vec<String>,
    notes: Vec<String>,
}

/// One run that is being counted. Requests and verdicts may come from two threads.
pub(crate) struct Counted<'f> {
    filter: &'f Filter,
    run: Mutex<Run>,
}

impl Comparing {
    /// Of requests of these APIs and topics; who takes as long as that, or longer, misses the objective.
    pub(crate) fn new(slo: Nanos, apis: &[String], topics: &[String]) -> Self {
        let filter = Filter { topics: topics.to_vec(), apis: apis.to_vec(), ..Filter::default() };
        Self { slo, filter, hosts: Vec::new(), notes: Vec::new() }
    }

    /// Which requests are compared.
    pub(crate) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// A run that has seen nothing.
    pub(crate) fn count(&self, name: &str, part: Part) -> Counted<'_> {
        Counted { filter: &self.filter, run: Mutex::new(Run::new(name, self.slo, part)) }
    }

    /// Keeps what is to be known of a recording beside its figures.
    pub(crate) fn concluded(&mut self, name: &str, recording: Option<&Recording>, conclusion: &Conclusion) {
        self.hosts.extend(recording.map(host));
        self.notes.extend(conclusion.notes.iter().map(|note| format!("{name}: {note}")));
        for (kind, lost) in conclusion.summary.losses.iter().filter(|(_, lost)| *lost > 0) {
            self.notes.push(format!("{name}: lost {lost} {}", kind.as_str()));
        }
    }

    /// Compares; the first one is the base.
    pub(crate) fn compare(mut self, setups: Vec<Setup>) -> ComparisonReport {
        self.hosts.sort();
        self.hosts.dedup();
        if self.hosts.len() > 1 {
            self.notes.insert(0, format!("not recorded on one machine: {}", self.hosts.join("; ")));
        }
        let name = |wanted: &String| {
            let known = wire::ApiKey::known().find(|api| same_api(wanted, api.name()));
            known.map_or_else(|| wanted.clone(), |api| api.name().to_owned())
        };
        let comparison = Comparison::of(self.slo, setups);
        for empty in comparison.configurations.iter().filter(|one| one.requests == 0) {
            self.notes.push(format!("{}: there is no such request: nothing compares with it", empty.name));
        }
        ComparisonReport {
            apis: self.filter.apis.iter().map(name).collect(),
            topics: self.filter.topics,
            comparison,
            notes: self.notes,
        }
    }
}

impl Counted<'_> {
    /// Counts those of some requests that are compared, but for those that waited as they had asked to.
    pub(crate) fn requests(&self, requests: &[Request]) {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        for request in requests {
            if let Some(bytes) =
                self.filter.record_bytes(request).filter(|_| request.intended_wait().is_none())
            {
                run.request(request.arrival, request.latency_less_wait(), bytes);
            }
        }
    }

    /// Counts verdicts.
    pub(crate) fn verdicts(&self, verdicts: &[Verdict]) {
        if verdicts.is_empty() {
            return;
        }
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        for verdict in verdicts.iter().filter(|one| self.filter.record_bytes(&one.request).is_some()) {
            run.verdict(verdict);
        }
    }

    /// What was counted.
    pub(crate) fn into_run(self) -> Run {
        self.run.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a recording was made on, as far as figures hang on it.
fn host(recording: &Recording) -> String {
    let host = &recording.manifest().host;
    format!("{}, Linux {} {}, {} CPUs", host.name, host.kernel, host.machine, host.cpus)
}
