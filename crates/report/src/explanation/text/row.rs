//! One verdict in one line, for who watches them come. Does not tell its story: that comes when all are there.

use model::{Cause, Verdict};

use crate::Style;
use crate::escape::escape;
use crate::explanation::way;
use crate::paint::{Role, paint};
use crate::quantity::{NONE, or_dash};

const HEADINGS: [&str; 5] = ["ANSWERED AT", "LATENCY", "PARTITION", "CAUSE", "WAITED FOR"];

/// The headings, as wide as the rows.
pub(super) fn head(style: &Style) -> String {
    let [answered, latency, partition, cause, waited] = HEADINGS;
    style.heading(&line(answered, latency, partition, cause, waited))
}

/// The verdict.
pub(super) fn of(style: &Style, verdict: &Verdict) -> String {
    let request = &verdict.request;
    let answered = or_dash(request.end.map(|end| style.zone.time_of_day(end)));
    let latency = or_dash(request.latency());
    let first = request.partitions.first();
    let named = verdict.partition.as_ref().map(ToString::to_string);
    let partition = named.or_else(|| {
        first.map(|first| format!("{}-{}", first.topic.as_deref().unwrap_or(NONE), first.partition))
    });
    let waited = match (verdict.cause, verdict.losses.is_empty()) {
        (Cause::Unobserved, _) => "nothing that was seen".to_owned(),
        (_, true) => format!("{} ({})", way::brief(verdict), verdict.confidence),
        (_, false) => format!("{} ({}; near a loss)", way::brief(verdict), verdict.confidence),
    };
    let partition = partition.as_deref().unwrap_or(request.api);
    let text = line(&answered, &latency, &escape(partition), verdict.cause.as_str(), &escape(&waited));
    if verdict.cause == Cause::Unobserved { paint(style.colour, Role::Faint, &text) } else { text }
}

fn line(answered: &str, latency: &str, partition: &str, cause: &str, waited: &str) -> String {
    format!("{answered:<12}  {latency:>8}  {partition:<24}  {cause:<18}  {waited}").trim_end().to_owned()
}
