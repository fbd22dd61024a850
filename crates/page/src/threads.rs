//! Time that each thread of the broker spent in each state, over time. Holds a bounded number of threads.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Event, JvmPause, Nanos, Pid, Tid};
use serde::Serialize;

use super::grid::{Cells, Grid, Merge, highest};
use report::bounded_map::BoundedMap;
use report::thread_state::{StateTimes, ThreadState, ThreadStates, is_paused_with_jvm};

/// Limits on the threads counted separately, and on those shown.
const MAX: usize = 1_000;
const MAX_SHOWN: usize = 64;
/// Limit on the processes whose JVM pauses are counted.
const MAX_PROCESSES: usize = 64;

/// The threads.
pub(super) struct Threads {
    by_tid: BoundedMap<Tid, (), OfThread>,
    states: ThreadStates,
    /// JVM pauses by process, with the end of the last one: a collection within a safepoint counts once.
    pauses: HashMap<Pid, (Nanos, Cells<i64>)>,
}

#[derive(Clone, Debug, Default)]
struct OfThread {
    name: Arc<str>,
    pid: Pid,
    cells: Cells<StateTimes>,
}

impl Merge for StateTimes {
    fn merge(&mut self, other: Self) {
        self.add_all(&other);
    }
}

/// One thread.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadData {
    /// Its id; `None` for the sum of all other threads.
    pub tid: Option<Tid>,
    /// Its name.
    pub thread: String,
    /// By bucket: the bucket, and microseconds in each of [`ThreadState::ALL`].
    pub cells: Vec<[i64; 8]>,
}

impl Threads {
    pub(super) fn new() -> Self {
        Self { by_tid: BoundedMap::new(MAX), states: ThreadStates::default(), pauses: HashMap::new() }
    }

    pub(super) fn event(&mut self, grid: &Grid, event: &Event) {
        if let Event::JvmPause(pause) = event {
            return self.add_pause(grid, pause);
        }
        let Self { by_tid, states, .. } = self;
        states.of(event, &mut |span| {
            let of = by_tid.of(span.tid, ());
            of.pid = span.pid;
            // The longest name is the one that was not truncated.
            if span.thread.len() > of.name.len() {
                of.name = Arc::clone(span.thread);
            }
            for (bucket, share) in grid.shares(span.start, span.end) {
                of.cells.of(grid, bucket).add(span.state, share);
            }
        });
    }

    fn add_pause(&mut self, grid: &Grid, pause: &JvmPause) {
        if self.pauses.len() >= MAX_PROCESSES && !self.pauses.contains_key(&pause.pid) {
            return;
        }
        let (ended, cells) = self.pauses.entry(pause.pid).or_insert((Nanos::MIN, Cells::default()));
        for (bucket, share) in grid.shares(pause.start.max(*ended), pause.end) {
            cells.of(grid, bucket).merge(share);
        }
        *ended = pause.end.max(*ended);
    }

    /// The threads, the busiest first.
    pub(super) fn finish(self, grid: &Grid) -> Vec<ThreadData> {
        let Self { by_tid, pauses, .. } = self;
        let pauses: HashMap<_, _> =
            pauses.into_iter().map(|(pid, (_, cells))| (pid, cells.finish(grid, 1))).collect();
        let data = by_tid.into_groups().map(|(tid, (), of)| {
            let mut cells = of.cells.finish(grid, 1);
            if is_paused_with_jvm(&of.name) {
                // A source that names no process reports the only one.
                for (&bucket, &stopped) in [of.pid, 0].iter().filter_map(|pid| pauses.get(pid)).flatten() {
                    cells.entry(bucket).or_default().add(ThreadState::Stopped, stopped);
                }
            }
            for bucket in cells.values_mut() {
                *bucket = bucket.exclusive(grid.width);
            }
            let time: i64 = cells.values().map(StateTimes::busy).sum();
            let cells = cells.iter().map(numbers).collect();
            (time, ThreadData { tid, thread: of.name.to_string(), cells })
        });
        highest(data, |data| data.tid, MAX_SHOWN)
    }
}

fn numbers((&at, times): (&u32, &StateTimes)) -> [i64; 8] {
    let mut numbers = [at.into(), 0, 0, 0, 0, 0, 0, 0];
    numbers.iter_mut().skip(1).zip(times.iter()).for_each(|(number, (_, ns))| *number = ns / 1_000);
    numbers
}

