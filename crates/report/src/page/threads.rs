//! What each thread of the broker did, over time: on the CPU, in file operations, waiting in the kernel, for a lock or for a
//! CPU. Holds a bounded number of threads.

use std::sync::Arc;

use model::{Event, Nanos, Tid};
use serde::Serialize;

use super::grid::{Cells, Grid, Merge};
use crate::bounded::Bounded;

/// Threads told apart, and those told.
const MOST: usize = 1_000;
const TOLD: usize = 64;

/// What a thread can be seen to do. Waits in the kernel lie mostly within file operations: those are where they were
/// looked for.
pub(super) const STATES: [&str; 5] =
    ["on CPU", "file operation", "waiting in the kernel", "waiting for a lock", "waiting for a CPU"];
const ON_CPU: usize = 0;
const FILE_OP: usize = 1;
const KERNEL: usize = 2;
const LOCK: usize = 3;
const RUNNABLE: usize = 4;

/// The threads.
pub(super) struct Threads {
    by_tid: Bounded<Tid, (), OfThread>,
}

#[derive(Clone, Debug, Default)]
struct OfThread {
    name: Arc<str>,
    cells: Cells<Bucket>,
}

#[derive(Clone, Debug, Default)]
struct Bucket([i64; STATES.len()]);

impl Merge for Bucket {
    fn merge(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| sum.merge(more));
    }
}

/// One thread.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadData {
    /// Its id; none for all that are not told apart.
    pub tid: Option<Tid>,
    /// Its name.
    pub thread: String,
    /// By bucket: the bucket, and microseconds in each of [`STATES`].
    pub cells: Vec<[i64; 6]>,
}

impl Threads {
    pub(super) fn new() -> Self {
        Self { by_tid: Bounded::new(MOST) }
    }

    pub(super) fn event(&mut self, grid: &Grid, event: &Event) {
        match event {
            Event::CpuSample(sample) => {
                self.add(grid, sample.tid, &sample.thread, ON_CPU, (sample.at, sample.at + sample.period));
            }
            Event::FileOp(op) => self.add(grid, op.tid, &op.thread, FILE_OP, (op.start, op.end)),
            Event::OffCpu(interval) => {
                let woken = interval.woken.unwrap_or(interval.end).max(interval.start).min(interval.end);
                let (tid, thread) = (interval.tid, &interval.thread);
                self.add(
                    grid,
                    tid,
                    thread,
                    if interval.preempted { RUNNABLE } else { KERNEL },
                    (interval.start, woken),
                );
                self.add(grid, tid, thread, RUNNABLE, (woken, interval.end));
            }
            Event::LockWait(wait) => self.add(grid, wait.tid, &wait.thread, LOCK, (wait.start, wait.end)),
            _ => {}
        }
    }

    fn add(&mut self, grid: &Grid, tid: Tid, thread: &Arc<str>, state: usize, (start, end): (Nanos, Nanos)) {
        let of = self.by_tid.of(tid, ());
        // The longest name is the one that was not cut.
        if thread.len() > of.name.len() {
            of.name = Arc::clone(thread);
        }
        for (bucket, share) in grid.shares(start, end) {
            if let Some(sum) = of.cells.of(grid, bucket).0.get_mut(state) {
                sum.merge(share);
            }
        }
    }

    /// Those that were seen to do the most first.
    pub(super) fn finish(self, grid: &Grid) -> Vec<ThreadData> {
        let told = self.by_tid.into_groups().map(|(tid, (), of)| {
            let cells = of.cells.finish(grid, 1);
            let time: i64 = cells.values().flat_map(|bucket| bucket.0).sum();
            let cells = cells.iter().map(numbers).collect();
            (time, ThreadData { tid, thread: of.name.to_string(), cells })
        });
        let mut told = told.collect::<Vec<_>>();
        told.sort_by(|(a, of_a), (b, of_b)| b.cmp(a).then_with(|| of_a.tid.cmp(&of_b.tid)));
        told.into_iter().take(TOLD).map(|(_, data)| data).collect()
    }
}

fn numbers((&at, bucket): (&u32, &Bucket)) -> [i64; 6] {
    let mut numbers = [at.into(), 0, 0, 0, 0, 0];
    numbers.iter_mut().skip(1).zip(bucket.0).for_each(|(number, sum)| *number = sum / 1_000);
    numbers
}
