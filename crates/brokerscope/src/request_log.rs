//! Kafka's own request log as a second witness of what is explained. Decides nothing.

use std::path::PathBuf;

use anyhow::Context as _;
use broker::RequestLog;
use diagnose::request_log_check::Agreement;
use model::Verdict;

/// The log, and how far it agrees.
pub(crate) struct SecondWitness {
    log: RequestLog,
    agreement: Agreement,
}

impl SecondWitness {
    /// Reads the files of one log; nothing where none are given.
    pub(crate) fn read(files: &[PathBuf]) -> anyhow::Result<Option<Self>> {
        let mut log = RequestLog::default();
        for file in files {
            log.read(file).context("--request-log")?;
        }
        Ok((!files.is_empty()).then(|| Self { log, agreement: Agreement::default() }))
    }

    /// Puts what the log says beside a verdict.
    pub(crate) fn testify(&mut self, verdict: &mut Verdict) {
        verdict.kafka = self.log.times(&verdict.request);
        self.agreement.add(verdict);
    }

    /// How far both agree, and what there is to be known of the log.
    pub(crate) fn conclude(self) -> (Agreement, Vec<String>) {
        let mut notes = Vec::new();
        if self.log.is_empty() {
            notes
                .push("the request log holds no request as Kafka 2.7 or later writes it at DEBUG".to_owned());
        }
        if self.log.left_out() > 0 {
            notes.push(format!("{} lines of the request log could not be read", self.log.left_out()));
        }
        (self.agreement, notes)
    }
}
