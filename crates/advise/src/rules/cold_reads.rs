//! Consumers that read what is no longer in the page cache.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult};

fn memory(inputs: &Inputs) -> String {
    inputs
        .memory()
        .map_or_else(|_| "not known".to_owned(), |bytes| format!("of {} in all", crate::words::size(bytes)))
}

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "cold-reads",
    layer: Layer::Os,
    condition: "disk-read-in-network-thread and cache-eviction are together the cause of at least 1 % of the \
        slow requests' time (brokerscope's own bound)",
    source: "KAFKA-7504: a network thread that reads the disk for one connection keeps all its others \
        waiting; Kafka's documentation, operations: hardware and OS",
    look_at: "both causes, and read_bytes_per_second of the process in host_samples/",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::DiskReadInNetworkThread, Cause::CacheEviction])?;
    Ok(Recommendation {
        evidence,
        changes: vec![
            Change::of(
                "consumer_byte_rate (kafka-configs, of clients that catch up)",
                "not known",
                "a bound below what the device reads",
            ),
            Change::of(
                "num.network.threads",
                inputs.shown("num.network.threads", "3"),
                "more: fewer connections on each",
            ),
            Change::of(
                "memory left to the page cache",
                memory(inputs),
                "what consumers lag behind, or tiered storage",
            ),
        ],
        cost: Some(cost),
        effect: cost.gain("; nothing is known of it from elsewhere"),
        risk: "consumers that catch up take longer",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::DiskReadInNetworkThread);
        assert!(finding.changes[2].old.contains("64.0 GiB"));
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::DiskReadInNetworkThread);
    }
}
