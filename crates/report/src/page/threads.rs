//! What each thread of the broker did, over time: it ran, waited for a CPU or a lock, was in a file operation or blocked by
//! the disk, or the JVM had stopped it. Holds a bounded number of threads.

use std::collections::HashMap;
use std::sync::Arc;

use model::{Event, JvmPause, Nanos, OffCpu, Pid, Tid};
use serde::Serialize;

use super::grid::{Cells, Grid, Merge};
use crate::bounded::Bounded;

/// Threads told apart, and those told.
const MOST: usize = 1_000;
const TOLD: usize = 64;
/// Stacks whose states are remembered, and processes that are stopped.
const MOST_STACKS: usize = 20_000;
const MOST_PROCESSES: usize = 64;

/// What a thread can be seen to do. Each instant is in one of them, the more telling one where two were seen.
pub(super) const STATES: [&str; 7] = [
    "running",
    "waiting for a CPU",
    "in a file operation",
    "blocked by disk or kernel",
    "waiting for a lock",
    "stopped by the JVM",
    "waiting for work",
];
const RUNNING: usize = 0;
const RUNNABLE: usize = 1;
const FILE_OP: usize = 2;
const BLOCKED: usize = 3;
const LOCK: usize = 4;
const STOPPED: usize = 5;
const IDLE: usize = 6;

/// Where threads sleep until somebody has something for them: futexes (Java's monitors, parked threads), polled sockets,
/// sleeps and pipes. Functions of the kernel (`kernel/futex/waitwake.c`, `fs/eventpoll.c`, `fs/select.c`,
/// `kernel/time/hrtimer.c`, `net/ipv4`, `fs/pipe.c`).
const IDLE_FUNCTIONS: [&str; 9] = [
    "futex_",
    "ep_poll",
    "do_epoll_wait",
    "do_sys_poll",
    "do_select",
    "hrtimer_nanosleep",
    "inet_csk_accept",
    "sk_wait_data",
    "pipe_read",
];
/// The JVM's own threads, which its stops do not stop: the collectors', the VM's and the compilers' names in HotSpot
/// (`gcThread`, `vmThread.cpp`, `compilerThread.cpp`), whole or cut by the kernel.
const NEVER_STOPPED: [&str; 9] =
    ["GC Thread", "G1 ", "VM ", "C1 Comp", "C2 Comp", "ZDriver", "ZWorker", "ZDirector", "Shenandoah"];

/// The threads.
pub(super) struct Threads {
    by_tid: Bounded<Tid, (), OfThread>,
    idle_stacks: HashMap<Arc<str>, bool>,
    /// Stops by process, with the end of the last: a collection within a safepoint counts once.
    stops: HashMap<Pid, (Nanos, Cells<i64>)>,
}

#[derive(Clone, Debug, Default)]
struct OfThread {
    name: Arc<str>,
    pid: Pid,
    cells: Cells<Bucket>,
}

#[derive(Clone, Debug, Default)]
struct Bucket([i64; STATES.len()]);

impl Merge for Bucket {
    fn merge(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| sum.merge(more));
    }
}

/// Whose time it is.
struct Who<'a> {
    pid: Pid,
    tid: Tid,
    thread: &'a Arc<str>,
}

/// One thread.
#[derive(Clone, Debug, Serialize)]
pub struct ThreadData {
    /// Its id; none for all that are not told apart.
    pub tid: Option<Tid>,
    /// Its name.
    pub thread: String,
    /// By bucket: the bucket, and microseconds in each of [`STATES`].
    pub cells: Vec<[i64; 8]>,
}

impl Threads {
    pub(super) fn new() -> Self {
        Self { by_tid: Bounded::new(MOST), idle_stacks: HashMap::new(), stops: HashMap::new() }
    }

