//! The cross-check of verdicts with Kafka's own request log.

use std::path::PathBuf;

use broker::RequestLog;
pub use diagnose::request_log_check::Agreement;
use model::Verdict;

use crate::Error;

/// Kafka's request log and its agreement with the verdicts.
#[derive(Default)]
pub struct CrossCheck {
    log: RequestLog,
    agreement: Agreement,
}

impl CrossCheck {
    /// Reads the files of one log; `None` without files.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn read(files: &[PathBuf]) -> Result<Option<Self>, Error> {
        let mut log = RequestLog::default();
        files.iter().try_for_each(|file| log.read(file)).map_err(Error::RequestLog)?;
        Ok((!files.is_empty()).then(|| Self { log, ..Self::default() }))
    }

    /// Adds the log's times to a verdict.
    pub(crate) fn apply(&mut self, verdict: &mut Verdict) {
        verdict.kafka = self.log.times(&verdict.request);
        self.agreement.add(verdict);
    }

    /// The agreement, and notes on the log.
    pub(crate) fn finish(self) -> (Agreement, Vec<String>) {
        let mut notes = Vec::new();
        if self.log.is_empty() {
            notes.push(
                "the request log holds no request in the format of Kafka 2.7 or later at DEBUG".to_owned(),
            );
        }
        if self.log.left_out() > 0 {
            notes.push(format!("{} lines of the request log could not be read", self.log.left_out()));
        }
        (self.agreement, notes)
    }
}
