//! Batches that the broker converts for old consumers.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "down-conversion",
    layer: Layer::Producer,
    condition: "down-conversion is the cause of at least 1 % of the slow requests' time (brokerscope's own \
        bound)",
    source: "Kafka's documentation, upgrade notes; KIP-896: Kafka 4.0 refuses such clients",
    look_at: "down-conversion among the causes",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::DownConversion])?;
    Ok(Recommendation {
        evidence,
        changes: vec![Change::of(
            "the consumer's version (explain names its client id)",
            "one that knows only an older record format",
            "0.11 or later",
        )],
        cost: Some(cost),
        effect: cost.gain("; the broker sends such batches by sendfile again"),
        risk: "that of upgrading a client",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::DownConversion);
        assert!(finding.changes[0].new.starts_with("0.11"));
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::DownConversion);
    }
}
