//! Requests with acks=all that wait for followers.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "replication-wait",
    layer: Layer::Broker,
    condition: "replication-wait is the cause of at least 1 % of the slow requests' time (brokerscope's own \
        bound)",
    source: "Kafka's documentation, monitoring: RemoteTimeMs; broker configuration: num.replica.fetchers",
    look_at: "replication-wait among the causes, and the stage remote",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::ReplicationWait])?;
    Ok(Recommendation {
        evidence,
        changes: vec![
            Change::of(
                "the follower that `explain` names",
                "slow",
                "its own disk, CPU and network: run brokerscope there",
            ),
            Change::of(
                "num.replica.fetchers (of the follower)",
                inputs.shown("num.replica.fetchers", "1"),
                "twice that, where it is merely behind",
            ),
        ],
        cost: Some(cost),
        effect: cost.gain("; nothing is known of it from elsewhere"),
        risk: "more fetchers are more connections and requests to every leader",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::ReplicationWait);
        assert_eq!(finding.changes[1].old, "1 (the default)");
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::ReplicationWait);
    }
}
