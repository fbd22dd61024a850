//! Reads without egress, as an input of rules: bytes that a broker reads from its devices and sends to nobody. Does not find
//! them.

use std::sync::Arc;

use model::{FileKind, Nanos};

use crate::words::{percent, size};
use crate::{Inputs, NoAdvice, rule};

/// From this share on, most of the bytes are of one kind of file: brokerscope's own bound.
const MIN_SHARE: f64 = 0.5;

/// Bytes that are read from devices and sent to nobody, if they matter.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadsWithoutEgress {
    /// Length of the interval.
    pub window: Nanos,
    /// Bytes read from devices.
    pub read_bytes: u64,
    /// Upper bound on the bytes among them that were sent.
    pub sent_bytes: u64,
    /// The kind of file with the most bytes that are read and not sent. From [`FileKind::as_str`].
    pub kind: &'static str,
    /// Its share of the bytes that are not sent.
    pub share: f64,
    /// The most-read file of that kind, if known.
    pub file: Option<Arc<str>>,
}

impl ReadsWithoutEgress {
    /// `reads without egress: 361.0 MiB read from disk in 60.0 s, 0 B of it sent; 99 % of the rest is tierstate files`.
    fn describe(&self) -> String {
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

/// Evidence that most of the bytes read and not sent are of files of this kind.
pub(crate) fn evidence_of_unsent_reads(inputs: &Inputs, kind: FileKind) -> Result<String, NoAdvice> {
    let kind = kind.as_str();
    match rule::need(Inputs::UNSENT, &inputs.unsent)? {
        Some(unsent) if unsent.kind == kind && unsent.share >= MIN_SHARE => Ok(unsent.describe()),
        Some(unsent) => rule::silent(format!(
            "most of what is read from disk and sent to nobody is {} files, not {kind}",
            unsent.kind
        )),
        None => rule::silent("almost nothing is read from disk and sent to nobody"),
    }
}
