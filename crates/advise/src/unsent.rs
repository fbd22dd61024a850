//! Reads without egress, as rules look at them: what a broker has its devices bring and sends to nobody. Does not find them.

use std::sync::Arc;

use model::{FileKind, Nanos};

use crate::words::{percent, size};
use crate::{Inputs, NoAdvice, rule};

/// The kind of file is what most of it is of: brokerscope's own bound.
const MIN_SHARE: f64 = 0.5;

/// What is read from devices and sent to nobody, where that is worth a word.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadsWithoutEgress {
    /// In so long.
    pub window: Nanos,
    /// Bytes read from devices.
    pub read_bytes: u64,
    /// Of them, bytes that were sent: at most so many.
    pub sent_bytes: u64,
    /// The kind of file of which most is read and not sent, as [`FileKind::as_str`] has it.
    pub kind: &'static str,
    /// Its share of what is not sent.
    pub share: f64,
    /// The file of that kind of which most is read, where it is known.
    pub file: Option<Arc<str>>,
}

impl ReadsWithoutEgress {
    /// `reads without egress: 361.0 MiB read from disk in 60.0 s, 0 B of it sent; 99 % of the rest is tierstate files`.
    fn told(&self) -> String {
        let Self { window, read_bytes, sent_bytes, kind, share, file } = self;
        let (read, sent, share) = (size(*read_bytes), size(*sent_bytes), percent(*share));
        let what = format!(
            "reads without egress: {read} read from disk in {window}, {sent} of it sent; {share} of the rest is {kind} files"
        );
        match file {
            Some(file) => format!("{what}, most of it {file}"),
            None => what,
        }
    }
}

/// The sentence that says that most of what is read for nobody is of files of this kind.
pub(crate) fn read_for_nobody(inputs: &Inputs, kind: FileKind) -> Result<String, NoAdvice> {
    let kind = kind.as_str();
    match rule::need(Inputs::UNSENT, &inputs.unsent)? {
        Some(unsent) if unsent.kind == kind && unsent.share >= MIN_SHARE => Ok(unsent.told()),
        Some(unsent) => rule::silent(format!(
            "most of what is read from disk and sent to nobody is {} files, not {kind}",
            unsent.kind
        )),
        None => rule::silent("almost nothing is read from disk and sent to nobody"),
    }
}
