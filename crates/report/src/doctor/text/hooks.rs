//! What will be watched and by which means, a purpose a line; those that cannot be, with the reason, last.

use std::io::{self, Write};

use super::super::Hook;
use super::DoctorText;
use crate::escape::escape;
use crate::paint::{Role, paint};

/// Columns before a purpose's name: indentation, mark and gap.
const BEFORE: usize = 7;

impl<W: Write> DoctorText<W> {
    pub(super) fn hooks(&mut self, hooks: &[Hook]) -> io::Result<()> {
        let missing = hooks.iter().filter(|hook| hook.missing.is_some()).count();
        let count =
            if missing == 0 { String::new() } else { format!(" ({missing} of {} cannot be)", hooks.len()) };
        self.heading(&format!("\nWhat will be watched{count}"))?;
        let width = hooks.iter().map(|hook| hook.purpose.chars().count()).max().unwrap_or(0);
        let mut before = None;
        for hook in ordered(hooks) {
            let (mark, role) = if hook.missing.is_none() { ("yes", Role::Good) } else { ("no ", Role::Bad) };
            let mark = paint(self.colour, role, mark);
            write!(self.out, "  {mark}  {:width$}  ", escape(&hook.purpose))?;
            let means = match &hook.missing {
                None => short(&hook.mechanism),
                Some(why) if before == Some(why) => "likewise".to_owned(),
                Some(why) => why.clone(),
            };
            self.hanging(BEFORE + width + 2, &escape(&means), None)?;
            before = hook.missing.as_ref();
        }
        Ok(())
    }
}

/// What cannot be watched follows what can.
fn ordered(hooks: &[Hook]) -> impl Iterator<Item = &Hook> {
    let missing = hooks.iter().filter(|hook| hook.missing.is_some());
    hooks.iter().filter(|hook| hook.missing.is_none()).chain(missing)
}

/// Both ends of a system call are one word here.
fn short(mechanism: &str) -> String {
    let enters = |word: &str| word.strip_prefix("syscalls/sys_enter_").map(str::to_owned);
    let mut calls: Vec<String> = mechanism.split(' ').filter_map(enters).collect();
    let rest = mechanism.split(' ').filter(|word| !word.starts_with("syscalls/")).map(str::to_owned);
    if calls.is_empty() {
        return mechanism.to_owned();
    }
    calls.insert(0, "system calls".to_owned());
    calls.extend(rest);
    calls.join(" ")
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn both_ends_of_a_call_are_one_word() {
        let both = "syscalls/sys_enter_fsync syscalls/sys_exit_fsync filemap/x";
        assert_eq!(short(both), "system calls fsync filemap/x");
        assert_eq!(short("jbd2/a jbd2/b"), "jbd2/a jbd2/b");
    }
}
