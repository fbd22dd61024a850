//! Compares verdicts with what was injected. Reads `explain --format json`, and nothing else of brokerscope.
//!
//! A slow request belongs to a window if at least half of its latency lies in it. If less does, it is at the window's
//! edge and counted separately. If nothing does, it is in a gap, where a cause is spurious unless it was observed.
//! [`Verdict::judge`] judges verdicts.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::ground_truth::{Observation, observed_ns};
use super::plan::{Truth, Window};
use super::result::FaultResult;
use crate::error::{Error, Result};

/// The name for no cause.
pub(super) const UNOBSERVED: &str = "unobserved";
/// Names that say where a thread waited, and not why: they blame nothing.
const SILENT: [&str; 3] = [UNOBSERVED, "kernel-wait", "java-wait"];
const EXACT: &str = "exact";
/// The kind of evidence for a thread's wait, with the function in which it waited.
const OFF_CPU: &str = "off-cpu";
/// The threshold of slow requests by default: `--slower-than`'s.
const DEFAULT_NS: i64 = 100_000_000;
/// Maximum number of wrong verdicts to save as examples.
const EXAMPLES: usize = 12;

/// Score of a run's verdicts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Score {
    /// Number of requests by injected cause and named cause.
    pub(super) named: BTreeMap<String, BTreeMap<String, u64>>,
    /// Requests over the threshold in the windows.
    pub(super) victims: u64,
    /// Of these, blamed on the injected cause or an observed one. Only independent observations count.
    pub(super) right: u64,
    /// Of the right ones, blamed on an observed cause, by injected cause. Only independent observations count.
    #[serde(default, alias = "told")]
    pub(super) observed: BTreeMap<String, u64>,
    /// Blamed on another cause, or on none, by injected cause.
    #[serde(default)]
    pub(super) wrong: BTreeMap<String, u64>,
    /// Of these, blamed on none.
    #[serde(default)]
    pub(super) without_cause: u64,
    /// Of these, blamed on another cause although everything was joined by exact keys.
    pub(super) wrong_exact: u64,
    /// Slow requests without a cause, although their thread was seen to wait. The waits in the evidence are at least
    /// half of the latency. Counts all slow requests, in windows or not.
    #[serde(default)]
    pub(super) unobserved_waits: u64,
    /// Requests of each window, in order.
    pub(super) of_windows: Vec<u64>,
    /// Slow requests with less than half of their latency in a window.
    pub(super) edge: u64,
    /// Of these, the right ones.
    pub(super) edge_right: u64,
    /// Slow requests in windows that no truth applies to.
    pub(super) bystanders: u64,
    /// Slow requests in failed attempts: nothing shows what slowed them.
    #[serde(default)]
    pub(super) of_failed_attempts: u64,
    /// Slow requests outside windows with a cause that nothing else shows, by cause.
    pub(super) spurious: BTreeMap<String, u64>,
    /// Slow requests outside windows with a cause that was observed, by cause.
    #[serde(default, alias = "told_outside")]
    pub(super) observed_outside: BTreeMap<String, u64>,
    /// Slow requests outside windows without a cause.
    pub(super) unexplained: u64,
    /// Slow requests outside windows over the default threshold of `explain`.
    #[serde(default)]
    pub(super) slow_by_default: u64,
    /// Some wrong verdicts, one line each.
    pub(super) examples: Vec<String>,
}

impl Score {
    /// The share of the windows' requests whose verdict was right, in per cent.
    pub(super) fn right_percent(&self) -> f64 {
        percent(self.right, self.victims)
    }

    /// Slow requests outside windows with a cause that nothing else shows.
    pub(super) fn spurious_count(&self) -> u64 {
        self.spurious.values().sum()
    }

    /// Slow requests outside windows with a cause that was observed.
    pub(super) fn observed_outside_count(&self) -> u64 {
        self.observed_outside.values().sum()
    }

