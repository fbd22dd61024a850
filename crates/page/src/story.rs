//! A page's summary in sentences: what was slow, why, and what to change. Does not judge: it counts verdicts.

use diagnose::Summary;
use model::{Cause, Nanos};
use serde::Serialize;

use super::latency::LatencyData;
use super::slow::SlowData;
use report::explanation::nothing_slow;
use report::quantity::{format_count, format_count_of};
use report::tls::tls_lines;

/// Limits on the causes and roots named.
const MAX_CAUSES: usize = 4;
const MAX_ROOTS: usize = 3;

/// The sentences.
#[derive(Clone, Debug, Serialize)]
pub struct Story {
    /// What was slow, in one sentence.
    pub headline: String,
    /// Why, one sentence per cause.
    pub why: Vec<Why>,
    /// The root events that took the most time.
    pub roots: Vec<Why>,
    /// What to change: the cause and the advice.
    pub change: Vec<Why>,
    /// Latencies of requests, by API.
    pub speeds: Vec<String>,
}

/// A sentence and the cause it is about.
#[derive(Clone, Debug, Serialize)]
pub struct Why {
    /// The cause.
    pub cause: &'static str,
    /// The root, if it is about one.
    pub root: Option<String>,
    /// The sentence.
    pub text: String,
}

/// Builds the story.
pub(super) fn build(summary: &Summary, slow: &SlowData, latency: &LatencyData) -> Story {
    Story {
        headline: headline(summary, slow),
        why: why(summary),
        roots: roots(slow),
        change: change(slow),
        speeds: speeds(latency),
    }
}

/// What was slow, and what was not read.
fn headline(summary: &Summary, slow: &SlowData) -> String {
    let unread = tls_lines(&summary.tls).into_iter().map(|line| format!(" {line}."));
    [slowness(summary, slow)].into_iter().chain(unread).collect()
}

fn slowness(summary: &Summary, slow: &SlowData) -> String {
    let limit = Nanos(slow.slower_than_ns);
    let slowest = summary.by_root.iter().map(|root| root.slowest).max();
    let Some(slowest) = slowest.filter(|_| summary.slow > 0) else {
        let text = nothing_slow(summary, limit);
        return format!("{}{}.", text[..1].to_uppercase(), &text[1..]);
    };
    let share = 100.0 * summary.slow as f64 / summary.requests.max(1) as f64;
    format!(
        "{} of {} ({share:.2} %) took {limit} or longer; the slowest took {slowest}.",
        format_count(summary.slow),
        format_count_of(summary.requests, "request"),
    )
}

fn why(summary: &Summary) -> Vec<Why> {
    let all = summary.by_cause.iter().map(|total| total.time).sum::<Nanos>();
    let sentence = |total: &diagnose::CauseTotal| {
        let share = 100.0 * total.time.0 as f64 / all.0.max(1) as f64;
        let roots = summary.by_root.iter().filter(|root| root.cause == total.cause).count() as u64;
        let requests = format_count_of(total.requests, "request");
        let text = match total.cause {
            Cause::Unobserved => format!(
                "{share:.0} % of the slow requests' time ({}): no cause explains most of {requests}.",
                total.time
            ),
            cause => format!(
                "{share:.0} % of the slow requests' time ({}): {requests} slowed by {cause}, in {}.",
                total.time,
                format_count_of(roots, "event")
            ),
        };
        Why { cause: total.cause.as_str(), root: None, text }
    };
    summary.by_cause.iter().take(MAX_CAUSES).map(sentence).collect()
}

fn roots(slow: &SlowData) -> Vec<Why> {
    let known =
        slow.by_root.iter().filter(|root| root.cause != Cause::Unobserved.as_str() && !root.text.is_empty());
    let sentence = |root: &super::slow::RootData| {
        let (requests, slowest) = (format_count_of(root.requests, "request"), Nanos(root.slowest_ns));
        let text = format!("{} It slowed {requests}, the slowest took {slowest}.", sentence_of(&root.text));
        Why { cause: root.cause, root: Some(root.root.clone()), text }
    };
    known.take(MAX_ROOTS).map(sentence).collect()
}

/// Makes a whole sentence of evidence, which is worded as part of one.
/// A leading name keeps its spelling.
fn sentence_of(text: &str) -> String {
    let text = text.strip_prefix("the ").map_or_else(|| text.to_owned(), |rest| format!("The {rest}"));
    if text.ends_with('.') { text } else { text + "." }
}

fn change(slow: &SlowData) -> Vec<Why> {
    let mut seen_advice: Vec<&str> = Vec::new();
    let mut change = Vec::new();
    for total in &slow.by_cause {
        for advice in &total.advice {
            if !seen_advice.contains(advice) {
                seen_advice.push(advice);
                change.push(Why { cause: total.cause, root: None, text: (*advice).to_owned() });
            }
        }
    }
    change
}

fn speeds(latency: &LatencyData) -> Vec<String> {
    let mut apis: Vec<_> = latency.apis.iter().filter(|api| !api.intended_wait).collect();
    apis.sort_by_key(|api| std::cmp::Reverse(api.requests));
    let length = |ns: u64| Nanos(i64::try_from(ns).unwrap_or(i64::MAX)).to_string();
    let sentence = |api: &&super::latency::ApiData| {
        format!(
            "{}: {}, p50 {}, p99 {}, p99.9 {}, max {}",
            api.api,
            format_count_of(api.requests, "request"),
            length(api.p50_ns),
            length(api.p99_ns),
            length(api.p999_ns),
            length(api.max_ns)
        )
    };
    apis.iter().take(3).map(sentence).collect()
}
