//! Clients that the broker mutes for their quota.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "quota",
    layer: Layer::Producer,
    condition: "quota is the cause of at least 1 % of the slow requests' time (brokerscope's own bound)",
    source: "Kafka's documentation, design: quotas; ClientQuotaManager",
    look_at: "quota among the causes, and throttle_ms of the requests",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::Quota])?;
    Ok(Recommendation {
        evidence,
        changes: vec![Change::of(
            "producer_byte_rate, consumer_byte_rate or request_percentage (kafka-configs, of the client)",
            "not known",
            "more, or none",
        )],
        cost: Some(cost),
        effect: cost.gain("; the broker has to bear what the client then sends"),
        risk: "what the quota protected is no longer protected",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::Quota);
        assert!(finding.changes[0].setting.contains("producer_byte_rate"));
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::Quota);
    }
}
