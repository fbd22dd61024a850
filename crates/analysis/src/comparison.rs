//! Comparison runs: figures of recordings, counted as they are read, and notes on the recordings.
//! Does not read recordings.

use std::sync::{Mutex, PoisonError};

use compare::{Comparison, Part, Run, Setup};
use model::row_summary::RequestColumns;
use model::{Nanos, Verdict};
use recording::Recording;
use report::comparison::ComparisonReport;
use report::explanation::Conclusion;

use crate::filter::{RequestFilter, same_api};
use crate::gaps::loss_notes;

/// Collects runs for a comparison.
pub struct ComparisonRuns {
    slo: Nanos,
    /// Selects the requests that are compared.
    pub filter: RequestFilter,
    hosts: Vec<String>,
    notes: Vec<String>,
}

/// Counts one run. Requests and verdicts may come from two threads.
pub struct RunCounter<'f> {
    filter: &'f RequestFilter,
    run: Mutex<Run>,
}

impl ComparisonRuns {
    /// Compares requests of these APIs and topics.
    /// A request that takes `slo` or longer misses the objective.
    pub fn new(slo: Nanos, apis: &[String], topics: &[String]) -> Self {
        let filter =
            RequestFilter { topics: topics.to_vec(), apis: apis.to_vec(), ..RequestFilter::default() };
        Self { slo, filter, hosts: Vec::new(), notes: Vec::new() }
    }

    /// Starts to count a run.
    pub fn count(&self, name: &str, part: Part) -> RunCounter<'_> {
        RunCounter { filter: &self.filter, run: Mutex::new(Run::new(name, self.slo, part)) }
    }

    /// Adds the host and the notes of a recording.
    pub fn add_conclusion(&mut self, name: &str, recording: Option<&Recording>, conclusion: &Conclusion) {
        self.hosts.extend(recording.map(host));
        self.notes.extend(conclusion.notes.iter().map(|note| format!("{name}: {note}")));
        self.notes.extend(loss_notes(&conclusion.summary.losses).map(|note| format!("{name}: {note}")));
    }

    /// Compares the setups; the first is the base.
    pub fn compare(mut self, setups: Vec<Setup>) -> ComparisonReport {
        self.hosts.sort();
        self.hosts.dedup();
        if self.hosts.len() > 1 {
            self.notes.insert(0, format!("recorded on different hosts: {}", self.hosts.join("; ")));
        }
        let name = |requested: &String| {
            let known = wire::ApiKey::known().find(|api| same_api(requested, api.name()));
            known.map_or_else(|| requested.clone(), |api| api.name().to_owned())
        };
        let comparison = Comparison::of(self.slo, setups);
        for empty in comparison.configurations.iter().filter(|one| one.requests == 0) {
            self.notes
                .push(format!("{}: no request matches, so nothing can be compared with it", empty.name));
        }
        ComparisonReport {
            apis: self.filter.apis.iter().map(name).collect(),
            topics: self.filter.topics,
            comparison,
            notes: self.notes,
        }
    }
}

impl RunCounter<'_> {
    /// Counts the requests that the filter selects, except long polls.
    pub fn requests(&self, requests: &[RequestColumns]) {
        let mut run = self.run.lock().unwrap_or_else(PoisonError::into_inner);
        for request in requests {
            if let Some(bytes) =
                self.filter.record_bytes(request).filter(|_| request.intended_wait().is_none())
            {
                run.request(request.arrival, request.latency_less_wait(), bytes);
            }
        }
    }

    /// Counts a verdict if the filter selects its request.
    pub fn verdict(&self, verdict: &Verdict) {
        if self.filter.matches(&verdict.request) {
            self.run.lock().unwrap_or_else(PoisonError::into_inner).verdict(verdict);
        }
    }

    /// The counted run.
    pub fn into_run(self) -> Run {
        self.run.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Describes the host of a recording, as far as figures depend on it.
fn host(recording: &Recording) -> String {
    let host = &recording.manifest().host;
    format!("{}, Linux {} {}, {} CPUs", host.name, host.kernel, host.machine, host.cpus)
}
