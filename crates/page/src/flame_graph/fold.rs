//! Adds up time by thread and stack, and writes it as folded text. Does not draw.

use std::collections::BTreeMap;
use std::io::{self, Write};

use model::{CpuState, Nanos, StackTime};

use report::escape::escape;

/// Time by stack; threads with the same name are added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoldedStacks {
    /// By state and folded stack, the thread first.
    stacks: BTreeMap<(CpuState, String), Total>,
}

/// An amount of time, and the number of samples or intervals in which it was seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    /// The time.
    pub time: Nanos,
    /// Samples of time on the CPU, intervals of time off it.
    pub count: u64,
}

impl Total {
    pub(super) fn add(&mut self, other: Self) {
        self.time = Nanos(self.time.0.saturating_add(other.time.0));
        self.count = self.count.saturating_add(other.count);
    }
}

impl FoldedStacks {
    /// Adds time on a stack. Threads with an id stay separate.
    pub fn add(&mut self, stack_time: &StackTime) {
        let mut line = thread_frame(stack_time);
        for frame in stack_time.stack.split(';').filter(|frame| !frame.is_empty()) {
            line.push(';');
            line.push_str(&escape(frame));
        }
        let total = Total { time: Nanos(stack_time.time.0.max(0)), count: stack_time.count };
        self.stacks.entry((stack_time.state, line)).or_default().add(total);
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.stacks.is_empty()
    }

    /// Total of a state.
    pub fn total(&self, state: CpuState) -> Total {
        let mut sum = Total::default();
        self.of(state).for_each(|(_, total)| sum.add(total));
        sum
    }

    /// The stacks of a state in the order of their text, the thread first.
    pub(super) fn of(&self, state: CpuState) -> impl Iterator<Item = (&str, Total)> {
        let stacks = self.stacks.iter().filter(move |((of, _), _)| *of == state);
        stacks.map(|((_, stack), total)| (stack.as_str(), *total))
    }

    /// Writes one line per stack: its frames, joined by `;`, and the time in microseconds, as flame graph tools expect
    /// it. For several states, the first frame is `on CPU` or `off CPU`.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_folded(&self, out: &mut dyn Write, states: &[CpuState]) -> io::Result<()> {
        for &state in states {
            for (stack, total) in self.of(state) {
                if states.len() > 1 {
                    write!(out, "{};", state_name(state).0)?;
                }
                writeln!(out, "{stack} {}", (total.time.0 + 500) / 1000)?;
            }
        }
        Ok(())
    }
}

/// A state's name, and the unit of its counts.
pub(super) fn state_name(state: CpuState) -> (&'static str, &'static str) {
    match state {
        CpuState::On => ("on CPU", "samples"),
        CpuState::Off => ("off CPU", "intervals"),
    }
}

fn thread_frame(stack_time: &StackTime) -> String {
    let name = match &*stack_time.thread {
        "" => "[unnamed thread]".into(),
        name => escape(name),
    };
    let name = name.replace(';', ",");
    match stack_time.tid {
        Some(tid) => format!("{name} {tid}"),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::{FoldedStacks, Total};
    use model::{CpuState, Nanos, StackTime};

    fn stack_time(state: CpuState, thread: &str, stack: &str, us: i64) -> StackTime {
        let (thread, stack) = (thread.into(), stack.into());
        StackTime { state, thread, tid: None, stack, time: Nanos(us * 1000), count: 1 }
    }

    const BOTH: &[CpuState] = &[CpuState::On, CpuState::Off];

    fn folded(all: &[StackTime], states: &[CpuState]) -> String {
        let mut fold = FoldedStacks::default();
        for one in all {
            fold.add(one);
        }
        let mut out = Vec::new();
        fold.write_folded(&mut out, states).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn equal_stacks_are_merged_into_one_line() {
        let on = |us| stack_time(CpuState::On, "handler", "main;write_[k]", us);
        assert_eq!(folded(&[on(5), on(7)], &BOTH[..1]), "handler;main;write_[k] 12\n");
        let other = stack_time(CpuState::On, "other", "", 1);
        assert_eq!(folded(&[on(5), other], &BOTH[..1]), "handler;main;write_[k] 5\nother 1\n");
        let apart = [1, 2].map(|tid| StackTime { tid: Some(tid), ..on(5) });
        assert_eq!(folded(&apart, &BOTH[..1]), "handler 1;main;write_[k] 5\nhandler 2;main;write_[k] 5\n");
    }

    #[test]
    fn on_and_off_cpu_have_separate_roots_if_both_are_selected() {
        let both = [stack_time(CpuState::Off, "t", "a", 9), stack_time(CpuState::On, "t", "a", 2)];
        assert_eq!(folded(&both, BOTH), "on CPU;t;a 2\noff CPU;t;a 9\n");
        assert_eq!(folded(&both[..1], BOTH), "off CPU;t;a 9\n");
        assert_eq!(folded(&both, &BOTH[1..]), "t;a 9\n");
    }

    #[test]
    fn hostile_names_do_not_break_lines_or_add_frames() {
        let hostile = stack_time(CpuState::On, "a;b\n\x1b[2J", "f 1\r\n;g\u{202e}", 3);
        assert_eq!(folded(&[hostile], &BOTH[..1]), "a,b\\x0a\\x1b[2J;f 1\\x0d\\x0a;g\\u{202e} 3\n");
        assert_eq!(folded(&[stack_time(CpuState::On, "", ";;", 1)], &BOTH[..1]), "[unnamed thread] 1\n");
    }

    #[test]
    fn totals_do_not_overflow() {
        let mut fold = FoldedStacks::default();
        fold.add(&StackTime {
            time: Nanos(i64::MAX),
            count: u64::MAX,
            ..stack_time(CpuState::On, "t", "a", 1)
        });
        fold.add(&stack_time(CpuState::On, "t", "b", 1));
        assert_eq!(fold.total(CpuState::On), Total { time: Nanos(i64::MAX), count: u64::MAX });
        assert_eq!(fold.total(CpuState::Off), Total::default());
        fold.add(&stack_time(CpuState::Off, "t", "b", -5));
        assert_eq!(fold.total(CpuState::Off), Total { time: Nanos(0), count: 1 });
    }
}
