//! Kernel stacks as text. Resolves each distinct stack once. Does not interpret them.

use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;

use crate::kallsyms::Symbols;

/// Distinct stacks kept: a handful in practice.
const MAX_STACKS: usize = 8_192;
/// The scheduler's functions: frames further inside are the tracepoint and the BPF program.
const SCHEDULER: [&str; 2] = ["__schedule", "try_to_wake_up"];

/// Resolves and caches stacks.
#[derive(Default)]
pub(crate) struct Stacks {
    symbols: Symbols,
    known: HashMap<Box<[u64]>, Arc<str>, RandomState>,
    empty: Arc<str>,
}

impl Stacks {
    pub(crate) fn new(symbols: Symbols) -> Self {
        Self { symbols, ..Self::default() }
    }

    /// Function names, outermost first, joined by `;`. `frames` are return addresses, innermost first.
    pub(crate) fn text(&mut self, frames: &[u64]) -> Arc<str> {
        if frames.is_empty() {
            return Arc::clone(&self.empty);
        }
        if let Some(text) = self.known.get(frames) {
            return Arc::clone(text);
        }
        if self.known.len() >= MAX_STACKS {
            self.known.clear();
        }
        let text: Arc<str> = self.resolve(frames).into();
        self.known.insert(frames.into(), Arc::clone(&text));
        text
    }

    fn resolve(&self, frames: &[u64]) -> String {
        let mut names: Vec<&str> = frames.iter().rev().map(|&frame| self.function(frame)).collect();
        if let Some(scheduler) = names.iter().rposition(|name| SCHEDULER.contains(name)) {
            names.truncate(scheduler + 1);
        }
        names.join(";")
    }

    /// The function that a return address belongs to. If a call is a function's last instruction, its return address is
    /// the first of the next function: one less is inside.
    fn function(&self, return_address: u64) -> &str {
        self.symbols.name_of(return_address.saturating_sub(1)).unwrap_or("[unknown]")
    }
}

#[cfg(test)]
mod tests {
    use super::Stacks;
    use crate::kallsyms::Symbols;

    fn stacks() -> Stacks {
        let lines =
            "1000 T ksys_write\n2000 T io_schedule\n3000 t __schedule\n4000 T __traceiter_sched_switch\n";
        Stacks::new(Symbols::read(lines.as_bytes()).unwrap())
    }

    #[test]
    fn stack_is_outermost_first_without_tracer_frames() {
        let text = stacks().text(&[0x4010, 0x3010, 0x2010, 0x1010]);
        assert_eq!(&*text, "ksys_write;io_schedule;__schedule");
        assert_eq!(&*stacks().text(&[0x2010, 0x10]), "[unknown];io_schedule");
    }

    #[test]
    fn call_at_the_end_of_a_function_belongs_to_it() {
        assert_eq!(&*stacks().text(&[0x2000]), "ksys_write");
    }

    #[test]
    fn equal_stacks_share_one_text() {
        let mut stacks = stacks();
        let first = stacks.text(&[0x2010, 0x1010]);
        assert!(std::sync::Arc::ptr_eq(&first, &stacks.text(&[0x2010, 0x1010])));
        assert_eq!(&*stacks.text(&[]), "");
    }
}
