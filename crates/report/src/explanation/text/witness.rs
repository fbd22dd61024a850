//! What Kafka's own request log says, beside what was seen: of one request, and of all. Neither is preferred.

use diagnose::request_log_check::{Agreement, Differences, TOLERANCE, TimesComparison};
use model::{KafkaTimes, Nanos, Verdict};

use crate::quantity::{format_count, format_count_of};

/// One request by the broker's clock.
pub(super) fn of(verdict: &Verdict) -> Option<String> {
    let KafkaTimes { queue, local, remote, response_queue, send, total, .. } = verdict.kafka?;
    let parts = [
        ("queue", queue),
        ("local", local),
        ("remote", remote),
        ("response queue", response_queue),
        ("send", send),
    ];
    let parts = parts.into_iter().filter(|(_, time)| *time > Nanos::ZERO);
    let parts = parts.map(|(name, time)| format!("{name} {time}")).collect::<Vec<_>>().join(" + ");
    let text = format!("Kafka's request log says {total} = {parts}");
    Some(match TimesComparison::of(verdict).filter(TimesComparison::disagrees) {
        Some(TimesComparison { local, after, .. }) => format!(
            "{text}; that disagrees: until the end of the write {} here and {} there, after it {} and {}",
            local.0, local.1, after.0, after.1
        ),
        None => text,
    })
}

/// How far both agree, all in all.
pub(super) fn of_all(agreement: &Agreement) -> Vec<String> {
    let mut sentences = vec![format!(
        "{} of these produce requests are in Kafka's request log{}, {} disagree with it by more than {TOLERANCE}",
        format_count(agreement.compared),
        if agreement.not_in_log > 0 {
            format!(" ({} are not)", format_count(agreement.not_in_log))
        } else {
            String::new()
        },
        format_count(agreement.disagreeing),
    )];
    for (what, differences) in [
        ("queue, handler, lock and append against its queue and local time", &agreement.local),
        ("remote and respond against its remote, response-queue and send time", &agreement.after),
    ] {
        sentences.extend(told(what, differences));
    }
    if agreement.partly_seen > 0 {
        sentences.push(format!(
            "of {} that are in the log the read, the write or the response was not seen",
            format_count_of(agreement.partly_seen, "request")
        ));
    }
    sentences
}

fn told(what: &str, differences: &Differences) -> Option<String> {
    let [least, median, most] = [0.01, 0.5, 0.99].map(|share| differences.quantile(share));
    Some(format!(
        "{what}: {:.2} % within {TOLERANCE}; ours is longer by {} at the median, from {} to {} in 98 of 100",
        differences.within() * 100.0,
        median?,
        least?,
        most?
    ))
}
