//! Which of a command's arguments name recordings that are only read. Opens none.

use std::path::PathBuf;

use super::Command;

impl Command {
    /// The recordings that it reads whole, one after the other: they may be anywhere. (`fleet` finds its own, and `compare` takes
    /// names and parts of recordings, of directories only.)
    pub(crate) fn recordings(&mut self) -> Vec<&mut PathBuf> {
        match self {
            Self::Io(args) => args.source.from.iter_mut().collect(),
            Self::Files(args) => args.source.from.iter_mut().collect(),
            Self::Kernel(args) => args.source.from.iter_mut().collect(),
            Self::Locks(args) => args.source.from.iter_mut().collect(),
            Self::Stacks(args) => args.source.from.iter_mut().collect(),
            Self::Top(args) => args.source.from.iter_mut().collect(),
            Self::Export(args) => args.from.iter_mut().collect(),
            Self::Advise(args) => args.input.iter_mut().collect(),
            Self::Explain(args) => args.inputs.iter_mut().collect(),
            Self::Report(args) => args.inputs.iter_mut().collect(),
            _ => Vec::new(),
        }
    }
}