    pub(super) fn event(&mut self, grid: &Grid, event: &Event) {
        match event {
            Event::CpuSample(it) => {
                let who = Who { pid: it.pid, tid: it.tid, thread: &it.thread };
                self.add(grid, &who, RUNNING, (it.at, it.at + it.period));
            }
            Event::FileOp(op) => {
                let who = Who { pid: op.pid, tid: op.tid, thread: &op.thread };
                self.add(grid, &who, FILE_OP, (op.start, op.end));
            }
            Event::LockWait(wait) => {
                let who = Who { pid: wait.pid, tid: wait.tid, thread: &wait.thread };
                self.add(grid, &who, LOCK, (wait.start, wait.end));
            }
            Event::OffCpu(interval) => self.off_cpu(grid, interval),
            Event::JvmPause(pause) => self.stop(grid, pause),
            _ => {}
        }
    }

    fn off_cpu(&mut self, grid: &Grid, interval: &OffCpu) {
        let who = Who { pid: interval.pid, tid: interval.tid, thread: &interval.thread };
        let (start, end) = (interval.start, interval.end);
        let woken =
            if interval.preempted { start } else { interval.woken.unwrap_or(end).max(start).min(end) };
        let state = if self.is_idle(&interval.stack) { IDLE } else { BLOCKED };
        self.add(grid, &who, state, (start, woken));
        self.add(grid, &who, RUNNABLE, (woken, end));
    }

    fn is_idle(&mut self, stack: &Arc<str>) -> bool {
        if let Some(&idle) = self.idle_stacks.get(stack) {
            return idle;
        }
        let idle = stack.split(';').any(|frame| IDLE_FUNCTIONS.iter().any(|one| frame.contains(one)));
        if self.idle_stacks.len() < MOST_STACKS {
            self.idle_stacks.insert(Arc::clone(stack), idle);
        }
        idle
    }

    fn add(&mut self, grid: &Grid, who: &Who<'_>, state: usize, (start, end): (Nanos, Nanos)) {
        if end <= start {
            return;
        }
        let of = self.by_tid.of(who.tid, ());
        of.pid = who.pid;
        // The longest name is the one that was not cut.
        if who.thread.len() > of.name.len() {
            of.name = Arc::clone(who.thread);
        }
        for (bucket, share) in grid.shares(start, end) {
            if let Some(sum) = of.cells.of(grid, bucket).0.get_mut(state) {
                sum.merge(share);
            }
        }
    }

    fn stop(&mut self, grid: &Grid, pause: &JvmPause) {
        if self.stops.len() >= MOST_PROCESSES && !self.stops.contains_key(&pause.pid) {
            return;
        }
        let (ended, cells) = self.stops.entry(pause.pid).or_insert((Nanos::MIN, Cells::default()));
        for (bucket, share) in grid.shares(pause.start.max(*ended), pause.end) {
            cells.of(grid, bucket).merge(share);
        }
        *ended = pause.end.max(*ended);
    }

    /// Those that were seen to do the most first.
    pub(super) fn finish(self, grid: &Grid) -> Vec<ThreadData> {
        let Self { by_tid, stops, .. } = self;
        let stops: HashMap<_, _> =
            stops.into_iter().map(|(pid, (_, cells))| (pid, cells.finish(grid, 1))).collect();
        let told = by_tid.into_groups().map(|(tid, (), of)| {
            let mut cells = of.cells.finish(grid, 1);
            if !NEVER_STOPPED.iter().any(|one| of.name.starts_with(one)) {
                // A source that does not say which process tells of the only one.
                for (&bucket, &stopped) in [of.pid, 0].iter().filter_map(|pid| stops.get(pid)).flatten() {
                    cells.entry(bucket).or_default().0[STOPPED].merge(stopped);
                }
            }
            for bucket in cells.values_mut() {
                bucket.part(grid.width());
            }
            let time: i64 = cells.values().map(Bucket::busy).sum();
            let cells = cells.iter().map(numbers).collect();
            (time, ThreadData { tid, thread: of.name.to_string(), cells })
        });
        let mut told = told.collect::<Vec<_>>();
        told.sort_by(|(a, of_a), (b, of_b)| b.cmp(a).then_with(|| of_a.tid.cmp(&of_b.tid)));
        told.into_iter().take(TOLD).map(|(_, data)| data).collect()
    }
}

