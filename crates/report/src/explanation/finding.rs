//! The finding, in one sentence: what took most of the slow requests' time, and what remains. Does not judge: it adds up
//! verdicts, in the words of the causes' declarations.

use diagnose::{CauseTotal, MORE_ROOTS, RootTotal, Summary, causes};
use model::{Cause, Nanos};

use super::Conclusion;
use crate::quantity::{format_count, format_count_of};

/// Describes the finding in one sentence.
pub fn describe_finding(conclusion: &Conclusion) -> String {
    let summary = &conclusion.summary;
    let Some(largest) = summary.by_cause.first() else {
        return nothing_slow(summary, conclusion.slower_than);
    };
    let all = summary.by_cause.iter().map(|total| total.time).sum();
    let (unknown, known): (Vec<_>, Vec<_>) =
        summary.by_cause.iter().partition(|total| total.cause == Cause::Unobserved);
    let mut clauses = vec![match (largest.cause, percent(largest.time, all)) {
        (Cause::Unobserved, share) => {
            let (requests, slowest) = (requests(largest), slowest(largest));
            format!("{share} of slow time: no cause explains most of {requests} of {slowest}")
        }
        (_, share) => format!("{share} of slow time: {}", slowed(largest, &summary.by_root)),
    }];
    let mut known = known.into_iter();
    if let Some(first) = known.next().filter(|first| first.cause != largest.cause) {
        clauses.push(format!("{}: {}", percent(first.time, all), slowed(first, &summary.by_root)));
    }
    let others = known.collect::<Vec<_>>();
    let time = others.iter().map(|total| total.time).sum();
    match others.as_slice() {
        [] => {}
        [one] => clauses.push(format!("{}: {}", percent(time, all), one.cause)),
        several => clauses.push(format!("{}: {} other causes", percent(time, all), several.len())),
    }
    let open = unknown.iter().filter(|open| open.cause != largest.cause);
    clauses.extend(open.map(|open| format!("{}: no main cause", percent(open.time, all))));
    clauses.join("; ")
}

/// Says that no request was slow, or that none was seen.
/// A fetch's time counts only from when its data was available.
pub fn nothing_slow(summary: &Summary, limit: Nanos) -> String {
    let not_judged = match summary.not_judged.iter().map(|(_, count)| count).sum() {
        0 => String::new(),
        others => format!("; {} that did are not judged", format_count(others)),
    };
    match summary.requests {
        0 => "no request was seen".to_owned(),
        count => format!(
            "none of {} took {limit} or longer, intended waits left out{not_judged}",
            format_count_of(count, "request")
        ),
    }
}

/// `8 ext4 journal commits on loop0 slowed 240 produce requests to up to 343 ms`.
fn slowed(total: &CauseTotal, roots: &[RootTotal]) -> String {
    let roots = roots.iter().filter(|root| root.cause == total.cause).collect::<Vec<_>>();
    format!("{} slowed {} to {}", events(total.cause, &roots), requests(total), slowest(total))
}

fn slowest(total: &CauseTotal) -> String {
    if total.requests == 1 { total.slowest.to_string() } else { format!("up to {}", total.slowest) }
}

fn requests(total: &CauseTotal) -> String {
    let api = total.api.map(|api| api.to_lowercase().replace('_', " ") + " ").unwrap_or_default();
    format_count_of(total.requests, &format!("{api}request"))
}

/// The root events, in the words of their cause's declaration.
fn events(cause: Cause, roots: &[&RootTotal]) -> String {
    let event = causes::spec(cause).event;
    // Roots beyond the limit are added up as one.
    if roots.is_empty() || roots.iter().any(|root| &*root.root == MORE_ROOTS) {
        return cause.to_string();
    }
    if !event.contains('{') {
        return event.to_owned();
    }
    let is_one = roots.len() == 1;
    let ending = |plural| if is_one { "" } else { plural };
    let words = event.replace("{s}", ending("s")).replace("{es}", ending("es"));
    let words = match common_place(cause, roots) {
        Some(place) => words.replace("{place}", place),
        None => words.replace(" on {place}", ""),
    };
    format!("{} {words}", format_count(roots.len() as u64))
}

/// The place that all roots share.
/// A root's id is the cause, the place, and numbers that distinguish it from others there.
fn common_place<'r>(cause: Cause, roots: &[&'r RootTotal]) -> Option<&'r str> {
    let mut places = roots.iter().map(|root| place(cause, &root.root));
    let first = places.next()??;
    places.all(|place| place == Some(first)).then_some(first)
}

fn place(cause: Cause, id: &str) -> Option<&str> {
    let place = id.strip_prefix(cause.as_str())?.strip_prefix(':')?;
    let mut place = place.split_once(":unseen").map_or(place, |(place, _)| place);
    while let Some((before, number)) = place.rsplit_once(':') {
        if !number.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
        place = before;
    }
    // A device without a name has only numbers.
    (!place.bytes().all(|byte| byte.is_ascii_digit())).then_some(place)
}

