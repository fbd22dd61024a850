//! Block requests of late, to tell how much of a wait for a device passed before the device had the request.
//!
//! A wait ends when its request does: the request of the same device that was done just before the wake-up is the one
//! waited for. Where several were done then, it is not known which: the device had none of them before it had the
//! first. That holds for whatever kept them from it, a limit that holds bios back before they enter its queue
//! (blk-throttle) too.

use std::collections::{HashMap, VecDeque};

use model::{BlockIo, FileOp, Nanos};

use super::past::Interval;
use crate::cause::stack::Wait;

/// The longest from a request's completion to the wake-up of who waits for it: both are done in one go, which an
/// interrupt may hold up.
const WAKES_WITHIN: Nanos = Nanos::from_micros(200);
/// Kept of one device, which is a second of a device at its busiest.
const MOST_REQUESTS: usize = 65_536;
/// More devices than any broker has.
const MOST_DEVICES: usize = 64;

/// Requests of each device in the order of their ends.
#[derive(Debug, Default)]
pub(super) struct DeviceTimes {
    devices: HashMap<(u32, u32), VecDeque<Request>>,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    start: Nanos,
    end: Nanos,
    inode: Option<u64>,
    /// Whether it is part of a flush, which is several requests one after the other (block/blk-flush.c).
    flush: bool,
}

impl DeviceTimes {
    pub(super) fn block_io(&mut self, io: &BlockIo) {
        let number = io.device.number();
        if self.devices.len() >= MOST_DEVICES && !self.devices.contains_key(&number) {
            return;
        }
        let past = self.devices.entry(number).or_default();
        if past.len() >= MOST_REQUESTS {
            past.pop_front();
        }
        let later = past.iter().rev().take_while(|kept| kept.end > io.end).count();
        past.insert(
            past.len() - later,
            Request { start: io.start, end: io.end, inode: io.inode, flush: io.flags.starts_with('F') },
        );
    }

    /// When the device was handed the request that a wait for it was for, or at the earliest so, where that is known.
    pub(super) fn handed_over(&self, op: &FileOp, interval: &Interval) -> Option<Nanos> {
        if interval.wait != Wait::Device {
            return None;
        }
        let woken = interval.waited_until();
        let past = self.devices.get(&op.device.number())?;
        let first = past.partition_point(|request| request.end < woken - WAKES_WITHIN);
        let done = || {
            past.range(first..)
                .take_while(|request| request.end <= woken)
                .filter(|request| request.end > interval.start)
        };
        let own = || done().filter(|request| request.inode == Some(op.inode));
        let request = own().min_by_key(|request| request.start);
        let request = request.or_else(|| done().min_by_key(|request| request.start))?;
        // Of a flush, what was done earlier in the wait may have been the device's work for the same.
        let mut before = past.iter().rev().take_while(|request| request.end > interval.start);
        let in_parts = request.flush && before.any(|other| other.end <= request.start);
        (!in_parts).then_some(request.start)
    }
}