    /// Summarizes it in one line. Includes the numbers of windows that were not injected and of failed attempts.
    pub(super) fn in_short(&self, not_injected: usize, failed_attempts: usize) -> String {
        let mut text = match self.victims {
            0 => "nothing injected that could be named".to_owned(),
            victims => format!("{} of {victims} right ({:.1} %)", self.right, self.right_percent()),
        };
        let counts = [
            (self.observed.values().sum(), "of them by what was observed independently"),
            (self.without_cause, "without a cause"),
            (self.victims.saturating_sub(self.right + self.without_cause), "with a wrong one"),
            (self.wrong_exact, "wrong and exact"),
            (self.unobserved_waits, "unobserved although a wait was seen"),
            (self.observed_outside_count(), "outside windows blamed on what was observed independently"),
            (self.spurious_count(), "outside windows blamed on what nothing shows"),
            (self.unexplained, "slow outside windows without a cause"),
            (self.edge, "at an edge"),
            (self.bystanders, "bystanders"),
            (failed_attempts as u64, "attempt(s) that were not injected, and tried again"),
            (self.of_failed_attempts, "slow in these attempts, not judged"),
            (not_injected as u64, "window(s) not injected"),
        ];
        for (count, what) in counts.into_iter().filter(|(count, _)| *count > 0) {
            let _ = write!(text, ", {count} {what}");
        }
        text
    }
}

pub(super) fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// How long after another fault's window its requests may be answered. These are the requests that the other fault
/// slowed.
const AFTERWARDS_NS: i64 = 500_000_000;

/// Scores the output of `explain`, one JSON object per line. In a recording with windows of other faults, only requests
/// in this fault's windows count.
///
/// # Errors
/// [`Error::Unusable`] if a line cannot be parsed.
pub(super) fn score(output: &str, of: &FaultResult) -> Result<Score> {
    let FaultResult { windows, observed, others, .. } = of;
    let mut score = Score { of_windows: vec![0; windows.len()], ..Score::default() };
    for line in output.lines() {
        let read = serde_json::from_str(line);
        match read.map_err(|error| Error::Unusable(format!("explain printed {line}: {error}")))? {
            Line::Verdict(verdict) => {
                let is_own = others.is_empty() || windows.iter().any(|window| verdict.overlap_ns(window) > 0);
                if is_own && !others.iter().any(|other| verdict.is_within(*other)) {
                    score.add(&verdict, windows, observed);
                }
            }
            Line::Other => {}
        }
    }
    Ok(score)
}

/// A line of `explain`'s output.
#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
enum Line {
    Verdict(Verdict),
    #[serde(other)]
    Other,
}

/// The compared fields of a verdict.
#[derive(Debug, Deserialize)]
struct Verdict {
    request: Request,
    cause: String,
    chain: Vec<String>,
    confidence: String,
    #[serde(default)]
    evidence: Vec<Evidence>,
    /// Its doubts.
    #[serde(default)]
    why_not: Option<Vec<Doubt>>,
}

#[derive(Debug, Deserialize)]
struct Evidence {
    kind: String,
    start_ns: i64,
    end_ns: i64,
}

#[derive(Debug, Deserialize)]
struct Doubt {
    what: String,
}

#[derive(Debug, Deserialize)]
struct Request {
    arrival_ns: i64,
    end_ns: i64,
    client_id: Option<String>,
    api: String,
}

impl Score {
    fn add(&mut self, verdict: &Verdict, windows: &[Window], observed: &[Observation]) {
        self.unobserved_waits += u64::from(verdict.is_unobserved_wait());
        let overlaps =
            windows.iter().enumerate().map(|(at, window)| (verdict.overlap_ns(window), at, window));
        let most = overlaps.max_by_key(|(overlap, at, _)| (*overlap, std::cmp::Reverse(*at)));
        let Some((overlap_ns, at, window)) = most.filter(|(overlap, ..)| *overlap > 0) else {
            let mut failed = windows.iter().flat_map(|window| &window.failed_attempts);
            if failed.any(|attempt| verdict.is_within((attempt.start_ns, attempt.end_ns))) {
                self.of_failed_attempts += 1;
                return;
            }
            return self.add_outside(verdict, observed);
        };
        if verdict.latency_ns() < window.threshold_ns() {
            return;
        }
        let truth = window.truths.iter().find(|truth| truth.is_about(verdict.client(), &verdict.request.api));
        let Some(truth) = truth else {
            // Nothing was injected in the windows of a quiet run.
            if window.truths.is_empty() {
                self.add_outside(verdict, observed);
            } else {
                self.bystanders += 1;
            }
            return;
        };
        let judgement = verdict.judge(truth, window.threshold_ns(), observed);
        if overlap_ns.saturating_mul(2) < verdict.latency_ns() {
            self.edge += 1;
            self.edge_right += u64::from(judgement != Judgement::Wrong);
            return;
        }
        if let Some(count) = self.of_windows.get_mut(at) {
            *count += 1;
        }
        self.add_victim(verdict, truth, judgement);
    }

