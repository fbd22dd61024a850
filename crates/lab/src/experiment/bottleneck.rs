//! What a run's slow requests spent their time on, in a sentence, from the last line of `explain --format json`.

use serde::Deserialize;
use std::collections::BTreeMap;

/// The causes that are named: the largest.
const NAMED: usize = 3;

#[derive(Deserialize)]
struct Summary {
    requests: u64,
    slow: u64,
    by_cause: BTreeMap<String, Share>,
}

#[derive(Deserialize)]
struct Share {
    time_ns: f64,
}

/// `412 of 9,000 requests took 10 ms or longer: log-lock 61 %, slow-device 20 % of their time`. `None` of what is no
/// summary.
pub(super) fn told(summary: &str, slower_than_ms: u64) -> Option<String> {
    let Summary { requests, slow, by_cause } = serde_json::from_str(summary).ok()?;
    if slow == 0 {
        return Some(format!("none of {requests} requests took {slower_than_ms} ms or longer"));
    }
    let whole: f64 = by_cause.values().map(|share| share.time_ns).sum();
    let mut shares: Vec<(&String, f64)> =
        by_cause.iter().map(|(cause, share)| (cause, 100.0 * share.time_ns / whole.max(1.0))).collect();
    shares.sort_by(|left, right| right.1.total_cmp(&left.1));
    let named: Vec<String> =
        shares.iter().take(NAMED).map(|(cause, percent)| format!("{cause} {percent:.0} %")).collect();
    Some(format!(
        "{slow} of {requests} requests took {slower_than_ms} ms or longer: {} of their time",
        named.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_causes_are_named() {
        let share = |ns: u64| format!("{{\"requests\":1,\"time_ns\":{ns}}}");
        let summary = format!(
            "{{\"type\":\"summary\",\"requests\":90,\"slow\":4,\"by_cause\":{{\"a\":{},\"b\":{},\"c\":{},\"d\":{}}}}}",
            share(10),
            share(60),
            share(5),
            share(25)
        );
        assert_eq!(
            told(&summary, 10).unwrap(),
            "4 of 90 requests took 10 ms or longer: b 60 %, d 25 %, a 10 % of their time"
        );
        let none = told("{\"requests\":90,\"slow\":0,\"by_cause\":{}}", 10);
        assert_eq!(none.unwrap(), "none of 90 requests took 10 ms or longer");
        assert_eq!(told("{\"type\":\"verdict\"}", 10), None);
    }
}
