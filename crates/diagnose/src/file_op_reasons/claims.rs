//! Adds up what claims an operation's time. Every instant goes to the strongest claim that contains it.
//!
//! A wait for a device ends when its block request does: the request that completed just before the wake-up is the
//! one that was awaited. If several completed then, the device can have had none of them before it had the first.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use model::{BlockIo, FileOp, Nanos, Waker};

use crate::file_op_reasons::Reason;
use crate::file_op_reasons::past::Interval;
use crate::kernel_stack;
use crate::kernel_stack::Wait;
use crate::time::TimeSpan;
use crate::window::timeline::insert_sorted;

/// How strong a claim is, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Time that nothing else claims.
    Rest,
    /// A wait without a stack.
    Blank,
    /// A pause that the kernel announced.
    Pause,
    /// A wait by its stack.
    Wait,
    /// The part of a wait for a device before the device had the request.
    Queue,
    /// Freeing memory: on the CPU, including all waits meanwhile.
    Reclaim,
    /// The thread could run and had no CPU.
    RunQueue,
}

/// A stretch of time and what it was spent on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Claim<'i> {
    span: TimeSpan,
    rank: Rank,
    name: &'static str,
    /// The wait that it comes from.
    interval: Option<&'i Interval>,
}

impl<'i> Claim<'i> {
    pub(crate) fn new(span: TimeSpan, rank: Rank, name: &'static str) -> Self {
        Self { span, rank, name, interval: None }
    }

    /// The part of an interval in which the thread waited.
    pub(crate) fn of_wait(interval: &'i Interval) -> Self {
        let rank = if interval.function.is_empty() { Rank::Blank } else { Rank::Wait };
        Self { interval: Some(interval), ..Self::new(interval.wait_span(), rank, interval.wait.as_str()) }
    }

    /// The part of a wait for a device until the device had the request.
    pub(crate) fn before_device(wait: Self, issued: Nanos) -> Self {
        Self { span: wait.span.until(issued), rank: Rank::Queue, name: Wait::DeviceQueue.as_str(), ..wait }
    }

    fn function(&self) -> Option<Arc<str>> {
        let function = &self.interval?.function;
        (!function.is_empty()).then(|| Arc::clone(function))
    }

    /// The thread that ended the wait; `None` if unknown or for an interrupt. A device's completion is no thread's work.
    fn woken_by(&self) -> Option<Waker> {
        let interval = self.interval?;
        let by_device = matches!(interval.wait, Wait::Device | Wait::DirtyPages | Wait::Reclaim | Wait::Nfs);
        interval.off_cpu.waker.clone().filter(|waker| !by_device && kernel_stack::is_at_work(waker))
    }
}

/// A reason while its time is added up.
struct Sum<'i> {
    name: &'static str,
    time: Nanos,
    /// The claim of its longest stretch, and the stretch's length.
    longest: Option<(Claim<'i>, Nanos)>,
}

/// The parts of a stretch, longest first; unclaimed time is `rest`.
pub(crate) fn add_up(whole: TimeSpan, mut claims: Vec<Claim<'_>>, rest: &'static str) -> Vec<Reason> {
    claims.retain_mut(|claim| {
        claim.span = claim.span.within(whole);
        !claim.span.is_empty()
    });
    claims.sort_by_key(|claim| claim.span.start);
    let mut edges = Vec::with_capacity(claims.len() * 2 + 1);
    edges.extend(claims.iter().flat_map(|claim| [claim.span.start, claim.span.end]));
    edges.push(whole.end);
    edges.sort_unstable();
    edges.dedup();
    let mut sums: Vec<Sum<'_>> = Vec::new();
    let mut open: Vec<Claim<'_>> = Vec::new();
    let mut coming = claims.into_iter().peekable();
    let mut from = whole.start;
    for edge in edges {
        open.retain(|claim| claim.span.end > from);
        while let Some(claim) = coming.next_if(|claim| claim.span.start <= from) {
            open.push(claim);
        }
        if edge > from {
            let strongest = open.iter().max_by_key(|claim| claim.rank).copied();
            add_sum(&mut sums, strongest, strongest.map_or(rest, |claim| claim.name), edge - from);
            from = edge;
        }
    }
    sums.sort_by_key(|sum| Reverse(sum.time));
    sums.into_iter().map(Sum::reason).collect()
}

fn add_sum<'i>(sums: &mut Vec<Sum<'i>>, claim: Option<Claim<'i>>, name: &'static str, time: Nanos) {
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

/// The longest time from a block request's completion to its waiter's wake-up: both happen at once, unless an
/// interrupt delays them.
const WAKES_WITHIN: Nanos = Nanos::from_micros(200);
/// Block requests kept for each device: a second of a device at its busiest.
const MAX_REQUESTS: usize = 65_536;
/// More devices than any broker has.
const MAX_DEVICES: usize = 64;

/// Block requests of each device, in the order of their ends.
#[derive(Debug, Default)]
pub(crate) struct DeviceTimes {
    devices: HashMap<(u32, u32), VecDeque<DeviceRequest>>,
}

#[derive(Clone, Copy, Debug)]
struct DeviceRequest {
    start: Nanos,
    end: Nanos,
    inode: Option<u64>,
    /// Whether it is part of a flush. A flush is several requests one after the other (block/blk-flush.c).
    flush: bool,
}

impl DeviceTimes {
    pub(crate) fn block_io(&mut self, io: &BlockIo) {
        let number = io.device.number();
        if self.devices.len() >= MAX_DEVICES && !self.devices.contains_key(&number) {
            return;
        }
        let past = self.devices.entry(number).or_default();
        if past.len() >= MAX_REQUESTS {
            past.pop_front();
        }
        let BlockIo { start, end, inode, flags, .. } = io;
        let request =
            DeviceRequest { start: *start, end: *end, inode: *inode, flush: flags.starts_with('F') };
        insert_sorted(past, request, |request| request.end);
    }

    /// When the device got the block request that a wait was for, if known.
    /// The earliest such time if several requests qualify.
    pub(crate) fn handed_over(&self, op: &FileOp, interval: &Interval) -> Option<Nanos> {
        if interval.wait != Wait::Device {
            return None;
        }
        let TimeSpan { start, end: woken } = interval.wait_span();
        let past = self.devices.get(&op.device.number())?;
        let first = past.partition_point(|request| request.end < woken - WAKES_WITHIN);
        let done = || {
            past.range(first..)
                .take_while(|request| request.end <= woken)
                .filter(|request| request.end > start)
        };
        let own = || done().filter(|request| request.inode == Some(op.inode));
        let request = own().min_by_key(|request| request.start);
        let request = request.or_else(|| done().min_by_key(|request| request.start))?;
        // For a flush, earlier completions in the wait may have been parts of the same flush.
        let mut before = past.iter().rev().take_while(|request| request.end > start);
        let in_parts = request.flush && before.any(|other| other.end <= request.start);
        (!in_parts).then_some(request.start)
    }
}
