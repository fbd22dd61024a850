//! Leaders that may lack what was acknowledged.

use crate::{Change, Inputs, Layer, NoAdvice, Recommendation, Rule, RuleResult, Scope};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "unclean-election",
    layer: Layer::Broker,
    condition: "unclean.leader.election.enable is true",
    source: "Kafka's documentation, design: unclean leader election; false by default since 0.11 (KIP-106)",
    look_at: "nothing that a comparison shows: it is about what is lost, not about what is slow",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    if !inputs.settings()?.is_on("unclean.leader.election.enable", false) {
        return Err(NoAdvice::silent("unclean.leader.election.enable is false"));
    }
    Ok(Recommendation {
        evidence: "unclean.leader.election.enable is true".to_owned(),
        changes: vec![Change::of("unclean.leader.election.enable", "true", "false").by_name(Scope::Broker)],
        cost: None,
        effect: "no replica that was not in sync becomes leader, and nothing acknowledged by acks=all is lost by that".to_owned(),
        risk: "a partition all of whose in-sync replicas are away cannot be used until one is back",
    })
}

#[cfg(test)]
mod tests {
    use super::RULE;
    use crate::testing::{broker, fired, silent, with_setting};

    #[test]
    fn fires_where_it_is_on() {
        let mut inputs = broker();
        with_setting(&mut inputs, "unclean.leader.election.enable", "true");
        assert_eq!(fired(&RULE, &inputs).changes[0].new, "false");
    }

    #[test]
    fn is_silent_where_it_is_off() {
        silent(&RULE, &broker());
    }
}
