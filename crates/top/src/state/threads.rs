//! The time of each thread of the broker in the last seconds, by state. Bounded.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jvm::Role;
use model::{Event, HostSample, HostScope, JvmPause, Nanos, Pid, Tid};
use report::thread_state::{StateTimes, ThreadState, ThreadStates, is_paused_with_jvm};

use super::pulse::WINDOW;
use super::seconds::Seconds;

const SECOND_NS: i64 = 1_000_000_000;
/// Maximum number of threads: a broker has one or two hundred.
/// The one without events for longest is dropped.
const MAX: usize = 1_000;
/// Maximum number of processes whose JVM pauses are counted.
const MAX_PROCESSES: usize = 16;
/// Maximum number of groups of threads with figures from the host.
const MAX_GROUPS: usize = 200;

/// The threads.
#[derive(Clone, Debug)]
pub(crate) struct Threads {
    by_tid: HashMap<Tid, OfThread>,
    states: ThreadStates,
    /// JVM pauses by process, with the end of the last one: a collection within a safepoint counts once.
    stops: HashMap<Pid, (Nanos, Seconds<i64>)>,
    /// CPU time of all threads of a role, in CPUs, as the host counts it.
    of_roles: BTreeMap<Arc<str>, f64>,
    /// Whether any source shows when threads are on a CPU.
    pub(crate) sampled: bool,
    /// Start of the first event, and the current time.
    first: Nanos,
    now: Nanos,
}

#[derive(Clone, Debug)]
struct OfThread {
    name: Arc<str>,
    pid: Pid,
    last_event: Nanos,
    seconds: Seconds<StateTimes>,
}

/// The time of a thread by state.
#[derive(Clone, Debug)]
pub(crate) struct ThreadTimes {
    pub(crate) tid: Tid,
    pub(crate) name: Arc<str>,
    pub(crate) role: Role,
    pub(crate) shares: Shares,
}

/// The time of all threads of a role by state.
#[derive(Clone, Debug)]
pub(crate) struct OfRole {
    pub(crate) role: Role,
    pub(crate) threads: u64,
    /// Sum over its threads.
    pub(crate) shares: Shares,
    /// CPU time in CPUs, as the host counts it.
    pub(crate) processors: Option<f64>,
}

/// Share of time in each state: 1 is all of it, for one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shares([f64; ThreadState::ALL.len()]);

impl Shares {
    fn of_spent(spent: &StateTimes, ns: i64) -> Self {
        Self(ThreadState::ALL.map(|state| spent.of(state) as f64 / ns.max(1) as f64))
    }

    pub(crate) fn of(&self, state: ThreadState) -> f64 {
        self.0.get(state as usize).copied().unwrap_or_default()
    }

    /// All states except waiting for work and JVM pauses.
    pub(crate) fn busy(&self) -> f64 {
        let not = self.of(ThreadState::Idle) + self.of(ThreadState::Stopped);
        (self.0.iter().sum::<f64>() - not).max(0.0)
    }

    fn add(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, more)| *sum += more);
    }

    /// The average share of one of `threads` threads.
    pub(crate) fn each_of(&self, threads: u64) -> Self {
        Self(self.0.map(|share| share / threads.max(1) as f64))
    }
}

impl Threads {
    pub(crate) fn new() -> Self {
        Self {
            by_tid: HashMap::new(),
            states: ThreadStates::default(),
            stops: HashMap::new(),
            of_roles: BTreeMap::new(),
            sampled: false,
            first: Nanos::MAX,
            now: Nanos::MIN,
        }
    }

    pub(crate) fn event(&mut self, event: &Event) {
        match event {
            Event::JvmPause(pause) => return self.stop(pause),
            Event::HostSample(sample) => return self.sample(sample),
            Event::CpuSample(_) => self.sampled = true,
            _ => {}
        }
        let Self { by_tid, states, first, now, .. } = self;
        states.of(event, &mut |stretch| {
            *first = (*first).min(stretch.start);
            *now = (*now).max(stretch.end);
            let of = OfThread::entry(by_tid, stretch.tid);
            of.pid = stretch.pid;
            of.last_event = of.last_event.max(stretch.end);
            // The longest name is the one that was not truncated.
            if stretch.thread.len() > of.name.len() {
                of.name = Arc::clone(stretch.thread);
            }
            of.seconds.share_out(stretch.start, stretch.end, &mut |spent, ns| spent.add(stretch.state, ns));
        });
    }

    fn stop(&mut self, pause: &JvmPause) {
        if self.stops.len() >= MAX_PROCESSES && !self.stops.contains_key(&pause.pid) {
            return;
        }
        let new = || (Nanos::MIN, Seconds::with_room_before(WINDOW + 1));
        let (ended, seconds) = self.stops.entry(pause.pid).or_insert_with(new);
        seconds.share_out(pause.start.max(*ended), pause.end, &mut |sum, ns| *sum += ns);
        *ended = pause.end.max(*ended);
    }

    fn sample(&mut self, sample: &HostSample) {
        let is_cpu_time = sample.scope == HostScope::Threads && &*sample.metric == "cpu_ratio";
        if is_cpu_time && (self.of_roles.len() < MAX_GROUPS || self.of_roles.contains_key(&sample.name)) {
            self.of_roles.insert(Arc::clone(&sample.name), sample.value);
        }
    }

    pub(crate) fn reach(&mut self, now: Nanos) {
        self.now = self.now.max(now);
    }

