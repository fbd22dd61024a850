//! The API versions that each client used in a run, from Kafka's request log.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::kafka_log::LoggedRequest;

/// API → version → the clients that used it.
#[derive(Debug, Default)]
pub struct VersionTable(BTreeMap<String, BTreeMap<i64, BTreeSet<String>>>);

impl VersionTable {
    /// Reads the log; a client is identified by the name that its client id starts with.
    pub fn of(log: &[LoggedRequest], names: &[&str]) -> Self {
        let mut spoken = Self::default();
        for request in log {
            let client = client(request.client_id.as_deref().unwrap_or_default(), names);
            let versions = spoken.0.entry(request.api.clone()).or_default();
            versions.entry(request.api_version).or_default().insert(client.to_owned());
        }
        spoken
    }

    /// The versions among these that no client used.
    pub fn lacks(&self, api: &str, versions: &[i64]) -> Vec<i64> {
        let spoken = self.0.get(api);
        let lacks = |version: &&i64| !spoken.is_some_and(|spoken| spoken.contains_key(*version));
        versions.iter().filter(lacks).copied().collect()
    }

    /// A line for each API and version: `PRODUCE   3  kafka-python sarama`.
    pub fn table(&self) -> String {
        let mut table = String::new();
        for (api, versions) in &self.0 {
            for (version, clients) in versions {
                let clients: Vec<&str> = clients.iter().map(String::as_str).collect();
                let _ = writeln!(table, "{api:<26} {version:>3}  {}", clients.join(" "));
            }
        }
        table
    }
}

/// The longest name that a client id starts with: `librdkafka-old-gzip-1` is not `librdkafka`'s. `other` if there is
/// none.
pub fn client<'n>(client_id: &str, names: &[&'n str]) -> &'n str {
    let fitting = names.iter().filter(|name| client_id.starts_with(**name));
    fitting.max_by_key(|name| name.len()).copied().unwrap_or("other")
}

#[cfg(test)]
mod tests {
    use super::VersionTable;
    use crate::kafka_log;
    use std::path::Path;

    #[test]
    fn version_table_distinguishes_the_samples_clients() {
        let log = kafka_log::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("data/sample-request.log"));
        let spoken = VersionTable::of(&log, &["kafka-python", "kafka"]);
        let produce = log.iter().find(|logged| logged.api == "PRODUCE").unwrap().api_version;
        assert_eq!(spoken.lacks("PRODUCE", &[produce, 99]), [99_i64]);
        assert_eq!(spoken.lacks("NOTHING", &[0, 1]), [0_i64, 1]);
        let table = spoken.table();
        assert!(
            table.lines().any(|line| line.starts_with("PRODUCE ") && line.contains("kafka-python")),
            "{table}"
        );
        assert!(!table.contains(" kafka "), "{table}");
    }
}
