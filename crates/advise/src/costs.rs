//! What causes cost slow requests, added up from verdicts. Does not reach verdicts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::{Cause, Nanos, Verdict};

use crate::words::{format_count, percent};
use crate::{Inputs, NoAdvice, rule};

/// Limit on the distinct root events of a cause; further ones are not counted.
const MAX_ROOTS: usize = 10_000;
/// A cause with a smaller share of the slow requests' time gets no advice: removing the others gains more. brokerscope's own
/// bound.
const MIN_SHARE: f64 = 0.01;

/// Time that slow requests lost, by cause.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// How long requests were watched.
    pub window: Nanos,
    slow: Cost,
    roots: HashMap<Cause, (Cost, HashSet<Arc<str>>)>,
    links: HashMap<Cause, Cost>,
}

/// Time of slow requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Number of requests.
    pub requests: u64,
    /// Their total latency.
    pub time: Nanos,
}

impl Cost {
    fn add(&mut self, latency: Nanos) {
        self.requests += 1;
        self.time += latency;
    }
}

impl Costs {
    /// Creates empty costs of requests that were watched for this long.
    pub fn over(window: Nanos) -> Self {
        Self { window, ..Self::default() }
    }

    /// Adds one verdict.
    pub fn add(&mut self, verdict: &Verdict) {
        let latency = verdict.latency();
        self.slow.add(latency);
        let (cost, roots) = self.roots.entry(verdict.cause).or_default();
        cost.add(latency);
        if roots.len() < MAX_ROOTS {
            roots.insert(Arc::clone(&verdict.root));
        }
        for (at, cause) in verdict.chain.iter().enumerate() {
            let again = verdict.chain.iter().take(at).any(|earlier| earlier == cause);
            if *cause != verdict.cause && !again {
                self.links.entry(*cause).or_default().add(latency);
            }
        }
    }

    /// All slow requests.
    pub fn slow(&self) -> Cost {
        self.slow
    }

    /// Requests whose root cause (the deepest proven one) is this.
    pub fn of(&self, cause: Cause) -> Cost {
        self.roots.get(&cause).map_or_else(Cost::default, |(cost, _)| *cost)
    }

    /// Requests with this cause in their chain, but with another root cause.
    pub fn as_link(&self, cause: Cause) -> Cost {
        self.links.get(&cause).copied().unwrap_or_default()
    }

    /// Number of root events of this cause.
    pub fn events(&self, cause: Cause) -> u64 {
        self.roots.get(&cause).map_or(0, |(_, roots)| roots.len() as u64)
    }

    /// Share of the slow requests' time.
    pub fn share(&self, cost: Cost) -> f64 {
        if self.slow.time <= Nanos::ZERO { 0.0 } else { cost.time.0 as f64 / self.slow.time.0 as f64 }
    }

    /// Describes a cause's cost. `journal-commit cost 4.1 s of request time in 60.0 s (37 events, 85 slow requests, 92
    /// % of all slow requests' time)`.
    pub(crate) fn describe(&self, cause: Cause, cost: Cost) -> String {
        format!(
            "{cause} cost {} of request time in {} ({}, {}, {} of all slow requests' time)",
            cost.time,
            self.window,
            format_count(self.events(cause), "event"),
            format_count(cost.requests, "slow request"),
            percent(self.share(cost)),
        )
    }
}

/// The total cost of these causes as roots, with a description. An error if it is not worth a change.
pub(crate) fn costly(inputs: &Inputs, causes: &[Cause]) -> Result<(Cost, String), NoAdvice> {
    let costs = rule::need(Inputs::COSTS, &inputs.costs)?;
    let mut sum = Cost::default();
    let mut sentences = Vec::new();
    for &cause in causes {
        let cost = costs.of(cause);
        if cost.requests > 0 {
            sum = Cost { requests: sum.requests + cost.requests, time: sum.time + cost.time };
            sentences.push(costs.describe(cause, cost));
        }
    }
    check_share(costs, causes, sum)?;
    Ok((sum, sentences.join("; ")))
}

/// The cost of waiting in this way, for any reason, with a description.
pub(crate) fn costly_as_link(inputs: &Inputs, cause: Cause) -> Result<(Cost, String), NoAdvice> {
    let costs = rule::need(Inputs::COSTS, &inputs.costs)?;
    let (own, way) = (costs.of(cause), costs.as_link(cause));
    let sum = Cost { requests: own.requests + way.requests, time: own.time + way.time };
    check_share(costs, &[cause], sum)?;
    let evidence = format!(
        "{} waited in {cause}, {} of request time in {} ({} of all slow requests' time)",
        format_count(sum.requests, "slow request"),
        sum.time,
        costs.window,
        percent(costs.share(sum)),
    );
    Ok((sum, evidence))
}

fn check_share(costs: &Costs, causes: &[Cause], sum: Cost) -> Result<(), NoAdvice> {
    let names = causes.iter().map(|cause| cause.as_str()).collect::<Vec<_>>().join(" and ");
    if sum.requests == 0 {
        let among = if costs.slow.requests == 0 {
            "no request was slow".to_owned()
        } else {
            format!("none of {} is due to {names}", format_count(costs.slow.requests, "slow request"))
        };
        return rule::silent(among);
    }
    if costs.share(sum) < MIN_SHARE {
        let (time, window, share) = (sum.time, costs.window, percent(MIN_SHARE));
        return rule::silent(format!(
            "{names} cost {time} in {window}, less than {share} of the slow requests' time"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use model::{Cause, Nanos};

    use super::{costly, costly_as_link};
    use crate::NoAdvice;
    use crate::tests::{broker, with_cost, with_way};

    #[test]
    fn describes_a_cause_with_its_events_and_share() {
        let mut inputs = broker();
        with_cost(&mut inputs, Cause::JournalCommit, 3, Nanos::from_millis(200));
        with_way(&mut inputs, Cause::GcPause, &[Cause::LogLock, Cause::GcPause], 2, Nanos::from_millis(700));
        let (cost, evidence) = costly(&inputs, &[Cause::JournalCommit]).unwrap();
        assert_eq!((cost.requests, cost.time), (3, Nanos::from_millis(600)));
        let sentence = "journal-commit cost 600 ms of request time in 60.0 s (3 events, 3 slow requests, 30 % of all slow requests' time)";
        assert_eq!(evidence, sentence);
        let (way, _) = costly_as_link(&inputs, Cause::LogLock).unwrap();
        assert_eq!((way.requests, way.time), (2, Nanos::from_millis(1_400)));
        assert!(matches!(costly(&inputs, &[Cause::LogLock]), Err(NoAdvice::Silent(_))), "it is no root");
    }
}
