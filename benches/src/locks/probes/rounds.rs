//! Runs the same waits with and without the JVM's probes, in turns: two JVMs that differ only by the flag, and, with
//! it, no programs, empty programs, and ours. Returns the cost of a wait in each, without judging it.

use std::path::Path;

use anyhow::{Context as _, ensure};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::contender::{Contender, Load};
use super::listener::{Action, Listener, Ran, WaitEvents};
use crate::stop;

/// Memory touched between two waits: none, so that the data for a wait is in the nearest caches; and as much as they
/// hold, so that it must come from farther away.
pub(super) const LOADS: [Load; 2] = [Load { millis: 250, kib: 0 }, Load { millis: 400, kib: 1_024 }];
/// Warm-up after each change in a JVM.
const WARM_UP_MS: u64 = 60;
/// Warm-up until everything is compiled.
const FIRST_MS: u64 = 2_000;
/// Minimum number of waits, most of which must be reported for the round to count.
const LEAST_WAITS: u64 = 500;

/// Maximum number of attempts for a failed measurement.
const TRIES: usize = 5;

/// The JVM, and the action of its listener.
#[derive(Clone, Copy)]
enum Who {
    WithoutFlag,
    WithFlag(Option<Action>),
}

const WHO: [Who; 5] = [
    Who::WithoutFlag,
    Who::WithFlag(None),
    Who::WithFlag(Some(Action::Nothing)),
    Who::WithFlag(Some(Action::Count)),
    Who::WithFlag(Some(Action::Report)),
];

/// Nanoseconds from one wait to the next, for one load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Round {
    pub(super) without_flag: f64,
    pub(super) with_flag: f64,
    pub(super) nothing: f64,
    pub(super) counted: f64,
    pub(super) reported: f64,
}

/// The two JVMs.
pub(super) struct Subjects {
    without_flag: Contender,
    with_flag: Contender,
    places: Places,
}

impl Subjects {
    pub(super) fn start(one: &Path, other: &Path) -> anyhow::Result<Self> {
        let without_flag = Contender::start(one, "-XX:-DTraceMonitorProbes")?;
        let with_flag = Contender::start(other, "-XX:+DTraceMonitorProbes")?;
        let mut subjects = Self { without_flag, with_flag, places: Places::take()? };
        for contender in [&mut subjects.without_flag, &mut subjects.with_flag] {
            subjects.places.give(contender)?;
            for load in LOADS {
                contender.run(Load { millis: FIRST_MS, ..load })?;
            }
        }
        Ok(subjects)
    }

    /// Measures one after the other, so that they do not compete for CPUs; the order changes from round to round.
    pub(super) fn round(&mut self, number: usize) -> anyhow::Result<[Round; LOADS.len()]> {
        let mut order = WHO.to_vec();
        order.rotate_left(number % WHO.len());
        let mut rounds = [Round::default(); LOADS.len()];
        for who in order {
            stop::check()?;
            for (round, nanos) in rounds.iter_mut().zip(self.measure(who)?.0) {
                *round.of(who) = nanos;
            }
        }
        Ok(rounds)
    }

    /// The kernel's counts of our programs over all loads.
    pub(super) fn programs(&mut self) -> anyhow::Result<Vec<Ran>> {
        Ok(self.measure(Who::WithFlag(Some(Action::ReportCounted)))?.1.programs)
    }

    /// Measures again if the reader of the programs' records was too late. That is unrelated to their cost.
    fn measure(&mut self, who: Who) -> anyhow::Result<([f64; LOADS.len()], WaitEvents)> {
        let mut measured = self.measure_once(who);
        for _ in 1..TRIES {
            if measured.is_ok() {
                break;
            }
            stop::check()?;
            measured = self.measure_once(who);
        }
        measured
    }

    fn measure_once(&mut self, who: Who) -> anyhow::Result<([f64; LOADS.len()], WaitEvents)> {
        let (contender, deed) = match who {
            Who::WithoutFlag => (&mut self.without_flag, None),
            Who::WithFlag(deed) => (&mut self.with_flag, deed),
        };
        self.places.give(contender)?;
        let listener = deed.map(|deed| Listener::start(contender.pid(), deed)).transpose()?;
        let (mut nanos, mut waits) = ([0.0; LOADS.len()], 0);
        for (nanos, load) in nanos.iter_mut().zip(LOADS) {
            waits += contender.run(Load { millis: WARM_UP_MS, ..load })?.waits;
            let waited = contender.run(load)?;
            *nanos = waited.nanos_each();
            waits += waited.waits;
        }
        let events = listener.map(Listener::end).transpose()?.unwrap_or_default();
        ensure!(waits >= LEAST_WAITS, "only {waits} waits");
        check(deed, &events, waits)?;
        Ok((nanos, events))
    }
}

/// Checks that the listener received the waits: one that misses some would cost less.
fn check(deed: Option<Action>, events: &WaitEvents, waits: u64) -> anyhow::Result<()> {
    let received = match deed {
        Some(Action::Count) => events.counted,
        Some(Action::Report | Action::ReportCounted) => events.reported,
        None | Some(Action::Nothing) => return Ok(()),
    };
    let all = received * 100 >= waits * 98 && events.lost * 100 <= waits;
    ensure!(all, "of {waits} waits {received} were received, {} lost ({deed:?})", events.lost);
    ensure!(
        events.with_holder * 10 >= events.reported * 9,
        "{} of {} with a holder",
        events.with_holder,
        events.reported
    );
    // Each program runs at least once per wait: a thread that takes the monitor before it sleeps skips the last of them.
    for ran in &events.programs {
        ensure!(ran.times * 10 >= waits * 9, "{} ran {} times in {waits} waits", ran.program, ran.times);
    }
    Ok(())
}

impl Round {
    fn of(&mut self, who: Who) -> &mut f64 {
        match who {
            Who::WithoutFlag => &mut self.without_flag,
            Who::WithFlag(None) => &mut self.with_flag,
            Who::WithFlag(Some(Action::Nothing)) => &mut self.nothing,
            Who::WithFlag(Some(Action::Count)) => &mut self.counted,
            Who::WithFlag(Some(Action::Report | Action::ReportCounted)) => &mut self.reported,
        }
    }
}

/// One CPU for the waiting threads, and the others for everything else. The bench and its readers use the others.
/// Restored when dropped.
struct Places {
    all: CpuSet,
    contenders: CpuSet,
    others: CpuSet,
}

impl Places {
    fn take() -> anyhow::Result<Self> {
        let all = sched_getaffinity(SELF).context("sched_getaffinity")?;
        let usable: Vec<usize> = (0..CpuSet::count()).filter(|&cpu| all.is_set(cpu) == Ok(true)).collect();
        let (last, rest) = usable.split_last().context("no processor")?;
        ensure!(!rest.is_empty(), "needs two processors");
        let (mut contenders, mut others) = (CpuSet::new(), CpuSet::new());
        contenders.set(*last)?;
        rest.iter().try_for_each(|&cpu| others.set(cpu))?;
        sched_setaffinity(SELF, &others).context("sched_setaffinity")?;
        Ok(Self { all, contenders, others })
    }

    fn give(&self, contender: &Contender) -> anyhow::Result<()> {
        contender.pin(&self.contenders, &self.others)
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        // It could be set before.
        let _ = sched_setaffinity(SELF, &self.all);
    }
}

const SELF: Pid = Pid::from_raw(0);
