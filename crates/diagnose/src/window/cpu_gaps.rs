//! CPUs that were taken from the machine, and times in which it had none. Does not know which requests that slowed.

use model::{CpuGap, CpuGapKind, Nanos, Tid};

use crate::time::{Span, TimeBudget, TimeSpan, is_most};
use crate::window::timeline::{Timeline, Timelines};

/// CPUs are not taken at exactly the same instant: shorter times without any CPU are ignored.
const MIN_HOST_PAUSE: Nanos = Nanos::from_millis(10);

/// The kernel's limit on x86 (`CONFIG_NR_CPUS`): a larger number is not a CPU.
const MAX_CPUS: u32 = 8_192;
/// One CPU's gaps do not overlap, so there are never more at once.
const MAX_PAUSES_AT_ONCE: usize = 64;

/// A time in which no CPU of the machine ran.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostPause {
    span: TimeSpan,
    /// The machine's CPUs.
    pub(crate) cpus: u32,
    /// CPUs for which the kernel counted most of the gap as steal time.
    pub(crate) stolen_cpus: u32,
}

impl Span for HostPause {
    fn span(&self) -> TimeSpan {
        self.span
    }
}

/// Recent gaps and pauses.
#[derive(Debug, Default)]
pub(crate) struct CpuGaps {
    by_cpu: Timelines<u32, CpuGap>,
    by_thread: Timelines<Tid, CpuGap>,
    pub(crate) pauses: Timeline<HostPause>,
}

/// Whether the kernel counted most of a gap as steal time.
pub(crate) fn is_stolen(gap: &CpuGap) -> bool {
    gap.kind == CpuGapKind::Gap && is_most(gap.stolen, gap.length())
}

impl CpuGaps {
    pub(crate) fn insert(&mut self, gap: CpuGap) {
        if gap.kind == CpuGapKind::Gap && gap.cpu < MAX_CPUS {
            for pause in self.completed_by(&gap) {
                self.pauses.insert(pause);
            }
            if let Some(tid) = gap.tid {
                self.by_thread.insert(&tid, gap.clone());
            }
            self.by_cpu.of_mut(&gap.cpu).insert(gap);
        }
    }

    /// The pauses of the whole machine that this gap completes. The last of a pause's gaps completes it.
    fn completed_by(&self, gap: &CpuGap) -> Vec<HostPause> {
        let own = HostPause { span: gap.span(), cpus: gap.cpus, stolen_cpus: u32::from(is_stolen(gap)) };
        let (mut pauses, mut missing) = (vec![own], 1);
        for cpu in self.by_cpu.all() {
            let mut both = Vec::new();
            for pause in &pauses {
                let others = cpu.overlapping(pause.span).filter(|other| other.cpu != gap.cpu);
                both.extend(others.map(|other| HostPause {
                    span: other.span().within(pause.span),
                    stolen_cpus: pause.stolen_cpus + u32::from(is_stolen(other)),
                    ..*pause
                }));
            }
            both.truncate(MAX_PAUSES_AT_ONCE);
            if !both.is_empty() {
                (pauses, missing) = (both, missing + 1);
            }
        }
        pauses.retain(|pause| missing >= gap.cpus && pause.span.length() >= MIN_HOST_PAUSE);
        pauses
    }

    /// Whether a CPU was stolen while others ran.
    /// A pause of all CPUs is reported as one, and its CPUs do not start and stop together.
    fn is_alone(&self, gap: &CpuGap) -> bool {
        let paused = self.pauses.overlapping(gap.span()).map(|pause| pause.overlap(gap.span())).max();
        is_stolen(gap) && !gap.span().is_most(paused.unwrap_or_default())
    }

    /// The gaps of CPUs while they ran this thread.
    pub(crate) fn of_thread(&self, tid: Tid, span: TimeSpan) -> impl Iterator<Item = &CpuGap> {
        self.by_thread.of(&tid).overlapping(span).filter(|gap| self.is_alone(gap))
    }

    /// The gaps of CPUs while they ran a thread, each with the thread.
    pub(crate) fn of_threads(&self, span: TimeSpan) -> impl Iterator<Item = (&CpuGap, Tid)> {
        let gaps = self.by_cpu.all().flat_map(move |cpu| cpu.overlapping(span));
        gaps.filter(|gap| self.is_alone(gap)).filter_map(|gap| Some((gap, gap.tid?)))
    }

    /// The longest gap of the CPU that was stolen for most of a stretch.
    /// Comes with how much of the stretch was stolen.
    pub(crate) fn most_stolen(&self, span: TimeSpan) -> Option<(&CpuGap, Nanos)> {
        let cpus = self.by_cpu.all().filter_map(|cpu| {
            let mut free = TimeBudget::new(span);
            let gaps = cpu.overlapping(span).filter(|gap| is_stolen(gap));
            free.take_parts(gaps.map(|gap| (gap, gap.span())))
        });
        let most = cpus.max_by_key(|(gap, time)| (*time, std::cmp::Reverse(gap.cpu)));
        most.filter(|(_, time)| span.is_most(*time))
    }

    pub(crate) fn len(&self) -> usize {
        self.by_cpu.len() + self.by_thread.len()
    }

    pub(crate) fn forget(&mut self, horizon: Nanos) {
        self.by_cpu.forget(horizon);
        self.by_thread.forget(horizon);
        self.pauses.forget(horizon);
    }
}
