//! Appends that wait for a page of a mapped index.

use model::Cause;

use crate::costs::costly;
use crate::{Change, Inputs, Layer, Recommendation, Rule, RuleResult};

/// The rule.
pub(super) const RULE: Rule = Rule {
    name: "index-page-fault",
    layer: Layer::Broker,
    condition: "index-page-fault is the cause of at least 1 % of the slow requests' time (brokerscope's own \
        bound)",
    source: "KAFKA-6432, KAFKA-4614, KAFKA-19390: what later releases do about it",
    look_at: "index-page-fault among the causes",
    judge,
};

fn judge(inputs: &Inputs) -> RuleResult {
    let (cost, evidence) = costly(inputs, &[Cause::IndexPageFault])?;
    Ok(Recommendation {
        evidence,
        changes: vec![
            Change::of("Kafka's version", "not known", "one in which KAFKA-19390 is resolved"),
            Change::of(
                "memory left to the page cache",
                "not known",
                "more: a smaller heap, or fewer consumers that read old segments",
            ),
        ],
        cost: Some(cost),
        effect: cost.gain("; nothing is known of it from elsewhere"),
        risk: "that of an upgrade",
    })
}

#[cfg(test)]
mod tests {
    use model::Cause;

    use super::RULE;
    use crate::testing::{fires_on, rests_without};

    #[test]
    fn fires_where_it_cost_something() {
        let finding = fires_on(&RULE, Cause::IndexPageFault);
        assert!(finding.changes[0].new.contains("KAFKA-19390"));
    }

    #[test]
    fn is_silent_where_it_cost_nothing() {
        rests_without(&RULE, Cause::IndexPageFault);
    }
}
