//! What of a thread dump could not be read, and where. Does not know the file's name: who opened it does.

use std::fmt;

use crate::TextError;

/// Why a text cannot be read as thread dumps at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Reading failed, or it is no text.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Text without a thread dump in it.
    #[error(
        "line {lines}: the end, and no thread dump before it: give what jstack, jcmd Thread.print or kill -QUIT wrote, or an OpenJ9 javacore"
    )]
    NoDump {
        /// How many lines it has.
        lines: u64,
    },
}

/// Something of a dump that could not be read; the rest of it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Where, from 1.
    pub line: u64,
    /// What.
    pub kind: DefectKind,
}

/// What is wrong with a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefectKind {
    /// The text ends, or another dump begins, before the dump's own end.
    Truncated,
    /// The text's last line has no end: what it says may be cut off, so it is not used.
    CutLine,
    /// A line that should begin a thread and has no ids.
    BrokenThread,
    /// The dump is larger than what is kept of one; the rest of it is left out.
    TooLarge,
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            DefectKind::Truncated => {
                "the dump has no end: it is read as far as it goes, threads may be missing"
            }
            DefectKind::CutLine => "the last line is cut off and not used",
            DefectKind::BrokenThread => "a thread without ids (tid=, nid=): left out",
            DefectKind::TooLarge => "the dump is too large: what follows of it is left out",
        };
        write!(f, "line {}: {what}", self.line)
    }
}