    fn add_victim(&mut self, verdict: &Verdict, truth: &Truth, judgement: Judgement) {
        let injected = truth.causes.first().cloned().unwrap_or_default();
        *self.named.entry(injected.clone()).or_default().entry(verdict.cause.clone()).or_default() += 1;
        self.victims += 1;
        self.right += u64::from(judgement != Judgement::Wrong);
        match judgement {
            Judgement::Injected => {}
            Judgement::Observed => *self.observed.entry(injected).or_default() += 1,
            Judgement::Wrong => {
                self.without_cause += u64::from(verdict.is_silent());
                self.wrong_exact += u64::from(!verdict.is_silent() && verdict.is_exact());
                self.example(verdict, &format!("injected {injected}"));
                *self.wrong.entry(injected).or_default() += 1;
            }
        }
    }

    fn add_outside(&mut self, verdict: &Verdict, observed: &[Observation]) {
        self.slow_by_default += u64::from(verdict.latency_ns() >= DEFAULT_NS);
        if verdict.is_silent() {
            self.unexplained += 1;
        } else if verdict.is_observed(observed) {
            *self.observed_outside.entry(verdict.cause.clone()).or_default() += 1;
        } else {
            *self.spurious.entry(verdict.cause.clone()).or_default() += 1;
            self.example(verdict, "nothing injected");
        }
    }

    fn example(&mut self, verdict: &Verdict, truth: &str) {
        if self.examples.len() < EXAMPLES {
            self.examples.push(format!(
                "{} of {} at {}, {} ms: {truth}, named {} ({}){}",
                verdict.request.api,
                verdict.client(),
                verdict.request.arrival_ns,
                verdict.latency_ns() / 1_000_000,
                verdict.cause,
                verdict.chain.join(" ← "),
                if verdict.is_exact() { ", exact" } else { "" }
            ));
        }
    }
}

impl Window {
    fn threshold_ns(&self) -> i64 {
        i64::try_from(self.threshold_ms).unwrap_or(i64::MAX).saturating_mul(1_000_000)
    }
}

/// Time after a JVM pause in which requests that piled up are served.
const PILED_UP_NS: i64 = 250_000_000;
/// JVM pauses, as brokerscope names them.
const PAUSES: [&str; 2] = ["gc-pause", "safepoint"];
/// A wait behind an earlier request of the connection.
const HEAD_OF_LINE: &str = "head-of-line";

/// Judgement of a verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judgement {
    /// It names the injected cause.
    Injected,
    /// It names a cause that was observed independently.
    Observed,
    /// It names another cause, or none.
    Wrong,
}

impl Verdict {
    fn client(&self) -> &str {
        self.request.client_id.as_deref().unwrap_or_default()
    }

    fn is_exact(&self) -> bool {
        self.confidence == EXACT
    }

    /// Whether it blames nothing.
    fn is_silent(&self) -> bool {
        SILENT.contains(&&*self.cause)
    }

    /// Whether it names no cause although a thread was seen off the CPU. The thread is one of the request's, and was
    /// off the CPU for at least half of the latency.
    fn is_unobserved_wait(&self) -> bool {
        let Request { arrival_ns, end_ns, .. } = self.request;
        let waits = self.evidence.iter().filter(|evidence| evidence.kind == OFF_CPU);
        // A handler may still wait after its request is answered.
        let within = |evidence: &Evidence| {
            evidence.end_ns.min(end_ns).saturating_sub(evidence.start_ns.max(arrival_ns))
        };
        let waited: i64 = waits.map(within).filter(|waited| *waited > 0).sum();
        self.cause == UNOBSERVED && waited.saturating_mul(2) >= self.latency_ns()
    }

    fn latency_ns(&self) -> i64 {
        self.request.end_ns.saturating_sub(self.request.arrival_ns)
    }

    fn is_within(&self, (start_ns, end_ns): (i64, i64)) -> bool {
        self.request.end_ns > start_ns && self.request.arrival_ns < end_ns.saturating_add(AFTERWARDS_NS)
    }

    fn overlap_ns(&self, window: &Window) -> i64 {
        let Request { arrival_ns, end_ns, .. } = self.request;
        end_ns.min(window.end_ns).saturating_sub(arrival_ns.max(window.start_ns))
    }

