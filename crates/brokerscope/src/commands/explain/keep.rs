//! Where verdicts are kept: in the recording that they are about. Reaches none.

use anyhow::Context as _;
use model::Nanos;
use recording::VerdictWriter;

use crate::failure::Usage;
use crate::grounds::Grounds;

/// What a recording that cannot be written to is good for, before the reason.
pub(super) const CANNOT: &str =
    "the verdicts cannot be kept (explain a copy that you may write to, or leave --save away)";

/// A table of verdicts on requests that took so long, in the recording.
pub(super) fn in_recording(grounds: &Grounds, slower_than: Nanos) -> anyhow::Result<VerdictWriter> {
    match grounds.recording() {
        Some(recording) => VerdictWriter::create(recording, slower_than).context(CANNOT),
        None => {
            Err(Usage("--save goes with a recording: packets have no place for verdicts".to_owned()).into())
        }
    }
}