#[cfg(test)]
mod tests {
    use model::{
        Device, Event, FileKind, FileOp, FileOpKind, JvmPause, JvmPauseKind, Lock, LockKind, LockSource,
        LockWait, Nanos, OffCpu, Row,
    };

    use super::{Grid, Threads};

    const MS: i64 = 1_000_000;

    fn off_cpu(tid: u32, (start, woken, end): (i64, i64, i64), stack: &str) -> Event {
        Event::OffCpu(Box::new(OffCpu {
            start: Nanos(start * MS),
            end: Nanos(end * MS),
            woken: Some(Nanos(woken * MS)),
            pid: 9,
            tid,
            thread: "handler-1".into(),
            preempted: false,
            stack: stack.into(),
            ..Row::empty()
        }))
    }

    fn write(start: i64, end: i64) -> Event {
        Event::FileOp(Box::new(FileOp {
            start: Nanos(start * MS),
            end: Nanos(end * MS),
            op: FileOpKind::Write,
            pid: 9,
            tid: 1,
            thread: "handler-1".into(),
            offset: 0,
            file: "f".into(),
            kind: FileKind::Log,
            device: Device { major: 7, minor: 0, name: "loop0".into() },
            inode: 1,
            fs: "ext4".into(),
            ..Row::empty()
        }))
    }

    fn pause(start: i64, end: i64, kind: JvmPauseKind) -> Event {
        Event::JvmPause(Box::new(JvmPause {
            start: Nanos(start * MS),
            end: Nanos(end * MS),
            pid: 9,
            kind,
            operation: "".into(),
            cause: "".into(),
            ..Row::empty()
        }))
    }

    #[test]
    fn each_instant_of_a_thread_is_in_one_state() {
        let futex = "do_futex;futex_wait;futex_wait_queue;schedule";
        let mut threads = Threads::new();
        let mut grid = Grid::new(Nanos(0));
        grid.reach(Nanos(100 * MS));
        let wait = LockWait {
            start: Nanos(75 * MS),
            end: Nanos(85 * MS),
            pid: 9,
            tid: 1,
            thread: "handler-1".into(),
            lock: Lock { kind: LockKind::Monitor, class: "java.lang.Object".into(), address: 0 },
            stack: "".into(),
            source: LockSource::Jfr,
            ..Row::empty()
        };
        for event in [
            off_cpu(1, (0, 10, 10), futex),
            off_cpu(1, (26, 36, 38), "vfs_write;wait_transaction_locked;schedule"),
            write(25, 40),
            pause(52, 58, JvmPauseKind::Gc),
            pause(51, 60, JvmPauseKind::Safepoint),
            off_cpu(1, (50, 65, 65), futex),
            off_cpu(1, (75, 85, 85), futex),
            Event::LockWait(Box::new(wait)),
            off_cpu(2, (0, 90, 90), futex),
        ] {
            threads.event(&grid, &event);
        }
        let data = threads.finish(&grid);
        let [first, second] = &data[..] else { panic!("{data:?}") };
        // By bucket of 25 ms: running, waiting for a CPU, file operation, blocked, lock, stopped, idle.
        assert_eq!(
            first.cells,
            [
                [0, 0, 0, 0, 0, 0, 0, 10_000],
                [1, 0, 2_000, 3_000, 10_000, 0, 0, 0],
                [2, 0, 0, 0, 0, 0, 8_000, 7_000],
                [3, 0, 0, 0, 0, 10_000, 0, 0],
            ]
        );
        // It did nothing, so it comes last; it was stopped too.
        assert_eq!((second.tid, second.cells[2]), (Some(2), [2, 0, 0, 0, 0, 0, 8_000, 17_000]));
    }

    #[test]
    fn gc_pause_does_not_stop_the_collector_thread() {
        let mut threads = Threads::new();
        let mut grid = Grid::new(Nanos(0));
        grid.reach(Nanos(20 * MS));
        let Event::OffCpu(mut one) = off_cpu(3, (0, 1, 2), "") else { unreachable!() };
        one.thread = "GC Thread#0".into();
        threads.event(&grid, &Event::OffCpu(one));
        threads.event(&grid, &pause(5, 15, JvmPauseKind::Gc));
        assert_eq!(threads.finish(&grid)[0].cells, [[0, 0, 1_000, 0, 1_000, 0, 0, 0]]);
    }
}
