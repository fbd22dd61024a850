//! Time of threads on and off the CPU, by stack and over time, for flame graphs. Holds a bounded number of stacks.

use std::collections::HashMap;
use std::sync::Arc;

use model::{CpuState, Event, Nanos};
use serde::Serialize;

use super::grid::{Cells, Grid, Merge};
use super::names::Names;

/// Limits on the stacks counted separately in each state, and on those shown.
const MAX: usize = 20_000;
const MAX_SHOWN: usize = 1_500;
/// Buckets of the axis per bucket of a flame graph. The graph is filtered by brushing and not drawn over time.
pub(super) const BUCKETS_EACH: i64 = 8;

/// Buckets and the time in each.
type Shares = Vec<(u32, i64)>;

/// Time by stack.
#[derive(Debug, Default)]
pub(super) struct Stacks {
    on: OfState,
    off: OfState,
}

#[derive(Debug, Default)]
struct OfState {
    stacks: HashMap<(Arc<str>, Arc<str>), Cells<i64>>,
    left_out: Nanos,
}

/// Flame graphs, filtered by time.
#[derive(Clone, Debug, Serialize)]
pub struct FlameData {
    /// Buckets of the axis per bucket of these.
    pub buckets_each: i64,
    /// Names of frames, which stacks refer to by number.
    pub frames: Vec<String>,
    /// Time on the CPU: samples.
    pub on_cpu: StackData,
    /// Time off it: intervals.
    pub off_cpu: StackData,
}

/// The stacks of one state.
#[derive(Clone, Debug, Serialize)]
pub struct StackData {
    /// Numbers of frames, outermost first; the first is the threads' name.
    pub stacks: Vec<Vec<u32>>,
    /// For each stack, pairs of bucket and microseconds.
    pub cells: Vec<Vec<(u32, i64)>>,
    /// Microseconds in stacks that are not shown.
    pub left_out_us: i64,
}

impl Stacks {
    pub(super) fn event(&mut self, grid: &Grid, event: &Event) {
        match event {
            Event::CpuSample(it) => self.on.add(grid, (&it.thread, &it.stack), it.at, it.period),
            Event::OffCpu(it) => self.off.add(grid, (&it.thread, &it.stack), it.start, it.length()),
            _ => {}
        }
    }

    pub(super) fn finish(self, grid: &Grid) -> FlameData {
        let mut names = Names::default();
        let on_cpu = self.on.finish(grid, &mut names, CpuState::On);
        let off_cpu = self.off.finish(grid, &mut names, CpuState::Off);
        FlameData { buckets_each: BUCKETS_EACH, frames: names.into_texts(), on_cpu, off_cpu }
    }
}

impl OfState {
    fn add(&mut self, grid: &Grid, (thread, stack): (&Arc<str>, &Arc<str>), at: Nanos, length: Nanos) {
        let key = (Arc::clone(thread), Arc::clone(stack));
        let length = length.at_least_zero();
        if self.stacks.len() >= MAX && !self.stacks.contains_key(&key) {
            self.left_out += length;
            return;
        }
        self.stacks.entry(key).or_default().at(grid, at).merge(length.0);
    }

    fn finish(self, grid: &Grid, names: &mut Names, state: CpuState) -> StackData {
        // Threads of one role share a flame.
        let mut by_role = HashMap::<(String, Arc<str>), Shares>::new();
        for ((thread, stack), cells) in self.stacks {
            let cells = cells.finish(grid, BUCKETS_EACH);
            by_role.entry((role(&thread), stack)).or_default().extend(cells);
        }
        let mut all: Vec<_> = by_role.into_iter().map(|(key, cells)| (key, merge_buckets(cells))).collect();
        let time = |cells: &[(u32, i64)]| cells.iter().map(|(_, length)| length).sum::<i64>();
        all.sort_by(|(a, of_a), (b, of_b)| time(of_b).cmp(&time(of_a)).then_with(|| a.cmp(b)));
        let mut left_out_us = self.left_out.0 / 1_000;
        let mut data = StackData { stacks: Vec::new(), cells: Vec::new(), left_out_us: 0 };
        for (at, ((role, stack), cells)) in all.into_iter().enumerate() {
            if at >= MAX_SHOWN {
                left_out_us += time(&cells) / 1_000;
                continue;
            }
            data.stacks.push(numbers(&role, &stack, state, names));
            data.cells.push(cells.into_iter().map(|(at, length)| (at, length / 1_000)).collect());
        }
        StackData { left_out_us, ..data }
    }
}

fn merge_buckets(mut cells: Shares) -> Shares {
    cells.sort_unstable();
    cells.dedup_by(|next, previous| {
        let same = next.0 == previous.0;
        if same {
            previous.1.merge(next.1);
        }
        same
    });
    cells
}

/// Numbers of a stack's frames.
/// An off-CPU stack has only kernel frames without marks: they get the same marks as in samples.
fn numbers(role: &str, stack: &str, state: CpuState, names: &mut Names) -> Vec<u32> {
    let frames = stack.split(';').filter(|frame| !frame.is_empty());
    let mut numbers = vec![names.number(role)];
    numbers.extend(frames.map(|frame| match state {
        CpuState::On => names.number(frame),
        CpuState::Off => names.number(&format!("{frame}{}", model::StackTime::KERNEL)),
    }));
    numbers
}

/// A thread's name without its number.
fn role(thread: &str) -> String {
    let stem = thread.trim_end_matches(|c: char| c.is_ascii_digit());
    match (stem.len() < thread.len(), stem.is_empty()) {
        (true, false) => format!("{stem}*"),
        _ => thread.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{merge_buckets, role};

    #[test]
    fn threads_of_one_role_have_one_name() {
        for (thread, name) in [
            ("data-plane-kafka-request-handler-12", "data-plane-kafka-request-handler-*"),
            ("kafka-scheduler-3", "kafka-scheduler-*"),
            ("main", "main"),
            ("42", "42"),
            ("", ""),
        ] {
            assert_eq!(role(thread), name);
        }
    }

    #[test]
    fn cells_of_one_bucket_are_merged() {
        assert_eq!(merge_buckets(vec![(3, 1), (1, 2), (3, 4)]), [(1, 2), (3, 5)]);
    }
}