    /// The time of each thread in the last complete seconds; excludes threads without events in them.
    pub(crate) fn thread_times(&self) -> Vec<ThreadTimes> {
        let stops = self.stops.iter().map(|(&pid, (_, seconds))| {
            let mut seconds = seconds.clone();
            seconds.reach(self.now);
            (pid, seconds)
        });
        let stops = stops.collect::<HashMap<_, _>>();
        let window = self.window_ns();
        self.by_tid.iter().filter_map(|(&tid, of)| of.times(tid, self.now, window, &stops)).collect()
    }

    /// Length of the window: shorter when the watch has just started.
    fn window_ns(&self) -> i64 {
        let over = (self.now.0.div_euclid(SECOND_NS)).saturating_sub(self.first.0.div_euclid(SECOND_NS));
        over.clamp(1, WINDOW as i64).saturating_mul(SECOND_NS)
    }

    /// The time by role.
    pub(crate) fn roles(&self) -> Vec<OfRole> {
        let mut roles: BTreeMap<&'static str, OfRole> = BTreeMap::new();
        for times in self.thread_times() {
            let new = || OfRole {
                role: times.role,
                threads: 0,
                shares: Shares::default(),
                processors: self.of_roles.get(times.role.as_str()).copied(),
            };
            let role = roles.entry(times.role.as_str()).or_insert_with(new);
            role.threads += 1;
            role.shares.add(&times.shares);
        }
        roles.into_values().collect()
    }
}

impl OfThread {
    fn entry(by_tid: &mut HashMap<Tid, Self>, tid: Tid) -> &mut Self {
        if by_tid.len() >= MAX && !by_tid.contains_key(&tid) {
            let silent = by_tid.iter().min_by_key(|(tid, of)| (of.last_event, **tid)).map(|(tid, _)| *tid);
            silent.map(|tid| by_tid.remove(&tid));
        }
        by_tid.entry(tid).or_insert_with(|| Self {
            name: Arc::from(""),
            pid: 0,
            last_event: Nanos::MIN,
            seconds: Seconds::with_room_before(WINDOW + 1),
        })
    }

    fn times(
        &self,
        tid: Tid,
        now: Nanos,
        window_ns: i64,
        stops: &HashMap<Pid, Seconds<i64>>,
    ) -> Option<ThreadTimes> {
        let mut seconds = self.seconds.clone();
        seconds.reach(now);
        let stopped = is_paused_with_jvm(&self.name);
        // A source that does not report the process reports the only one.
        let stops = [self.pid, 0].into_iter().filter(|_| stopped).filter_map(|pid| stops.get(&pid));
        let stops = stops.map(|seconds| seconds.over(WINDOW).rev().copied().collect::<Vec<_>>());
        let stops = stops.collect::<Vec<_>>();
        let mut sum = StateTimes::default();
        let mut has_events = false;
        for (ago, spent) in seconds.over(WINDOW).rev().enumerate() {
            has_events |= *spent != StateTimes::default();
            let mut spent = *spent;
            let stopped = stops.iter().filter_map(|seconds| seconds.get(ago)).sum();
            spent.add(ThreadState::Stopped, stopped);
            sum.add_all(&spent.exclusive(SECOND_NS));
        }
        has_events.then(|| ThreadTimes {
            tid,
            name: Arc::clone(&self.name),
            role: Role::of(&self.name),
            shares: Shares::of_spent(&sum, window_ns),
        })
    }
}

#[cfg(test)]
mod tests {
    use model::{Event, JvmPause, JvmPauseKind, Nanos, Row};
    use report::thread_state::ThreadState;

    use super::{MAX, Threads};
    use crate::state::sample;

    fn ms(n: i64) -> Nanos {
        Nanos::from_millis(n)
    }

    #[test]
    fn shares_cover_the_last_seconds_and_count_each_instant_once() {
        let mut threads = Threads::new();
        // Ten seconds: one in a write, 0.4 s of it blocked, and half a second stopped.
        threads.event(&Event::FileOp(Box::new(sample::write(ms(2_000), ms(3_000)))));
        threads.event(&Event::OffCpu(Box::new(sample::off_cpu(ms(2_200), ms(2_600)))));
        threads.event(&Event::JvmPause(Box::new(JvmPause {
            start: ms(5_250),
            end: ms(5_750),
            pid: 0,
            kind: JvmPauseKind::Gc,
            operation: "".into(),
            cause: "".into(),
            ..Row::empty()
        })));
        threads.reach(ms(12_500));
        let thread_times = threads.thread_times();
        let [times] = &thread_times[..] else { panic!("{thread_times:?}") };
        let share = |state| (times.shares.of(state) * 1_000.0).round() as i64;
        assert_eq!(ThreadState::ALL.map(share), [0, 0, 60, 40, 0, 50, 0], "{:?}", times.shares);
        assert!((times.shares.busy() - 0.1).abs() < 1e-9);
        assert_eq!(times.role.as_str(), "request-handlers");
        let roles = threads.roles();
        assert_eq!((roles.len(), roles[0].threads), (1, 1));
        threads.reach(ms(13_500));
        assert!(threads.thread_times().is_empty(), "nothing was seen of it then");
    }

    #[test]
    fn bounds_short_lived_threads() {
        let mut threads = Threads::new();
        for number in 0..3_000 {
            let mut op = sample::write(ms(1_000), ms(1_001) + Nanos(number));
            op.tid = number as u32;
            threads.event(&Event::FileOp(Box::new(op)));
        }
        threads.reach(ms(2_000));
        let mut tids = threads.thread_times().iter().map(|times| times.tid).collect::<Vec<_>>();
        tids.sort_unstable();
        assert_eq!(tids, (3_000 - MAX as u32..3_000).collect::<Vec<_>>());
    }
}