    /// Judges it within a window in which `truth` was injected; requests of `threshold_ns` or longer are slow.
    fn judge(&self, truth: &Truth, threshold_ns: i64, observed: &[Observation]) -> Judgement {
        if self.names_unobserved_pause(observed) {
            Judgement::Wrong
        } else if truth.allows(&self.cause, &self.chain)
            && self.doubts(&truth.doubt)
            && self.leaves_room(truth, threshold_ns, observed)
        {
            Judgement::Injected
        } else if self.is_observed(observed) {
            Judgement::Observed
        } else {
            Judgement::Wrong
        }
    }

    /// Whether one of its doubts mentions this; true if this is empty.
    fn doubts(&self, of: &str) -> bool {
        of.is_empty() || self.why_not.iter().flatten().any(|doubt| doubt.what.contains(of))
    }

    /// Whether the cause that it names was observed independently. The observations must cover at least half of its
    /// time. A request that arrived during a JVM pause behind another one on its connection was also delayed by the
    /// pause before its arrival: the one ahead waited for all of the pause.
    fn is_observed(&self, observed: &[Observation]) -> bool {
        let before_ns = if self.is_behind_a_pause() { self.paused_before_ns(observed) } else { 0 };
        self.observed_ns(observed, before_ns).saturating_mul(2) >= self.latency_ns()
    }

    fn is_behind_a_pause(&self) -> bool {
        PAUSES.contains(&self.cause.as_str()) && self.chain.iter().any(|link| link == HEAD_OF_LINE)
    }

    /// How long the JVM had been paused when the request arrived.
    fn paused_before_ns(&self, observed: &[Observation]) -> i64 {
        let arrival_ns = self.request.arrival_ns;
        let is_in = |observation: &&Observation| {
            observation.start_ns < arrival_ns
                && arrival_ns < observation.end_ns
                && observation.truth.allows(&self.cause, &self.chain)
        };
        observed
            .iter()
            .filter(is_in)
            .map(|observation| arrival_ns - observation.start_ns)
            .max()
            .unwrap_or_default()
    }

    fn names_unobserved_pause(&self, observed: &[Observation]) -> bool {
        PAUSES.contains(&self.cause.as_str()) && self.observed_ns(observed, PILED_UP_NS) == 0
    }

    /// How long the named cause was observed, from `before_ns` before the arrival.
    fn observed_ns(&self, observed: &[Observation], before_ns: i64) -> i64 {
        let Request { arrival_ns, end_ns, .. } = self.request;
        let is_named = |observed: &Observation| observed.truth.allows(&self.cause, &self.chain);
        observed_ns(observed, arrival_ns.saturating_sub(before_ns), end_ns, is_named)
    }

