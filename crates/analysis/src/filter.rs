//! Filters requests and file operations by port, topic and API.

use model::row_summary::RequestColumns;
use model::{Partition, Request};

use crate::Usage;

/// Selects requests and file operations; an empty list matches everything.
#[derive(Clone, Debug, Default)]
pub struct RequestFilter {
    /// Ports of the broker.
    pub ports: Vec<u16>,
    /// Topics.
    pub topics: Vec<String>,
    /// APIs, in any spelling.
    pub apis: Vec<String>,
}

impl RequestFilter {
    /// Whether the filter matches everything.
    pub fn is_empty(&self) -> bool {
        self.ports.is_empty() && self.topics.is_empty() && self.apis.is_empty()
    }

    /// Refuses a misspelt API, which would silently match nothing.
    ///
    /// # Errors
    /// The first API that Kafka does not have.
    pub fn check(&self) -> Result<(), Usage> {
        let known = |requested: &str| wire::ApiKey::known().any(|api| same_api(requested, api.name()));
        match self.apis.iter().find(|requested| !known(requested)) {
            Some(requested) => Err(Usage::new(format!(
                "--api {requested}: Kafka has no such API; try produce, fetch, metadata"
            ))),
            None => Ok(()),
        }
    }

    /// Whether a request matches.
    pub fn matches(&self, request: &Request) -> bool {
        let topic = |partition: &Partition| self.has_topic(partition.topic.as_deref());
        self.has_api(request.api)
            && (self.ports.is_empty() || self.ports.contains(&request.broker.port()))
            && (self.topics.is_empty() || request.partitions.iter().any(topic))
    }

    /// Record bytes in the matching partitions of a request, on any port.
    /// `None` if the request does not match.
    pub fn record_bytes(&self, request: &RequestColumns) -> Option<u64> {
        let partitions = request.partitions.iter().filter(|of| self.has_topic(of.topic.as_deref()));
        let bytes = partitions.map(|partition| u64::from(partition.bytes));
        let bytes = bytes.reduce(u64::saturating_add).or_else(|| self.topics.is_empty().then_some(0));
        bytes.filter(|_| self.has_api(request.api))
    }

    /// Removes the partitions of other topics.
    pub fn narrow(&self, request: &mut Request) {
        request.partitions.retain(|partition| self.has_topic(partition.topic.as_deref()));
    }

    fn has_api(&self, api: &str) -> bool {
        self.apis.is_empty() || self.apis.iter().any(|requested| same_api(requested, api))
    }

    fn has_topic(&self, topic: Option<&str>) -> bool {
        self.topics.is_empty() || self.topics.iter().any(|requested| Some(requested.as_str()) == topic)
    }
}

/// Whether two spellings name the same API.
/// Kafka writes `INIT_PRODUCER_ID` in one place and `InitProducerId` in another; people write `init-producer-id`.
pub fn same_api(requested: &str, api: &str) -> bool {
    fn letters(name: &str) -> impl Iterator<Item = char> + '_ {
        name.chars().filter(char::is_ascii_alphanumeric).map(|c| c.to_ascii_lowercase())
    }
    letters(requested).eq(letters(api))
}

#[cfg(test)]
mod tests {
    use super::same_api;

    #[test]
    fn matches_api_names_in_any_spelling() {
        for requested in ["init-producer-id", "InitProducerId", "INIT_PRODUCER_ID"] {
            assert!(same_api(requested, "INIT_PRODUCER_ID"));
        }
        assert!(!same_api("produce", "INIT_PRODUCER_ID"));
    }
}
