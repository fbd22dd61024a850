//! A stack's frames as one line of text: the process's own functions, then the kernel's.

use std::sync::Arc;

use model::StackTime;

use super::object::MAX_FRAMES;
use crate::error::Error;
use crate::kallsyms::Symbols;
use crate::user::{Java, UserCode};

/// The scheduler's own function: what lies further inside is the tracepoint and the BPF program.
const SCHEDULER: &str = "__schedule";
/// In place of frames that were too many to be kept, or for which there was no room.
const TRUNCATED: &str = "[truncated]";
const LOST: &str = "[stack lost]";

/// One of the two stacks of a thread: return addresses, innermost first.
#[derive(Clone, Debug)]
pub(super) enum Half {
    /// The thread was not there.
    None,
    Lost,
    Frames(Vec<u64>),
}

/// Names addresses.
pub(super) struct Frames {
    kernel: Symbols,
    user: UserCode,
}

impl Frames {
    pub(super) fn of(pid: u32) -> Result<Self, Error> {
        let kernel = Symbols::of_this_kernel().map_err(Error::Read)?;
        Ok(Self { kernel, user: UserCode::of(pid) })
    }

    pub(super) fn java(&self) -> &Java {
        self.user.java()
    }

    /// Looks again at the process's code.
    pub(super) fn refresh(&mut self) {
        self.user.refresh();
    }

    pub(super) fn text(&mut self, user: &Half, kernel: &Half) -> Arc<str> {
        let mut names: Vec<Arc<str>> = note(user).into_iter().map(Into::into).collect();
        if let Half::Frames(frames) = user {
            names.extend(self.user.names(frames));
        }
        names.extend(note(kernel).map(|note| format!("{note}{}", StackTime::KERNEL).into()));
        if let Half::Frames(frames) = kernel {
            names.extend(self.kernel_names(frames));
        }
        names.join(";").into()
    }

    fn kernel_names(&self, frames: &[u64]) -> Vec<Arc<str>> {
        // A return address may be the first of the next function, where a call ends its own.
        let inside =
            |(depth, &frame): (usize, &u64)| if depth == 0 { frame } else { frame.saturating_sub(1) };
        let name = |address| self.kernel.name_of(address).unwrap_or("[unknown]");
        let mut names: Vec<&str> = frames.iter().enumerate().map(inside).map(name).collect();
        if let Some(scheduler) = names.iter().position(|&name| name == SCHEDULER) {
            names.drain(..scheduler);
        }
        names.iter().rev().map(|name| format!("{name}{}", StackTime::KERNEL).into()).collect()
    }
}

/// What stands before a stack's names.
fn note(half: &Half) -> Option<&'static str> {
    match half {
        Half::Lost => Some(LOST),
        Half::Frames(frames) if frames.len() >= MAX_FRAMES => Some(TRUNCATED),
        Half::None | Half::Frames(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::{Frames, Half, MAX_FRAMES};
    use crate::kallsyms::Symbols;
    use crate::user::UserCode;

    fn frames() -> Frames {
        let lines =
            "1000 T ksys_write\n2000 T io_schedule\n3000 t __schedule\n4000 T __traceiter_sched_switch\n";
        Frames { kernel: Symbols::read(lines.as_bytes()).unwrap(), user: UserCode::of(u32::MAX) }
    }

    #[test]
    fn the_kernels_frames_are_marked_and_the_tracers_own_left_out() {
        let text = frames().text(&Half::None, &Half::Frames(vec![0x4010, 0x3010, 0x2010, 0x1010]));
        assert_eq!(&*text, "ksys_write_[k];io_schedule_[k];__schedule_[k]");
        assert_eq!(
            &*frames().text(&Half::None, &Half::Frames(vec![0x2000, 0x2000])),
            "ksys_write_[k];io_schedule_[k]"
        );
    }

    #[test]
    fn what_is_missing_is_said() {
        assert_eq!(&*frames().text(&Half::Lost, &Half::Lost), "[stack lost];[stack lost]_[k]");
        let deep = Half::Frames(vec![0x1010; MAX_FRAMES]);
        let text = frames().text(&deep, &deep);
        assert!(text.starts_with("[truncated];[truncated]_[k];ksys_write_[k];"), "{text}");
    }
}