/// A share of the time: `over 99 %` if it is almost all, `under 1 %` if it is almost nothing.
pub(super) fn percent(time: Nanos, all: Nanos) -> String {
    match 100.0 * time.0 as f64 / all.0.max(1) as f64 {
        share if share > 99.0 && time < all => "over 99 %".to_owned(),
        share if share < 1.0 => "under 1 %".to_owned(),
        share => format!("{share:.0} %"),
    }
}

#[cfg(test)]
mod tests {
    use diagnose::{CauseTotal, RootTotal, Summary};
    use model::{Cause, Nanos};

    use super::{describe_finding, nothing_slow};
    use crate::explanation::Conclusion;

    fn total(cause: Cause, requests: u64, seconds: i64, api: Option<&'static str>) -> CauseTotal {
        let ms = Nanos::from_millis;
        CauseTotal { cause, requests, time: ms(seconds * 1_000), slowest: ms(343), api }
    }

    fn finding(by_cause: Vec<CauseTotal>, roots: &[&str]) -> String {
        let root = |id: &&str| {
            let cause = Cause::parse(id.split(':').next().unwrap_or_default()).unwrap();
            let time = Nanos::ZERO;
            RootTotal { root: (*id).into(), cause, text: String::new(), requests: 1, time, slowest: time }
        };
        let by_root = roots.iter().map(root).collect();
        let summary = Summary { requests: 900, by_cause, by_root, ..Summary::default() };
        describe_finding(&Conclusion {
            summary,
            slower_than: Nanos::from_millis(100),
            ..Conclusion::default()
        })
    }

    #[test]
    fn largest_cause_comes_first_and_unexplained_time_last() {
        let commits = total(Cause::JournalCommit, 240, 91, Some("PRODUCE"));
        let throttled = total(Cause::DirtyThrottling, 30, 9, Some("PRODUCE"));
        let on_loop0 =
            ["journal-commit:loop0:23", "journal-commit:loop0:unseen:5", "dirty-throttling:loop0:9"];
        assert_eq!(
            finding(vec![commits.clone(), throttled.clone()], &on_loop0),
            "91 % of slow time: 2 ext4 journal commits on loop0 slowed 240 produce requests to up to 343 ms; \
             9 %: dirty-throttling"
        );
        let on_both = ["journal-commit:8:16:23", "journal-commit:sdb:24"];
        let open = total(Cause::Unobserved, 1, 5, None);
        assert_eq!(
            finding(vec![commits, total(Cause::GcPause, 1, 4, None), throttled, open], &on_both),
            "83 % of slow time: 2 ext4 journal commits slowed 240 produce requests to up to 343 ms; \
             12 %: 2 other causes; 5 %: no main cause"
        );
    }

    #[test]
    fn unexplained_time_comes_first_if_it_is_the_largest() {
        let open = total(Cause::Unobserved, 12, 199, Some("LIST_OFFSETS"));
        let pause = total(Cause::GcPause, 1, 1, Some("FETCH"));
        assert_eq!(
            finding(vec![open.clone(), pause], &["unobserved", "gc-pause:7:5"]),
            "over 99 % of slow time: no cause explains most of 12 list offsets requests of up to 343 ms; \
             under 1 %: 1 GC pause slowed 1 fetch request to 343 ms"
        );
        assert_eq!(
            finding(vec![open], &["unobserved"]),
            "100 % of slow time: no cause explains most of 12 list offsets requests of up to 343 ms"
        );
    }

    #[test]
    fn finding_states_that_nothing_was_slow() {
        assert_eq!(
            finding(vec![], &[]),
            "none of 900 requests took 100 ms or longer, intended waits left out"
        );
        let limit = Nanos::from_millis(100);
        assert_eq!(nothing_slow(&Summary::default(), limit), "no request was seen");
        let not_judged = vec![("CREATE_TOPICS", 2)];
        assert_eq!(
            nothing_slow(&Summary { requests: 1, not_judged, ..Summary::default() }, limit),
            "none of 1 request took 100 ms or longer, intended waits left out; 2 that did are not judged"
        );
    }

    #[test]
    fn counts_root_events_only_if_roots_are_events_and_all_known() {
        let busy = total(Cause::HandlersBusy, 500, 9, Some("PRODUCE"));
        assert_eq!(
            finding(vec![busy], &["handlers-busy"]),
            "100 % of slow time: the lack of a free request handler slowed 500 produce requests to up to 343 ms"
        );
        let pauses = total(Cause::GcPause, 3, 9, None);
        let text = "100 % of slow time: gc-pause slowed 3 requests to up to 343 ms";
        assert_eq!(finding(vec![pauses], &[]), text);
    }
}