    /// Whether the injected cause can have slowed it. Ignores the time when all threads were stopped for another
    /// reason.
    fn leaves_room(&self, truth: &Truth, threshold_ns: i64, observed: &[Observation]) -> bool {
        let Request { arrival_ns, end_ns, .. } = self.request;
        let alone_ns = observed_ns(observed, arrival_ns, end_ns, |observed| observed.alone);
        let rest_ns = self.latency_ns().saturating_sub(alone_ns);
        truth.slows_pauses || rest_ns > alone_ns || rest_ns >= threshold_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::faults::plan::FailedAttempt;
    use crate::jvm::Pause;

    fn verdict(client: &str, start_ms: i64, end_ms: i64, cause: &str, confidence: &str) -> String {
        format!(
            r#"{{"type":"verdict","request":{{"api":"PRODUCE","client_id":"{client}","arrival_ns":{},"end_ns":{}}},"cause":"{cause}","chain":["log-lock","{cause}"],"confidence":"{confidence}"}}"#,
            start_ms * 1_000_000,
            end_ms * 1_000_000
        )
    }

    fn window(truths: Vec<Truth>) -> Window {
        Window {
            start_ns: 1_000_000_000,
            end_ns: 2_000_000_000,
            threshold_ms: 50,
            truths,
            ..Window::default()
        }
    }

    fn score_of(lines: &[String], windows: &[Window]) -> Score {
        score(&lines.join("\n"), &FaultResult { windows: windows.to_vec(), ..FaultResult::default() })
            .unwrap()
    }

    #[test]
    fn request_counts_for_the_window_with_most_of_its_latency() {
        let windows = [window(vec![Truth::of(&["journal-commit"])])];
        let lines = [
            verdict("a", 1100, 1300, "journal-commit", "exact"),
            verdict("a", 1100, 1300, "gc-pause", "exact"),
            verdict("a", 1100, 1300, "unobserved", "exact"),
            verdict("a", 1950, 2050, "journal-commit", "exact"),
            verdict("a", 1990, 2090, "gc-pause", "exact"),
            verdict("a", 1100, 1149, "gc-pause", "exact"),
            verdict("a", 3000, 3200, "slow-device", "weak"),
            verdict("a", 3000, 3200, "unobserved", "weak"),
            r#"{"type":"summary"}"#.to_owned(),
        ];
        let score = score_of(&lines, &windows);
        assert_eq!((score.victims, score.right, score.wrong_exact), (4, 2, 1));
        assert_eq!((score.edge, score.edge_right), (1, 0));
        assert_eq!(score.spurious, BTreeMap::from([("slow-device".to_owned(), 1)]));
        assert_eq!((score.unexplained, score.of_windows), (1, vec![4]));
        assert_eq!(score.named["journal-commit"]["unobserved"], 1);
    }

    #[test]
    fn kernel_wait_is_right_only_if_injected() {
        let windows = [window(vec![Truth::of(&["journal-commit"])])];
        let lines = [
            verdict("a", 1100, 1300, "kernel-wait", "exact"),
            verdict("a", 3000, 3200, "kernel-wait", "exact"),
        ];
        let score = score_of(&lines, &windows);
        assert_eq!((score.victims, score.right, score.wrong_exact), (1, 0, 0));
        assert_eq!((score.unexplained, score.spurious_count()), (1, 0));
        let injected = score_of(&lines, &[window(vec![Truth::of(&["kernel-wait"])])]);
        assert_eq!((injected.victims, injected.right), (1, 1));
    }

    #[test]
    fn counts_unobserved_verdicts_with_long_off_cpu_waits() {
        let waited = |cause: &str, ms: i64| {
            let plain = verdict("a", 1100, 1300, cause, "weak");
            let plain = plain.strip_suffix('}').unwrap();
            let end_ns = (1100 + ms) * 1_000_000;
            format!(
                r#"{plain},"evidence":[{{"kind":"file-op","start_ns":0,"end_ns":{end_ns}}},{{"kind":"off-cpu","start_ns":1100000000,"end_ns":{end_ns}}}]}}"#
            )
        };
        let lines = [waited("unobserved", 100), waited("unobserved", 99), waited("kernel-wait", 200)];
        let score = score_of(&lines, &[window(vec![Truth::of(&["journal-commit"])])]);
        assert_eq!((score.victims, score.without_cause, score.unobserved_waits), (3, 3, 1));
        assert!(score.in_short(0, 0).contains(", 3 without a cause"));
    }

    #[test]
    fn each_client_has_its_own_truth_and_quiet_windows_have_none() {
        let truths =
            vec![Truth::of(&["slow-client"]).client("slow"), Truth::of(&["journal-commit"]).client("o")];
        let lines = [
            verdict("slow-1", 1100, 1300, "slow-client", "exact"),
            verdict("o-1", 1100, 1300, "slow-client", "strong"),
            verdict("x", 1100, 1300, "slow-client", "strong"),
        ];
        let score = score_of(&lines, &[window(truths)]);
        assert_eq!((score.victims, score.right, score.bystanders), (2, 1, 1));
        let quiet = score_of(&lines, &[window(Vec::new())]);
        assert_eq!((quiet.victims, quiet.spurious_count(), quiet.slow_by_default), (0, 3, 3));
    }

    #[test]
    fn ignores_requests_slowed_by_another_fault_in_the_recording() {
        let lines = [
            verdict("a", 1100, 1300, "journal-commit", "exact"),
            verdict("a", 4100, 4300, "slow-client", "exact"),
            verdict("a", 5400, 5500, "slow-client", "exact"),
            verdict("a", 6000, 6100, "slow-client", "exact"),
        ];
        let windows = vec![window(vec![Truth::of(&["journal-commit"])])];
        let others = vec![(4_000_000_000, 5_000_000_000)];
        let score =
            score(&lines.join("\n"), &FaultResult { windows, others, ..FaultResult::default() }).unwrap();
        assert_eq!((score.victims, score.right, score.spurious_count()), (1, 1, 0));
    }

    #[test]
    fn counts_requests_of_failed_attempts_without_judging_them() {
        let attempt = FailedAttempt { start_ns: 0, end_ns: 400_000_000, ..FailedAttempt::default() };
        let truths = vec![Truth::of(&["journal-commit"])];
        let windows = [Window { failed_attempts: vec![attempt], ..window(truths) }];
        let lines = [
            verdict("a", 100, 300, "slow-client", "exact"),
            verdict("a", 1100, 1300, "journal-commit", "exact"),
            verdict("a", 3000, 3200, "slow-client", "exact"),
        ];
        let score = score_of(&lines, &windows);
        assert_eq!((score.of_failed_attempts, score.victims, score.right), (1, 1, 1));
        assert_eq!(score.spurious_count(), 1);
    }

    #[test]
    fn refuses_lines_that_are_not_verdicts() {
        assert!(score("nonsense", &FaultResult::default()).is_err());
        assert!(score(r#"{"type":"verdict"}"#, &FaultResult::default()).is_err());
    }

    #[test]
    fn counts_logged_pauses_as_observed_in_windows_and_outside() {
        let pause = |start_ms: i64, end_ms: i64| Pause {
            operation: "G1CollectForAllocation".to_owned(),
            start_ns: start_ms * 1_000_000,
            end_ns: end_ms * 1_000_000,
            reaching_ns: 0,
        };
        let observed = Observation::by_jvm(&[pause(1100, 1290), pause(3000, 3150)]);
        let lines = [
            verdict("a", 1100, 1300, "gc-pause", "exact"),
            verdict("a", 1400, 1600, "gc-pause", "exact"),
            verdict("a", 1400, 1600, "journal-commit", "exact"),
            verdict("a", 3000, 3200, "gc-pause", "exact"),
            verdict("a", 4000, 4200, "gc-pause", "exact"),
        ];
        let windows = vec![window(vec![Truth::of(&["journal-commit"])])];
        let score =
            score(&lines.join("\n"), &FaultResult { windows, observed, ..FaultResult::default() }).unwrap();
        assert_eq!((score.victims, score.right, score.wrong_exact), (3, 2, 1));
        assert_eq!((score.observed["journal-commit"], score.wrong["journal-commit"]), (1, 1));
        assert_eq!((score.observed_outside_count(), score.spurious_count()), (1, 1));
    }
}

#[cfg(test)]
mod verdict_tests {
    use super::*;
    use crate::jvm::Pause;

    const MS: i64 = 1_000_000;

    fn exact_verdict(cause: &str, start_ms: i64, end_ms: i64) -> Verdict {
        let request = Request {
            arrival_ns: start_ms * MS,
            end_ns: end_ms * MS,
            client_id: None,
            api: "PRODUCE".to_owned(),
        };
        let (cause, chain) = (cause.to_owned(), vec![cause.to_owned()]);
        Verdict { request, cause, chain, confidence: EXACT.to_owned(), evidence: Vec::new(), why_not: None }
    }

    fn collection(begin: i64, end: i64, reached_after: i64) -> Vec<Observation> {
        let [start_ns, end_ns, reaching_ns] = [begin, end, reached_after].map(|ms| ms * MS);
        Observation::by_jvm(&[Pause { operation: "G1CollectFull".to_owned(), start_ns, end_ns, reaching_ns }])
    }

    fn worth(cause: &str, observed: &[Observation]) -> Judgement {
        exact_verdict(cause, 0, 100).judge(&Truth::of(&["journal-commit"]), 50 * MS, observed)
    }

    #[test]
    fn only_the_part_of_a_wait_within_the_request_counts() {
        let waited =
            |start, end| Evidence { kind: OFF_CPU.to_owned(), start_ns: start * MS, end_ns: end * MS };
        let verdict = |waits| Verdict { evidence: waits, ..exact_verdict("unobserved", 0, 100) };
        assert!(verdict(vec![waited(10, 40), waited(80, 100)]).is_unobserved_wait());
        assert!(!verdict(vec![waited(60, 200)]).is_unobserved_wait(), "most of it after the answer");
        assert!(!verdict(vec![waited(-100, 40), waited(150, 200)]).is_unobserved_wait());
    }

    #[test]
    fn only_the_injected_cause_is_right_without_observations() {
        assert_eq!(worth("journal-commit", &[]), Judgement::Injected);
        assert_eq!(worth("slow-device", &[]), Judgement::Wrong);
        assert_eq!(worth("unobserved", &[]), Judgement::Wrong);
        assert_eq!(worth("gc-pause", &[]), Judgement::Wrong);
    }

    #[test]
    fn unobserved_verdict_must_name_the_expected_doubt() {
        let truth = Truth::of(&["unobserved"]).because("followers");
        let silent = exact_verdict("unobserved", 0, 100);
        assert_eq!(silent.judge(&truth, 50 * MS, &[]), Judgement::Wrong);
        let why_not = Some(vec![Doubt { what: "whether it waited for followers of orders-1".to_owned() }]);
        let open = Verdict { why_not, ..silent };
        assert_eq!(open.judge(&truth, 50 * MS, &[]), Judgement::Injected);
        assert_eq!(
            Verdict { cause: "run-queue".to_owned(), ..open }.judge(&truth, 50 * MS, &[]),
            Judgement::Wrong
        );
    }

    #[test]
    fn long_collection_replaces_the_injected_cause() {
        let observed = collection(10, 70, 1);
        assert_eq!(worth("gc-pause", &observed), Judgement::Observed);
        assert_eq!(worth("safepoint", &observed), Judgement::Wrong);
        assert_eq!(
            worth("journal-commit", &observed),
            Judgement::Wrong,
            "39 ms are left, of 50 that are slow"
        );
        assert_eq!(worth("unobserved", &observed), Judgement::Wrong);
    }

    #[test]
    fn both_causes_are_right_if_the_rest_is_slow_by_itself() {
        let observed = collection(-20, 49, 1);
        assert_eq!(worth("gc-pause", &observed), Judgement::Observed);
        assert_eq!(worth("journal-commit", &observed), Judgement::Injected);
    }

    #[test]
    fn collection_under_half_of_a_request_is_not_its_cause() {
        let observed = collection(10, 50, 1);
        assert_eq!(worth("gc-pause", &observed), Judgement::Wrong);
        assert_eq!(worth("journal-commit", &observed), Judgement::Injected);
    }

    #[test]
    fn injected_cause_may_delay_or_lengthen_a_pause() {
        let held_up = collection(10, 90, 70);
        assert_eq!(worth("journal-commit", &held_up), Judgement::Injected);
        assert_eq!(worth("safepoint", &held_up), Judgement::Observed);
        let lengthened = Truth::of(&["cpu-throttled"]).slows_pauses();
        let verdict = exact_verdict("cpu-throttled", 0, 100);
        assert_eq!(verdict.judge(&lengthened, 50 * MS, &collection(10, 90, 1)), Judgement::Injected);
    }

    #[test]
    fn injected_pause_must_be_in_the_jvm_log() {
        let injected = Truth::of(&["gc-pause"]).slows_pauses();
        let verdict = exact_verdict("gc-pause", 0, 100);
        assert_eq!(verdict.judge(&injected, 50 * MS, &collection(10, 40, 0)), Judgement::Injected);
        let behind = collection(-300, -200, 0);
        assert_eq!(verdict.judge(&injected, 50 * MS, &behind), Judgement::Injected, "of what piled up");
        for (begin, end) in [(200, 300), (-400, -300)] {
            assert_eq!(verdict.judge(&injected, 50 * MS, &collection(begin, end, 0)), Judgement::Wrong);
        }
    }

    #[test]
    fn verdict_is_observed_only_if_an_observation_matches() {
        let observed = collection(10, 90, 0);
        assert!(exact_verdict("gc-pause", 0, 100).is_observed(&observed));
        assert!(!exact_verdict("run-queue", 0, 100).is_observed(&observed));
        assert!(!exact_verdict("gc-pause", 80, 180).is_observed(&observed));
    }

    #[test]
    fn request_behind_another_counts_the_pause_before_its_arrival() {
        let observed = collection(-60, 40, 0);
        let behind = |start, end| {
            let alone = exact_verdict("gc-pause", start, end);
            Verdict { chain: vec![HEAD_OF_LINE.to_owned(), "gc-pause".to_owned()], ..alone }
        };
        assert!(!exact_verdict("gc-pause", 0, 100).is_observed(&observed));
        assert!(behind(0, 100).is_observed(&observed));
        assert!(!behind(0, 250).is_observed(&observed), "less than half");
        assert!(!behind(41, 100).is_observed(&observed), "after it");
        assert!(!behind(-200, 200).is_observed(&observed), "it arrived before");
    }
}
