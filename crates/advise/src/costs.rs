//! What causes cost slow requests, added up from verdicts. Does not reach verdicts.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::{Cause, Nanos, Verdict};

use crate::words::{counted, percent};
use crate::{Inputs, NoAdvice, rule};

/// Root events of a cause told apart at most; more are counted as so many.
const MAX_ROOTS: usize = 10_000;
/// A cause of less of the slow requests' time is left alone: removing the others gives more. brokerscope's own bound.
const MIN_SHARE: f64 = 0.01;

/// What slow requests lost to what.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// How long requests were watched.
    pub window: Nanos,
    slow: Cost,
    roots: HashMap<Cause, (Cost, HashSet<Arc<str>>)>,
    ways: HashMap<Cause, Cost>,
}

/// Time of slow requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// How many requests.
    pub requests: u64,
    /// Their latencies added up.
    pub time: Nanos,
}

impl Cost {
    fn add(&mut self, latency: Nanos) {
        self.requests += 1;
        self.time += latency;
    }
}

impl Costs {
    /// Of requests that were watched for so long, none of which was slow yet.
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
                self.ways.entry(*cause).or_default().add(latency);
            }
        }
    }

    /// All slow requests.
    pub fn slow(&self) -> Cost {
        self.slow
    }

    /// Requests whose deepest proven cause this is.
    pub fn of(&self, cause: Cause) -> Cost {
        self.roots.get(&cause).map_or_else(Cost::default, |(cost, _)| *cost)
    }

    /// Requests that waited in this way for something else, which is their cause.
    pub fn on_the_way(&self, cause: Cause) -> Cost {
        self.ways.get(&cause).copied().unwrap_or_default()
    }

    /// How many events were the root of requests of this cause.
    pub fn events(&self, cause: Cause) -> u64 {
        self.roots.get(&cause).map_or(0, |(_, roots)| roots.len() as u64)
    }

    /// What part of the slow requests' time that is.
    pub fn share(&self, cost: Cost) -> f64 {
        if self.slow.time <= Nanos::ZERO { 0.0 } else { cost.time.0 as f64 / self.slow.time.0 as f64 }
    }

    /// `journal-commit cost 4.1 s of request time in 60 s (37 events, 85 slow requests, 92 % of their time)`.
    pub(crate) fn told(&self, cause: Cause, cost: Cost) -> String {
        format!(
            "{cause} cost {} of request time in {} ({}, {}, {} of all slow requests' time)",
            cost.time,
            self.window,
            counted(self.events(cause), "event"),
            counted(cost.requests, "slow request"),
            percent(self.share(cost)),
        )
    }
}

/// What these causes cost together as roots, with the sentence that says so, where it is worth a change.
pub(crate) fn costly(inputs: &Inputs, causes: &[Cause]) -> Result<(Cost, String), NoAdvice> {
    let costs = rule::need(Inputs::COSTS, &inputs.costs)?;
    let mut sum = Cost::default();
    let mut told = Vec::new();
    for &cause in causes {
        let cost = costs.of(cause);
        if cost.requests > 0 {
            sum = Cost { requests: sum.requests + cost.requests, time: sum.time + cost.time };
            told.push(costs.told(cause, cost));
        }
    }
    worth(costs, causes, sum)?;
    Ok((sum, told.join("; ")))
}

/// What waiting in this way cost, for any reason.
pub(crate) fn costly_on_the_way(inputs: &Inputs, cause: Cause) -> Result<(Cost, String), NoAdvice> {
    let costs = rule::need(Inputs::COSTS, &inputs.costs)?;
    let (own, way) = (costs.of(cause), costs.on_the_way(cause));
    let sum = Cost { requests: own.requests + way.requests, time: own.time + way.time };
    worth(costs, &[cause], sum)?;
    let told = format!(
        "{} waited in {cause}, {} of request time in {} ({} of all slow requests' time)",
        counted(sum.requests, "slow request"),
        sum.time,
        costs.window,
        percent(costs.share(sum)),
    );
    Ok((sum, told))
}

fn worth(costs: &Costs, causes: &[Cause], sum: Cost) -> Result<(), NoAdvice> {
    let names = causes.iter().map(|cause| cause.as_str()).collect::<Vec<_>>().join(" and ");
    if sum.requests == 0 {
        let among = if costs.slow.requests == 0 {
            "no request was slow".to_owned()
        } else {
            format!("none of {} is due to {names}", counted(costs.slow.requests, "slow request"))
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

    use super::{costly, costly_on_the_way};
    use crate::NoAdvice;
    use crate::tests::{broker, with_cost, with_way};

    #[test]
    fn a_cause_is_told_with_its_events_and_its_share() {
        let mut inputs = broker();
        with_cost(&mut inputs, Cause::JournalCommit, 3, Nanos::from_millis(200));
        with_way(&mut inputs, Cause::GcPause, &[Cause::LogLock, Cause::GcPause], 2, Nanos::from_millis(700));
        let (cost, told) = costly(&inputs, &[Cause::JournalCommit]).unwrap();
        assert_eq!((cost.requests, cost.time), (3, Nanos::from_millis(600)));
        let sentence = "journal-commit cost 600 ms of request time in 60.0 s (3 events, 3 slow requests, 30 % of all slow requests' time)";
        assert_eq!(told, sentence);
        let (way, _) = costly_on_the_way(&inputs, Cause::LogLock).unwrap();
        assert_eq!((way.requests, way.time), (2, Nanos::from_millis(1_400)));
        assert!(matches!(costly(&inputs, &[Cause::LogLock]), Err(NoAdvice::Silent(_))), "it is no root");
    }
}
