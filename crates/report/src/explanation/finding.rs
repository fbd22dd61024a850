//! What was found, in one sentence: what took most of the slow requests' time, and what remains. Does not judge: it adds up
//! what verdicts say, in the words that causes are declared with.

use diagnose::{CauseTotal, RootTotal, causes};
use model::{Cause, Nanos};

use super::Conclusion;
use crate::quantity::{format_count, format_count_of};

/// The sentence.
pub fn describe_finding(conclusion: &Conclusion) -> String {
    let summary = &conclusion.summary;
    let Some(largest) = summary.by_cause.first() else {
        let except = if summary.not_judged.is_empty() { "" } else { ", apart from intended waits" };
        let (limit, seen) = (conclusion.slower_than, format_count(summary.requests));
        return format!("no request took {limit} or longer, of {seen} seen{except}");
    };
    let all = summary.by_cause.iter().map(|total| total.time).sum();
    let (unknown, known): (Vec<_>, Vec<_>) =
        summary.by_cause.iter().partition(|total| total.cause == Cause::Unobserved);
    let mut clauses = vec![match (largest.cause, percent(largest.time, all)) {
        (Cause::Unobserved, share) => {
            let (requests, slowest) = (requests(largest), slowest(largest));
            format!("{share} of slow time is unexplained ({requests} of {slowest})")
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
    clauses.extend(open.map(|open| format!("{} is unexplained", percent(open.time, all))));
    clauses.join("; ")
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

/// The root events, by the words that their cause is declared with.
fn events(cause: Cause, roots: &[&RootTotal]) -> String {
    let is_one = roots.len() == 1;
    let ending = |plural| if is_one { "" } else { plural };
    let words = causes::spec(cause).event.replace("{s}", ending("s")).replace("{es}", ending("es"));
    let words = match common_place(cause, roots) {
        Some(place) => words.replace("{place}", place),
        None => words.replace(" on {place}", ""),
    };
    format!("{} {words}", format_count(roots.len() as u64))
}

/// Where all of them were, as their ids say: the cause, the place, and numbers that tell them from others there.
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
    // A device that has no name has numbers only.
    (!place.bytes().all(|byte| byte.is_ascii_digit())).then_some(place)
}

/// A share of the time, which is neither all nor nothing where it is not.
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

    use super::describe_finding;
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
    fn the_largest_cause_comes_first_with_its_share_and_what_remains_last() {
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
             12 %: 2 other causes; 5 % is unexplained"
        );
    }

    #[test]
    fn what_nothing_explains_is_said_first_where_it_is_most() {
        let open = total(Cause::Unobserved, 12, 199, Some("LIST_OFFSETS"));
        let pause = total(Cause::GcPause, 1, 1, Some("FETCH"));
        assert_eq!(
            finding(vec![open.clone(), pause], &["unobserved", "gc-pause:7:5"]),
            "over 99 % of slow time is unexplained (12 list offsets requests of up to 343 ms); \
             under 1 %: 1 GC pause slowed 1 fetch request to 343 ms"
        );
        assert_eq!(
            finding(vec![open], &["unobserved"]),
            "100 % of slow time is unexplained (12 list offsets requests of up to 343 ms)"
        );
    }

    #[test]
    fn nothing_slow_is_an_answer_too() {
        assert_eq!(finding(vec![], &[]), "no request took 100 ms or longer, of 900 seen");
    }
}
