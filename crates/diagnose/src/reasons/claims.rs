//! Adds up what claims an operation's time. Every instant goes to one claim, the strongest that holds it, so that the
//! parts add up to the whole whatever claims overlap.

use std::cmp::Reverse;
use std::sync::Arc;

use model::{Nanos, Waker};

use super::Reason;
use super::past::Interval;
use crate::cause::stack::{self, Wait};

/// How strong a claim is, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rank {
    /// Time that nothing else claims.
    Rest,
    /// A wait of which no stack was taken.
    Blank,
    /// A pause that the kernel announced.
    Pause,
    /// A wait by its stack.
    Wait,
    /// The part of a wait for a device in which the device did not have the request yet.
    Queue,
    /// Freeing memory: on the CPU, and whatever was waited for meanwhile.
    Reclaim,
    /// The thread could run and had no CPU.
    RunQueue,
}

/// A stretch of time and what it was spent on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claim<'i> {
    start: Nanos,
    end: Nanos,
    rank: Rank,
    name: &'static str,
    /// The wait that it is of.
    interval: Option<&'i Interval>,
}

impl<'i> Claim<'i> {
    pub(super) fn new(start: Nanos, end: Nanos, rank: Rank, name: &'static str) -> Self {
        Self { start, end, rank, name, interval: None }
    }

    /// The part of an interval in which the thread waited.
    pub(super) fn of_wait(interval: &'i Interval, rank: Rank) -> Self {
        let (start, end) = (interval.start, interval.waited_until());
        Self { start, end, rank, name: interval.wait.name(), interval: Some(interval) }
    }

    /// The part of a wait for a device until the device had the request.
    pub(super) fn queued(wait: Self, issued: Nanos) -> Self {
        Self { end: issued.min(wait.end), rank: Rank::Queue, name: Wait::DeviceQueue.name(), ..wait }
    }

    fn function(&self) -> Option<Arc<str>> {
        let function = &self.interval?.function;
        (!function.is_empty()).then(|| Arc::clone(function))
    }

    /// Who ended the wait: a thread that is known not to have been an interrupt's victim. What a device
    /// completes is nobody's doing.
    fn woken_by(&self) -> Option<Waker> {
        let interval = self.interval?;
        let by_device = matches!(interval.wait, Wait::Device | Wait::DirtyPages | Wait::Reclaim);
        interval.waker.clone().filter(|waker| !by_device && stack::is_at_work(waker))
    }
}

/// A reason in the making.
struct Sum<'i> {
    name: &'static str,
    time: Nanos,
    /// The claim of its longest stretch, and that stretch.
    longest: Option<(Claim<'i>, Nanos)>,
}

/// The parts of the stretch from `start` to `end`, longest first; what nobody claims is `rest`.
pub(super) fn add_up(
    start: Nanos,
    end: Nanos,
    mut claims: Vec<Claim<'_>>,
    rest: &'static str,
) -> Vec<Reason> {
    claims.retain_mut(|claim| {
        claim.start = claim.start.max(start);
        claim.end = claim.end.min(end);
        claim.start < claim.end
    });
    claims.sort_by_key(|claim| claim.start);
    let mut edges = Vec::with_capacity(claims.len() * 2 + 1);
    edges.extend(claims.iter().flat_map(|claim| [claim.start, claim.end]));
    edges.push(end);
    edges.sort_unstable();
    edges.dedup();
    let mut sums: Vec<Sum<'_>> = Vec::new();
    let mut open: Vec<Claim<'_>> = Vec::new();
    let mut coming = claims.into_iter().peekable();
    let mut from = start;
    for edge in edges {
        open.retain(|claim| claim.end > from);
        while let Some(claim) = coming.next_if(|claim| claim.start <= from) {
            open.push(claim);
        }
        if edge > from {
            let strongest = open.iter().max_by_key(|claim| claim.rank).copied();
            add(&mut sums, strongest, strongest.map_or(rest, |claim| claim.name), edge - from);
            from = edge;
        }
    }
    sums.sort_by_key(|sum| Reverse(sum.time));
    sums.into_iter().map(Sum::reason).collect()
}

fn add<'i>(sums: &mut Vec<Sum<'i>>, claim: Option<Claim<'i>>, name: &'static str, time: Nanos) {
    let longest = claim.map(|claim| (claim, time));
    match sums.iter_mut().find(|sum| sum.name == name) {
        Some(sum) => {
            sum.time += time;
            if sum.longest.is_none_or(|(_, longest)| longest < time) {
                sum.longest = longest;
            }
        }
        None => sums.push(Sum { name, time, longest }),
    }
}

impl Sum<'_> {
    fn reason(self) -> Reason {
        let claim = self.longest.map(|(claim, _)| claim);
        Reason {
            name: self.name,
            time: self.time,
            function: claim.and_then(|claim| claim.function()),
            woken_by: claim.and_then(|claim| claim.woken_by()),
        }
    }
}