impl Bucket {
    /// What lies within something else counts as itself only: a block within a file operation, a sleep within a wait for a
    /// lock or within a stop. Samples stand for whole periods: they fill what is left.
    fn part(&mut self, width: i64) {
        let [running, runnable, file_op, blocked, lock, stopped, idle] = self.0;
        let stopped = stopped.min(width);
        let file_op = (file_op - blocked - runnable).max(0);
        let idle = (idle - lock - stopped).max(0);
        let waiting = runnable + file_op + blocked + lock + stopped + idle;
        let running = running.min((width - waiting).max(0));
        self.0 = [running, runnable, file_op, blocked, lock, stopped, idle];
    }

    /// All but waiting for work, and stops, which all threads share.
    fn busy(&self) -> i64 {
        let [running, runnable, file_op, blocked, lock, ..] = self.0;
        running + runnable + file_op + blocked + lock
    }
}

fn numbers((&at, bucket): (&u32, &Bucket)) -> [i64; 8] {
    let mut numbers = [at.into(), 0, 0, 0, 0, 0, 0, 0];
    numbers.iter_mut().skip(1).zip(bucket.0).for_each(|(number, sum)| *number = sum / 1_000);
    numbers
}

#[cfg(test)]
mod tests {
    use model::{
        Device, Event, FileKind, FileOp, FileOpKind, JvmPause, JvmPauseKind, Lock, LockKind, LockSource,
        LockWait, Nanos, OffCpu,
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
            waker: None,
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
            bytes: None,
            errno: None,
            disk_bytes: None,
            readahead_bytes: None,
            offset: 0,
            file: "f".into(),
            renamed_to: None,
            topic_partition: None,
            kind: FileKind::Log,
            device: Device { major: 7, minor: 0, name: "loop0".into() },
            inode: 1,
            fs: "ext4".into(),
            batch: None,
            journal_transaction: None,
        }))
    }

    fn stop(start: i64, end: i64, kind: JvmPauseKind) -> Event {
        Event::JvmPause(Box::new(JvmPause {
            start: Nanos(start * MS),
            end: Nanos(end * MS),
            pid: 9,
            kind,
            operation: "".into(),
            cause: "".into(),
            gc_id: None,
            reach: None,
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
            holder: None,
            stack: "".into(),
            source: LockSource::Jfr,
        };
        for event in [
            off_cpu(1, (0, 10, 10), futex),
            off_cpu(1, (26, 36, 38), "vfs_write;wait_transaction_locked;schedule"),
            write(25, 40),
            stop(52, 58, JvmPauseKind::Gc),
            stop(51, 60, JvmPauseKind::Safepoint),
            off_cpu(1, (50, 65, 65), futex),
            off_cpu(1, (75, 85, 85), futex),
            Event::LockWait(Box::new(wait)),
            off_cpu(2, (0, 90, 90), futex),
        ] {
            threads.event(&grid, &event);
        }
        let told = threads.finish(&grid);
        let [first, second] = &told[..] else { panic!("{told:?}") };
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
        // It did nothing: it comes last, and it was stopped too.
        assert_eq!((second.tid, second.cells[2]), (Some(2), [2, 0, 0, 0, 0, 0, 8_000, 17_000]));
    }

    #[test]
    fn the_collector_is_not_stopped_by_itself() {
        let mut threads = Threads::new();
        let mut grid = Grid::new(Nanos(0));
        grid.reach(Nanos(20 * MS));
        let Event::OffCpu(mut one) = off_cpu(3, (0, 1, 2), "") else { unreachable!() };
        one.thread = "GC Thread#0".into();
        threads.event(&grid, &Event::OffCpu(one));
        threads.event(&grid, &stop(5, 15, JvmPauseKind::Gc));
        assert_eq!(threads.finish(&grid)[0].cells, [[0, 0, 1_000, 0, 1_000, 0, 0, 0]]);
    }
}
