//! Decides when an always-on watch escalates, and for how long.
//! A pure function of times and counts.

use std::collections::VecDeque;

const SECOND_NS: u64 = 1_000_000_000;
/// Slow requests within [`WINDOW_NS`] that begin an escalation: one or two may be a hiccup.
pub(super) const MIN_SLOW: usize = 3;
const WINDOW_NS: u64 = 60 * SECOND_NS;
/// Time without slow requests after which an escalation ends.
pub(super) const QUIET_NS: u64 = 60 * SECOND_NS;
/// Time between two escalations, in which the events of the first are delivered.
const MIN_PAUSE_NS: u64 = 10 * SECOND_NS;
/// The longest escalation.
const MAX_BUDGET_NS: u64 = 300 * SECOND_NS;
/// Divisor of the time that refills the budget: together with the longest escalation, 10 minutes in any hour.
const REFILL: u64 = 12;

/// A change of the escalation's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Begin,
    End,
}

/// Decides by the times of slow requests.
#[derive(Debug)]
pub(super) struct Policy {
    /// Times of the last slow requests, [`MIN_SLOW`] at most.
    slow: VecDeque<u64>,
    is_escalated: bool,
    /// When the last escalation ended.
    ended_ns: Option<u64>,
    /// How long the escalation may still last.
    budget_ns: u64,
    stepped_ns: u64,
}

impl Policy {
    /// Creates the policy of a watch that begins now.
    pub(super) fn new(now_ns: u64) -> Self {
        Self {
            slow: VecDeque::new(),
            is_escalated: false,
            ended_ns: None,
            budget_ns: MAX_BUDGET_NS,
            stepped_ns: now_ns,
        }
    }

    /// Decides what to do after `slow` more slow requests.
    pub(super) fn step(&mut self, now_ns: u64, slow: u64) -> Option<Change> {
        let passed_ns = now_ns.saturating_sub(self.stepped_ns);
        self.stepped_ns = now_ns;
        for _ in 0..slow.min(MIN_SLOW as u64) {
            self.slow.push_back(now_ns);
        }
        self.slow.drain(..self.slow.len().saturating_sub(MIN_SLOW));
        self.budget_ns = if self.is_escalated {
            self.budget_ns.saturating_sub(passed_ns)
        } else {
            self.budget_ns.saturating_add(passed_ns / REFILL).min(MAX_BUDGET_NS)
        };
        match self.is_escalated {
            true if self.is_over(now_ns) => Some(self.end(now_ns)),
            false if self.is_due(now_ns) => {
                self.is_escalated = true;
                Some(Change::Begin)
            }
            _ => None,
        }
    }

    /// Ends the escalation, even if the policy would continue it.
    pub(super) fn end(&mut self, now_ns: u64) -> Change {
        self.is_escalated = false;
        self.ended_ns = Some(now_ns);
        self.slow.clear();
        Change::End
    }

    fn is_over(&self, now_ns: u64) -> bool {
        let is_quiet = self.slow.back().is_none_or(|last| now_ns.saturating_sub(*last) >= QUIET_NS);
        is_quiet || self.budget_ns == 0
    }

    fn is_due(&self, now_ns: u64) -> bool {
        let are_many = self.slow.len() >= MIN_SLOW
            && self.slow.front().is_some_and(|first| now_ns.saturating_sub(*first) < WINDOW_NS);
        let has_rested = self.ended_ns.is_none_or(|ended| now_ns.saturating_sub(ended) >= MIN_PAUSE_NS);
        are_many && has_rested && self.budget_ns >= QUIET_NS
    }
}

#[cfg(test)]
mod tests {
    use super::{Change, Policy, SECOND_NS};

    /// Changes by second, with a given number of slow requests in each second.
    fn run(seconds: u64, slow: impl Fn(u64) -> u64) -> Vec<(u64, Change)> {
        let mut policy = Policy::new(0);
        let step = |second: u64| Some((second, policy.step(second * SECOND_NS, slow(second))?));
        (1..=seconds).filter_map(step).collect()
    }

    #[test]
    fn stalls_begin_an_escalation_and_hiccups_do_not() {
        assert_eq!(run(3_600, |second| u64::from(second % 30 == 0)), [], "two a minute");
        assert_eq!(run(600, |second| if second == 100 { 2 } else { 0 }), []);
        let stall = run(600, |second| if second == 100 { 50 } else { 0 });
        assert_eq!(stall, [(100, Change::Begin), (160, Change::End)]);
        let apart = run(600, |second| u64::from([100, 120, 140].contains(&second)));
        assert_eq!(apart, [(140, Change::Begin), (200, Change::End)]);
    }

    #[test]
    fn slow_requests_extend_an_escalation_up_to_its_budget() {
        let two = run(600, |second| if second == 100 { 3 } else { u64::from(second == 150) });
        assert_eq!(two, [(100, Change::Begin), (210, Change::End)], "one is enough to go on");
        let always = run(3_600 * 4, |_| 10);
        assert_eq!(always.first_chunk(), Some(&[(1, Change::Begin), (301, Change::End)]));
        let in_hour = |from: u64| -> u64 {
            let is_on = |second: &u64| {
                let last = always.iter().rfind(|(at, _)| at <= second);
                last.is_some_and(|(_, change)| *change == Change::Begin)
            };
            (from..from + 3_600).filter(is_on).count() as u64
        };
        assert!((0..3 * 3_600).step_by(60).all(|from| in_hour(from) <= 600), "{always:?}");
        assert!(in_hour(2 * 3_600) > 200, "it goes on: {always:?}");
    }

    #[test]
    fn ended_escalation_pauses_before_the_next() {
        let mut policy = Policy::new(0);
        assert_eq!(policy.step(SECOND_NS, 3), Some(Change::Begin));
        policy.end(2 * SECOND_NS);
        assert_eq!(policy.step(3 * SECOND_NS, 3), None);
        assert_eq!(policy.step(12 * SECOND_NS, 0), Some(Change::Begin));
    }
}
